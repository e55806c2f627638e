"""What the manager of each release adds to extra_info, as its source says; and a row without extra_info."""

from __future__ import annotations

from typing import Any

import pytest
from migrate_tools.model import DataSpec, Launch, RewardSpec, SourceCount
from migrate_tools.relax.reward_module import render_reward
from migrate_tools.verl.extract import Extracted
from migrate_tools.verl.manager_added import added
from migrate_tools.verl.source import wheel

SCORER = "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n    return 1.0\n"


def launch_of(version: str, manager: str) -> Launch:
    """A launch of one release; an agent loop generates."""
    return Launch(
        name="run",
        script="run.sh",
        module="verl.trainer.main_ppo",
        config={"trainer.experiment_name": "trial"},
        verl=wheel(version),
        reward=RewardSpec(kind="custom", path="r.py", function="compute_score", manager=manager, num_turns=2),
        data=DataSpec(sources=(SourceCount(name="demo", split="train"),)),
    )


@pytest.mark.parametrize(
    ("version", "manager", "keys", "acc", "none", "dicts"),
    [
        ("0.3.0.post1", "naive", {}, False, True, False),
        ("0.5.0", "naive", {"num_turns": 2}, False, False, True),
        ("0.5.0", "dapo", {}, True, True, True),
        ("0.6.1", "naive", {"num_turns": 2, "rollout_reward_scores": {}}, False, False, True),
        ("0.6.1", "dapo", {"rollout_reward_scores": {}}, True, False, True),
        ("0.6.1", "batch", {"rollout_reward_scores": {}}, False, False, True),
        ("0.9.1", "dapo", {}, True, False, True),
        ("0.9.1", "gdpo", {"experiment_name": "trial"}, True, False, True),
        ("0.9.1", "limited", {"turn_scores": [], "tool_rewards": []}, True, False, True),
        (
            "0.9.1",
            "naive",
            {"turn_scores": [], "tool_rewards": [], "num_turns": 2, "rollout_reward_scores": {}},
            True,
            False,
            True,
        ),
    ],
)
def test_facts_of_a_manager_by_release(
    version: str, manager: str, keys: dict[str, Any], acc: bool, none: bool, dicts: bool
) -> None:
    facts = added(launch_of(version, manager))
    assert (facts.keys, facts.logs_acc, facts.none_for_missing, facts.takes_dict) == (keys, acc, none, dicts)


@pytest.mark.parametrize(
    ("version", "manager", "expected"),
    [
        ("0.5.0", "dapo", None),
        ("0.9.1", "dapo", {}),
        ("0.6.1", "dapo", {"rollout_reward_scores": {}}),
    ],
)
def test_a_row_without_extra_info_gives_what_verl_gives(version: str, manager: str, expected: Any) -> None:
    found = Extracted(code=SCORER, entry="compute_score", is_async=False)
    text = render_reward(launch_of(version, manager), found, algo="demo", config_name="x.yaml")
    names: dict[str, Any] = {"__name__": "reward_demo"}
    exec(compile(text, "reward_demo.py", "exec"), names)
    sample = type("Sample", (), {"metadata": {"data_source": "demo"}, "label": "1", "response": "a", "prompt": "q"})()
    assert names["_request"](sample)["extra_info"] == expected
    sample.metadata = {"data_source": "demo", "index": None, "split": "train"}
    assert {"index": None, "split": "train"}.items() <= names["_request"](sample)["extra_info"].items()
