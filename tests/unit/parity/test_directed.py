"""Inputs that tell faulty scorers apart: the changes of a text, and a search that finds what the plain cases miss."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from migrate_tools.parity import directed_edits
from migrate_tools.parity.directed_edits import CHANGES, Material

MATERIAL = Material(["42", "-7"], ["9"], ["####", "<answer>"], [60], ["#### 5"])


@pytest.mark.parametrize("change", dict.fromkeys(CHANGES))
def test_every_change_changes_something_and_is_the_same_again(change: directed_edits.Change) -> None:
    raw = "<think>First 3.</think> So\n#### 42"
    made = [change(raw, MATERIAL, Random(seed)) for seed in range(30)]
    assert made == [change(raw, MATERIAL, Random(seed)) for seed in range(30)]
    assert len(set(made) - {raw}) >= 2
    for seed in range(30):
        assert isinstance(change("", MATERIAL, Random(seed)), str)


def test_a_blank_thought_is_among_the_changes() -> None:
    made = {directed_edits._hollow("<think>a</think>", MATERIAL, Random(seed)) for seed in range(40)}
    assert {"<think> </think>", "<think></think>", "<think>\n</think>"} <= made


SCORER = """
    import re

    def compute_score(data_source, solution_str, ground_truth, extra_info=None):
        found = re.findall(r"Result\\\\s*:\\\\s*(-?\\\\d+(?:\\\\.\\\\d+)?)", solution_str)
        if not found:
            return 0.0
        number = int(float(found[-1]) * 4) / 4
        return 1.0 if abs(number - 3) < 0.3 else 0.2
"""


@pytest.mark.jail
def test_what_the_plain_cases_miss_is_looked_for(bench: Callable[..., Any]) -> None:
    made = bench(SCORER.replace("\\\\", "\\"))
    frozen = made.freeze(cases=60)

    directed = [case for case in frozen.cases() if case["family"] == "directed"]
    assert frozen.meta["directed"]["found"] == len(directed) >= 1
    assert frozen.meta["directed"].get("missed", 0) <= 2
