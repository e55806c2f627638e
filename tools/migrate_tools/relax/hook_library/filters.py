"""verl's dynamic sampling (DAPO) as --dynamic-sampling-filter-path: `fn(args, samples) -> DynamicFilterOutput`.

Relax calls it after each group, also for groups with aborted samples (Relax contract, section 7).
"""

from __future__ import annotations

from typing import Any

FILTER_METRIC = "acc"


def keep_varied_groups(args: Any, samples: list[Any], **_: Any) -> Any:
    """Keep a prompt when the metric differs among its samples, or when it has one sample.

    keep = std(metric) > 0 or n = 1. Relax's own filter looks at the trained reward; this one at the metric that
    algorithm.filter_groups.metric names, read from the reward's dict.
    Source: verl-recipe dapo/dapo_ray_trainer.py:239.
    """
    from relax.engine.filters.base_types import DynamicFilterOutput

    if any(sample.reward is None for sample in samples):
        return DynamicFilterOutput(keep=False, reason="aborted")
    values = {float(sample.reward[FILTER_METRIC]) for sample in samples}
    keep = len(values) > 1 or len(samples) == 1
    return DynamicFilterOutput(keep=keep, reason=None if keep else f"equal_{FILTER_METRIC}")
