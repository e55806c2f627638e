"""What generated hooks ask of the rest of the command line, once placement and batch sizes are known."""

from __future__ import annotations

from typing import Final

from migrate_tools.mapping.algorithm_table import ESTIMATORS
from migrate_tools.mapping.draft import Draft

WHOLE_RESPONSES: Final = (
    "--custom-loss-function-path",
    "--custom-pg-loss-reducer-function-path",
    "--custom-tis-function-path",
)
"""Hooks that stop with an error where context parallelism gives them parts of responses."""


def check_hooks(draft: Draft) -> None:
    """Cap the verdict where a hook cannot run as placed; note what a statistic is taken over."""
    named = [hook for hook in draft.hooks if hook.flag in WHOLE_RESPONSES]
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
