"""Cases made for survivors, and what a rollout of several turns tells the reward."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from migrate_tools.model import MultiTurn
from migrate_tools.parity import compare, power, told
from migrate_tools.parity.frozen import FrozenCases
from migrate_tools.parity.row_changes import RowChange, leaves, split, told_after
from parity_wrapper import WRAPPER

CLIPPED = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    end = solution_str[-300:]
    return 1.0 if f"answer: {ground_truth}" in end else 0.0
"""
EXACT = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return 1.0 if solution_str == ground_truth else 0.0
"""
TURNS = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    turns = extra_info.get("num_turns") or 2
    late = sum(extra_info.get("tool_rewards") or [])
    return (1.0 if solution_str.strip() == ground_truth else 0.0) - 0.125 * max(0, turns - 6) + late
"""
TELLING = WRAPPER.replace(
    "    try:\n", '    extra = {"num_turns": 2, **extra, **extra.pop("verl_rollout", {})}\n    try:\n', 1
)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, undirected: None) -> None:
    """Power is measured, on cases that were not looked for."""
    monkeypatch.setattr(compare, "POWER_SECONDS", 60.0)


def weakened(made: Any, monkeypatch: pytest.MonkeyPatch, kept: Callable[[dict[str, Any]], bool]) -> FrozenCases:
    """The closed oracle of a bench, of which only cases with some responses are shown."""
    frozen: FrozenCases = made.freeze(cases=40)
    frozen.meta["telling"].clear()  # type: ignore[attr-defined]
    pairs = [pair for pair in zip(frozen.cases(), frozen.outcomes(), strict=True) if kept(pair[0])]
    own = frozen.folder
    for name, place in (("cases", 0), ("outcomes", 1)):
        whole = getattr(FrozenCases, name)
        few = [pair[place] for pair in pairs]
        monkeypatch.setattr(FrozenCases, name, lambda it, few=few, whole=whole: few if it.folder == own else whole(it))
    return frozen


@pytest.mark.jail
@pytest.mark.usefixtures("few")
def test_an_input_that_shows_a_survivor_is_put_to_both_sides(
    bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bench(CLIPPED)
    result = compare.run_parity(made, made.launch, weakened(made, monkeypatch, lambda case: len(case["raw"]) < 200))

    power, asked = result.evidence["power"], result.evidence["follow_up"]
    assert result.status == "passed", result.summary
    assert power["follow_up"] >= 1
    assert power["survivors"] == []
    assert asked["compared"] == asked["cases"] >= 1
    assert "by follow-up cases" in result.summary


@pytest.mark.jail
@pytest.mark.usefixtures("few")
def test_a_fault_that_only_follow_up_cases_see_fails_the_check(
    bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bench(EXACT, EXACT.replace("solution_str ==", "solution_str.strip() =="))
    result = compare.run_parity(
        made, made.launch, weakened(made, monkeypatch, lambda case: case["raw"] == case["raw"].strip())
    )

    assert result.status == "failed"
    assert "follow-up cases, made for seeded faults and edits, differ" in result.summary
    first = result.evidence["first_mismatches"][0]
    assert (first["old"], first["new"]) == (0.0, 1.0)
    assert result.evidence["smallest"]


@pytest.mark.jail
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("known", [False, True], ids=["rules unknown", "rules known"])
def test_an_edit_is_searched_for_where_it_differs_from_the_rules(
    bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    made = bench(CLIPPED, CLIPPED.replace("-300", "-317"))
    frozen = weakened(made, monkeypatch, lambda case: len(case["raw"]) < 200)
    name = "examples/demo/reward_demo.py"
    draft = (made.stage / name).read_text("utf-8")
    made.by_rules = {name: draft.replace("-317", "-300")} if known else {}
    monkeypatch.setattr(power, "seed_faults", lambda code: [])
    result = compare.run_parity(made, made.launch, frozen)

    assert result.status == ("failed" if known else "passed"), result.summary
    assert ("edited" in result.evidence) == known
    if known:
        assert result.evidence["edited"]["places"] == 1
        assert (result.evidence["first_mismatches"][0]["old"], result.evidence["first_mismatches"][0]["new"]) == (
            0.0,
            1.0,
        )


@pytest.mark.jail
@pytest.mark.usefixtures("few")
def test_a_difference_on_a_made_row_comes_with_its_test_file(
    bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bench(EXACT, EXACT.replace("== ground_truth", "== ground_truth.strip()"))
    name = "examples/demo/reward_demo.py"
    made.by_rules = {name: (made.stage / name).read_text("utf-8").replace(".strip()", "")}
    frozen = weakened(made, monkeypatch, lambda case: case["row"] < 5)
    result = compare.run_parity(made, made.launch, frozen)

    assert result.status == "failed"
    assert "follow_up" in result.evidence
    assert all(item["row"] >= 5 for item in result.evidence["smallest"])
    written = re.search(r"^CASES = (\[.*?^\])", result.evidence["pytest"], re.M | re.S)
    assert written is not None
    (_, label, _, _, response, *_), *_ = eval(written[1])
    assert label != label.strip()
    assert response.startswith(label.strip())


@pytest.mark.jail
@pytest.mark.usefixtures("few")
def test_an_edit_that_changes_nothing_passes(bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made = bench(CLIPPED, CLIPPED.replace("1.0 if", "float(True) if"))
    name = "examples/demo/reward_demo.py"
    made.by_rules = {name: (made.stage / name).read_text("utf-8").replace("float(True) if", "1.0 if")}
    result = compare.run_parity(made, made.launch, made.freeze(cases=40))

    assert result.status == "passed", result.summary
    assert result.evidence["edited"]["shown"] == 0
    assert result.evidence["edited"]["tried"] > 1000
    assert "edited in 1 place since the rules wrote it: no difference on" in result.summary


@pytest.mark.jail
def test_a_power_that_is_not_known_is_not_passed(bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten of thirty faults ran, all were caught: too few to say so, and no reason to call the cases weak."""
    monkeypatch.setattr(compare, "POWER_SECONDS", 60.0)
    counted = {"seeded": 30, "caught": 10, "unshown": 0, "not_run": 20}
    _, why = power.verdict(counted)
    known = {**counted, "follow_up": 0, "beyond": [], "verdict": "unknown", "verdict_why": why}
    monkeypatch.setattr(power, "measure", lambda *_: ({"power": known}, None))
    made = bench(CLIPPED)
    result = compare.run_parity(made, made.launch, made.freeze(cases=40))

    assert result.status == "not_checkable"
    assert "20 of 30 seeded porting faults were not run in time, 10 caught" in result.summary


def several_turns(made: Any) -> Any:
    launch = made.launch.model_copy(update={"multi_turn": MultiTurn()})
    made.launch, made.recipe = launch, made.recipe.model_copy(update={"launches": (launch,)})
    return made


@pytest.mark.jail
@pytest.mark.parametrize(
    ("wrapper", "status"),
    [
        (TELLING, "passed"),
        (TELLING.replace('**extra.pop("verl_rollout", {})', "**{}"), "failed"),
        (
            TELLING.replace('extra.pop("verl_rollout", {})', '{**extra.pop("verl_rollout", {}), "tool_rewards": []}'),
            "failed",
        ),
    ],
    ids=["handed on", "lost", "one key lost"],
)
def test_both_sides_get_what_the_rollout_tells(bench: Callable[..., Any], wrapper: str, status: str) -> None:
    made = several_turns(bench(TURNS, wrapper=wrapper, num_turns=2))
    frozen = made.freeze(cases=60)
    result = compare.run_parity(made, made.launch, frozen)

    assert result.status == status, (result.summary, result.evidence.get("first_mismatches"))
    values = [told.read(case["told"]) for case in frozen.cases()]
    assert {value.get("num_turns") for value in values} == {None, *told.TURNS}
    assert all(value.keys() == {"num_turns", "tool_rewards", "turn_scores"} for value in values if value)


def test_values_differ_from_case_to_case_and_some_rollouts_tell_nothing() -> None:
    names = ("num_turns", "tool_rewards", "rollout_reward_scores")
    texts = [told.values(names, ("look", "add"), number) for number in range(16)]
    assert [number for number, text in enumerate(texts) if not text] == [7, 15]
    assert len(set(texts)) > 12
    assert told.read(texts[0]) == {
        "num_turns": 2,
        "tool_rewards": [0.5, -0.25],
        "rollout_reward_scores": {"look": 0.5, "add": -0.1},
    }
    assert told.values((), (), 0) == ""
    assert told.default(names, ("look",))["tool_rewards"]  # items to change


def test_the_batch_of_verl_holds_it_in_columns() -> None:
    told_values = {"num_turns": 4, "tool_rewards": [1.0], "turn_scores": [], "rollout_reward_scores": {"look": 1.0}}
    assert told.as_columns(told_values) == {
        "__num_turns__": 4,
        "tool_extra_fields": {"tool_rewards": [1.0], "turn_scores": []},
        "reward_scores": {"look": 1.0},
    }
    assert told.as_columns({}) == {}


def test_what_is_told_is_changed_like_a_column() -> None:
    row = {"extra_info": {"num_turns": 9}, told.COLUMN: {"num_turns": 3, "tool_rewards": [1.0, 0.5]}}
    found = {leaf.path: leaf.value for leaf in leaves(row, ["tool_rewards"])}
    assert found == {
        (told.COLUMN, "tool_rewards"): [1.0, 0.5],
        (told.COLUMN, "tool_rewards", 0): 1.0,
        (told.COLUMN, "tool_rewards", 1): 0.5,
    }
    changes = [RowChange((told.COLUMN, "tool_rewards", 1), -1.0), RowChange(("extra_info", "num_turns"), 1)]
    own, of_told = split(changes)
    assert own == changes[1:]
    assert json.loads(told_after(row[told.COLUMN], "", of_told)) == {"num_turns": 3, "tool_rewards": [1.0, -1.0]}
    assert told_after(row[told.COLUMN], '{"num_turns": 5}', []) == '{"num_turns": 5}'
    assert row[told.COLUMN]["tool_rewards"] == [1.0, 0.5]
