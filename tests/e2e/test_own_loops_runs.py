"""A recipe with an agent loop of its own becomes a generate function that holds in the rehearsal's drills."""

from __future__ import annotations

import pytest
from e2e_tools import Migrate, flags_of

pytestmark = pytest.mark.e2e


def test_a_loop_becomes_a_generate_function(migrate: Migrate) -> None:
    outcome = migrate("own_loop")
    sync, other = outcome.check(6)
    assert (sync["status"], other["status"]) == ("passed", "passed")
    drills = sync["evidence"]["drills"]
    assert (drills["episodes"], drills["aborts"]) == (64, 14)
    assert "drills" not in other["evidence"]
    flags = flags_of(outcome.text("run_own_loop.sh"))
    assert flags["--custom-generate-function-path"] == ["examples.own_loop.rollout_own_loop.generate"]
    assert outcome.setting("actor_rollout_ref.rollout.agent.agent_loop_config_path")["status"] == "derived"
    data = outcome.root / "examples" / "own_loop" / "migration" / "rollout" / "run_loop" / "0.pt"
    assert data.stat().st_size > 10_000
