"""Rung 3: the old and the new reward agree on every case."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from migrate_tools.model import CheckResult, CheckStatus, Launch
from migrate_tools.parity import aftermath, coverage, guard, patience, power, pytest_file, shrink, tolerances
from migrate_tools.parity.case import new_inputs
from migrate_tools.parity.follow_up import FollowUp
from migrate_tools.parity.frozen import FrozenCases
from migrate_tools.parity.newjob import Context, build_job, old_files, run_new
from migrate_tools.parity.values import number, same
from migrate_tools.parity.verdicts import CaseVerdict, judge

SHOWN = 20
GROUP = 8
"""Responses in a group where the launch rolls out one a prompt."""
NEW_SECONDS = 60.0
SLOWER = 3.0
"""The new side has so many times the seconds that the old one took, if that is more."""
POWER_SECONDS = 120.0
"""Wall limit for changed versions of the reward, where that is longer than their share; a run needs a few seconds."""
POWER_SHARE = 6.0
"""Changed versions have so many times the seconds that the user gave the old reward."""
ENOUGH = 0.25
"""Share of accepted and of rejected cases below which the report says that the cases are one-sided."""


def run_parity(context: Context, launch: Launch, frozen: FrozenCases, *, thorough: bool = True) -> CheckResult:
    """Compares every frozen case; one difference fails the check.

    Args:
        frozen: the oracle of this launch; its files are verified against their hashes first.
        thorough: mismatches are made small, and the power of the cases is measured; without it only the comparison.
    """
    began = time.monotonic()
    status, summary, evidence = _run(context, launch, frozen, thorough)
    return CheckResult(
        name=f"parity:{launch.name}",
        rung=3,
        status=status,
        seconds=round(time.monotonic() - began, 3),
        summary=summary,
        evidence=evidence,
    )


def _run(
    context: Context, launch: Launch, frozen: FrozenCases, thorough: bool
) -> tuple[CheckStatus, str, dict[str, Any]]:
    if changed := frozen.verify():
        return "failed", f"the frozen oracle was changed: {', '.join(changed)}", {"changed": changed}
    if problems := _guard(context, launch):
        return "failed", f"the example breaks the oracle's rule: {problems[0]}", {"guard": list(problems)}
    if frozen.reason:
        return "not_checkable", frozen.reason, {"missing": frozen.meta["missing"]}
    cases, olds = frozen.cases(), frozen.outcomes()
    job = build_job(context, launch, frozen, max(NEW_SECONDS, SLOWER * frozen.meta["seconds"]))
    job["telling"] = frozen.meta["telling"]
    job["comparable"] = [i for i, old in enumerate(olds) if old["stable"] and old["kind"] in ("value", "exception")]
    place = context.work / "parity" / launch.name / "new"
    answer = run_new(context, frozen, job, [json.dumps(new_inputs(case)) for case in cases], place)
    if "error" in answer:
        return "failed", answer["error"], {"cases": len(cases)}
    olds, news = patience.settle(context, launch, frozen, job, olds, answer["records"])
    verdicts = [judge(old, new, frozen.known_keys) for old, new in zip(olds, news, strict=True)]
    evidence = _evidence(frozen, cases, olds, news, verdicts, answer)
    evidence["after"] = aftermath.compare_groups(cases, olds, news, verdicts, group=rollout_size(launch))
    failure = _failure(olds, news, verdicts, evidence)
    if failure:
        if thorough:
            _explain(context, launch, frozen, job, verdicts, evidence)
        return "failed", failure, evidence
    compared = evidence["compared"]
    if not compared:
        return "not_checkable", "no case could be compared", evidence
    if not evidence["accepted"]:
        why = "the old reward accepted none of them, and agreement on refusals alone proves little"
        return "not_checkable", f"{compared} cases agree, but {why}", evidence
    if not thorough or POWER_SECONDS <= 0:
        return "passed", _summary(frozen, evidence), evidence
    converted = place / "converted"
    seconds = max(POWER_SECONDS, POWER_SHARE * frozen.meta["allowed_seconds"])
    measured, asked = power.measure(context, launch, frozen, job, cases, olds, news, seconds, converted)
    evidence |= measured
    if asked is not None and (failure := _follow_up(context, launch, asked, evidence)):
        return "failed", failure, evidence
    if evidence.get("edited", {}).get("unasked"):
        why = "inputs were found on which it parts from the rules' module, but both sides could not be asked"
        return "not_checkable", f"{why} ({_summary(frozen, evidence)})", evidence
    if evidence["power"]["verdict"] == "too weak":
        return "failed", f"{evidence['power']['verdict_why']} ({_summary(frozen, evidence)})", evidence
    if evidence["power"]["verdict"] == "unknown":
        why = evidence["power"]["verdict_why"]
        return "not_checkable", f"all cases agree, but {why} ({_summary(frozen, evidence)})", evidence
    return "passed", _summary(frozen, evidence), evidence


def _follow_up(context: Context, launch: Launch, asked: FollowUp, evidence: dict[str, Any]) -> str:
    """Takes the follow-up cases into the evidence; why the check fails on them, or empty."""
    wrong = asked.wrong
    shown = [
        _shown(i, asked.cases[i], asked.olds[i], asked.news[i], asked.verdicts[i])
        for i in (wrong or range(len(asked.cases)))[:SHOWN]
    ]
    evidence["follow_up"] = {"cases": len(asked.cases), "compared": asked.compared, "shown": shown}
    if not wrong:
        return ""
    evidence["mismatches"], evidence["first_mismatches"] = len(wrong), shown
    _explain(context, launch, asked.frozen, asked.job, asked.verdicts, evidence)
    why = asked.verdicts[wrong[0]].why
    made = f"{len(wrong)} of {asked.compared} follow-up cases, made for seeded faults and edits, differ"
    return f"{made}; the first: {why}"


def _guard(context: Context, launch: Launch) -> tuple[str, ...]:
    problems: list[str] = []
    for folder in (f"examples/{context.example.algo}", "scripts/tools"):
        if (context.stage / folder).is_dir():
            problems += [
                f"{folder}/{problem}" for problem in guard.check_example(context.stage / folder, old_files(launch))
            ]
    return tuple(problems)


def _evidence(
    frozen: FrozenCases,
    cases: Sequence[dict[str, Any]],
    olds: Sequence[dict[str, Any]],
    news: Sequence[dict[str, Any]],
    verdicts: Sequence[CaseVerdict],
    answer: dict[str, Any],
) -> dict[str, Any]:
    meta = frozen.meta
    kinds = Counter(verdict.kind for verdict in verdicts)
    wrong = [i for i, verdict in enumerate(verdicts) if verdict.kind == "mismatch"]
    mutated = sum(bool(old.get("mutated")) for old in olds)
    notes = Counter(note for old in olds for note in old.get("notes", ()))
    return {
        "cases": len(cases),
        "compared": kinds["same"] + kinds["declared"] + kinds["mismatch"],
        "mismatches": len(wrong),
        "first_mismatches": [_shown(i, cases[i], olds[i], news[i], verdicts[i]) for i in wrong[:SHOWN]],
        "tolerances": tolerances.entries(name for verdict in verdicts for name in verdict.tolerances),
        "real_rows": _real_rows(frozen, cases, verdicts),
        "declared": dict(Counter(verdict.why for verdict in verdicts if verdict.kind == "declared").most_common()),
        "timed_out_on_both": kinds["both_timeout"],
        "nondeterministic": kinds["unstable"],
        "not_run": kinds["not_run"] + meta["skipped"],
        "mutates_arguments": mutated,
        "notes": dict(notes),
        "families": meta["families"],
        "accepted_share": meta["accepted"],
        "rejected_share": meta["rejected"],
        "accepted": meta["accepted"],
        "rejected": meta["rejected"],
        "balanced": min(meta["accepted"], meta["rejected"]) >= ENOUGH,
        "rows": meta["row_count"],
        "rows_from": meta["rows_from"],
        "line_coverage": meta["coverage"],
        "coverage": {"old": coverage.shares(meta["coverage"]), "new": coverage.shares(answer["coverage"])},
        "made_rows": meta["made_rows"],
        "cut": meta["cut"],
        "rollouts": meta["rollouts"],
        "seconds": {"old": meta["seconds"], "new": round(answer["seconds"], 3)},
        "manager": meta.get("manager_check"),
        "plumbing_only": meta["tape"] is not None,
        "writes": meta.get("writes", []),
        "absent": meta.get("absent", []),
        "lists": _lists(news, answer["groups"]),
        "batch": _batches(olds, meta["groups"]),
    }


def rollout_size(launch: Launch) -> int:
    """Responses a prompt: what one group of the normalisation holds (verl's rollout.n)."""
    value = launch.get("actor_rollout_ref.rollout.n", 1)
    return value if isinstance(value, int) and value > 1 else GROUP


def _real_rows(frozen: FrozenCases, cases: Sequence[dict[str, Any]], verdicts: Sequence[CaseVerdict]) -> dict[str, Any]:
    """Agreement on the recipe's own rows (responses logged or made for them), with the upper end of Wilson's interval.

    `wilson95` bounds the share of differing cases from above, at 95 %; None when no row is the recipe's own.
    """
    own = frozen.meta["row_count"] if frozen.meta["rows_from"] == "files" else 0
    judged = [pair for pair in zip(cases, verdicts, strict=True) if pair[1].kind in ("same", "declared", "mismatch")]
    pairs = [(case, verdict) for case, verdict in judged if case["row"] < own]
    count = len(pairs)
    wrong = sum(verdict.kind == "mismatch" for _, verdict in pairs)
    return {
        "n": count,
        "differences": wrong,
        "wilson95": aftermath.wilson(wrong, count) if count else None,
        "rows": len({case["row"] for case, _ in pairs}),
        "logged": sum(case["family"] == "logged" for case, _ in pairs),
    }


def _shown(
    index: int, case: dict[str, Any], old: dict[str, Any], new: dict[str, Any], verdict: CaseVerdict
) -> dict[str, Any]:
    return {
        "case": index,
        "row": case["row"],
        "family": case["family"],
        "response": case["new"][-600:],
        "response_length": case["length"],
        "old": old.get("score", old.get("error", old["kind"])),
        "new": new.get("score", new.get("error", new["kind"])),
        "why": verdict.why,
    }


def _lists(news: Sequence[dict[str, Any]], groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The list form against the single form of the new reward."""
    calls, problems = 0, []
    for group in groups:
        if group["kind"] == "skipped":
            continue
        calls += 1
        if group["kind"] != "value":
            problems.append(str(group.get("error", group["kind"])))
            continue
        for index, record in zip(group["cases"], group["records"], strict=True):
            if news[index]["kind"] == "value" and not same(news[index].get("score"), record.get("score")):
                problems.append(f"case {index}: {news[index].get('score')} alone, {record.get('score')} in a list")
    return {"calls": calls, "problems": problems[:SHOWN]}


def _batches(olds: Sequence[dict[str, Any]], groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A batch function of the old side with eight rows a call against one row a call."""
    problems = []
    for position, group in enumerate(groups):
        if group["kind"] == "exception" and all(
            old["kind"] == "value" for old in olds[8 * position : 8 * position + 8]
        ):
            problems.append(str(group["error"]))
        for offset, score in enumerate(group.get("scores", ())):
            old = olds[8 * position + offset]
            if old["kind"] == "value" and old["stable"] and not same(old["score"], score):
                problems.append(f"case {8 * position + offset}: {old['score']} alone, {score} in a batch of eight")
    return {"calls": len(groups), "problems": problems[:SHOWN]}


def _failure(
    olds: Sequence[dict[str, Any]],
    news: Sequence[dict[str, Any]],
    verdicts: Sequence[CaseVerdict],
    evidence: dict[str, Any],
) -> str:
    """Why the check fails, or empty."""
    if news and news[0]["kind"] == "setup":
        return f"the new reward does not load: {news[0]['error']}"
    if _all_zero(news) and not _all_zero(olds):
        return "the new reward is 0 on every case, the old one is not"
    if evidence["mismatches"]:
        first = next(verdict.why for verdict in verdicts if verdict.kind == "mismatch")
        return f"{evidence['mismatches']} of {evidence['compared']} cases differ; the first: {first}"
    if evidence["lists"]["problems"]:
        return f"a list of samples is rewarded otherwise: {evidence['lists']['problems'][0]}"
    if evidence["after"]["problems"]:
        return f"Relax trains on other numbers: {evidence['after']['problems'][0]}"
    if evidence["batch"]["problems"]:
        return f"the old batch function does not score row by row: {evidence['batch']['problems'][0]}"
    return ""


def _all_zero(records: Sequence[dict[str, Any]]) -> bool:
    scores = [number(record["score"]) for record in records if record["kind"] == "value"]
    return bool(scores) and all(score == 0 for score in scores)


def _explain(
    context: Context,
    launch: Launch,
    frozen: FrozenCases,
    job: dict[str, Any],
    verdicts: Sequence[CaseVerdict],
    evidence: dict[str, Any],
) -> None:
    """Adds the smallest form of the mismatches and a pytest file to the evidence."""
    wrong = [index for index, verdict in enumerate(verdicts) if verdict.kind == "mismatch"]
    if not wrong:
        return
    smallest = shrink.shrink(context, launch, frozen, job, wrong)
    evidence["smallest"] = [item.shown() for item in smallest]
    if smallest:
        converted = context.work / "parity" / launch.name / shrink.NEW / "converted"
        evidence["pytest"] = pytest_file.render(converted, job, smallest)


def _summary(frozen: FrozenCases, evidence: dict[str, Any]) -> str:
    percent = f"{evidence['accepted']:.0%} accepted, {evidence['rejected']:.0%} rejected"
    parts = [f"{evidence['compared']} cases agree ({percent})"]
    if evidence["plumbing_only"]:
        parts = [f"parity of plumbing with taped answers, not of the judge: {evidence['compared']} cases agree"]
    if not evidence["balanced"]:
        parts.append("one-sided: fewer than a quarter on one side")
    if evidence["rows_from"] == "made_up":
        parts.append("rows made up from the data contract")
    if evidence["writes"]:
        parts.append(f"the reward makes files or folders of its own ({', '.join(evidence['writes'])})")
    if evidence["absent"]:
        parts.append(f"no case asks for {', '.join(evidence['absent'])}, not installed here")
    if evidence["cut"]:
        parts.append(evidence["cut"])
    if evidence["not_run"]:
        parts.append(f"{evidence['not_run']} cases were cut off by the time limit")
    if log := evidence["rollouts"]:
        parts.append(f"{log['cases']} logged responses compared, {log['same_score']} scored as logged")
    if declared := sum(evidence["declared"].values()):
        parts.append(f"{declared} with a declared difference")
    for key, text in (("timed_out_on_both", "timed out on both sides"), ("nondeterministic", "not deterministic")):
        if evidence[key]:
            parts.append(f"{evidence[key]} {text}")
    caught = evidence.get("power", {})
    if caught.get("seeded"):
        weak = " (too weak: 95% are wanted)" if caught["verdict"] == "too weak" else ""
        later = f", {caught['follow_up']} of them by follow-up cases" if caught["follow_up"] else ""
        parts.append(f"{caught['caught']} of {caught['seeded']} seeded faults caught{later}{weak}")
        if beyond := caught.get("beyond"):
            parts.append(f"{len(beyond)} not run: {beyond[0]['why']}")
        if caught["unshown"]:
            parts.append(f"for {caught['unshown']} no input was found that shows them")
    elif caught:
        parts.append(f"how much the cases see was not measured: {caught.get('why', 'nothing to change')}")
    if edited := evidence.get("edited"):
        sides = "the old reward agrees with it where the two part"
        none = f"no difference on {edited['tried']} inputs"
        places = edited["places"]
        where = f"in {places} place{'s' * (places != 1)}" if places else "outside its functions"
        parts.append(f"edited {where} since the rules wrote it: {sides if edited['shown'] else none}")
    return "; ".join(parts)
