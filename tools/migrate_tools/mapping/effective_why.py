"""Why a row of the effective-training table differs; a difference that nothing accounts for gets no sentence.

An explanation holds only where the numbers agree with it. So a flag that came out wrong is not explained away by a
batch policy or by a setting that Relax takes approximately for another reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from migrate_tools.mapping.draft import Outcome
from migrate_tools.mapping.effective_lr import OPTIM, verl_style
from migrate_tools.mapping.effective_side import Side
from migrate_tools.mapping.effective_verl import CORRECTION, Counts, estimator
from migrate_tools.mapping.facts import ACTOR, MODEL, ROLLOUT, Facts


@dataclass(frozen=True)
class Case:
    """One row that differs, and what may account for it."""

    row: str
    verl: Side
    relax: Side
    facts: Facts
    size: Counts
    values: Mapping[str, Any]
    outcomes: Mapping[str, Outcome]

    @property
    def on_policy(self) -> bool:
        """Whether the flags make one update of verl one rollout, with its samples and group size unchanged."""
        values, size = self.values, self.size
        samples = int(values["rollout_batch_size"]) * int(values["n_samples_per_prompt"])
        same = int(values["n_samples_per_prompt"]) == size.group and samples == int(values["global_batch_size"])
        return same and samples == size.update and size.updates > 1


def why(case: Case) -> str:
    """One sentence, or nothing where nothing accounts for the difference."""
    for explain in (*_BY_ROW.get(case.row, ()), _setting):
        if text := explain(case):
            return text
    return ""


def _policy(case: Case) -> str:
    if not case.on_policy:
        return ""
    return (
        f"batch policy on-policy: {case.size.updates} rollouts take the place of one verl step; samples an update are "
        "the same, the data is fresher"
    )


def _passes(case: Case) -> str:
    """Several passes over a batch, which Relax does not make; everything else about the batch has to agree."""
    if case.size.passes == 1:
        return ""
    samples = int(case.values["rollout_batch_size"]) * int(case.values["n_samples_per_prompt"])
    if case.relax.value == case.size.updates or case.on_policy or samples == case.size.update:
        return f"verl makes {case.size.passes} passes over each batch, Relax one"
    return ""


def _passes_of_run(case: Case) -> str:
    if case.size.passes > 1 and isinstance(case.relax.value, dict) and "updates" in case.relax.value:
        wanted = case.verl.value.get("updates", 0)
        if case.relax.value["updates"] * case.size.passes == wanted:
            return f"verl makes {case.size.passes} passes over each batch, Relax one"
    return ""


def _stairs(case: Case) -> str:
    if case.size.updates > 1 and case.relax.value == case.size.update:
        return (
            "verl moves the rate once a step, Megatron at every update: stairs become a ramp that meets them at the "
            "start of each step"
        )
    return ""


def _share(case: Case) -> str:
    """A warm-up given as a share: verl cuts it to whole steps, Megatron does not."""
    share = case.facts.number(OPTIM + "lr_warmup_steps_ratio") or 0.0
    written = case.values.get("lr_warmup_fraction")
    if written is not None and abs(float(written) - share) < 1e-9:
        return f"warm-up over {share} of the run: verl rounds it down to whole steps, Megatron does not"
    return ""


def _evaluation(case: Case) -> str:
    """The moments besides the cadence, which is the same."""
    if case.verl.value == "before" and case.relax.value == "never":
        return f"verl evaluates {case.verl.text}; Relax only with an evaluation interval"
    if not isinstance(case.verl.value, dict) or not isinstance(case.relax.value, dict):
        return ""
    same = all(case.verl.value[name] == case.relax.value[name] for name in ("prompts", "before"))
    if same and case.relax.value["besides"] == "at the end of each epoch":
        return "with --num-epoch Relax evaluates at the end of each epoch too"
    if same and case.relax.value["besides"] == "never":
        return "verl evaluates after its last step in any case, Relax after a rollout that the interval divides"
    return ""


def _ppo_logprobs(case: Case) -> str:
    if estimator(case.facts) == "ppo" and case.values.get("use_rollout_logprobs"):
        return "Relax's ppo takes the log-probs of the rollout engine"
    return ""


def _ppo_kl(case: Case) -> str:
    if estimator(case.facts) == "ppo" and not case.relax.value and not case.values.get("use_kl_loss"):
        return "Relax's synchronous ppo turns every KL term off"
    return ""


def _no_kl(case: Case) -> str:
    return "no KL term is left that would need it" if case.relax.value == "none" else ""


def _async_trainer(case: Case) -> str:
    if case.facts.launch.module.endswith("fully_async_main") and case.relax.value == 0:
        return "the sync mode waits for every rollout; the async mode of the script allows for older ones"
    return ""


def _decayed(case: Case) -> str:
    if not case.facts.megatron and case.relax.value == "matrices only":
        return "Megatron spares norms and biases, verl's FSDP engine does not: a small difference"
    return ""


def _micro_batches(case: Case) -> str:
    """Before 0.8 verl's token mean is taken micro batch by micro batch."""
    if (case.verl.value, case.relax.value) == ("token-mean", "micro-batch-token-mean") and case.facts.version < (0, 8):
        return "no difference in effect: this verl takes the mean of each micro batch too"
    return ""


def _unbalanced(case: Case) -> str:
    """A style that has no counterpart: the outcome of the style says so."""
    outcome = case.outcomes.get(OPTIM + ("lr_decay_style" if case.facts.megatron else "lr_scheduler_type"))
    if outcome is not None and outcome.status == "unsupported" and case.values.get("lr_decay_style") == "constant":
        return outcome.reason
    return ""


def _cycles(case: Case) -> str:
    cycles = case.facts.number(OPTIM + "num_cycles") or 0.5
    if cycles != 0.5 and verl_style(case.facts) == "cosine" and not case.facts.megatron:
        return f"verl's cosine makes {cycles} cycles, Megatron's half of one"
    if not case.facts.flag(OPTIM + "zero_indexed_step", default=True):
        return "verl counts the first step as 1 here (zero_indexed_step=False), Megatron as 0"
    first = case.facts.number(OPTIM + "init_lr_ratio") or 0.0
    return f"verl starts its warm-up at {first} of the learning rate, Megatron at 0" if first else ""


def _setting(case: Case) -> str:
    """A setting of the row that Relax takes approximately or not at all, where its flag carries what was decided."""
    for key in _KEYS.get(case.row, ()):
        outcome = case.outcomes.get(key)
        if outcome is not None and outcome.status in ("unsupported", "approximate"):
            return outcome.reason
    return ""


Explain = Callable[[Case], str]
_BY_ROW: Final[dict[str, tuple[Explain, ...]]] = {
    "samples a step": (_policy,),
    "updates a step": (_passes, _policy),
    "length of training": (_passes_of_run,),
    "learning rate advances": (_stairs, _unbalanced),
    "learning-rate schedule": (_share, _unbalanced),
    "learning rate over the run": (_share, _unbalanced, _cycles),
    "weight decay on": (_decayed,),
    "loss aggregation": (_micro_batches,),
    "evaluation": (_evaluation,),
    "old log-probs": (_ppo_logprobs,),
    "KL": (_ppo_kl,),
    "reference policy": (_no_kl,),
    "staleness": (_async_trainer,),
}
_KL_KEYS: Final = (
    "algorithm.use_kl_in_reward",
    ACTOR + "use_kl_loss",
    ACTOR + "kl_loss_type",
    "algorithm.kl_penalty",
)
_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "estimator": ("algorithm.adv_estimator", ACTOR + "policy_loss.loss_mode"),
    "advantage normalisation": ("algorithm.norm_adv_by_std_in_grpo", "algorithm.adv_estimator"),
    "KL": _KL_KEYS,
    "reference policy": ("actor_rollout_ref.ref.model.path",),
    "dual clip": (ACTOR + "clip_ratio_c",),
    "loss aggregation": (ACTOR + "loss_agg_mode",),
    "importance weights": (
        *(CORRECTION + name for name in ("rollout_is", "bypass_mode", "rollout_is_threshold")),
        *(CORRECTION + name for name in ("rollout_is_batch_normalize", "rollout_rs", "rollout_token_veto_threshold")),
    ),
    "old log-probs": (CORRECTION + "bypass_mode",),
    "optimizer": (OPTIM + "optimizer",),
    "prompts that are too long": ("data.truncation",),
    "context": (ROLLOUT + "max_model_len", ROLLOUT + "engine_kwargs.vllm.max_model_len"),
    "evaluation": ("trainer.val_before_train",),
    "precision": (
        ACTOR + "fsdp_config.model_dtype",
        ACTOR + "fsdp_config.mixed_precision.reduce_dtype",
        ACTOR + "fsdp_config.mixed_precision",
    ),
    "GPUs an engine": (ROLLOUT + "tensor_model_parallel_size",),
    "parallel sizes": (ACTOR + "megatron.context_parallel_size",),
    "LoRA": (MODEL + "lora_alpha", MODEL + "lora.alpha"),
    "group filter": ("algorithm.filter_groups.metric",),
}
"""Row -> settings whose outcome may account for a difference."""
SET_BY: Final[dict[str, tuple[str, ...]]] = {
    "estimator": ("algorithm.adv_estimator",),
    "advantage normalisation": ("algorithm.norm_adv_by_std_in_grpo",),
    "KL": ("algorithm.use_kl_in_reward", "algorithm.kl_ctrl.kl_coef", ACTOR + "use_kl_loss", ACTOR + "kl_loss_coef"),
    "clipping": (ACTOR + "clip_ratio", ACTOR + "clip_ratio_low", ACTOR + "clip_ratio_high"),
    "dual clip": (ACTOR + "clip_ratio_c",),
    "loss aggregation": (ACTOR + "loss_agg_mode",),
    "entropy bonus": (ACTOR + "entropy_coeff",),
    "learning rate": (OPTIM + "lr",),
    "learning-rate schedule": tuple(
        OPTIM + name
        for name in (
            "lr_scheduler_type",
            "warmup_style",
            "lr_decay_style",
            "lr_warmup_steps",
            "lr_warmup_steps_ratio",
        )
    ),
    "Adam": (OPTIM + "betas", OPTIM + "weight_decay"),
    "gradient clipping": (OPTIM + "clip_grad", ACTOR + "grad_clip"),
    "training sampling": tuple(ROLLOUT + name for name in ("temperature", "top_p", "top_k", "do_sample")),
    "length of training": ("trainer.total_epochs", "trainer.total_training_steps"),
}
"""Settings that decide a row: where the recipe sets none of them, verl's default is what was translated."""
