"""The rehearsed samples beside the report."""

from __future__ import annotations

from pathlib import Path

from migrate_agent.evidence import copy_rollouts, rollout_data


def test_the_rehearsed_samples_of_each_launch_are_shipped(tmp_path: Path) -> None:
    for launch, mode in (("run_a", "sync"), ("run_a", "async"), ("run b", "sync")):
        folder = tmp_path / "work" / "rehearsal" / launch / mode / "rollout"
        folder.mkdir(parents=True)
        (folder / "0.pt").write_bytes(launch.encode())
    assert list(rollout_data(tmp_path / "work")) == ["rollout/run_b/0.pt", "rollout/run_a/0.pt"]
    copy_rollouts(tmp_path / "work", tmp_path / "migration")
    assert (tmp_path / "migration" / "rollout" / "run_a" / "0.pt").read_bytes() == b"run_a"
