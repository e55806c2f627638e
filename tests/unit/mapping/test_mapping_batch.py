"""Batch algebra: units, policies, divisibility, forks, over-sampling, micro batches."""

from __future__ import annotations

from typing import Any

import pytest
from mapping_launches import ACTOR, ROLLOUT, Make, flag_values, outcome
from migrate_tools.model import Overlong, RewardSpec

MINI, TRAIN, GROUP = ACTOR + "ppo_mini_batch_size", "data.train_batch_size", ROLLOUT + "n"


def sizes(item: Any) -> tuple[int, int, int, int, int]:
    batch = item.batch
    return (
        batch.rollout_batch_size,
        batch.n_samples_per_prompt,
        batch.global_batch_size,
        batch.updates_per_rollout,
        batch.rollouts_per_verl_step,
    )


def test_r17_on_policy(make: Make) -> None:
    item = make()
    assert sizes(item) == (128, 8, 1024, 1, 4)
    values = flag_values(item)
    assert values["--rollout-batch-size"] == "128"
    assert values["--n-samples-per-prompt"] == "8"
    assert values["--global-batch-size"] == "1024"


def test_r17_faithful(make: Make) -> None:
    item = make(policy="faithful")
    assert sizes(item) == (512, 8, 1024, 4, 1)
    assert any(decision.choice == "faithful" and "on-policy" in decision.switch for decision in item.decisions)


def test_r17_fork_counts_the_mini_batch_in_samples(make: Make) -> None:
    item = make({GROUP: 1, ROLLOUT + "n_agent": 5, MINI: 256})
    assert sizes(item) == (512, 5, 256, 10, 1)
    assert outcome(item, GROUP)[0] == "no_effect"
    assert any(note.code == "batch-mini-in-samples" for note in item.notes)
    # Relax's data loader wants whole groups in an update: what would do is named.
    (reason,) = item.cap_reasons
    assert "10 updates of 256 samples cut the 512 groups of 5 apart" in reason
    assert "--global-batch-size 320 (8 updates) or --global-batch-size 160 (16 updates)" in reason


def test_fork_with_whole_groups_can_be_on_policy(make: Make) -> None:
    item = make({GROUP: 1, "agent_grpo.n": 16, TRAIN: 256, MINI: 4096})
    assert sizes(item) == (256, 16, 4096, 1, 1)


def test_old_verl_makes_one_update_of_a_batch_below_the_mini_batch(make: Make) -> None:
    item = make({TRAIN: 8, MINI: 256}, version="0.1")
    assert sizes(item) == (8, 8, 64, 1, 1)
    assert any(note.code == "batch-mini-above-train" for note in item.notes)


def test_the_fully_asynchronous_trainer_is_refused_by_name(make: Make) -> None:
    item = make({TRAIN: 0}, module="verl.experimental.fully_async_policy.fully_async_main")
    assert "fully asynchronous trainer" in item.refusals[0]


def test_equal_sizes_make_both_policies_one(make: Make) -> None:
    changes = {TRAIN: 128}
    assert sizes(make(changes)) == sizes(make(changes, policy="faithful")) == (128, 8, 1024, 1, 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({TRAIN: 100, MINI: 30}, ("100", "800", "240")),
        ({TRAIN: 128, MINI: 1024}, ("1024", "128", "verl refuses this too")),
        ({TRAIN: "$TRAIN_BATCH"}, ("$TRAIN_BATCH", "run_grpo.sh:3", "not a number")),
    ],
)
def test_impossible_sizes_are_refused_with_the_numbers(
    make: Make, changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    item = make(changes)
    assert item.verdict_cap == "refused"
    assert item.flags == ()
    assert all(word in item.refusals[0] for word in words), item.refusals
    assert len(item.settings) == 5


def test_several_passes_over_a_batch_cap_the_verdict(make: Make) -> None:
    item = make({ACTOR + "ppo_epochs": 2})
    assert outcome(item, ACTOR + "ppo_epochs") == ("unsupported", "training")
    assert item.verdict_cap == "partial"


def test_group_filter_becomes_over_sampling(make: Make) -> None:
    changes = {
        "algorithm.filter_groups.enable": True,
        "algorithm.filter_groups.metric": "acc",
        "algorithm.filter_groups.max_num_gen_batches": 10,
        "data.gen_batch_size": 1536,
    }
    faithful, fresh = flag_values(make(changes, policy="faithful")), flag_values(make(changes))
    assert faithful["--over-sampling-batch-size"] == "1536"
    assert fresh["--over-sampling-batch-size"] == "384"
    assert fresh["--dynamic-sampling-filter-path"] == "examples.gsm8k.hooks_gsm8k.keep_varied_groups"
    assert make(changes).hooks[0].constants == {"FILTER_METRIC": "acc"}
    assert next(row for row in make(changes).effective if row.name == "group filter").same
    assert outcome(make(changes), "algorithm.filter_groups.metric")[0] == "exact"


@pytest.mark.parametrize(
    ("metric", "overlong", "status"),
    [
        ("score", False, "exact"),
        ("seq_reward", False, "exact"),
        ("seq_reward", True, "exact"),
        ("score", True, "approximate"),
        ("seq_final_reward", False, "approximate"),
    ],
)
def test_group_filter_by_the_trained_reward_is_relax_own(make: Make, metric: str, overlong: bool, status: str) -> None:
    key = "algorithm.filter_groups.metric"
    penalty = Overlong(max_resp_len=512, buffer_len=64, penalty_factor=1.0) if overlong else None
    reward = RewardSpec(kind="custom", path="reward.py", function="compute_score", overlong=penalty)
    item = make({"algorithm.filter_groups.enable": True, key: metric}, reward=reward)
    assert flag_values(item)["--dynamic-sampling-filter-path"].endswith("check_reward_nonzero_std")  # type: ignore[union-attr]
    assert outcome(item, key)[0] == status


def test_filter_that_is_off_writes_nothing(make: Make) -> None:
    item = make({"algorithm.filter_groups.enable": False, "data.gen_batch_size": 1536})
    assert "--over-sampling-batch-size" not in flag_values(item)
    assert outcome(item, "data.gen_batch_size")[0] == "approximate"


def test_dynamic_batch_and_fixed_micro_batch(make: Make) -> None:
    dynamic = flag_values(make({ACTOR + "use_dynamic_bsz": True, ACTOR + "ppo_max_token_len_per_gpu": 24000}))
    assert dynamic["--max-tokens-per-gpu"] == "24000"
    assert "--use-dynamic-batch-size" in dynamic
    assert "--micro-batch-size" not in dynamic
    fixed = flag_values(make({ACTOR + "ppo_micro_batch_size_per_gpu": 16}))
    assert fixed["--micro-batch-size"] == "16"
    assert "--use-dynamic-batch-size" not in fixed


def test_micro_batch_that_does_not_divide_is_lowered(make: Make) -> None:
    # 128 x 8 = 1024 samples on 2 ranks: 512 a rank; 30 -> 16 is the next divisor.
    assert flag_values(make({ACTOR + "ppo_micro_batch_size_per_gpu": 30}))["--micro-batch-size"] == "16"


def test_old_micro_batch_counts_all_ranks(make: Make) -> None:
    # 64 samples over 8 GPUs / tensor 4 = 2 ranks.
    assert flag_values(make({ACTOR + "ppo_micro_batch_size": 64}))["--micro-batch-size"] == "32"
