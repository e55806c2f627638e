"""Algorithms that need generated hooks: written, named by the script, imported, and called in the rehearsal."""

from __future__ import annotations

import pytest
from e2e_tools import Migrate, flags_of

pytestmark = pytest.mark.e2e
BASE = "examples.algorithms.hooks_algorithms"
HOOKS = {
    "dapo": {
        "--dynamic-sampling-filter-path": "keep_varied_groups",
        "--custom-loss-function-path": "dual_clip_loss",
    },
    "rloo": {
        "--custom-reward-post-process-path": "leave_one_out",
        "--custom-loss-function-path": "dual_clip_loss",
    },
    "decoupled": {
        "--custom-reward-post-process-path": "decoupled_rewards",
        "--custom-loss-function-path": "kl_cov_loss",
    },
}


def test_every_launch_gets_its_hooks_and_the_rehearsal_calls_them(migrate: Migrate) -> None:
    outcome = migrate("algorithms", "", "--batch-policy", "faithful")
    assert (outcome.code, outcome.document["verdict"]) == (0, "rehearsed"), outcome.document["reasons"]
    (imports,) = outcome.check(2)
    assert imports["status"] == "passed"
    for name, wanted in HOOKS.items():
        flags = flags_of(outcome.text(f"run_algorithms_{name}.sh"))
        for flag, function in wanted.items():
            (path,) = flags[flag]
            assert path.startswith(BASE)
            assert path.endswith(f".{function}")
            assert f"def {function}(" in outcome.text(path.split(".")[2] + ".py")
            assert path in imports["evidence"]["hooks"]
        evidence = {item["name"]: item for item in outcome.check(6)}[f"rehearsal:run_{name}:sync"]["evidence"]
        assert "--custom-loss-function-path" in evidence["training_hooks"]
        post = wanted.get("--custom-reward-post-process-path")
        assert evidence["normalised"].get("hook", "").rpartition(".")[2] == (post or "")
    assert {"kept", "dropped"} <= {item["name"]: item for item in outcome.check(6)}["rehearsal:run_dapo:sync"][
        "evidence"
    ]["filter"].keys()
