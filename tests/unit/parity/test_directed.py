"""Inputs that tell faulty scorers apart: the changes of a text, and a search that finds what the plain cases miss."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from migrate_tools.parity import directed, directed_edits
from migrate_tools.parity.directed_edits import CHANGES, Material

MATERIAL = Material(
    ["42", "-7"], ["9"], ["####", "<answer>"], [60], ["#### 5"], ["Total"], [("So", "Thus"), ("42", "x")], [7, 9]
)


@pytest.mark.parametrize("change", dict.fromkeys(CHANGES))
def test_every_change_changes_something_and_is_the_same_again(change: directed_edits.Change) -> None:
    raw = '<think>First 3.</think> So {"x": 1}\n#### 42'
    made = [change(raw, MATERIAL, Random(seed)) for seed in range(30)]
    assert made == [change(raw, MATERIAL, Random(seed)) for seed in range(30)]
    assert len(set(made) - {raw}) >= 2
    for seed in range(30):
        assert isinstance(change("", MATERIAL, Random(seed)), str)


def test_a_blank_thought_is_among_the_changes() -> None:
    made = {directed_edits._hollow("<think>a</think>", MATERIAL, Random(seed)) for seed in range(40)}
    assert {"<think> </think>", "<think></think>", "<think>\n</think>"} <= made


SCORER = """
    def compute_score(data_source, solution_str, ground_truth, extra_info=None):
        text = solution_str.strip().lower()
        return 1.0 if text == str(ground_truth).lower() else 0.0
"""


@pytest.mark.jail
def test_what_the_given_cases_miss_is_looked_for(bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = directed.search

    def with_few(*places: Any, **named: Any) -> Any:
        *first, cases = places
        return whole(*first, [case for case in cases if case.raw in ("Paris", "72", "no idea")], **named)

    monkeypatch.setattr(directed, "search", with_few)
    frozen = bench(SCORER).freeze(cases=60)

    made = [case["raw"] for case in frozen.cases() if case["family"] == "directed"]
    assert frozen.meta["directed"].get("found") == len(made) >= 2, frozen.meta["directed"]
    assert any(raw != raw.strip() for raw in made)
    assert any(raw.strip() not in ("Paris", "72") for raw in made)
