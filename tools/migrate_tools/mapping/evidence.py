"""Evidence of a mapping row on both sides: what the row says itself, else the data on verl's keys and Relax's flags."""

from __future__ import annotations

import re
from collections.abc import Mapping

from migrate_tools.mapping.row import Row, key_pattern
from migrate_tools.relax.contract import load_contract
from migrate_tools.verl.key_facts import KeyFact, key_facts

PLACE = re.compile(r"(?P<file>[\w./@+-]+\.\w+):(?P<line>\d+)@(?P<at>[\w.]+)\Z")
"""`file:line@version`: the version is a release of verl, or a commit of verl, verl-recipe or a fork."""
_RELAX_FILES = {
    "opd": "relax/utils/opd/opd_utils.py",
    "sglang_relax": "relax/backends/sglang/arguments.py",
    "generative": "relax/backends/fsdp/arguments.py",
}
_ARGUMENTS = "relax/utils/arguments.py"


def verl_places(row: Row, facts: Mapping[str, KeyFact] | None = None) -> dict[str, str]:
    """Key -> where verl (or a script that sets it) has it; keys of a pattern that the data knows are included."""
    known = key_facts() if facts is None else facts
    found = {key: known[key].place for key in row.exact if key in known and known[key].place}
    for text in (key for key in row.keys if "*" in key):
        match = key_pattern(text).match
        found |= {key: fact.place for key, fact in known.items() if fact.place and key not in found and match(key)}
    return found


def relax_places(row: Row) -> tuple[str, ...]:
    """Where the row's Relax side is found: its own evidence, then the source that declares its flags."""
    places = [row.evidence.relax] if row.evidence.relax else []
    return tuple(dict.fromkeys([*places, *(flag_place(flag) for flag in row.relax if flag.startswith("--"))]))


def flag_place(name: str) -> str:
    """The source file, at a commit or release, that declares a Relax flag (header of `flags.json`)."""
    latest = load_contract()
    info = latest.find(name)
    if info is None:
        return f"Relax {latest.elsewhere.get(name, 'before the contract')}"
    if info.group == "sglang_router":
        return f"sglang-router {latest.source['sglang_router']}"
    if info.family == "sglang":
        return f"SGLang {latest.source['sglang']} server arguments"
    if info.family == "megatron":
        return f"Megatron-LM megatron/training/arguments.py@{latest.source['megatron']['commit'][:8]}"
    file = _RELAX_FILES.get(info.group, _ARGUMENTS)
    source = next(item for item in (latest.source, load_contract("studio").source) if file in item)
    return f"{source['repository']} {file}@{source[file][:8]}"


def lacking(row: Row, facts: Mapping[str, KeyFact] | None = None) -> str:
    """What evidence the row lacks, in one phrase; empty when both sides are there.

    A setting without effect needs none on Relax's side: the reason is a fact about verl.
    """
    if row.evidence.verl and not PLACE.match(row.evidence.verl):
        return f"evidence {row.evidence.verl!r} is no file:line@version"
    places = verl_places(row, facts)
    bare = [key for key in row.exact if key not in places]
    if not row.evidence.verl and (bare or not places):
        return f"no evidence in verl for {', '.join(bare) or row.keys[0]}"
    if row.status != "no_effect" and not relax_places(row):
        return "no evidence in Relax"
    return ""
