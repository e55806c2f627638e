"""Several launches in one folder: each is checked with its own reward, equal work is done once."""

from __future__ import annotations

import pytest
from e2e_tools import Migrate, flags_of

pytestmark = pytest.mark.e2e


def test_each_launch_names_and_is_checked_with_its_own_reward(migrate: Migrate) -> None:
    outcome = migrate("several_launches")
    assert (outcome.code, outcome.document["verdict"]) == (0, "rehearsed")
    hooks = {name: flags_of(outcome.text(f"run_several_launches_{name}.sh"))["--custom-rm-path"] for name in NAMES}
    assert hooks["last"] == hooks["last_slow"] == [f"{BASE}_last.reward_func"]
    assert hooks["first"] == [f"{BASE}.reward_func"]
    summaries = {check["name"]: check["summary"] for check in outcome.check(3)}
    assert "cases agree" in summaries["parity:run_first"]
    assert "cases agree" in summaries["parity:run_last"]
    assert summaries["parity:run_last_slow"].startswith("same reward, rows and cases as run_last: ")


NAMES = ("first", "last", "last_slow")
BASE = "examples.several_launches.reward_several_launches"
