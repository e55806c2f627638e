"""What generated hooks ask of the rest of the command line, once placement and batch sizes are known."""

from __future__ import annotations

from typing import Final

from migrate_tools.mapping.algorithm_table import ESTIMATORS
from migrate_tools.mapping.draft import Draft
from migrate_tools.model import Hook

WHOLE_RESPONSES: Final = ("--custom-pg-loss-reducer-function-path", "--custom-tis-function-path")
"""Hooks that stop with an error where context parallelism gives them parts of responses."""
TOKEN_BY_TOKEN: Final = frozenset(
    {"dual_clip_loss", "soft_gate_loss", "gpg_loss", "tv_bound_loss", "binary_kl_bound_loss", "quadratic_penalty_loss",
     "clipped_weight_loss", "reinforce_loss"}
)  # fmt: skip
"""Losses that look at one token at a time, and so at parts of responses too, unless they aggregate by themselves."""


def needs_whole_responses(hook: Hook) -> bool:
    """Whether the hook stops where context parallelism splits responses."""
    if hook.flag != "--custom-loss-function-path":
        return hook.flag in WHOLE_RESPONSES
    own = hook.constants.get("AGGREGATION", "token-mean") not in ("token-mean", "seq-mean-token-mean")
    return own or "IS_LEVEL" in hook.constants or hook.function not in TOKEN_BY_TOKEN


def check_hooks(draft: Draft) -> None:
    """Cap the verdict where a hook cannot run as placed; note what a statistic is taken over."""
    named = [hook for hook in draft.hooks if needs_whole_responses(hook)]
    if named and draft.gpus is not None and draft.gpus.context_parallel > 1:
        names = ", ".join(hook.function for hook in named)
        draft.cap(
            "hook-context-parallel",
            f"the generated {names} needs whole responses, and --context-parallel-size is "
            f"{draft.gpus.context_parallel}: lower it to 1, or the hook stops with an error",
        )
    entry = ESTIMATORS.get(draft.facts.estimator)
    parts = draft.batch.rollouts_per_verl_step if draft.batch else 1
    if entry is not None and (entry.whiten or entry.whole_rollout) and parts > 1:
        draft.note(
            "statistics-of-a-rollout",
            f"{draft.facts.estimator} takes a statistic over the batch: verl's is {parts} rollouts under this batch "
            "policy, Relax takes it over one (--batch-policy faithful keeps verl's)",
        )
