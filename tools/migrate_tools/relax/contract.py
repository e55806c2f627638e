"""The flag contract of Relax: which flags exist, their types, and a strict parse of a command line.

Relax itself ignores unknown flags (its Megatron parser and the two SGLang parsers share one command line),
so a misspelt flag changes training without a word. This parse rejects what Relax would let pass.

Source of the facts: `flags.json`, whose header names the repositories and commits
(redai-studio/Relax relax/utils/arguments.py 6c0099bb for "latest").
Standard library only: the stand-in trainer runs this module inside the sandbox.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from migrate_tools.errors import UsageError
from migrate_tools.relax.flag_model import SWITCHES, VERSIONS, FlagInfo, Parsed, Problem, Severity, Version
from migrate_tools.relax.strict_parse import StrictParser

__all__ = [
    "VERSIONS",
    "SAVED_KIND",
    "SAVED_SCHEMA",
    "FlagContract",
    "FlagInfo",
    "Parsed",
    "Problem",
    "Severity",
    "Version",
    "load_contract",
    "missing_in",
]

_DATA = Path(__file__).with_name("flags.json")
_NO = "--no-"
SAVED_KIND = "relax-contract"
SAVED_SCHEMA = 1


@dataclass(frozen=True)
class FlagContract:
    """Every flag of one Relax version, or of one checkout."""

    version: Version
    """The Relax version; for a checkout the nearest one, whose rules between flags hold."""
    flags: Mapping[str, FlagInfo]
    """Main name -> flag. Spellings that are only accepted besides it: see `find`."""
    source: Mapping[str, Any]
    """Where the facts come from: repository, files with commits, SGLang version."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Flags that only other versions have -> those versions, as text."""
    names: Mapping[str, tuple[FlagInfo, bool]] = field(default_factory=dict)
    """Every accepted spelling -> (flag, negated)."""
    title: str = ""
    """Name for reports: the version, or the checkout and its commit."""
    hooks: frozenset[str] = frozenset()
    """Arguments that name a function which this checkout loads; empty when that is not known."""
    model_scripts: frozenset[str] | None = None
    """Names of scripts/models/*.sh; None when that is not known."""
    sample_fields: frozenset[str] = frozenset()
    """Fields and methods of Sample; empty when that is not known."""
    unconfirmed: frozenset[str] = frozenset()
    """Flags kept from the nearest version because some of the checkout's flags could not be read."""

    def find(self, name: str) -> FlagInfo | None:
        """The flag that a spelling stands for, aliases and `--no-X` included."""
        hit = self.names.get(name)
        return hit[0] if hit else None

    @property
    def dests(self) -> frozenset[str]:
        """Attribute names of the parsed arguments; a custom config key of such a name overrides it."""
        return frozenset(info.dest for info in self.flags.values())

    def nearest(self, name: str) -> str | None:
        """The known spelling closest to an unknown one, or None when nothing is near."""
        near = difflib.get_close_matches(name, self.names, n=1, cutoff=0.75)
        return near[0] if near else None

    def parse(self, argv: Sequence[str]) -> Parsed:
        """Parse the arguments after `train.py` strictly.

        Reports unknown flags (with the nearest known one), missing, surplus or mistyped values, values outside
        the choices, flags given twice and words that belong to no flag. Never raises.
        """
        return StrictParser(self).parse(argv)


@cache
def load_contract(version: str = "latest") -> FlagContract:
    """The contract of one Relax version, from the package's own data, or one that was read from a checkout.

    Args:
        version: "latest", "studio", "infra", or the path of a file that `migrate-agent contract` saved.

    Raises:
        ValueError: no such version.
        UsageError: the file is not a saved contract.
    """
    if version.endswith(".json"):
        return _saved_contract(Path(version))
    if version not in VERSIONS:
        raise ValueError(f"no Relax version {version!r}; known: {', '.join(VERSIONS)}")
    header, entries = _data()
    sglang = header["versions"][version]["sglang"]
    flags: dict[str, FlagInfo] = {}
    elsewhere: dict[str, str] = {}
    for entry in entries:
        info = _flag(entry, version, sglang)
        if version in info.versions and sglang in entry.get("sglang_versions", (sglang,)):
            for item in _with_teacher(info):
                flags[item.name] = item
        else:
            where = entry.get("versions") or [f"SGLang {number}" for number in entry["sglang_versions"]]
            elsewhere[info.name] = ", ".join(where)
    names = _spellings(flags)
    elsewhere = {name: where for name, where in elsewhere.items() if name not in names}
    source = {**header["versions"][version], "megatron": header["megatron"], "sglang_router": header["sglang_router"]}
    return FlagContract(version, flags, source, elsewhere, names, title=version)


def _saved_contract(path: Path) -> FlagContract:
    """Flags of a checkout over those that its nearest version takes from Megatron and SGLang."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["kind"] != SAVED_KIND or document["schema"] != SAVED_SCHEMA:
            raise ValueError(f"kind {document['kind']!r}, schema {document['schema']!r}")
        base = load_contract(document["base"])
        flags = {name: info for name, info in base.flags.items() if info.family != "relax"}
        for entry in document["flags"]:
            flags[entry["flag"]] = _read_flag(entry, base)
        kept = {name: info for name, info in base.flags.items() if name not in flags and document["unread"]}
        flags |= kept
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} is not a saved Relax contract ({error})",
            "make one with migrate-agent contract RELAX_ROOT --out FILE",
        ) from error
    names = _spellings(flags)
    elsewhere = {name: f"the built-in contract {base.version}" for name in base.flags if name not in names}
    commit = str(document["commit"] or "no commit")
    return FlagContract(
        base.version,
        flags,
        {"checkout": document["name"], "commit": document["commit"], "base": base.version},
        elsewhere,
        names,
        title=f"checkout {document['name']} {commit[:12]}",
        hooks=frozenset(document["hooks"]),
        model_scripts=frozenset(document["model_scripts"]) if document["model_scripts"] else None,
        sample_fields=frozenset(document["sample_fields"]),
        unconfirmed=frozenset(kept),
    )


def _read_flag(entry: Mapping[str, Any], base: FlagContract) -> FlagInfo:
    """A flag as the checkout adds it; what only a running program knows is taken from the nearest version."""
    info, known = _flag(entry, base.version, ""), base.flags.get(entry["flag"])
    if known is None:
        return info
    if known.family != "relax":
        return replace(known, default=entry["default"]) if "default" in entry else known
    taken = {name: getattr(known, name) for name in entry.get("computed", ())}
    return replace(info, **taken, group=known.group, meaning=known.meaning, note=known.note)


def missing_in(names: Sequence[str], version: str) -> tuple[str, ...]:
    """Those of the flag `names` that `version` lacks, in the given order."""
    contract = load_contract(version)
    return tuple(name for name in names if contract.find(name) is None)


@cache
def _data() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    content = json.loads(_DATA.read_text(encoding="utf-8"))
    return content["header"], content["flags"]


def _flag(entry: Mapping[str, Any], version: str, sglang: str) -> FlagInfo:
    name = entry["flag"]
    action = entry.get("action", "")
    keys = (version, sglang)
    by_version = entry.get("default_by_version", {})
    choices = next((c for k, c in entry.get("choices_by_version", {}).items() if k == version), entry.get("choices"))
    return FlagInfo(
        name=name,
        dest=entry.get("dest") or _dest(name),
        family=entry["family"],
        type=entry.get("type", "") if action in SWITCHES else entry.get("type", "str"),
        action=action,
        nargs=entry.get("nargs"),
        choices=tuple(choices or ()),
        default=next((by_version[key] for key in keys if key in by_version), entry.get("default")),
        const=entry.get("const"),
        aliases=tuple(entry.get("aliases", ())),
        group=entry.get("group", ""),
        versions=tuple(entry.get("versions", VERSIONS)),
        meaning=entry.get("meaning", ""),
        note=entry.get("note", ""),
    )


def _dest(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _with_teacher(info: FlagInfo) -> Iterator[FlagInfo]:
    """The flag itself, and its teacher copy when Relax registers one (no default, dest teacher_sglang_X)."""
    yield info
    if info.family != "sglang" or info.group == "sglang_router":
        return
    yield FlagInfo(
        name="--teacher-" + info.name[2:],
        dest="teacher_" + info.dest,
        family="sglang",
        type=info.type,
        action=info.action,
        nargs=info.nargs,
        choices=info.choices,
        const=info.const,
        aliases=tuple("--teacher-" + alias[2:] for alias in info.aliases),
        group="teacher",
        versions=info.versions,
    )


def _spellings(flags: Mapping[str, FlagInfo]) -> dict[str, tuple[FlagInfo, bool]]:
    names: dict[str, tuple[FlagInfo, bool]] = {}
    for info in flags.values():
        for spelling in (info.name, *info.aliases):
            names.setdefault(spelling, (info, False))
            if info.action == "boolean_optional":
                names.setdefault(_NO + spelling[2:], (info, True))
    return names
