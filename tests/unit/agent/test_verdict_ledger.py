"""Which facts earn which verdict, and that nothing of the recipe gets lost."""

from __future__ import annotations

import pytest
from agent_fakes import launch_value, recipe_value
from migrate_agent.ledger import balance, differences, other_items, other_lines
from migrate_agent.verdict import decide
from migrate_tools.model import (
    CheckResult,
    CheckStatus,
    Conserved,
    DataSpec,
    Note,
    Risk,
    SourceRef,
    Status,
    Translated,
    Translation,
    Verdict,
)


def translation(
    status: Status = "exact", risk: Risk = "none", cap: Verdict = "verified", launch: str = "run_a"
) -> Translation:
    settings = tuple(
        Translated(key=item.key, value=item.value, source=item.source, status=status, risk=risk)
        for item in launch_value(launch).settings
    )
    return Translation(launch=launch, algo="toy", verdict_cap=cap, settings=settings)


def check(rung: int, status: CheckStatus = "passed") -> CheckResult:
    return CheckResult(name=f"rung{rung}", rung=rung, status=status)


CPU = [check(rung) for rung in range(4)]


@pytest.mark.parametrize(
    ("item", "checks", "verdict"),
    [
        (translation(), [*CPU, check(7)], "verified"),
        (translation(), [*CPU, check(7, "skipped")], "rehearsed"),
        (translation(), [*CPU, check(4, "skipped")], "rehearsed"),
        (translation(), CPU, "rehearsed"),
        (translation("approximate", "training"), CPU, "rehearsed"),
        (translation("unsupported", "speed"), CPU, "rehearsed"),
        (translation("unsupported", "training"), CPU, "partial"),
        (translation("unknown"), CPU, "partial"),
        (translation(), [*CPU, check(6, "failed")], "partial"),
        (translation(), [*CPU, check(3, "not_checkable")], "partial"),
        (translation(), [*CPU, check(7, "failed")], "partial"),
        (translation(), [], "partial"),
        (translation(cap="partial"), [*CPU, check(7)], "partial"),
        (translation(cap="rehearsed"), [*CPU, check(7)], "rehearsed"),
        (translation(cap="refused"), CPU, "refused"),
    ],
)
def test_verdict(item: Translation, checks: list[CheckResult], verdict: Verdict) -> None:
    assert decide([item], checks) == verdict


def test_no_launch_is_refused_and_some_refused_is_partial() -> None:
    assert decide([], CPU) == "refused"
    assert decide([translation(), translation(cap="refused", launch="run_b")], CPU) == "partial"


def test_ledger_counts_by_status() -> None:
    (line,) = balance(recipe_value(), (translation("derived"),))
    assert (line.read, line.counts["derived"], line.counts["exact"]) == (2, 2, 0)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("lost", "setting trainer.foo at run_a.sh:5 has no state"),
        ("twice", "setting data.train_batch_size at run_a.sh:4 has a state too many"),
    ],
)
def test_ledger_names_what_does_not_balance(change: str, named: str) -> None:
    item = translation()
    settings = {"lost": item.settings[:1], "twice": (*item.settings, item.settings[0])}[change]
    (line,) = balance(recipe_value(), (item.model_copy(update={"settings": settings}),))
    assert line.difference == (named,)
    assert differences([line]) == (f"ledger of settings: {named}",)


def test_a_setting_that_moved_to_another_line_does_not_balance() -> None:
    item = translation()
    settings = (item.settings[0], item.settings[1].model_copy(update={"source": None}))
    (line,) = balance(recipe_value(), (item.model_copy(update={"settings": settings}),))
    assert len(line.difference) == 2


def test_ledger_names_lost_and_invented_launches() -> None:
    lines = balance(
        recipe_value(launch_value("run_a"), launch_value("run_b")), (translation(), translation(launch="x"))
    )
    assert [line.difference for line in lines] == [
        (),
        ("launch run_b was read and not translated",),
        ("launch x was not read from the recipe",),
    ]


def reward_items(*states: str) -> tuple[Conserved, ...]:
    source = SourceRef(file="reward.py", line=4)
    return tuple(Conserved(area="reward_branch", name="a == b", state=state, source=source) for state in states)


def test_other_areas_are_counted_by_state() -> None:
    launch = launch_value().model_copy(
        update={
            "environment": {"VLLM_USE_V1": "1", "MY_OWN": "x", "NCCL_DEBUG": "INFO"},
            "data": DataSpec(
                columns={"prompt": "string", "reward_model": "struct", "images": "list", "n": "int64"},
                multimodal=("images",),
            ),
        }
    )
    recipe = recipe_value(launch).model_copy(
        update={"shell_features": (Note(code="shell-side-effect", text="`rm` removes files"),)}
    )
    lines = other_lines(other_items(recipe, {"run_a": reward_items("kept", "kept", "dropped")}))
    assert [(line.area, line.read, line.counts, line.difference) for line in lines] == [
        ("reward branches", 3, {"dropped": 1, "kept": 2}, ()),
        ("columns", 4, {"kept": 1, "label": 1, "media": 1, "prompt": 1}, ()),
        ("environment", 3, {"left_to_user": 2, "verl_only": 1}, ()),
        ("side effects of scripts", 1, {"not_carried": 1}, ()),
    ]


def test_a_lost_branch_is_named() -> None:
    (line,) = other_lines(other_items(recipe_value(), {"run_a": reward_items("kept", "lost")}))
    assert (line.read, line.counts) == (2, {"kept": 1})
    assert line.difference == ("a == b (reward.py:4): ",)
