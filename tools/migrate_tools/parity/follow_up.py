"""Follow-up cases, after the comparison: an input that shows a seeded fault of the new reward is put to both sides.

The frozen cases were closed before anything was drafted; these are made from the drafted module. So the old reward
answers them in a job of its own, which sees nothing of the draft, and the same rules judge them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from migrate_tools.model import Launch
from migrate_tools.parity import oracle, patience, texts
from migrate_tools.parity.case import Case, make_case, new_inputs, prompt_of
from migrate_tools.parity.frozen import FrozenCases, close
from migrate_tools.parity.newjob import Context, build_job, run_new
from migrate_tools.parity.row_changes import RowChange, applied, split, told_after
from migrate_tools.parity.rows import append_rows
from migrate_tools.parity.sandbox_data import fresh_folder, load_rows
from migrate_tools.parity.told import NOTHING
from migrate_tools.parity.verdicts import CaseVerdict, judge

FAMILY = "follow_up"
SECONDS = 60.0
Record = dict[str, Any]


@dataclass(frozen=True)
class FollowUp:
    """Cases made for survivors, closed, and what both sides say."""

    frozen: FrozenCases
    job: dict[str, Any]
    olds: list[Record]
    news: list[Record]
    verdicts: list[CaseVerdict]
    cases: list[dict[str, Any]]

    @property
    def wrong(self) -> list[int]:
        """Cases on which the two sides differ."""
        return [index for index, verdict in enumerate(self.verdicts) if verdict.kind == "mismatch"]

    @property
    def compared(self) -> int:
        """Cases on which both sides gave something to compare."""
        return sum(verdict.kind in ("same", "declared", "mismatch") for verdict in self.verdicts)


def ask(context: Context, launch: Launch, frozen: FrozenCases, shown: Sequence[Mapping[str, Any]]) -> FollowUp | None:
    """Both sides' answers to inputs that show faults; None when there is none that can be put to both.

    Args:
        shown: inputs as `survivors.look_again` gives them: row, raw text of the new side, changes of the row, length in
            tokens, and what the rollout tells.
    """
    folder = context.work / "parity" / launch.name / FAMILY / "oracle"
    fresh_folder(folder)
    for name in frozen.row_files:
        shutil.copyfile(frozen.folder / name, folder / name)
    rows = load_rows(frozen.folder, frozen.row_files, "python")
    cases, files = _cases(launch, frozen, rows, shown, folder)
    if not cases:
        return None
    job = oracle.old_job(context.recipe, launch, frozen, seconds=max(SECONDS, frozen.meta["seconds"]))
    job = {**job, "rows": [*frozen.row_files, *files], "repeat": True}
    lines = [case.line() for case in cases]
    runs = oracle.run_old(context.sandbox, context.recipe, launch, job, folder, lines, folder.parent / "old")
    if isinstance(runs, str):
        return None
    strange = set(frozen.meta.get("strange", ()))
    outcomes = [
        oracle.of_both_runs(one, other, strange=case.row >= len(rows) or case.row in strange)
        for case, one, other in zip(cases, *(run["records"] for run in runs), strict=True)
    ]
    more = close(folder, {**frozen.meta, "rows": job["rows"], "telling": []}, lines, outcomes)
    new_job = build_job(context, launch, more, job["total_seconds"])
    place = folder.parent / "new"
    answer = run_new(context, more, {**new_job, "groups": 0}, [json.dumps(new_inputs(c)) for c in more.cases()], place)
    if "error" in answer:
        return None
    olds, news = patience.settle(context, launch, more, new_job, outcomes, answer["records"])
    verdicts = [judge(old, new, frozen.known_keys) for old, new in zip(olds, news, strict=True)]
    return FollowUp(more, new_job, olds, news, verdicts, more.cases())


def _cases(
    launch: Launch,
    frozen: FrozenCases,
    rows: Sequence[dict[str, Any]],
    shown: Sequence[Mapping[str, Any]],
    folder: Path,
) -> tuple[list[Case], list[str]]:
    """A case each, without repeats, and the row files that were added for them."""
    data, family = launch.data, next(item for item in texts.ALL if item.name == frozen.meta["family"])
    made: list[dict[str, Any]] = []
    drafted: list[tuple[Case, int | None]] = []
    for item in shown:
        own, told = split([RowChange(tuple(path), value) for path, value in item["changes"]])
        row, number = rows[item["row"]], None
        if own:
            try:
                row = applied(row, own)
            except (KeyError, IndexError, TypeError, ValueError):
                continue  # the converter made something of its own of this value
            number = len(made)
            made.append(row)
        ended = item["raw"].endswith(family.end)
        raw = item["raw"].removesuffix(family.end) if ended else item["raw"]
        said = told_after(frozen.meta.get("told", NOTHING)["default"], item["told"], told)
        prompt = prompt_of(row, data.prompt_key, data.prompt_form)
        case = make_case(
            item["row"],
            FAMILY,
            raw,
            prompt,
            launch.reward,
            family,
            length=item["length"] or None,
            ended=ended,
            told=said,
        )
        drafted.append((case, number))
    files, places = append_rows(made, folder, len(frozen.row_files))
    cases: dict[Case, None] = {}
    for case, number in drafted:
        if number is None:
            cases[case] = None
        elif (place := places[number]) is not None:
            cases[replace(case, row=len(rows) + place)] = None
    return list(cases), files
