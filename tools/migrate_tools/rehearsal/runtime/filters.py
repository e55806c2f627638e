"""Dynamic sampling filters (Relax recipe contract, section 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from migrate_tools.rehearsal.runtime.sample import Sample


@dataclass
class DynamicFilterOutput:
    """Whether a group is kept, and why not."""

    keep: bool
    reason: str | None = None


def check_reward_nonzero_std(args: Any, samples: Sequence[Sample], **_: Any) -> DynamicFilterOutput:
    """Keep the groups whose rewards differ; aborted groups (reward None) are dropped."""
    rewards = [sample.reward if sample.reward is None else sample.get_reward_value(args) for sample in samples]
    if any(reward is None for reward in rewards):
        return DynamicFilterOutput(keep=False, reason="aborted")
    keep = len(set(rewards)) > 1
    return DynamicFilterOutput(keep=keep, reason=None if keep else f"zero_std_{rewards[0]}")
