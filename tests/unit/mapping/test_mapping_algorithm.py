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
        ({ESTIMATOR: "rloo"}, "grpo"),
        ({ESTIMATOR: "rloo", LOSS: "gspo"}, "gspo"),
        ({ESTIMATOR: "gae"}, "ppo"),
        ({ESTIMATOR: "AdvantageEstimator.GRPO"}, "grpo"),
    ],
)
def test_estimator(make: Make, changes: dict[str, Any], wanted: str) -> None:
    item = make(changes)
    assert flag_values(item)["--advantage-estimator"] == wanted


@pytest.mark.parametrize("name", ["remax", "optimal_token_baseline", "tir_optimal_token_baseline", "my_own"])
def test_estimators_that_relax_lacks_are_refused_by_name(make: Make, name: str) -> None:
    item = make({ESTIMATOR: name})
    assert item.verdict_cap == "refused"
    assert f"{ESTIMATOR}={name}" in item.refusals[0]
    assert outcome(item, ESTIMATOR) == ("unsupported", "training")


@pytest.mark.parametrize("name", ["gvpo", "bypass_mode", "my_own"])
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


HOOKS = "examples.gsm8k.hooks_gsm8k."
POST_PROCESS = "--custom-reward-post-process-path"
LOSS_HOOK = "--custom-loss-function-path"
REDUCER = "--custom-pg-loss-reducer-function-path"


@pytest.mark.parametrize(
    ("changes", "function", "constants", "asynchronous"),
    [
        ({ESTIMATOR: "rloo"}, "leave_one_out", {"ALONE_TRAINS": True}, True),
        ({ESTIMATOR: "rloo_vectorized"}, "leave_one_out", {"ALONE_TRAINS": False}, True),
        ({ESTIMATOR: "opo"}, "length_weighted_baseline", {}, True),
        ({ESTIMATOR: "grpo_passk"}, "pass_at_k", {"PASS_AT_K_BY_STD": True}, True),
        (
            {ESTIMATOR: "grpo_passk", "algorithm.norm_adv_by_std_in_grpo": False},
            "pass_at_k",
            {"PASS_AT_K_BY_STD": False},
            True,
        ),
        ({ESTIMATOR: "gpg"}, "gpg_advantage", {}, False),
        ({ESTIMATOR: "reinforce_plus_plus", "algorithm.gamma": 0.99}, "discounted_returns", {"GAMMA": 0.99}, False),
        (
            {ESTIMATOR: "gdpo", "algorithm.gdpo_reward_keys": ["a", "b"]},
            "decoupled_rewards",
            {"GDPO_KEYS": ["a", "b"], "GDPO_WEIGHTS": [1.0, 1.0], "GDPO_BY_STD": True},
            False,
        ),
    ],
)
def test_outcome_estimators_become_reward_hooks(
    make: Make, changes: dict[str, Any], function: str, constants: dict[str, Any], asynchronous: bool
) -> None:
    item = make(changes)
    values = flag_values(item)
    assert values[POST_PROCESS] == HOOKS + function
    assert values["--advantage-estimator"] == "grpo"
    assert [(hook.flag, hook.constants) for hook in item.hooks] == [(POST_PROCESS, constants)]
    assert (item.async_refusal == "") is asynchronous
    assert item.verdict_cap == "verified"
    for name in ("estimator", "advantage normalisation"):
        assert next(row for row in item.effective if row.name == name).same


def test_gdpo_without_components_is_refused(make: Make) -> None:
    assert "gdpo_reward_keys" in make({ESTIMATOR: "gdpo"}).refusals[0]


@pytest.mark.parametrize("policy", ["on-policy", "faithful"])
def test_rloo_is_bound_by_none_of_the_rules_of_relax_rloo(make: Make, policy: str) -> None:
    item = make(
        {ESTIMATOR: "rloo", ACTOR + "loss_agg_mode": "seq-mean-token-mean", ACTOR + "use_kl_loss": True}, policy=policy
    )
    assert "--calculate-per-token-loss" not in flag_values(item)
    assert "--use-kl-loss" in flag_values(item)
    assert item.batch is not None
    assert item.batch.policy == policy
    assert item.verdict_cap == "verified"


def test_rloo_with_kl_in_the_reward_is_named(make: Make) -> None:
    item = make({ESTIMATOR: "rloo", "algorithm.use_kl_in_reward": True})
    assert outcome(item, "algorithm.use_kl_in_reward") == ("unsupported", "training")
    assert item.verdict_cap == "partial"


def test_reinforce_plus_plus_without_kl_in_the_reward_whitens_the_raw_reward(make: Make) -> None:
    item = make({ESTIMATOR: "reinforce_plus_plus", ROLLOUT + "n": 1, ACTOR + "use_kl_loss": True})
    values = flag_values(item)
    assert values["--advantage-estimator"] == "grpo"
    assert {"--normalize-advantages", "--disable-rewards-normalization", "--calculate-per-token-loss"} <= set(values)
    assert (values["--kl-loss-coef"], values["--kl-coef"]) == ("0.001", "0.0")
    assert not item.hooks
    assert "fully async" in item.async_refusal
    assert item.verdict_cap == "verified"
    assert next(row for row in item.effective if row.name == "advantage normalisation").same


def test_reinforce_plus_plus_with_kl_in_the_reward(make: Make) -> None:
    item = make({ESTIMATOR: "reinforce_plus_plus", "algorithm.use_kl_in_reward": True})
    values = flag_values(item)
    assert values["--advantage-estimator"] == "reinforce_plus_plus"
    assert {"--normalize-advantages", "--gamma"} <= set(values)
    assert "--calculate-per-token-loss" not in values
    assert values[REDUCER] == HOOKS + "micro_batch_token_mean"
    assert outcome(item, "algorithm.adv_estimator")[0] == "derived"
    assert item.async_refusal


def test_reinforce_plus_plus_baseline_needs_no_kl(make: Make) -> None:
    item = make({ESTIMATOR: "reinforce_plus_plus_baseline"})
    values = flag_values(item)
    assert values["--advantage-estimator"] == "grpo"
    assert {"--normalize-advantages", "--disable-grpo-std-normalization"} <= set(values)
    assert item.verdict_cap == "verified"


def test_gae_is_whitened(make: Make) -> None:
    item = make({ESTIMATOR: "gae", ROLLOUT + "n": 1})
    assert "--normalize-advantages" in flag_values(item)


@pytest.mark.parametrize(
    ("mode", "function", "constants"),
    [
        ("gpg", "gpg_loss", {}),
        ("clip_cov", "clip_cov_loss", {"CLIP_COV_RATIO": 0.01, "CLIP_COV_LOW": 1.0, "CLIP_COV_HIGH": 5.0}),
        ("kl_cov", "kl_cov_loss", {"KL_COV_RATIO": 0.0002, "KL_COV_COEF": 1.0}),
        ("dppo_tv", "tv_bound_loss", {}),
        ("dppo_kl", "binary_kl_bound_loss", {}),
        ("dro", "quadratic_penalty_loss", {"DRO_BETA": 0.1}),
    ],
)
def test_losses_become_loss_hooks(make: Make, mode: str, function: str, constants: dict[str, Any]) -> None:
    policy = ACTOR + "policy_loss."
    item = make({LOSS: mode, policy + "clip_cov_ratio": 0.01, policy + "dro_beta": 0.1})
    values = flag_values(item)
    assert (values["--loss-type"], values[LOSS_HOOK]) == ("custom_loss", HOOKS + function)
    assert item.hooks[0].constants == {**constants, "AGGREGATION": "token-mean"}
    assert outcome(item, LOSS) == ("derived", "none")
    assert outcome(item, policy + "clip_cov_ratio")[0] == ("exact" if mode == "clip_cov" else "no_effect")
    assert item.verdict_cap == "verified"
    assert next(row for row in item.effective if row.name == "estimator").same


def test_geometric_mean_averages_responses(make: Make) -> None:
    item = make({LOSS: "geo_mean"})
    assert flag_values(item)[LOSS_HOOK] == HOOKS + "geometric_mean_loss"
    assert item.hooks[0].constants == {"AGGREGATION": "seq-mean-token-mean"}
    assert "--calculate-per-token-loss" not in flag_values(item)


def test_cispo_is_relax_own_while_the_ratio_is_one(make: Make) -> None:
    assert LOSS_HOOK not in flag_values(make({LOSS: "cispo"}))
    item = make({LOSS: "cispo"}, policy="faithful")
    assert flag_values(item)[LOSS_HOOK] == HOOKS + "clipped_weight_loss"


def test_a_critic_with_another_loss_is_refused(make: Make) -> None:
    item = make({ESTIMATOR: "gae", ROLLOUT + "n": 1, LOSS: "gspo"})
    assert "has a loss of its own" in item.refusals[0]


@pytest.mark.parametrize(
    ("mode", "per_token", "status"),
    [
        ("token-mean", True, "exact"),
        ("seq-mean-token-mean", False, "automatic"),
        ("seq-mean-token-sum", False, "exact"),
        ("seq-mean-token-sum-norm", False, "exact"),
        ("token-sum", False, "exact"),
        ("my-own", False, "unsupported"),
    ],
)
def test_loss_aggregation(make: Make, mode: str, per_token: bool, status: str) -> None:
    item = make({ACTOR + "loss_agg_mode": mode})
    assert ("--calculate-per-token-loss" in flag_values(item)) is per_token
    assert outcome(item, ACTOR + "loss_agg_mode")[0] == status


@pytest.mark.parametrize(
    ("changes", "version", "scale", "by_samples"),
    [
        ({ACTOR + "loss_agg_mode": "token-sum"}, "0.9.1", 1024.0, False),
        ({ACTOR + "loss_agg_mode": "seq-mean-token-sum"}, "0.9.1", 1.0, False),
        ({ACTOR + "loss_agg_mode": "seq-mean-token-sum-norm"}, "0.9.1", 1 / 512, False),
        ({ACTOR + "loss_agg_mode": "seq-mean-token-sum-norm", ACTOR + "loss_scale_factor": 100}, "0.8.0", 0.01, False),
        (
            {ACTOR + "loss_agg_mode": "seq-mean-token-sum-norm", ACTOR + "ppo_micro_batch_size_per_gpu": 4},
            "0.5.0",
            4 / 512,
            False,
        ),
        (
            {ACTOR + "loss_agg_mode": "seq-mean-token-sum-norm", ACTOR + "use_dynamic_bsz": True},
            "0.6.1",
            1 / 512,
            True,
        ),
    ],
)
def test_sums_become_reducers(
    make: Make, changes: dict[str, Any], version: str, scale: float, by_samples: bool
) -> None:
    item = make(changes, version=version)
    assert flag_values(item)[REDUCER] == HOOKS + "token_sum"
    assert item.hooks[0].constants == {"REDUCER_SCALE": scale, "REDUCER_BY_SAMPLES": by_samples}
    assert next(row for row in item.effective if row.name == "loss aggregation").same


@pytest.mark.parametrize("extra", [{ACTOR + "use_kl_loss": True}, {ACTOR + "entropy_coeff": 0.01}])
def test_sums_with_kl_or_entropy_become_a_loss_hook(make: Make, extra: dict[str, Any]) -> None:
    item = make({ACTOR + "loss_agg_mode": "seq-mean-token-sum", **extra})
    assert REDUCER not in flag_values(item)
    assert flag_values(item)[LOSS_HOOK] == HOOKS + "dual_clip_loss"
    assert item.hooks[0].constants["AGGREGATION"] == "seq-mean-token-sum"
    assert next(row for row in item.effective if row.name == "loss aggregation").same


def test_token_mean_of_an_older_verl_is_that_of_micro_batches(make: Make) -> None:
    item = make({ACTOR + "loss_agg_mode": "token-mean"}, version="0.6.1")
    assert outcome(item, ACTOR + "loss_agg_mode") == ("approximate", "none")


def test_gspo_of_0_9_1_reads_the_aggregation(make: Make) -> None:
    item = make({LOSS: "gspo", ACTOR + "loss_agg_mode": "token-mean"})
    assert "--calculate-per-token-loss" in flag_values(item)


def test_gspo_always_averages_per_sequence(make: Make) -> None:
    item = make({LOSS: "gspo", ACTOR + "loss_agg_mode": "token-mean"}, version="0.9.0")
    assert "--calculate-per-token-loss" not in flag_values(item)
    assert outcome(item, ACTOR + "loss_agg_mode")[0] == "no_effect"
    assert next(row for row in item.effective if row.name == "loss aggregation").same


def test_clipping(make: Make) -> None:
    item = make({ACTOR + "clip_ratio": 0.3, ACTOR + "clip_ratio_high": 0.28, ACTOR + "clip_ratio_c": 10.0})
    values = flag_values(item)
    assert (values["--eps-clip"], values["--eps-clip-high"], values["--eps-clip-c"]) == ("0.2", "0.28", "10.0")
    assert outcome(item, ACTOR + "clip_ratio")[0] == "no_effect"
    assert outcome(item, ACTOR + "clip_ratio_c") == ("approximate", "training")


def test_dual_clip_acts_by_the_hook_where_the_ratio_moves(make: Make) -> None:
    item = make({ACTOR + "clip_ratio_c": 10.0}, policy="faithful")
    values = flag_values(item)
    assert (values["--eps-clip-c"], values[LOSS_HOOK]) == ("10.0", HOOKS + "dual_clip_loss")
    assert outcome(item, ACTOR + "clip_ratio_c") == ("exact", "none")
    assert next(row for row in item.effective if row.name == "dual clip").same


def test_dual_clip_cannot_act_with_one_update_a_batch(make: Make) -> None:
    item = make({ACTOR + "clip_ratio_c": 10.0, ACTOR + "ppo_mini_batch_size": 512})
    assert LOSS_HOOK not in flag_values(item)
    assert outcome(item, ACTOR + "clip_ratio_c") == ("automatic", "none")
    assert next(row for row in item.effective if row.name == "dual clip").same


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


OLD_DEFAULTS = {
    "algorithm.rollout_is": False,
    "algorithm.rollout_is_threshold": None,
    "algorithm.rollout_is_threshold_lower": None,
    "algorithm.rollout_is_level": "token",
    "algorithm.rollout_is_mode": "truncate",
    "algorithm.rollout_is_veto_threshold": 1e-4,
}


@pytest.mark.parametrize(
    ("changes", "constants"),
    [
        ({IS + "rollout_is": "sequence"}, {"IS_LEVEL": "sequence"}),
        (
            {IS + "rollout_is": "token", IS + "rollout_is_threshold": "0.5_5.0"},
            {"IS_LEVEL": "token", "IS_LOWER": 0.5, "IS_UPPER": 5.0},
        ),
        ({IS + "rollout_rs": "token_k1", IS + "rollout_rs_threshold": "0.5_2.0"}, {"REJECT": [["token_k1", 0.5, 2.0]]}),
        (
            {IS + "rollout_rs": "token_k1,seq_max_k2", IS + "rollout_rs_threshold": "2.0,3"},
            {"REJECT": [["token_k1", 0.5, 2.0], ["seq_max_k2", None, 3.0]]},
        ),
        (
            {IS + "rollout_rs": "geometric", IS + "rollout_rs_threshold": 1.25,
             IS + "rollout_token_veto_threshold": 1e-4},
            {"REJECT": [["seq_mean_ratio", 0.8, 1.25]], "VETO": 1e-4},
        ),
        (
            {**OLD_DEFAULTS, "algorithm.rollout_is": True, "algorithm.rollout_is_threshold": 4.0,
             "algorithm.rollout_is_level": "geometric", "algorithm.rollout_is_mode": "mask"},
            {"IS_LEVEL": "geometric", "IS_LOWER": 0.25, "IS_UPPER": 4.0, "VETO": 1e-4},
        ),
    ],
)  # fmt: skip
def test_other_rollout_correction_becomes_a_hook(
    make: Make, changes: dict[str, Any], constants: dict[str, Any]
) -> None:
    item = make(changes)
    values = flag_values(item)
    assert "--use-tis" in values
    assert values["--custom-tis-function-path"] == HOOKS + "rollout_correction"
    none = {"IS_LEVEL": "none", "IS_LOWER": None, "IS_UPPER": 2.0, "REJECT": [], "VETO": None}
    assert item.hooks[0].constants == {**none, **constants}
    assert item.verdict_cap == "verified"
    assert next(row for row in item.effective if row.name == "importance weights").same


@pytest.mark.parametrize(
    "changes",
    [
        {IS + "rollout_is": "geometric"},
        {IS + "rollout_is": "token", IS + "rollout_is_threshold": "high"},
        {IS + "rollout_rs": "token_k1,seq_max_k2", IS + "rollout_rs_threshold": "1,2,3"},
        {IS + "rollout_rs": "seq_max_k1", IS + "rollout_rs_threshold": "2"},
        {IS + "rollout_is": "token", IS + "rollout_is_batch_normalize": True},
    ],
)
def test_rollout_correction_that_cannot_be_expressed_is_named(make: Make, changes: dict[str, Any]) -> None:
    item = make(changes)
    assert item.verdict_cap == "partial"
    assert any(outcome(item, key) == ("unsupported", "training") for key in changes)


def test_rollout_log_probs_of_an_older_actor(make: Make) -> None:
    item = make({ACTOR + "use_rollout_log_probs": True})
    assert "--use-rollout-logprobs" in flag_values(item)
    assert outcome(item, ACTOR + "use_rollout_log_probs")[0] == "exact"
    assert next(row for row in item.effective if row.name == "old log-probs").same


def test_bypass_mode(make: Make) -> None:
    item = make({IS + "bypass_mode": True, IS + "loss_type": "ppo_clip"})
    values = flag_values(item)
    assert "--use-rollout-logprobs" in values
    assert values[LOSS_HOOK] == HOOKS + "dual_clip_loss"  # the ratio starts away from 1, so the dual clip acts
    assert "--use-tis" not in values


def test_bypass_mode_with_rejection_and_the_plain_gradient(make: Make) -> None:
    changes = {IS + "bypass_mode": True, IS + "rollout_is": "sequence", IS + "rollout_rs": "seq_mean_k1",
               IS + "rollout_rs_threshold": "0.9_1.1", IS + "rollout_is_threshold": 3.0}  # fmt: skip
    plain, clipped = make({**changes, IS + "loss_type": "reinforce"}), make({**changes, IS + "loss_type": "ppo_clip"})
    assert flag_values(plain)[LOSS_HOOK] == HOOKS + "reinforce_loss"
    assert flag_values(clipped)[LOSS_HOOK] == HOOKS + "dual_clip_loss"
    assert plain.hooks[0].constants["NO_WEIGHTS"] is False
    assert clipped.hooks[0].constants["NO_WEIGHTS"] is True
    assert plain.hooks[0].constants["WEIGHTS_FROM_CURRENT"] is True
    for item in (plain, clipped):
        assert "--use-rollout-logprobs" in flag_values(item)
        assert next(row for row in item.effective if row.name == "importance weights").same


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


@pytest.mark.parametrize(
    ("changes", "policy", "cap"),
    [
        ({}, "faithful", False),  # the dual clip looks at one token at a time
        ({LOSS: "kl_cov"}, "on-policy", True),
        ({IS + "rollout_is": "sequence"}, "on-policy", True),
        ({ESTIMATOR: "rloo"}, "on-policy", False),
    ],
)
def test_hooks_on_split_responses(make: Make, changes: dict[str, Any], policy: str, cap: bool) -> None:
    item = make({ACTOR + "strategy": "megatron", ACTOR + "megatron.context_parallel_size": 2, **changes}, policy=policy)
    assert item.gpus is not None
    assert item.gpus.context_parallel == 2
    assert any("needs whole responses" in reason for reason in item.cap_reasons) is cap


def test_a_mean_over_samples_never_splits_responses(make: Make) -> None:
    """Relax wants --calculate-per-token-loss with context parallelism, so sums are planned without it."""
    item = make(
        {ACTOR + "strategy": "megatron", ACTOR + "megatron.context_parallel_size": 2,
         ACTOR + "loss_agg_mode": "seq-mean-token-sum"}
    )  # fmt: skip
    assert item.gpus is not None
    assert item.gpus.context_parallel == 1
    assert not any("needs whole responses" in reason for reason in item.cap_reasons)


def test_statistics_over_a_smaller_rollout_are_noted(make: Make) -> None:
    changes = {ESTIMATOR: "reinforce_plus_plus_baseline"}
    fresh, faithful = make(changes), make(changes, policy="faithful")
    assert any(note.code == "statistics-of-a-rollout" and "4 rollouts" in note.text for note in fresh.notes)
    assert not any(note.code == "statistics-of-a-rollout" for note in faithful.notes)


def test_a_critic_keeps_relax_own_loss_and_the_reducer_takes_the_policy_term_only(make: Make) -> None:
    item = make(
        {
            ESTIMATOR: "gae",
            ROLLOUT + "n": 1,
            ACTOR + "loss_agg_mode": "seq-mean-token-sum",
            ACTOR + "entropy_coeff": 0.1,
        }
    )
    assert LOSS_HOOK not in flag_values(item)
    assert flag_values(item)[REDUCER] == HOOKS + "token_sum"
    assert outcome(item, ACTOR + "loss_agg_mode") == ("approximate", "training")


def test_a_relax_without_custom_losses_is_named(make: Make) -> None:
    from dataclasses import replace

    from mapping_launches import BASE, make_launch
    from migrate_tools.mapping.translate import translate
    from migrate_tools.model import Recipe
    from migrate_tools.relax.contract import load_contract

    whole = load_contract()
    poor = replace(whole, flags={name: flag for name, flag in whole.flags.items() if name != LOSS_HOOK})
    launch = make_launch({**BASE, LOSS: "gpg"})
    recipe = Recipe(name="r", root="/n", project_root="/n", sha256="0", launches=(launch,))
    item = translate(recipe, launch, algo="a", contract=poor)
    assert LOSS_HOOK in item.refusals[0]


@pytest.mark.parametrize("name", ["grpo", "reinforce_plus_plus_baseline"])
def test_one_sample_a_prompt_trains_on_the_reward_itself(make: Make, name: str) -> None:
    """verl: mean 0 and std 1 for a group of one; Relax would subtract the reward from itself."""
    item = make({ESTIMATOR: name, ROLLOUT + "n": 1})
    assert "--disable-rewards-normalization" in flag_values(item)
    assert any(note.code == "one-sample-a-prompt" for note in item.notes)
    assert next(row for row in item.effective if row.name == "advantage normalisation").same


def test_pass_at_k_with_one_sample_is_refused(make: Make) -> None:
    assert "one sample a prompt" in make({ESTIMATOR: "grpo_passk", ROLLOUT + "n": 1}).refusals[0]
