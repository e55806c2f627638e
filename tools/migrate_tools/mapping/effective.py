"""The effective-training table: what each side will do, in numbers.

The verl side is computed from the launch by verl's rules, the Relax side from the flags as written (parsed by the
flag contract, defaults included) by Relax's rules. Neither looks at how the flags came about, so a wrong flag shows.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from migrate_tools.mapping import loss, optimizer, rollout
from migrate_tools.mapping.batch import VerlBatch, read_batch
from migrate_tools.mapping.draft import Draft
from migrate_tools.mapping.effective_text import Side, relax_side, roles_text, verl_side
from migrate_tools.mapping.facts import ROLLOUT
from migrate_tools.model import EffectRow, Flag

__all__ = ["argv_of", "effective_rows"]


def argv_of(flags: Sequence[Flag], mode: str = "SYNC") -> list[str]:
    """The command line of one mode as words; shell variables stay as they are written."""
    words: list[str] = []
    for flag in flags:
        if flag.group in ("SYNC", "ASYNC") and flag.group != mode:
            continue
        words.append(flag.name)
        if flag.value is not None:
            words += shlex.split(flag.value)
    return words


def effective_rows(draft: Draft, flags: Sequence[Flag]) -> tuple[EffectRow, ...]:
    """Both sides, row by row; a row that differs says why."""
    batch = read_batch(draft.facts)
    values = draft.contract.parse(argv_of(flags)).values
    left = verl_side(draft.facts, batch)
    right = relax_side(values, draft.facts)
    if any(flag.group == "ASYNC" for flag in flags):
        split = draft.contract.parse(argv_of(flags, "ASYNC")).values
        right["GPUs"] = right["GPUs"]._replace(text=f"{right['GPUs'].text}; async {roles_text(split)}")
    return tuple(_row(draft, batch, values, name, left[name], right[name]) for name in left)


def _row(draft: Draft, batch: VerlBatch, values: Any, name: str, left: Side, right: Side) -> EffectRow:
    same = left.facts == right.facts
    why = "" if same else _why(draft, batch, values, name)
    keys = _SET_BY.get(name, ())
    text = left.text if not keys or draft.facts.is_set(*keys) else f"{left.text} (verl's default)"
    return EffectRow(name=name, verl=text, relax=right.text, same=same, why=why)


def _why(draft: Draft, batch: VerlBatch, values: Any, name: str) -> str:
    policy = draft.batch.policy if draft.batch else "on-policy"
    if (
        name in ("samples a step", "updates a step", "length of training")
        and policy == "on-policy"
        and batch.updates > 1
    ):
        if name == "length of training":
            return "rows that do not fill a batch are dropped per smaller batch: a few more prompts are used"
        return (
            f"batch policy on-policy: {batch.updates} rollouts take the place of one verl step; samples an update are "
            "the same, the data is fresher"
        )
    if name in ("updates a step", "length of training") and batch.epochs > 1:
        return f"verl makes {batch.epochs} passes over each batch, Relax one"
    for keys in _KEYS.get(name, ()):
        outcome = draft.outcomes.get(keys)
        if outcome is not None and outcome.status in ("unsupported", "approximate"):
            return outcome.reason
    return _FIXED.get(name, "see the settings below")


_ACTOR = "actor_rollout_ref.actor."
_KEYS: dict[str, tuple[str, ...]] = {
    "KL": ("algorithm.use_kl_in_reward", _ACTOR + "use_kl_loss", _ACTOR + "kl_loss_type", "algorithm.kl_penalty"),
    "dual clip": (_ACTOR + "clip_ratio_c",),
    "loss aggregation": (_ACTOR + "loss_agg_mode",),
    "importance weights": ("algorithm.rollout_correction.rollout_is", "algorithm.rollout_correction.bypass_mode"),
    "learning-rate schedule": optimizer.STYLE_KEYS,
    "prompts that are too long": (rollout.TRUNCATION,),
    "evaluation": ("trainer.val_before_train", "trainer.test_freq"),
    "length of training": ("trainer.total_epochs",),
}
_SET_BY: dict[str, tuple[str, ...]] = {
    "estimator": ("algorithm.adv_estimator",),
    "advantage normalisation": ("algorithm.norm_adv_by_std_in_grpo",),
    "KL": ("algorithm.use_kl_in_reward", "algorithm.kl_ctrl.kl_coef", _ACTOR + "use_kl_loss", _ACTOR + "kl_loss_coef"),
    "clipping": (loss.CLIP, loss.LOW, loss.HIGH),
    "dual clip": (loss.DUAL,),
    "loss aggregation": (loss.AGG,),
    "entropy bonus": (_ACTOR + "entropy_coeff",),
    "learning rate": (optimizer.OPTIM + "lr",),
    "learning-rate schedule": (
        *optimizer.STYLE_KEYS,
        optimizer.OPTIM + "lr_warmup_steps",
        optimizer.OPTIM + "lr_warmup_steps_ratio",
    ),
    "Adam": (optimizer.OPTIM + "betas", optimizer.OPTIM + "weight_decay"),
    "gradient clipping": optimizer.CLIP_KEYS,
    "training sampling": tuple(ROLLOUT + name for name in ("temperature", "top_p", "top_k", "do_sample")),
    "length of training": ("trainer.total_epochs", "trainer.total_training_steps"),
}
"""Settings that decide a row: where the recipe sets none of them, verl's default is what was translated."""
_FIXED = {
    "precision": "verl's engine and Relax's keep different types",
    "evaluation": "Relax evaluates only with an interval and data",
    "old log-probs": "Relax's ppo takes the log-probs of the rollout engine",
}
