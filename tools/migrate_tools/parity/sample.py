"""A small Sample with the fields that a reward may read, for a stage that has no stand-in Relax (Relax contract 3)."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Status(Enum):
    """Where a sample is in its life."""

    PENDING = "pending"
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    ABORTED = "aborted"
    FAILED = "failed"


@dataclass
class Sample:
    """One rollout sample; field meanings and defaults as in Relax's relax.utils.types."""

    Status = Status

    group_index: int | None = None
    index: int | None = None
    prompt: Any = ""
    tokens: list[int] = field(default_factory=list)
    response: str = ""
    response_length: int = 0
    label: Any = None
    reward: Any = None
    loss_mask: list[int] | None = None
    status: Any = Status.COMPLETED
    metadata: dict[str, Any] = field(default_factory=dict)
    multimodal_inputs: dict[str, Any] | None = None
    train_metadata: dict[str, Any] | None = None

    def get_reward_value(self, args: Any) -> Any:
        """The number that Relax trains on."""
        return self.reward[args.reward_key] if args.reward_key else self.reward


def register() -> type[Sample]:
    """Puts Sample where examples import it from, and returns it."""
    for name in ("relax", "relax.utils", "relax.utils.types"):
        sys.modules.setdefault(name, types.ModuleType(name)).__path__ = []
    sys.modules["relax.utils.types"].Sample = Sample  # type: ignore[attr-defined]
    return Sample
