"""Sample, as hooks see it (Relax recipe contract, section 3)."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, ClassVar


class SampleStatus(Enum):
    """Where a sample is in its life."""

    PENDING = "pending"
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    ABORTED = "aborted"
    FAILED = "failed"


_FINISH = {"length": SampleStatus.TRUNCATED, "abort": SampleStatus.ABORTED, "stop": SampleStatus.COMPLETED}


@dataclass
class Sample:
    """One rollout sample: `response_length` tail tokens of `tokens` are the response."""

    Status: ClassVar[type[SampleStatus]] = SampleStatus

    group_index: int | None = None
    index: int | None = None
    prompt: Any = ""
    tokens: list[int] = field(default_factory=list)
    rollout_tokens: list[int] = field(default_factory=list)
    response: str = ""
    response_length: int = 0
    label: Any = None
    reward: Any = None
    loss_mask: list[int] | None = None
    rollout_log_probs: list[float] | None = None
    rollout_log_probs_mask: list[bool] | None = None
    status: SampleStatus = SampleStatus.PENDING
    metadata: dict[str, Any] = field(default_factory=dict)
    multimodal_inputs: dict[str, Any] | None = None
    multimodal_train_inputs: dict[str, Any] | None = None
    remove_sample: bool = False
    custom_advantage: Any = None
    weight_versions: list[str] = field(default_factory=list)
    abort_count: int = 0
    session_id: str | None = None
    generate_function_path: str | None = None
    train_metadata: dict[str, Any] | None = None
    rollout_routed_experts: Any = None
    non_generation_time: float = 0.0
    spec_info: Any = None
    prefix_cache_info: Any = None

    def get_reward_value(self, args: Any) -> Any:
        """The number that is trained on: the reward itself, or its entry under --reward-key.

        Raises:
            TypeError: a key is set and the reward is no dict, or the other way round.
            KeyError: the dict lacks the key.
        """
        return reward_value(self.reward, args.reward_key)

    @property
    def effective_response_length(self) -> int:
        """Tokens that train: the sum of the loss mask, or the whole response without one."""
        return sum(self.loss_mask) if self.loss_mask is not None else self.response_length

    def update_from_meta_info(self, args: Any, meta_info: dict[str, Any]) -> None:
        """Take status and weight version from an engine reply."""
        if "weight_version" in meta_info:
            self.weight_versions.append(meta_info["weight_version"])
        self.status = _FINISH[meta_info["finish_reason"]["type"]]

    def to_dict(self) -> dict[str, Any]:
        """Every field; the status as text."""
        values = {item.name: copy.copy(getattr(self, item.name)) for item in fields(self)}
        return {**values, "status": self.status.value}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Sample:
        """The inverse of `to_dict`; unknown keys are ignored."""
        names = {item.name for item in fields(cls)}
        values = {key: value for key, value in data.items() if key in names}
        return cls(**{**values, "status": SampleStatus(data["status"])})


def reward_value(reward: Any, key: str | None) -> Any:
    """A reward's trained value under --reward-key `key`.

    Raises:
        TypeError: a key is set and the reward is no dict, or the other way round.
        KeyError: the dict lacks the key.
    """
    if not key:
        if isinstance(reward, dict):
            raise TypeError("the reward is a dict, but --reward-key is not set")
        return reward
    if not isinstance(reward, dict):
        raise TypeError(f"--reward-key is {key}, but the reward is {type(reward).__name__}, not a dict")
    return reward[key]
