"""A time limit proves nothing on a busy machine: cases that differ only by time run once more, with more of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from migrate_tools.model import Launch
from migrate_tools.parity import oracle
from migrate_tools.parity.case import new_inputs
from migrate_tools.parity.frozen import FrozenCases
from migrate_tools.parity.newjob import Context, run_new
from migrate_tools.parity.verdicts import judge

CASE_SECONDS = 20.0
TOTAL_SECONDS = 60.0
LATE = ("took longer than", "did not start within")
"""What a written reward says when it stopped a call of its own."""

Record = dict[str, Any]


def settle(
    context: Context,
    launch: Launch,
    frozen: FrozenCases,
    job: dict[str, Any],
    olds: Sequence[Record],
    news: Sequence[Record],
) -> tuple[list[Record], list[Record]]:
    """Both sides' records, those that were only late replaced by what a longer run says.

    An old answer is never replaced, because it was closed before the new code was written: a case whose old side ends
    after all counts as one that is not the same each time. A case that is late again stays as it was.
    """
    olds, news = list(olds), list(news)
    late = [index for index, pair in enumerate(zip(olds, news, strict=True)) if _late(*pair, frozen.known_keys)]
    if not late:
        return olds, news
    cases = frozen.cases()
    lines = [json.dumps(new_inputs(cases[index])) for index in late]
    place = context.work / "parity" / launch.name
    plain = {key: value for key, value in job.items() if key != "comparable"}
    longer = {**plain, "groups": 0, "case_seconds": CASE_SECONDS, "total_seconds": TOTAL_SECONDS}
    again = run_new(context, frozen, longer, lines, place / "new_again").get("records", [])
    for index, record in zip(late, again, strict=False):
        if record["kind"] not in ("timeout", "skipped"):
            news[index] = record
    for index in _ends_after_all(
        context, launch, frozen, [index for index in late if olds[index]["kind"] == "timeout"]
    ):
        olds[index] = {**olds[index], "stable": False}
    return olds, news


def _late(old: Record, new: Record, known: Collection[str] | None) -> bool:
    """True when the two differ and one side was stopped by a time limit."""
    if judge(old, new, known).kind != "mismatch":
        return False
    said = str(new.get("reward_error", ""))
    return "timeout" in (old["kind"], new["kind"]) or any(text in said for text in LATE)


def _ends_after_all(context: Context, launch: Launch, frozen: FrozenCases, indexes: Sequence[int]) -> list[int]:
    if not indexes:
        return []
    cases = frozen.cases()
    job = {
        **oracle.old_job(context.recipe, launch, frozen, seconds=TOTAL_SECONDS),
        "case_seconds": CASE_SECONDS,
    }
    lines = [json.dumps(cases[index]) for index in indexes]
    place = context.work / "parity" / launch.name / "old_again"
    runs = oracle.run_old(context.sandbox, context.recipe, launch, job, frozen.folder, lines, place)
    if isinstance(runs, str):
        return []
    pairs = zip(indexes, runs[0]["records"], strict=True)
    return [index for index, record in pairs if record["kind"] not in ("timeout", "skipped")]
