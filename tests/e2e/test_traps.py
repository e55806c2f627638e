"""Known traps of moving recipes between frameworks, each as the smallest recipe that shows it.

The numbers R01 to R30 are those of the recipes' folders. Every test asserts the right value, not just that a run ends.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import yaml
from e2e_tools import Migrate, Outcome, flags_of, planned

pytestmark = pytest.mark.e2e


def agrees(outcome: Outcome) -> bool:
    """Whether parity compared something and found no difference."""
    parity = outcome.document["parity"]
    return bool(parity and parity["cases"] >= 20 and parity["mismatches"] == 0)


def commands_with(words: str) -> list[str]:
    """Processes of this machine whose command line holds these words, separated by NUL."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if words.encode() in path.read_bytes():
                found.append(path.parent.name)
    return found


def script_of(outcome: Outcome) -> dict[str, list[str]]:
    return flags_of(outcome.text(f"run_{outcome.algo}.sh"))


@pytest.mark.parametrize("launch", ["run_mixed.sh", "run_partial.sh"])
def test_r01_mixed_returns_become_one_shape(migrate: Migrate, launch: str) -> None:
    outcome = migrate("r01_mixed_returns", launch)
    assert 'EXTRA_KEYS = {"acc": 0.0, "fmt": 0.0}' in outcome.text("reward_r01_mixed_returns.py")
    assert outcome.document["verdict"] == "rehearsed"
    assert script_of(outcome)["--reward-key"] == ["score"]
    assert agrees(outcome)


def test_r02_a_scorer_with_signals_leaves_the_event_loop(migrate: Migrate) -> None:
    outcome = migrate("r02_signal_timeout")
    reward = outcome.text("reward_r02_signal_timeout.py")
    assert outcome.document["verdict"] == "rehearsed"
    assert "multiprocessing" in reward
    (parity,) = outcome.check(3)
    assert parity["evidence"]["accepted"] > 0.25  # signals outside the main thread would make every reward 0
    assert parity["evidence"]["lists"]["problems"] == []
    assert agrees(outcome)


def test_r03_an_unmatched_data_source_is_an_error_with_value_and_count(migrate: Migrate) -> None:
    outcome = migrate("r03_unmatched_source")
    assert outcome.code == 2
    for split in ("train", "test"):
        for named in ("'/home/me/data/gsm8k' (6 rows of", "'' (2 rows of", "'mirror/gsm8k' (3 rows of"):
            assert f"{named} data/{split}.parquet)" in outcome.errors
    assert "select no scorer in verl/utils/reward_score/__init__.py" in outcome.errors
    assert not (outcome.root / "examples").exists()


@pytest.mark.parametrize("launch", ["run_kwargs.sh", "run_swapped.sh"])
def test_r04_parameters_are_passed_by_name(migrate: Migrate, launch: str) -> None:
    outcome = migrate("r04_parameters", launch)
    assert outcome.document["verdict"] == "rehearsed"
    assert agrees(outcome)


@pytest.mark.parametrize(
    ("launch", "said"),
    [
        ("run_two_parameters.sh", "does not run in verl either"),
        ("run_two_parameters.sh", "it does not take data_source, extra_info"),
        ("run_raw_columns.sh", "no column prompt and no column reward_model (it has question, answer)"),
        ("run_raw_columns.sh", "examples/data_preprocess/gsm8k.py"),
    ],
)
def test_r04_what_fails_in_verl_is_refused_by_name(migrate: Migrate, launch: str, said: str) -> None:
    outcome = migrate("r04_parameters", launch)
    assert outcome.code == 2
    assert said in outcome.errors
    assert not (outcome.root / "examples").exists()


@pytest.mark.parametrize("launch", ["run_plain.sh", "run_callable.sh", "run_decorated.sh"])
def test_r05_every_kind_of_async_reward_is_awaited(migrate: Migrate, launch: str) -> None:
    outcome = migrate("r05_async", launch)
    assert "async def reward_func(" in outcome.text("reward_r05_async.py")
    assert {check["status"] for check in outcome.check(6)} == {"passed"}
    (parity,) = outcome.check(3)
    if launch == "run_plain.sh":
        assert outcome.document["verdict"] == "rehearsed"
        assert agrees(outcome)
    else:  # verl asks iscoroutinefunction, which says no here, and never awaits what it gets
        assert parity["status"] == "not_checkable"
        assert "not 'coroutine'" in parity["summary"]


def test_r06_a_reward_that_hangs_is_bounded(migrate: Migrate) -> None:
    outcome = migrate("r06_hanging")
    (parity,) = outcome.check(3)
    assert outcome.is_rehearsed, outcome.document["reasons"]
    assert "CALL_SECONDS = 300.0" in outcome.text("reward_r06_hanging.py")
    assert parity["evidence"]["timed_out_on_both"] >= 1
    assert parity["evidence"]["compared"] + parity["evidence"]["timed_out_on_both"] <= parity["evidence"]["cases"]
    assert agrees(outcome)
    assert not commands_with("sleep\0003600.06")


def test_r08_the_reward_key_is_always_there(migrate: Migrate) -> None:
    outcome = migrate("r08_reward_key", "run_dict.sh")
    assert outcome.document["verdict"] == "rehearsed"
    assert script_of(outcome)["--reward-key"] == ["score"]
    assert agrees(outcome)


def test_r08_a_batch_function_of_the_wrong_length_does_not_pass(migrate: Migrate) -> None:
    outcome = migrate("r08_reward_key", "run_short_batch.sh")
    (parity,) = outcome.check(3)
    assert (outcome.code, outcome.document["verdict"]) == (1, "partial")
    assert parity["status"] == "not_checkable"
    assert "does not run in verl either" in parity["summary"]
    assert "the batch function returned 0 values for 1 rows" in parity["summary"]


def test_r09_a_scorer_that_verl_never_lets_accept_is_not_passed(migrate: Migrate) -> None:
    outcome = migrate("r09_special_tokens", "run_end_token.sh")
    assert outcome.document["verdict"] == "partial"
    (parity,) = outcome.check(3)
    assert parity["status"] == "not_checkable"
    assert "the old reward accepted none of them" in parity["summary"]


@pytest.mark.parametrize("launch", ["run_end_token.sh", "run_think.sh"])
def test_r09_the_scorer_sees_the_text_that_verl_gives(migrate: Migrate, launch: str) -> None:
    outcome = migrate("r09_special_tokens", launch)
    assert outcome.is_rehearsed is (launch == "run_think.sh"), outcome.document["reasons"]
    assert "--rollout-skip-special-tokens" in script_of(outcome)
    assert "<|im_end|>" in outcome.text("reward_r09_special_tokens.py")
    assert agrees(outcome)


def test_r09_an_old_fork_scores_prompt_and_response_with_their_markers(migrate: Migrate) -> None:
    outcome = migrate("r09_old_fork", "run_whole.sh")
    reward = outcome.text("reward_r09_old_fork.py")
    assert outcome.is_rehearsed, outcome.document["reasons"]
    assert outcome.document["verl"]["version"] == "0.1"
    assert "SPECIAL_TOKENS = ()" in reward
    assert "prompt + (sample.response or" in reward
    assert not {"--rollout-skip-special-tokens", "--apply-chat-template"} & script_of(outcome).keys()
    (parity,) = outcome.check(3)
    assert parity["evidence"]["accepted"] > 0.1  # a text without its prompt would make the scorer raise everywhere
    assert agrees(outcome)


@pytest.mark.parametrize("launch", ["run_two_sources.sh", "run_two_files.sh"])
def test_r15_data_source_and_labels_of_any_type_arrive(migrate: Migrate, launch: str) -> None:
    outcome = migrate("r15_metadata", launch)
    flags = script_of(outcome)
    assert outcome.document["verdict"] == "rehearsed"
    assert (flags["--label-key"], flags["--metadata-key"]) == (["label"], ["extra_info"])
    assert agrees(outcome)


def test_r17_on_policy_makes_one_update_a_rollout() -> None:
    flags = planned("r17_batch_units", "run_units.sh").flags
    assert flags["--rollout-batch-size"] == "128"
    assert flags["--n-samples-per-prompt"] == "8"
    assert flags["--global-batch-size"] == "1024"
    assert flags["--save-interval"] == "80"
    assert flags["--eval-interval"] == "20"


def test_r17_faithful_keeps_the_step_of_verl() -> None:
    plan = planned("r17_batch_units", "run_units.sh", "--batch-policy", "faithful")
    assert plan.flags["--rollout-batch-size"] == "512"
    assert plan.flags["--n-samples-per-prompt"] == "8"
    assert plan.flags["--global-batch-size"] == "1024"
    assert plan.flags["--save-interval"] == "20"
    assert plan.translation["batch"]["updates_per_rollout"] == 4


def test_r17_what_does_not_divide_stops_with_the_numbers() -> None:
    plan = planned("r17_batch_units", "run_indivisible.sh")
    assert plan.code == 2
    (why,) = plan.translation["refusals"]
    assert "512" in why
    assert "96" in why


def test_r17_a_fork_with_its_own_group_key_counts_the_mini_batch_in_samples() -> None:
    plan = planned("r09_old_fork", "run_agents.sh", "--batch-policy", "faithful")
    assert plan.flags["--rollout-batch-size"] == "512"
    assert plan.flags["--n-samples-per-prompt"] == "5"
    assert plan.flags["--global-batch-size"] == "320"
    assert plan.translation["batch"]["updates_per_rollout"] == 8
    fresh = planned("r09_old_fork", "run_agents.sh")
    assert fresh.flags["--rollout-batch-size"] == "64"
    assert fresh.flags["--global-batch-size"] == "320"


def test_r17_a_mini_batch_above_the_train_batch_is_one_update_in_old_versions_only() -> None:
    plan = planned("r09_old_fork", "run_wide.sh")
    assert plan.flags["--rollout-batch-size"] == "64"
    assert plan.flags["--global-batch-size"] == "256"
    assert any("makes one update of the whole batch" in note["text"] for note in plan.translation["notes"])
    new = planned("r17_batch_units", "run_wide.sh")
    assert new.code == 2
    assert (
        "512 prompts is more than data.train_batch_size=64 prompts; verl refuses this too"
        in new.translation["refusals"][0]
    )


def test_r18_flags_win_over_comments() -> None:
    plan = planned("r18_comment")
    flags = plan.flags
    assert flags["--rollout-batch-size"] == "100"
    assert flags["--n-samples-per-prompt"] == "8"
    assert flags["--global-batch-size"] == "800"
    (step,) = [row for row in plan.translation["effective"] if row["name"] == "samples a step"]
    assert step["verl"] == "100 prompts x 8 = 800 samples"


def test_r21_only_the_active_kl_is_carried_over() -> None:
    flags = planned("r21_kl", "run_loss.sh").flags
    assert "--use-kl-loss" in flags
    assert flags["--kl-loss-coef"] == "0.001"
    assert flags["--kl-loss-type"] == "low_var_kl"
    assert float(flags.get("--kl-coef") or 0) == 0.0
    assert "--ref-load" in flags


def test_r21_a_switched_off_kl_stays_off() -> None:
    flags = planned("r21_kl", "run_off.sh").flags
    assert "--use-kl-loss" not in flags
    assert float(flags.get("--kl-coef") or 0) == 0.0


def test_r21_old_versions_put_kl_into_the_reward_and_grpo_in_relax_does_not() -> None:
    plan = planned("r21_kl_old")
    assert plan.read["verl"]["version"] == "0.2.0.post2"
    assert plan.translation["verdict_cap"] == "partial"
    assert "--use-kl-loss" not in plan.flags
    assert plan.settings["algorithm.kl_ctrl.kl_coef"]["status"] == "unsupported"
    (kl,) = [row for row in plan.translation["effective"] if row["name"] == "KL"]
    assert (kl["verl"], kl["same"]) == ("in the reward, 0.001 x k1", False)
    assert any("KL in the reward" in note["text"] for note in plan.translation["notes"])


def test_r21_without_a_switch_an_old_tree_puts_its_default_kl_into_the_reward() -> None:
    plan = planned("r09_old_fork", "run_kl_off.sh")
    assert plan.translation["verdict_cap"] == "partial"
    assert "--use-kl-loss" not in plan.flags
    (kl,) = [row for row in plan.translation["effective"] if row["name"] == "KL"]
    assert (kl["verl"], kl["same"]) == ("in the reward, 0.001 x k1", False)
    assert any("has no algorithm.use_kl_in_reward" in note["text"] for note in plan.translation["notes"])


def test_r22_no_key_is_lost() -> None:
    plan = planned("r22_prefixes")
    assert plan.settings["data.foo"]["status"] == "unknown"
    assert plan.settings["data.foo"]["source"]["line"] == 30
    assert plan.settings["trainer.bar"]["status"] == "unknown"
    assert plan.settings["data.shuffle"]["reason"].startswith("removed from verl's configuration by ~")
    assert plan.settings["actor_rollout_ref.actor.ppo_micro_batch_size"]["status"] == "derived"
    assert plan.settings["actor_rollout_ref.actor.fsdp_config.grad_offload"]["status"] in {"no_effect", "automatic"}
    assert plan.settings["trainer.val_generations_to_log_to_wandb"]["status"] in {"no_effect", "unsupported"}
    assert plan.settings["data.shuffle"]["status"] != "unknown"
    assert plan.settings["trainer.save_freq"]["value"] == 40
    assert plan.flags["--save-interval"] == "80"


@pytest.mark.parametrize(
    ("launch", "names", "loggers"),
    [
        ("run_quoted.sh", ["a b/x.parquet", "y.parquet"], ["console", "wandb"]),
        ("run_unquoted.sh", ["x.parquet", "y.parquet"], ["console"]),
        ("run_escaped.sh", ["x.parquet", "y.parquet"], ["console", "wandb"]),
    ],
)
def test_r23_quoting_does_not_change_a_list(launch: str, names: list[str], loggers: list[str]) -> None:
    settings = planned("r23_quoting", launch).settings
    assert [path.removeprefix("$HOME/data/") for path in settings["data.train_files"]["value"]] == names
    assert settings["trainer.logger"]["value"] == loggers


def test_r24_kwargs_cannot_override_a_flag_and_every_flag_is_known(migrate: Migrate) -> None:
    outcome = migrate("r24_colliding_kwargs")
    config = yaml.safe_load(outcome.text("r24_colliding_kwargs_config.yaml"))
    assert config == {"r24_colliding_kwargs_lr": 0.1, "r24_colliding_kwargs_bonus": 0.5}
    assert [float(word) for word in script_of(outcome)["--lr"]] == [1e-6]
    assert all(check["status"] == "passed" for check in outcome.check(1))
    assert agrees(outcome)


def test_r30_epochs_checkpoints_and_evaluation() -> None:
    plan = planned("r30_schedule", "run_epochs.sh")
    assert plan.flags["--num-epoch"] == "3"
    for absent in ("--num-rollout", "--save-interval", "--eval-interval", "--eval-prompt-data"):
        assert absent not in plan.flags
    assert plan.flags["--hf-checkpoint"] == '"${MODEL_DIR}/Qwen2.5-0.5B"'
    assert plan.settings["trainer.test_freq"]["reason"]
    assert plan.settings["trainer.total_epochs"]["relax"] == ["--num-epoch"]


def test_r30_kl_needs_a_reference_and_a_local_model_is_named() -> None:
    plan = planned("r30_schedule", "run_kl.sh")
    assert plan.flags["--ref-load"] == plan.flags["--hf-checkpoint"] == '"${MODEL_DIR}/Qwen2.5-0.5B"'
    assert plan.flags["--kl-loss-coef"] == "0.002"
    assert "--use-kl-loss" in plan.flags
    assert plan.settings["actor_rollout_ref.model.path"]["value"] == "$HOME/models/Qwen2.5-0.5B"
