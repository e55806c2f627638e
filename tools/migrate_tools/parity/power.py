"""How much the frozen cases see: seeded porting faults they catch, and mutants.

Which faults are seeded depends on the module alone. A fault is `equivalent` by a rule of `equivalent.py`, `unreached`
when no case runs its lines (the coverage figures tell that part), else it counts: caught, or a survivor. The wall limit
is far above what a run needs; what it cuts off is `not_run` and decides nothing in favour of the port.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from migrate_tools.model import CheckStatus, Launch
from migrate_tools.parity import inline
from migrate_tools.parity.beyond import beyond_a_case
from migrate_tools.parity.case import answers_of, new_inputs
from migrate_tools.parity.faults import seed_faults
from migrate_tools.parity.faults_wiring import scorer_part
from migrate_tools.parity.follow_up import FollowUp, ask
from migrate_tools.parity.frozen import FrozenCases
from migrate_tools.parity.mine import mine
from migrate_tools.parity.mutants import seed_mutants
from migrate_tools.parity.mutation import Code, Fault
from migrate_tools.parity.newjob import VERSIONS, Context, run_new
from migrate_tools.parity.oracle import case_seconds
from migrate_tools.parity.sandbox_data import fresh_folder, load_rows
from migrate_tools.parity.values import number
from migrate_tools.parity.verbatim import Leads, leads, version
from migrate_tools.parity.verdicts import judge

ENOUGH = 0.95
"""Share of the seeded porting faults that must be caught."""
FEW = 8
"""With fewer faults than this a share says little: then one survivor is allowed, two are not."""
MOST_UNSHOWN, FEW_UNSHOWN = 0.2, 2
"""Share and number of the faults that may be neither caught nor shown by any input that was found."""
SEARCHED = 800
"""Inputs that must have run the changed line before it is said that none was found."""
REMEDY = "give more cases (--parity-cases), the rows of the recipe, or logged responses (--rollouts)"
SHOWN = 40
WHOLE = "float(int(value))"
"""The fault that cuts rewards down to whole numbers."""


def measure(
    context: Context,
    launch: Launch,
    frozen: FrozenCases,
    job: Mapping[str, Any],
    cases: Sequence[Mapping[str, Any]],
    olds: Sequence[Mapping[str, Any]],
    news: Sequence[Mapping[str, Any]],
    seconds: float,
    converted: Path | None = None,
) -> tuple[dict[str, dict[str, Any]], FollowUp | None]:
    """{"power": ..., "mutants": ...}, both run on the cases that agreed; and follow-up cases made for survivors.

    Args:
        seconds: wall limit for all of them.
        converted: the rows as the example's converter wrote them; made again when None.
    """
    relative = f"{job['module'].replace('.', '/')}.py"
    source = context.stage / relative
    if not source.is_file():
        return _unknown(f"{relative} is not a file of the example"), None
    text = source.read_text(encoding="utf-8")
    whole = not any(_fraction(new) for new in news)
    code = Code(text, environment=launch.reward.environment, **_facts(frozen))
    faults, mutants = seed_faults(code), seed_mutants(code)
    faults = [fault for fault in faults if not (whole and fault.after == WHOLE)]  # no case has what it would cut off
    values = _answers(frozen)
    decided = [_decided(code, fault, case_seconds(launch)) for fault in (*faults, *mutants)]
    pairs = zip((*faults, *mutants), decided, strict=True)
    rules = context.by_rules.get(relative, text)
    led = leads(code, rules, values)
    versions = [*led.versions, *(version(code, fault, values) for fault, known in pairs if known is None)]
    first = len(led.versions) + decided[: len(faults)].count(None)
    mined = mine([text, rules] if led.versions else [text])
    found_in = {"literals": mined.literals, "numbers": mined.numbers, "keys": mined.keys}
    job = {**job, "mined": found_in, "least": SEARCHED, "inline": inline.fits(scorer_part(text))}
    answer = run_versions(context, frozen, job, cases, olds, news, versions, first, seconds, converted)
    if "error" in answer:
        return _unknown(answer["error"]), None
    asked = _follow_up(context, launch, frozen, job, versions[:first], answer["versions"], seconds)
    tried, records = answer["versions"][: len(led.versions)], iter(answer["versions"][len(led.versions) :])
    results = [next(records) if known is None else known for known in decided]
    power = _counted(faults, results[: len(faults)])
    found = _counted(mutants, results[len(faults) :])
    found["total"], found["killed"] = found.pop("seeded"), found.pop("caught")
    status, why = verdict(power)
    power["verdict"] = {"passed": "strong", "failed": "too weak"}.get(status, "unknown")
    measured = {"power": {**power, "verdict_why": why}, "mutants": found}
    return {**measured, **({"edited": _searched(led, tried, asked)} if led.versions else {})}, asked


def _decided(code: Code, fault: Fault, seconds: float) -> dict[str, Any] | None:
    """The record of a fault that need not be run; None for one that is run."""
    if fault.equivalent:
        return {"kind": "equivalent"}
    beyond = beyond_a_case(code, fault, seconds)
    return {"kind": "skipped", "beyond": beyond} if beyond else None


def _follow_up(
    context: Context,
    launch: Launch,
    frozen: FrozenCases,
    job: Mapping[str, Any],
    versions: Sequence[Mapping[str, Any]],
    records: list[dict[str, Any]],
    seconds: float,
) -> FollowUp | None:
    """Puts inputs that show survivors to both sides; a survivor that differs on one where both agree is caught."""
    lost = [place for place in range(len(versions)) if records[place]["kind"] == "survived"]
    shown = [found for place in lost if (found := records[place].get("input"))]
    asked = ask(context, launch, frozen, shown) if shown else None
    if asked is None:
        return None
    survivors = [versions[place] for place in lost]
    more = {**asked.job, "inline": job["inline"]}
    answer = run_versions(
        context, asked.frozen, more, asked.cases, asked.olds, asked.news, survivors, len(survivors), seconds
    )
    for place, record in zip(lost, answer.get("versions", ()), strict=False):
        if record["kind"] == "caught":
            records[place] = {**record, "follow_up": True}
    return asked


def run_versions(
    context: Context,
    frozen: FrozenCases,
    job: Mapping[str, Any],
    cases: Sequence[Mapping[str, Any]],
    olds: Sequence[Mapping[str, Any]],
    news: Sequence[Mapping[str, Any]],
    versions: Sequence[Mapping[str, Any]],
    first: int,
    seconds: float,
    converted: Path | None = None,
) -> dict[str, Any]:
    """Changed modules on the cases that agreed: {"versions": [a record each]}, or {"error": ...}.

    Args:
        versions: text (`source`), lines of which one must run (`lines`, empty: unknown), and whether the list form is
            tried too (`lists`).
        first: that many at the front have `seconds` together; the others only inform and have less.
    """
    place = context.work / "parity" / frozen.meta["launch"] / "power"
    fresh_folder(place)
    if converted is not None and converted.is_dir():
        shutil.copytree(converted, place / "converted")
    lines = [json.dumps(version) for version in versions]
    (place / VERSIONS).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    baseline = _baseline(olds, news, frozen.known_keys)
    power_job = {**job, "versions": len(versions), "first": first, "baseline": baseline, "total_seconds": seconds}
    inputs = [json.dumps(new_inputs(case)) for case in cases]
    return run_new(context, frozen, power_job, inputs, place)


def _fraction(record: Mapping[str, Any]) -> bool:
    score = number(record.get("score")) if record["kind"] == "value" else None
    return score is not None and not score.is_integer()


def _facts(frozen: FrozenCases) -> dict[str, Any]:
    """What is certain of the frozen rows: whether every label is a text, and their data sources."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts, sources = True, set[str]()
    for name in frozen.row_files:
        table = pq.read_table(frozen.folder / name)
        field = table.schema.field("reward_model").type if "reward_model" in table.column_names else None
        place = field.get_field_index("ground_truth") if isinstance(field, pa.StructType) else -1
        texts = texts and field is not None and place >= 0 and pa.types.is_string(field.field(place).type)
        values = table.column("data_source").to_pylist() if "data_source" in table.column_names else [None]
        sources |= {str(value) for value in values}
    return {"text_labels": texts, "sources": sources}


def _answers(frozen: FrozenCases) -> list[str]:
    """A right answer of each of the first rows."""
    rows = load_rows(frozen.folder, frozen.row_files[:1], "python")
    return [answers_of(row)[0] for row in rows[:6]]


def _baseline(
    olds: Sequence[Mapping[str, Any]], news: Sequence[Mapping[str, Any]], known: Collection[str] | None
) -> list[dict[str, Any] | None]:
    """The new side's own records of the cases that agreed, with what the comparison asks of each beside the values."""
    records: list[dict[str, Any] | None] = []
    for old, new in zip(olds, news, strict=True):
        if new["kind"] != "value" or judge(old, new, known).kind not in ("same", "declared"):
            records.append(None)
            continue
        zeroed = any(note.startswith("error became 0.0") for note in old.get("notes", ()))
        asked = {"old_kind": old["kind"], "old_keys": sorted(old.get("keys", ())), "zeroed": zeroed}
        records.append({**new, **asked, "strange": bool(old.get("strange"))})
    return records


def _searched(led: Leads, records: Sequence[Mapping[str, Any]], asked: FollowUp | None) -> dict[str, Any]:
    """How far the search for inputs went on which the draft and the rules' module part.

    `shown` differences are seen on some input; `unasked`: inputs that could not be put to both sides.
    """
    inputs = sum(bool(item.get("input")) for item in records)
    shown = sum(bool(item.get("input")) or item["kind"] == "caught" for item in records)
    tried = sum(int(item.get("tried", 0)) for item in records)
    return {"places": led.places, "tried": tried, "shown": shown, "unasked": 0 if asked else inputs}


def verdict(power: Mapping[str, Any]) -> tuple[CheckStatus, str]:
    """Whether the cases are strong enough, and why not (empty when they are).

    Of the faults that some input is known to show, 95 % must be caught; with fewer than eight of them one may survive.
    A survivor for which a long search found no such input may be equivalent: it stands apart in the report, and no more
    than a fifth of all faults (or two) may stand there. Faults that were not run count as caught for "too weak" and as
    survivors for "strong enough"; in between nothing is known.
    """
    if power.get("why"):
        return "not_checkable", f"how much they see could not be measured: {power['why']}"
    seeded, caught, not_run, unshown = (power[name] for name in ("seeded", "caught", "not_run", "unshown"))
    if not _strong(caught + not_run, seeded - unshown):
        lost = ", ".join(f"{item['operator']} (line {item['line']})" for item in power["survivors"][:3])
        share = f"{caught} of {seeded - unshown} seeded porting faults caught, {ENOUGH:.0%} wanted"
        return "failed", f"too weak: {share}; not seen: {lost}; {REMEDY}"
    if unshown > max(FEW_UNSHOWN, MOST_UNSHOWN * seeded):
        lost = ", ".join(f"{item['operator']} (line {item['line']})" for item in power["no_input"][:3])
        share = f"for {unshown} of {seeded} seeded porting faults no input was found that shows them"
        return "failed", f"too weak: {share}: {lost}; {REMEDY}"
    if not _strong(caught, seeded - unshown):
        return "not_checkable", f"{not_run} of {seeded} seeded porting faults were not run in time, {caught} caught"
    return "passed", ""


def _strong(caught: int, seeded: int) -> bool:
    return seeded - caught <= 1 if seeded < FEW else caught >= ENOUGH * seeded


def _unknown(why: str) -> dict[str, dict[str, Any]]:
    power = {
        "seeded": 0,
        "caught": 0,
        "follow_up": 0,
        "equivalent": 0,
        "unreached": 0,
        "not_run": 0,
        "unshown": 0,
        "why": why,
    }
    power |= {"survivors": [], "no_input": []}
    power |= {"verdict": "unknown", "verdict_why": why}
    return {"power": power, "mutants": {"total": 0, "killed": 0, "equivalent": 0, "survivors": [], "why": why}}


def _counted(faults: Sequence[Fault], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    kinds = [str(result["kind"]) for result in results]
    operators: dict[str, list[int]] = {}
    for fault, kind in zip(faults, kinds, strict=True):
        if kind not in ("equivalent", "unreached", "skipped"):
            tally = operators.setdefault(fault.operator, [0, 0])
            tally[0] += kind != "survived"
            tally[1] += 1
    by_rule = [{**fault.shown(), "rule": fault.equivalent} for fault in faults if fault.equivalent]
    beyond = [
        {**fault.shown(), "why": result["beyond"]}
        for fault, result in zip(faults, results, strict=True)
        if "beyond" in result
    ]
    pairs = [(fault, result) for fault, result in zip(faults, results, strict=True) if result["kind"] == "survived"]
    survivors = [_survivor(fault, result) for fault, result in pairs if not _unshown(result)]
    no_input = [_survivor(fault, result) for fault, result in pairs if _unshown(result)]
    return {
        "seeded": len(kinds) - kinds.count("equivalent") - kinds.count("unreached"),
        "caught": len(kinds) - sum(kinds.count(kind) for kind in ("equivalent", "unreached", "skipped", "survived")),
        "follow_up": sum(bool(result.get("follow_up")) for result in results),
        "equivalent": kinds.count("equivalent"),
        "equivalent_by": by_rule[:SHOWN],
        "unreached": kinds.count("unreached"),
        "not_run": kinds.count("skipped"),
        "beyond": beyond,
        "survivors": survivors[:SHOWN],
        "unshown": len(no_input),
        "no_input": no_input[:SHOWN],
        "operators": {name: f"{good}/{total}" for name, (good, total) in sorted(operators.items())},
    }


def _unshown(result: Mapping[str, Any]) -> bool:
    """A survivor of which a long search found no input that shows it."""
    return result.get("input") is None and int(result.get("tried", 0)) >= SEARCHED


def _survivor(fault: Fault, result: Mapping[str, Any]) -> dict[str, object]:
    """A survivor for the evidence, with the input that would show it or how many were tried."""
    found = result.get("input") or {}
    known = (
        {"input": {"row": found["row"], "response": found["raw"][-600:], "changes": found["changes"]}} if found else {}
    )
    tried = {"tried": result["tried"], "other_values": result["other"]} if "tried" in result else {}
    return {**fault.shown(), **tried, **known}
