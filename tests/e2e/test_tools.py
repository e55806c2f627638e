"""A recipe with tools: environment, rollout, and their proof."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from e2e_tools import Migrate, flags_of
from migrate_agent.cli import run_cli

pytestmark = pytest.mark.e2e


def test_tools_are_migrated_and_rehearsed(migrate: Migrate) -> None:
    outcome = migrate("tools_checker")
    assert outcome.is_rehearsed, outcome.document["reasons"]
    (tools,) = outcome.check(4)
    assert tools["status"] == "passed"
    assert tools["evidence"]["conversations"] >= 50
    assert tools["evidence"]["answered"] >= 40
    for check in outcome.check(6):
        turns = check["evidence"]["turns"]
        assert turns["samples_with_results"] >= 16
        assert set(turns["num_turns"]) == {"2", "4", "8"}
    flags = flags_of(outcome.text("run_tools_checker.sh"))
    assert flags["--custom-generate-function-path"] == ["examples.tools_checker.rollout_tools_checker.generate"]
    assert outcome.setting("actor_rollout_ref.rollout.multi_turn.enable")["status"] == "derived"
    assert outcome.setting("actor_rollout_ref.rollout.multi_turn.max_parallel_calls")["status"] == "exact"


@pytest.mark.parametrize(
    ("old", "new", "rung", "found"),
    [
        ("MAX_PARALLEL_CALLS = 2", "MAX_PARALLEL_CALLS = 1", 4, "conversations differ: several calls: turn 1"),
        ('KEEP = "both"', 'KEEP = "head"', 4, "conversations differ: "),
        ('ERRORS = "plain"', 'ERRORS = "named"', 4, "conversations differ"),
        ("CREATE_KWARGS = True", "CREATE_KWARGS = False", 4, "conversations differ: "),
        ("= getattr(args, \"max_turns\", MAX_ASSISTANT_TURNS)", "= None", 4, "conversations differ: many turns"),
        ("if done and not observation:\n", "if True:\n", 6, "no result of a tool reached a sample"),
        ("episode.add(seen, 0,", "episode.add(seen, 1,", 6, "trained tokens are not those that the engine returned"),
    ],
)  # fmt: skip
def test_a_faulty_environment_is_caught(
    migrate: Migrate, tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, rung: int, found: str
) -> None:
    root = tmp_path / "root"
    shutil.copytree(migrate("tools_checker").root, root)
    folder = root / "examples" / "tools_checker"
    changed = 0
    for path in (folder / "env_tools_checker.py", folder / "rollout_tools_checker.py"):
        text = path.read_text()
        changed += old in text
        path.write_text(text.replace(old, new))
    assert changed == 1
    assert run_cli(["verify", str(folder), "--json", "--sandbox", "bubblewrap", "--rung", str(rung)]) == 1
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert {check["rung"] for check in checks} == {rung}
    failed = [check for check in checks if check["status"] == "failed"]
    assert failed, checks
    assert any(found in check["summary"] for check in failed), failed


def test_a_simulated_user_is_migrated_and_rehearsed(migrate: Migrate) -> None:
    outcome = migrate("user_quiz")
    assert outcome.is_rehearsed, outcome.document["reasons"]
    (users,) = outcome.check(4)
    assert users["status"] == "passed"
    families = users["evidence"]["families"]
    assert min(families[name] for name in ("user: right answer", "user: right at last", "user: wrong answers")) >= 8
    assert [check["status"] for check in outcome.check(6)] == ["passed", "passed"]
    setting = outcome.setting("actor_rollout_ref.rollout.multi_turn.interaction_config_path")
    assert setting["status"] == "derived"


def test_images_of_tools_are_compared_and_sent(migrate: Migrate) -> None:
    pytest.importorskip("PIL")
    outcome = migrate("tools_zoom")
    assert outcome.is_rehearsed, outcome.document["reasons"]
    (tools,) = outcome.check(4)
    assert (tools["status"], tools["evidence"]["images"] >= 4) == ("passed", True)
    assert all(check["evidence"]["turns"]["samples_with_results"] >= 8 for check in outcome.check(6))
