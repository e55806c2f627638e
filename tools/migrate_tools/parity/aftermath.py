"""What each framework makes of the rewards: the tensor, and the advantages of a group of responses.

verl puts every score into a float32 tensor and sums it over the tokens, then takes (r - mean) / (std + 1e-6) within the
responses of a prompt, with the unbiased std, or the score itself where a prompt has one response (verl 0.9.1
verl/trainer/ppo/core_algos.py, compute_grpo_outcome_advantage). Relax makes a tensor of the column that
get_reward_value gave and normalises by group_index in the same way (Relax contract, section 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from migrate_tools.parity.values import number, type_name
from migrate_tools.parity.verdicts import CaseVerdict

EPSILON = np.float32(1e-6)
CLOSE = 1e-5
"""Largest difference of two advantages that counts as rounding (they are of the order of one)."""
SHOWN = 10
Z95 = 1.959963984540054


def compare_groups(
    cases: Sequence[dict[str, Any]],
    olds: Sequence[dict[str, Any]],
    news: Sequence[dict[str, Any]],
    verdicts: Sequence[CaseVerdict],
    *,
    group: int,
) -> dict[str, Any]:
    """Groups of responses to one row, through both frameworks: how many, the largest difference, what differs.

    Args:
        group: responses in a group; a rest that is smaller is left out, as Relax wants whole groups.
    """
    rows: dict[int, list[int]] = {}
    for index, verdict in enumerate(verdicts):
        both = olds[index]["kind"] == "value" and news[index]["kind"] == "value"
        if both and verdict.kind in ("same", "declared"):
            rows.setdefault(cases[index]["row"], []).append(index)
    groups = [
        members[start : start + group]
        for members in rows.values()
        for start in range(0, len(members) - group + 1, group)
    ]
    problems: list[str] = []
    largest = 0.0
    for members in groups:
        old = verl_advantages([_score(olds[index]) for index in members])
        column = relax_column([news[index]["score"] for index in members])
        if column.dtype != np.float32:
            problems.append(f"row {cases[members[0]]['row']}: the column of rewards is of type {column.dtype}")
            continue
        new = relax_advantages(column)
        apart = ~((old == new) | (np.isnan(old) & np.isnan(new)) | (np.abs(old - new) <= CLOSE))
        with np.errstate(invalid="ignore"):
            largest = max(largest, float(np.nanmax(np.abs(old - new), initial=0.0)))
        for position in np.flatnonzero(apart)[:1]:
            problems.append(
                f"case {members[position]}: advantage {float(old[position])} in verl, {float(new[position])} in Relax"
            )
    return {"groups": len(groups), "size": group, "largest": largest, "problems": problems[:SHOWN]}


def _score(record: dict[str, Any]) -> float:
    value = number(record["score"])
    return math.nan if value is None else value


def verl_advantages(scores: Sequence[float]) -> NDArray[np.float32]:
    """Advantages of one group of scores in verl (grpo, std normalised), in float32."""
    with np.errstate(all="ignore"):
        column = np.asarray(scores, dtype=np.float32)
        if len(column) == 1:
            return column / (np.float32(1.0) + EPSILON)
        return np.asarray((column - column.mean()) / (column.std(ddof=1) + EPSILON), dtype=np.float32)


def relax_column(rewards: Sequence[Any]) -> NDArray[Any]:
    """The column of encoded rewards as Relax's tensor has it: of bools when the first one is a bool, else float32."""
    values = [number(item) for item in rewards]
    numbers = [math.nan if value is None else value for value in values]
    if rewards and type_name(rewards[0]) == "bool":
        return np.asarray(numbers, dtype=bool)
    with np.errstate(all="ignore"):
        return np.asarray(numbers, dtype=np.float32)


def relax_advantages(column: NDArray[np.float32]) -> NDArray[np.float32]:
    """Advantages of one whole group in Relax (grpo), in float32."""
    with np.errstate(all="ignore"):
        centred = column - column.mean(dtype=np.float32)
        if len(column) == 1:
            return np.asarray(centred, dtype=np.float32)
        return np.asarray(centred / (column.std(ddof=1, dtype=np.float32) + EPSILON), dtype=np.float32)


def wilson(wrong: int, count: int) -> float:
    """Upper end of Wilson's 95 % interval for a share of `wrong` in `count`.

    Raises:
        ValueError: there is nothing to count.
    """
    if count < 1:
        raise ValueError("no cases")
    share, square = wrong / count, Z95 * Z95 / count
    centre = share + square / 2
    spread = Z95 * math.sqrt(share * (1 - share) / count + square / (4 * count))
    return round(min(1.0, (centre + spread) / (1 + square)), 6)
