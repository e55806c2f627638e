"""Estimators, refusals by name, clipping, aggregation, rollout correction."""

from __future__ import annotations

from typing import Any

import pytest
from mapping_launches import ACTOR, ROLLOUT, Make, flag_values, outcome

ESTIMATOR, LOSS = "algorithm.adv_estimator", ACTOR + "policy_loss.loss_mode"
IS = "algorithm.rollout_correction."


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, "grpo"),
        ({LOSS: "gspo"}, "gspo"),
        ({LOSS: "sapo"}, "sapo"),
        ({LOSS: "cispo"}, "cispo"),
        ({ESTIMATOR: "rloo"}, "rloo"),
        ({ESTIMATOR: "gae"}, "ppo"),
        ({ESTIMATOR: "AdvantageEstimator.GRPO"}, "grpo"),
    ],
)
def test_estimator(make: Make, changes: dict[str, Any], wanted: str) -> None:
    item = make(changes)
    assert flag_values(item)["--advantage-estimator"] == wanted


@pytest.mark.parametrize("name", ["gpg", "opo", "remax", "grpo_passk", "gdpo", "optimal_token_baseline", "my_own"])
def test_estimators_that_relax_lacks_are_refused_by_name(make: Make, name: str) -> None:
    item = make({ESTIMATOR: name})
    assert item.verdict_cap == "refused"
    assert f"{ESTIMATOR}={name}" in item.refusals[0]
    assert outcome(item, ESTIMATOR) == ("unsupported", "training")


@pytest.mark.parametrize("name", ["clip_cov", "kl_cov", "geo_mean", "dppo_tv", "gvpo", "my_own"])
def test_losses_that_relax_lacks_are_refused_by_name(make: Make, name: str) -> None:
    item = make({LOSS: name})
    assert item.verdict_cap == "refused"
    assert f"{LOSS}={name}" in item.refusals[0]


@pytest.mark.parametrize(
    ("module", "word"),
    [
        ("recipe.spin.main_spin", "SPIN"),
        ("recipe.sppo.main_sppo", "SPPO"),
        ("recipe.prime.main_prime", "PRIME"),
        ("recipe.gvpo.gvpo_main_ppo", "GVPO"),
        ("recipe.flowrl.main_flowrl", "FlowRL"),
    ],
)
def test_trainers_that_relax_lacks_are_refused_by_name(make: Make, module: str, word: str) -> None:
    item = make(module=module)
    assert item.verdict_cap == "refused"
    assert word in item.refusals[0]


def test_an_unknown_trainer_caps_the_verdict(make: Make) -> None:
    item = make(module="recipe.mine.main_mine")
    assert item.verdict_cap == "partial"
    assert any("recipe.mine.main_mine" in note.text for note in item.notes)


def test_ppo_has_a_critic_in_colocate_and_no_async(make: Make) -> None:
    item = make({ESTIMATOR: "gae", ROLLOUT + "n": 1, "critic.optim.lr": 1e-5, "trainer.critic_warmup": 3})
    values = flag_values(item)
    assert '"critic": [1, 8]' in (values["--resource"] or "")
    assert values["--critic-lr"] == "1e-05"
    assert values["--num-critic-only-steps"] == "12"
    assert "colocate mode only" in item.async_refusal
    assert not [flag for flag in item.flags if flag.group == "ASYNC"]


def test_rloo_obeys_its_rules(make: Make) -> None:
    item = make({ESTIMATOR: "rloo"}, policy="faithful")
    values = flag_values(item)
    assert item.batch is not None
    assert item.batch.rollout_batch_size * 8 == item.batch.global_batch_size
    assert "--calculate-per-token-loss" in values
    assert (values["--max-staleness"], values["--kl-coef"]) == ("0", "0.0")
    assert item.async_refusal


def test_rloo_with_a_mean_per_sample_is_named(make: Make) -> None:
    item = make({ESTIMATOR: "rloo", ACTOR + "loss_agg_mode": "seq-mean-token-mean"})
    assert outcome(item, ACTOR + "loss_agg_mode") == ("unsupported", "training")
    assert "--calculate-per-token-loss" in flag_values(item)


def test_rloo_with_kl_in_the_reward_is_named(make: Make) -> None:
    item = make({ESTIMATOR: "rloo", "algorithm.use_kl_in_reward": True})
    assert outcome(item, "algorithm.use_kl_in_reward") == ("unsupported", "training")
    assert flag_values(item)["--kl-coef"] == "0.0"


def test_reinforce_plus_plus_flags(make: Make) -> None:
    item = make({ESTIMATOR: "reinforce_plus_plus", "algorithm.use_kl_in_reward": True})
    values = flag_values(item)
    assert "--normalize-advantages" in values
    assert values["--gamma"] == "1.0"
    assert "--calculate-per-token-loss" not in values
    assert item.async_refusal
    assert item.verdict_cap == "partial"  # token-mean is verl's default, which this estimator refuses


@pytest.mark.parametrize(
    ("mode", "per_token", "status"),
    [
        ("token-mean", True, "exact"),
        ("seq-mean-token-mean", False, "automatic"),
        ("seq-mean-token-sum", False, "unsupported"),
        ("seq-mean-token-sum-norm", False, "unsupported"),
    ],
)
def test_loss_aggregation(make: Make, mode: str, per_token: bool, status: str) -> None:
    item = make({ACTOR + "loss_agg_mode": mode})
    assert ("--calculate-per-token-loss" in flag_values(item)) is per_token
    assert outcome(item, ACTOR + "loss_agg_mode")[0] == status


def test_gspo_always_averages_per_sequence(make: Make) -> None:
    item = make({LOSS: "gspo", ACTOR + "loss_agg_mode": "token-mean"})
    assert "--calculate-per-token-loss" not in flag_values(item)
    assert outcome(item, ACTOR + "loss_agg_mode")[0] == "no_effect"
    assert next(row for row in item.effective if row.name == "loss aggregation").same


def test_clipping(make: Make) -> None:
    item = make({ACTOR + "clip_ratio": 0.3, ACTOR + "clip_ratio_high": 0.28, ACTOR + "clip_ratio_c": 10.0})
    values = flag_values(item)
    assert (values["--eps-clip"], values["--eps-clip-high"], values["--eps-clip-c"]) == ("0.2", "0.28", "10.0")
    assert outcome(item, ACTOR + "clip_ratio")[0] == "no_effect"
    assert outcome(item, ACTOR + "clip_ratio_c") == ("approximate", "training")


def test_clip_ratio_counts_where_low_and_high_are_absent(make: Make) -> None:
    item = make({ACTOR + "clip_ratio": 0.3}, drop=(ACTOR + "clip_ratio_low", ACTOR + "clip_ratio_high"), version="0.2")
    values = flag_values(item)
    assert (values["--eps-clip"], values["--eps-clip-high"]) == ("0.3", "0.3")


def test_dr_grpo(make: Make) -> None:
    item = make({"algorithm.norm_adv_by_std_in_grpo": False})
    assert "--disable-grpo-std-normalization" in flag_values(item)
    assert next(row for row in item.effective if row.name == "advantage normalisation").same


def test_token_importance_weights(make: Make) -> None:
    item = make({IS + "rollout_is": "token", IS + "rollout_is_threshold": 3.0})
    values = flag_values(item)
    assert "--use-tis" in values
    assert (values["--tis-clip"], values["--tis-clip-low"]) == ("3.0", "0.0")
    assert next(row for row in item.effective if row.name == "importance weights").same


@pytest.mark.parametrize(
    "changes", [{IS + "rollout_is": "sequence"}, {IS + "rollout_rs": "token", IS + "rollout_rs_threshold": "0.5_2.0"}]
)
def test_other_rollout_correction_is_named(make: Make, changes: dict[str, Any]) -> None:
    item = make(changes)
    assert "--use-tis" not in flag_values(item)
    assert item.verdict_cap == "partial"


def test_template_values_of_the_guide_are_not_defaults(make: Make) -> None:
    values = flag_values(make())
    assert values["--eps-clip-high"] == "0.2"
    assert "--use-tis" not in values
    assert (values["--adam-beta2"], values["--weight-decay"]) == ("0.999", "0.01")


def test_sapo_temperatures_are_those_that_verl_reads(make: Make) -> None:
    item = make({LOSS: "sapo", ACTOR + "tau_neg": 1.1, ACTOR + "policy_loss.tau_pos": 2.0})
    values = flag_values(item)
    assert (values["--sapo-tau-pos"], values["--sapo-tau-neg"]) == ("1.0", "1.1")


def test_a_reward_model_is_refused(make: Make) -> None:
    from migrate_tools.model import RewardSpec

    item = make({"reward_model.enable": True}, reward=RewardSpec(kind="model"))
    assert item.verdict_cap == "refused"
