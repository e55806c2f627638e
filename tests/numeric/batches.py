"""Random batches in both shapes: verl's padded matrices and Relax's list of one tensor a sample.

Responses are ragged, some tokens do not train (observations), some prompts have equal rewards, rewards have ties.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

WIDTH = 9


@dataclass
class Batch:
    """`prompts` x `group` samples; matrices are [samples, WIDTH] and 0 beyond the response."""

    group: int
    lengths: list[int]
    mask: torch.Tensor
    rewards: torch.Tensor
    index: np.ndarray[Any, Any]
    log_probs: torch.Tensor
    old_log_probs: torch.Tensor
    rollout_log_probs: torch.Tensor
    reference: torch.Tensor
    advantages: torch.Tensor

    @property
    def token_rewards(self) -> torch.Tensor:
        """The reward on the last token of each response, as verl's managers put it."""
        placed = torch.zeros_like(self.log_probs)
        for row, length in enumerate(self.lengths):
            placed[row, length - 1] = self.rewards[row]
        return placed

    def lists(self, values: torch.Tensor) -> list[torch.Tensor]:
        """A matrix as Relax keeps it."""
        return [values[row, :length] for row, length in enumerate(self.lengths)]

    def flat(self, values: torch.Tensor) -> torch.Tensor:
        """A matrix flat over response tokens."""
        return torch.cat(self.lists(values))

    def padded(self, parts: list[torch.Tensor]) -> torch.Tensor:
        """The inverse of `lists`."""
        rows = [torch.nn.functional.pad(part, (0, WIDTH - part.shape[0])) for part in parts]
        return torch.stack(rows)

    def samples(self, rewards: list[Any] | None = None) -> list[Any]:
        """The samples as hooks see them."""
        values = self.rewards.tolist() if rewards is None else rewards
        return [
            types.SimpleNamespace(
                group_index=int(self.index[row]),
                response_length=self.lengths[row],
                loss_mask=[int(item) for item in self.mask[row, : self.lengths[row]].tolist()],
                reward=values[row],
                get_reward_value=lambda args, value=values[row]: value["score"] if isinstance(value, dict) else value,
            )
            for row in range(len(self.lengths))
        ]


def make_batch(
    seed: int,
    *,
    device: str = "cpu",
    dtype: torch.dtype = torch.float64,
    prompts: int = 6,
    group: int = 4,
    observations: bool = True,
    empty: bool = False,
    spread: float = 0.3,
) -> Batch:
    """A batch from a seed; `empty` masks one whole response, `spread` is the size of log-ratios."""
    rng = torch.Generator().manual_seed(seed)
    samples = prompts * group

    def normal(scale: float) -> torch.Tensor:
        return torch.randn(samples, WIDTH, generator=rng, dtype=torch.float64) * scale

    lengths = torch.randint(1, WIDTH + 1, (samples,), generator=rng).tolist()
    mask = torch.zeros(samples, WIDTH, dtype=torch.int64)
    for row, length in enumerate(lengths):
        mask[row, :length] = 1
        if observations and length > 3 and row % 2:
            mask[row, 1 : 1 + int(torch.randint(1, length - 2, (1,), generator=rng))] = 0
    if empty:
        mask[samples // 2] = 0
    rewards = torch.randint(0, 7, (samples,), generator=rng).to(torch.float64) / 2 - 0.5
    rewards[:group] = 1.0
    if prompts > 1:
        rewards[group : 2 * group] = 0.0
    order = torch.randperm(samples, generator=rng)
    index = np.array([int(item) // group for item in order])
    inside = torch.zeros(samples, WIDTH)
    for row, length in enumerate(lengths):
        inside[row, :length] = 1
    log_probs = -(normal(1.0).abs() + 0.05) * inside
    shuffled = rewards[order]

    def placed(values: torch.Tensor) -> torch.Tensor:
        return (values * inside).to(device=device, dtype=dtype)

    return Batch(
        group=group,
        lengths=lengths,
        mask=mask.to(device),
        rewards=shuffled.to(device=device, dtype=dtype),
        index=index,
        log_probs=log_probs.to(device=device, dtype=dtype),
        old_log_probs=placed(log_probs + normal(spread)),
        rollout_log_probs=placed(log_probs + normal(spread)),
        reference=placed(log_probs + normal(spread)),
        advantages=placed(normal(1.0)),
    )
