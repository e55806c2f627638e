"""A flag that comes out wrong shows in the effective-training table, and nothing explains it away."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from mapping_launches import ACTOR, BASE, ROLLOUT, make_launch
from migrate_tools.mapping.draft import Draft
from migrate_tools.mapping.effective import effective_rows, unexplained
from migrate_tools.mapping.facts import Facts
from migrate_tools.mapping.translate import translate
from migrate_tools.model import EffectRow, Flag, Recipe, Translation
from migrate_tools.relax.contract import FlagContract, load_contract

OPTIM = ACTOR + "optim."
RICH: dict[str, Any] = {
    **BASE,
    ACTOR + "use_kl_loss": True,
    ACTOR + "kl_loss_coef": 0.01,
    ACTOR + "clip_ratio_high": 0.28,
    ACTOR + "clip_ratio_c": 3.0,
    ACTOR + "grad_clip": 1.0,
    ACTOR + "entropy_coeff": 0.001,
    ACTOR + "use_dynamic_bsz": True,
    ACTOR + "ppo_max_token_len_per_gpu": 8192,
    OPTIM + "lr": 2e-6,
    OPTIM + "lr_scheduler_type": "cosine",
    OPTIM + "lr_warmup_steps": 10,
    OPTIM + "min_lr_ratio": 0.1,
    OPTIM + "weight_decay": 0.1,
    "trainer.total_training_steps": 200,
    "trainer.save_freq": 20,
    "trainer.max_actor_ckpt_to_keep": 3,
    "trainer.test_freq": 10,
    "data.seed": 7,
    "data.filter_overlong_prompts": True,
    "data.gen_batch_size": 1024,
    "algorithm.filter_groups.enable": True,
    "algorithm.filter_groups.metric": "score",
    ROLLOUT + "top_p": 0.95,
    ROLLOUT + "top_k": 50,
    ROLLOUT + "val_kwargs.n": 4,
    ROLLOUT + "val_kwargs.temperature": 0.6,
    ROLLOUT + "val_kwargs.top_p": 0.9,
    "actor_rollout_ref.model.lora_rank": 32,
    "actor_rollout_ref.model.lora_alpha": 64,
}
"""A recipe that sets something for nearly every row."""


def translated(settings: dict[str, Any], policy: str) -> tuple[Draft, Translation]:
    launch = make_launch(settings)
    recipe = Recipe(name="r", root="/nowhere", project_root="/nowhere", sha256="0" * 64, launches=(launch,))
    item = translate(recipe, launch, algo="gsm8k", batch_policy=policy, contract=load_contract())  # type: ignore[arg-type]
    draft = Draft(Facts(launch), load_contract(), "gsm8k")
    draft.hooks = list(item.hooks)
    return draft, item


def rows_of(draft: Draft, item: Translation, flags: Sequence[Flag]) -> dict[str, EffectRow]:
    return {row.name: row for row in effective_rows(draft, flags, item.settings)}


def value(name: str, text: str) -> Callable[[Sequence[Flag]], list[Flag]]:
    def change(flags: Sequence[Flag]) -> list[Flag]:
        assert any(flag.name == name and flag.value != text for flag in flags), name
        return [flag.model_copy(update={"value": text}) if flag.name == name else flag for flag in flags]

    return change


def without(name: str) -> Callable[[Sequence[Flag]], list[Flag]]:
    def change(flags: Sequence[Flag]) -> list[Flag]:
        assert any(flag.name == name for flag in flags), name
        return [flag for flag in flags if flag.name != name]

    return change


def extra(name: str, text: str | None = None) -> Callable[[Sequence[Flag]], list[Flag]]:
    return lambda flags: [*flags, Flag(name=name, value=text, group="MISC")]


FAULTS: list[tuple[str, Callable[[Sequence[Flag]], list[Flag]], str]] = [
    ("samples for prompts", value("--rollout-batch-size", "1024"), "samples a step"),
    ("group size", value("--n-samples-per-prompt", "4"), "samples a step"),
    ("prompts for samples", value("--global-batch-size", "128"), "samples an update"),
    ("steps not scaled", value("--num-rollout", "37"), "length of training"),
    ("epochs for steps", lambda flags: extra("--num-epoch", "30")(without("--num-rollout")(flags)),
     "length of training"),
    ("learning rate", value("--lr", "1e-06"), "learning rate"),
    ("warm-up not scaled", value("--lr-warmup-iters", "7"), "learning rate over the run"),
    ("warm-up lost", without("--lr-warmup-iters"), "learning-rate schedule"),
    ("floor lost", value("--min-lr", "0.0"), "learning rate over the run"),
    ("decay style", value("--lr-decay-style", "linear"), "learning rate over the run"),
    ("decay style left to Megatron", without("--lr-decay-style"), "learning-rate schedule"),
    ("decay too short", extra("--lr-decay-iters", "200"), "learning rate over the run"),
    ("weight decay", value("--weight-decay", "0.01"), "Adam"),
    ("beta 1", value("--adam-beta1", "0.8"), "Adam"),
    ("beta 2", value("--adam-beta2", "0.98"), "Adam"),
    ("optimizer", value("--optimizer", "sgd"), "optimizer"),
    ("gradient clipping", value("--clip-grad", "0.5"), "gradient clipping"),
    ("lower clip", value("--eps-clip", "0.28"), "clipping"),
    ("upper clip", without("--eps-clip-high"), "clipping"),
    ("KL coefficient", value("--kl-loss-coef", "0.001"), "KL"),
    ("KL estimator", value("--kl-loss-type", "k1"), "KL"),
    ("KL estimator left to Relax", without("--kl-loss-type"), "KL"),
    ("KL switched off", without("--use-kl-loss"), "KL"),
    ("reference of another model", value("--ref-load", '"${MODEL_DIR}/other"'), "reference policy"),
    ("entropy", value("--entropy-coef", "0.0"), "entropy bonus"),
    ("estimator", value("--advantage-estimator", "reinforce_plus_plus"), "estimator"),
    ("deviation not divided out", extra("--disable-grpo-std-normalization"), "advantage normalisation"),
    ("aggregation", without("--calculate-per-token-loss"), "loss aggregation"),
    ("log-probs of the engine", extra("--use-rollout-logprobs"), "old log-probs"),
    ("importance weights", extra("--use-tis"), "importance weights"),
    ("temperature", value("--rollout-temperature", "0.8"), "training sampling"),
    ("top_p", value("--rollout-top-p", "1.0"), "training sampling"),
    ("top_k", value("--rollout-top-k", "-1"), "training sampling"),
    ("temperature of evaluation", value("--eval-temperature", "0.0"), "evaluation sampling"),
    ("evaluation samples as in training", without("--eval-top-p"), "evaluation sampling"),
    ("samples of evaluation", without("--n-samples-per-eval-prompt"), "evaluation sampling"),
    ("evaluation cadence", value("--eval-interval", "11"), "evaluation"),
    ("evaluation before training", extra("--skip-eval-before-train"), "evaluation"),
    ("checkpoint cadence", value("--save-interval", "21"), "checkpoints"),
    ("checkpoints kept", value("--max-actor-ckpt-to-keep", "1"), "checkpoints"),
    ("a checkpoint for every rollout", extra("--rotate-ckpt"), "checkpoints"),
    ("prompt length", value("--rollout-max-prompt-len", "1024"), "lengths"),
    ("no prompt length", without("--rollout-max-prompt-len"), "prompts that are too long"),
    ("response length", value("--rollout-max-response-len", "256"), "lengths"),
    ("context", extra("--rollout-max-context-len", "600"), "context"),
    ("order", without("--rollout-shuffle"), "data order"),
    ("seed of the order", value("--rollout-seed", "42"), "data order"),
    ("filter lost", without("--dynamic-sampling-filter-path"), "group filter"),
    ("over-sampling lost", without("--over-sampling-batch-size"), "group filter"),
    ("fp16", extra("--fp16"), "precision"),
    ("sums in bf16", without("--accumulate-allreduce-grads-in-fp32"), "precision"),
    ("tokens of all GPUs", value("--max-tokens-per-gpu", "65536"), "micro batch"),
    ("fixed micro batches", without("--use-dynamic-batch-size"), "micro batch"),
    ("GPUs", value("--resource", "'" + json.dumps({"actor": [1, 4], "rollout": [1, 4]}) + "'"), "GPUs"),
    ("engine", value("--rollout-num-gpus-per-engine", "4"), "GPUs an engine"),
    ("LoRA rank", value("--lora-rank", "8"), "LoRA"),
    ("LoRA lost", without("--lora-rank"), "LoRA"),
    ("staleness in sync mode", value("--max-staleness", "1"), "staleness"),
]  # fmt: skip


@pytest.mark.parametrize("policy", ["on-policy", "faithful"])
def test_right_flags_leave_nothing_unexplained(policy: str) -> None:
    draft, item = translated(RICH, policy)
    rows = rows_of(draft, item, item.flags)
    assert unexplained(tuple(rows.values())) == ()
    assert item.verdict_cap == "verified"
    assert tuple(rows.values()) == item.effective


@pytest.mark.parametrize("policy", ["on-policy", "faithful"])
@pytest.mark.parametrize(("name", "fault", "row"), FAULTS, ids=[name for name, _, _ in FAULTS])
def test_seeded_faults(policy: str, name: str, fault: Callable[[Sequence[Flag]], list[Flag]], row: str) -> None:
    draft, item = translated(RICH, policy)
    found = rows_of(draft, item, fault(item.flags))[row]
    assert not found.same
    assert not found.explained
    assert found.risk != "none"
    assert any(text.startswith(f"{row}: verl ") for text in unexplained((found,)))


def test_a_difference_that_nothing_explains_caps_the_verdict(
    monkeypatch: pytest.MonkeyPatch, contract: FlagContract
) -> None:
    """A mapping that writes a wrong learning rate ends partial, by name."""
    from migrate_tools.mapping import optimizer

    monkeypatch.setattr(optimizer, "clip", lambda facts: 0.123)
    _, item = translated(RICH, "on-policy")
    assert item.verdict_cap == "partial"
    assert any(reason.startswith("gradient clipping: verl 1.0, Relax 0.123") for reason in item.cap_reasons)


def test_a_hook_that_nobody_registered_does_not_pass_for_verls_aggregation() -> None:
    from migrate_tools.mapping.effective_hooks import HOOK_EFFECTS, hook_effect

    path = "examples.a.hooks.sum_per_sequence"
    assert hook_effect(path, "loss aggregation") is None
    HOOK_EFFECTS["sum_per_sequence"] = {"loss aggregation": "seq-mean-token-sum"}
    try:
        draft, item = translated({**RICH, ACTOR + "loss_agg_mode": "seq-mean-token-sum"}, "on-policy")
        own = without("--custom-loss-function-path")(item.flags)
        flags = extra("--custom-pg-loss-reducer-function-path", path)(own)
        assert rows_of(draft, item, flags)["loss aggregation"].same
        assert rows_of(draft, item, item.flags)["loss aggregation"].same  # by the generated loss
        assert not rows_of(draft, item, own)["loss aggregation"].same
    finally:
        del HOOK_EFFECTS["sum_per_sequence"]


def test_a_dual_clip_that_cannot_act_is_no_difference() -> None:
    """With one update a batch the ratio stays at 1 in verl, whatever bound is written on either side."""
    _, item = translated({**RICH, ACTOR + "ppo_mini_batch_size": RICH["data.train_batch_size"]}, "on-policy")
    row = next(row for row in item.effective if row.name == "dual clip")
    assert row.same
    assert "cannot act" in row.verl
    _, several = translated(RICH, "on-policy")
    assert not next(row for row in several.effective if row.name == "dual clip").same


MEGATRON: dict[str, Any] = {
    **BASE,
    ACTOR + "strategy": "megatron",
    ACTOR + "megatron.tensor_model_parallel_size": 2,
    ACTOR + "megatron.pipeline_model_parallel_size": 2,
    ACTOR + "megatron.seed": 7,
    OPTIM + "lr": 1e-5,
    OPTIM + "lr_decay_style": "linear",
    OPTIM + "lr_warmup_steps": 4,
    OPTIM + "lr_warmup_init": 1e-7,
    OPTIM + "lr_decay_steps": 50,
    OPTIM + "min_lr": 1e-6,
    OPTIM + "weight_decay": 0.1,
    "trainer.total_training_steps": 80,
    ACTOR + "megatron.override_transformer_config.moe_aux_loss_coeff": 0.01,
    "actor_rollout_ref.model.path": "Qwen/Qwen3-30B-A3B",
}


@pytest.mark.parametrize("policy", ["on-policy", "faithful"])
def test_a_megatron_recipe(policy: str) -> None:
    """Warm-up to step 4, then down to step 50, then the floor: T/M = 4 updates a step under both policies."""
    draft, item = translated(MEGATRON, policy)
    rows = rows_of(draft, item, item.flags)
    rates = dict(
        zip(*(rows["learning rate over the run"].verl_value[name] for name in ("steps", "rates")), strict=True)
    )
    assert rates[0] == pytest.approx(1e-7)
    assert rates[2] == pytest.approx(1e-7 + (1e-5 - 1e-7) / 2)
    assert rates[4] == pytest.approx(1e-5)
    assert rates[39] == pytest.approx(1e-6 + (1 - 35 / 46) * 9e-6)
    assert rates[79] == pytest.approx(1e-6)
    for name in ("learning rate over the run", "learning-rate schedule", "weight decay on", "parallel sizes",
                 "seed of the trainer", "balancing loss of experts"):  # fmt: skip
        assert rows[name].same, rows[name]
    for name, flag, text in (
        ("learning rate over the run", "--lr-decay-iters", "50"),
        ("learning rate over the run", "--lr-warmup-init", "0.0"),
        ("parallel sizes", "--pipeline-model-parallel-size", "1"),
        ("seed of the trainer", "--seed", "42"),
        ("balancing loss of experts", "--moe-aux-loss-coeff", "0.0"),
    ):
        assert not rows_of(draft, item, value(flag, text)(item.flags))[name].explained, flag


def test_the_token_mean_of_old_versions_is_that_of_a_micro_batch() -> None:
    settings = {**BASE, "algorithm.adv_estimator": "reinforce_plus_plus", "algorithm.use_kl_in_reward": True}
    launch = make_launch(settings, version="0.4.1")
    recipe = Recipe(name="r", root="/nowhere", project_root="/nowhere", sha256="0" * 64, launches=(launch,))
    item = translate(recipe, launch, algo="gsm8k", contract=load_contract())
    row = next(row for row in item.effective if row.name == "loss aggregation")
    assert (row.relax_value, row.explained) == ("micro-batch-token-mean", True)
    assert "micro batch too" in row.why


def test_a_fork_with_a_validation_temperature_of_its_own() -> None:
    settings = {**BASE, "trainer.test_freq": 5, ROLLOUT + "n_val": 8, ROLLOUT + "val_temperature": 0.6}
    drop = tuple(ROLLOUT + f"val_kwargs.{name}" for name in ("temperature", "top_p", "top_k", "n", "do_sample"))
    launch = make_launch(settings, version="0.1", drop=drop)
    recipe = Recipe(name="r", root="/nowhere", project_root="/nowhere", sha256="0" * 64, launches=(launch,))
    item = translate(recipe, launch, algo="gsm8k", contract=load_contract())
    row = next(row for row in item.effective if row.name == "evaluation sampling")
    assert row.same
    assert row.verl == "8 sample(s), temperature 0.6, top_p 1.0, top_k -1"
