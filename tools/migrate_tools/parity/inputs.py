"""What the search for inputs starts from: rows of the recipe, made rows, logged responses, cases made beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from migrate_tools.model import DataSpec, Launch
from migrate_tools.parity import forms, rollouts, texts, told
from migrate_tools.parity.case import Case, answers_of, prompt_of
from migrate_tools.parity.cases import make_cases
from migrate_tools.parity.mine import Mined
from migrate_tools.parity.rows import every_row, sample_rows, write_rows
from migrate_tools.parity.values import number
from migrate_tools.parity.variants import Variant, texts_for, variants

ALIKE = 1e-5
"""verl logs a score that went through float32."""
MADE_ROWS_AT_LEAST, MADE_ROWS_AT_MOST, CASES_A_MADE_ROW = 24, 96, 8


@dataclass(frozen=True)
class Inputs:
    """The given cases of one launch and what further ones are made from."""

    files: list[str]
    """Names of the row files."""
    rows: list[dict[str, Any]]
    """The recipe's own rows, prompts as verl makes its text from them."""
    rows_from: str
    """files or made_up."""
    made: list[Variant]
    family: texts.Family
    mined: Mined
    cases: list[Case]
    logged: list[rollouts.Rollout] = field(default_factory=list)
    """Logged responses, in the order of the cases of family "logged"."""
    log: dict[str, Any] = field(default_factory=dict)
    """How many logged responses were given, found again, left out."""

    @property
    def choices(self) -> list[list[str]]:
        """For every row, texts to put in the place of an answer."""
        own = [[*answers_of(row)[:2], *forms.variants(answers_of(row)[-1])] for row in self.rows]
        return [*own, *(texts_for(variant, answers_of(self.rows[variant.base])) for variant in self.made)]


def prepare(
    launch: Launch,
    mined: Mined,
    folder: Path,
    *,
    cases: int,
    budget: int,
    logs: Sequence[Path] = (),
    keys: Sequence[str] = (),
) -> Inputs:
    """Writes the row files into `folder` and makes about `cases` cases.

    Args:
        budget: cases in all, which decides how many rows are made.
        logs: files that verl logged responses to.
        keys: what a rollout of several turns tells the reward.

    Raises:
        UsageError: a log cannot be read.
    """
    data = launch.data
    rows, rows_from = sample_rows(data)
    logged: list[tuple[int, rollouts.Rollout]] = []
    log: dict[str, Any] = {}
    if logs:
        matched = rollouts.match(rollouts.read_rollouts(logs), every_row(data), data.prompt_key)
        logged = [(len(rows) + row, item) for row, item in matched.texts]
        rows = [*rows, *matched.rows]
        log = {"given": matched.given, "unmatched": matched.unmatched, "left_out": matched.left}
    wanted = min(MADE_ROWS_AT_MOST, max(MADE_ROWS_AT_LEAST, budget // CASES_A_MADE_ROW))
    made = variants(rows, (*mined.keys, *data.extra_info_keys), wanted, mined.literals)
    written = write_rows(rows, made, folder)
    own = [_as_prompted(row, data) for row in written.rows]
    further = [replace(variant, row=_as_prompted(variant.row, data)) for variant in written.made]
    family = texts.family_of(str(launch.get("actor_rollout_ref.model.path", "")))
    given = make_cases(
        own,
        launch.reward,
        mined,
        prompt_key=data.prompt_key,
        family=family,
        budget=cases,
        made=further,
        logged=[(written.place[row], item.text) for row, item in logged],
    )
    tools = tool_names(launch)
    given = [replace(case, told=told.values(keys, tools, number)) for number, case in enumerate(given)]
    return Inputs(
        files=written.files,
        rows=own,
        rows_from=rows_from,
        made=further,
        family=family,
        mined=mined,
        cases=given,
        logged=[item for _, item in logged],
        log=log,
    )


def tool_names(launch: Launch) -> list[str]:
    """Names of the tools that the model may call."""
    return [tool.name for tool in launch.multi_turn.tools] if launch.multi_turn else []


def scored_as_logged(inputs: Inputs, cases: Sequence[Case], records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many logged responses the old reward scores as the log says: a test of the oracle itself.

    Returns:
        What was given, found again and left out; `cases` that were compared, `scored` ones with a score in the log,
        `same_score` of them, and the first `other` ones.
    """
    scores = {(case.row, case.raw): number(r["score"]) for case, r in zip(cases, records, strict=True) if "score" in r}
    logged = [case for case in inputs.cases if case.family == "logged"]
    known = {(case.row, case.raw): item.score for case, item in zip(logged, inputs.logged, strict=False)}
    other = []
    for (row, raw), score in known.items():
        found = scores.get((row, raw))
        if score is not None and (found is None or abs(found - score) > ALIKE * max(1.0, abs(score))):
            other.append({"row": row, "response": raw[-300:], "logged": score, "oracle": found})
    scored = sum(score is not None for score in known.values())
    return {
        **inputs.log,
        "cases": len(known),
        "scored": scored,
        "same_score": scored - len(other),
        "other": other[:5],
    }


def _as_prompted(row: dict[str, Any], data: DataSpec) -> dict[str, Any]:
    return {**row, data.prompt_key: prompt_of(row, data.prompt_key, data.prompt_form)}
