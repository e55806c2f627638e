"""Which facts earn which verdict, and that nothing of the recipe gets lost."""

from __future__ import annotations

import pytest
from agent_fakes import launch_value, recipe_value
from migrate_agent.ledger import LedgerError, balance
from migrate_agent.verdict import decide
from migrate_tools.model import CheckResult, CheckStatus, Risk, Status, Translated, Translation, Verdict


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


@pytest.mark.parametrize("change", ["lost", "twice", "other_line"])
def test_ledger_notices_what_does_not_balance(change: str) -> None:
    item = translation()
    settings = {
        "lost": item.settings[:1],
        "twice": (*item.settings, item.settings[0]),
        "other_line": (item.settings[0], item.settings[1].model_copy(update={"source": None})),
    }[change]
    with pytest.raises(LedgerError, match="data.train_batch_size" if change == "twice" else "trainer.foo"):
        balance(recipe_value(), (item.model_copy(update={"settings": settings}),))


def test_ledger_notices_a_lost_launch() -> None:
    with pytest.raises(LedgerError, match="run_b"):
        balance(recipe_value(launch_value("run_a"), launch_value("run_b")), (translation(),))
