"""A second round of cases that brings the accepted and the rejected side nearer to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from migrate_tools.model import RewardSpec
from migrate_tools.parity import forms, texts
from migrate_tools.parity.cases import FILLER, Case, answers_of, both_texts
from migrate_tools.parity.values import number

HOLE = "\x1a"
DECORATIONS = ("{}", FILLER + "{}", "{}\n\n")
"""Put round a response in turn, so that few rows give many cases."""
WANTED = 0.4
"""Share that the smaller side should reach."""


def accepted(record: Mapping[str, Any]) -> bool:
    """True when the old reward gave a positive number."""
    if record["kind"] != "value":
        return False
    score = number(record["score"])
    return score is not None and score > 0


def shares(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Accepted and rejected share among the records that have a value."""
    valued = [record for record in records if record["kind"] == "value"]
    good = sum(map(accepted, valued))
    total = max(len(valued), 1)
    return {"accepted": round(good / total, 3), "rejected": round((len(valued) - good) / total, 3)}


def more_cases(
    rows: Sequence[Mapping[str, Any]],
    spec: RewardSpec,
    first: Sequence[Case],
    records: Sequence[Mapping[str, Any]],
    *,
    prompt_key: str,
    family: texts.Family,
    budget: int,
) -> list[Case]:
    """Accepted responses rewritten for other rows; with wrong values when the rejected side is the small one."""
    good = [case for case, record in zip(first, records, strict=True) if accepted(record)]
    few_rejected = len(good) > len(first) * (1 - WANTED)
    if not good or (not few_rejected and len(good) >= len(first) * WANTED):
        return []
    answers = [answers_of(row) for row in rows]
    templates = _templates(good, answers)
    seen = {(case.row, case.raw) for case in first}
    made: list[Case] = []
    for turn in range(len(rows) * 6):
        for position, template in enumerate(templates):
            row = (turn + position) % len(rows)
            value = answers[row][turn // len(rows) % len(answers[row])]
            if few_rejected:
                value = forms.wrong_for(value)
            raw = DECORATIONS[turn // len(rows) % 3].format(template.replace(HOLE, value))
            if (row, raw) in seen:
                continue
            seen.add((row, raw))
            old, new = both_texts(raw, rows[row].get(prompt_key), spec, family)
            made.append(Case(row, "balance", raw, old, new, max(1, len(raw) // 4) + 1))
            if len(made) >= budget:
                return made
    return made


def _templates(good: Sequence[Case], answers: Sequence[list[str]]) -> list[str]:
    """Accepted responses with their value cut out; as they are when the value does not stand in them."""
    templates: dict[str, None] = {}
    for case in good:
        if len(case.raw) > 4000:
            continue
        value = next((value for value in answers[case.row] if value and value in case.raw), None)
        templates.setdefault(case.raw.replace(value, HOLE) if value else case.raw)
    return list(templates)[:120]
