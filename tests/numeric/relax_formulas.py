"""What Relax does around the hooks, from its contract: "After the reward" (section 2) and the whitening and scaling of
redai-studio/Relax relax/utils/distributed_utils.py 7a346d3 and relax/backends/megatron/loss.py 0405262. Our own code.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch


def processed(args: Any, samples: list[Any]) -> list[float]:
    """Rewards as Relax's own normalisation leaves them: grpo, gspo, sapo and cispo."""
    raw = torch.tensor([sample.get_reward_value(args) for sample in samples], dtype=torch.float64)
    if not args.rewards_normalization:
        return raw.tolist()
    result = raw.clone()
    for group in {sample.group_index for sample in samples}:
        places = [place for place, sample in enumerate(samples) if sample.group_index == group]
        values = raw[places] - raw[places].mean()
        if args.grpo_std_normalization:
            values = values / (values.std() + 1e-6)
        result[places] = values
    return result.tolist()


def advantages(
    args: Any, samples: list[Any], rewards: list[Any], masks: list[torch.Tensor], dtype: torch.dtype
) -> list[torch.Tensor]:
    """One advantage a token: the processed reward spread over the response (or one a token), then whitened if asked."""
    spread = []
    for sample, reward, mask in zip(samples, rewards, masks, strict=True):
        values = reward if isinstance(reward, list) else [reward] * sample.response_length
        spread.append(torch.tensor(values, dtype=dtype, device=mask.device))
    if args.normalize_advantages:
        flat, mask = torch.cat(spread), torch.cat(masks)
        count = mask.sum()
        mean = (flat * mask).sum() / count
        variance = ((flat**2 * mask).sum() / count - mean**2) * count / (count - 1)
        flat = (flat - mean) * torch.rsqrt(variance + 1e-8)
        spread = list(flat.split([part.shape[0] for part in spread]))
    return spread


def sum_of_sample_mean(lengths: list[int], masks: list[torch.Tensor], per_token: bool) -> Callable[[Any], Any]:
    """The reducer that Relax hands to a loss function: a sum over tokens, or over samples of their mean."""

    def reduce(values: torch.Tensor) -> Any:
        sums = [(part * mask).sum() for part, mask in zip(values.split(lengths), masks, strict=True)]
        return (
            sum(sums)
            if per_token
            else sum(part / mask.sum().clamp(min=1) for part, mask in zip(sums, masks, strict=True))
        )

    return reduce


def step_loss(parts: list[Any], *, per_token: bool, tokens: Any, samples: int) -> Any:
    """The loss of an update from those of its micro batches: divided by the batch's tokens, or by its samples."""
    return sum(parts) / (tokens if per_token else samples)


def arguments(**changes: Any) -> Any:
    """args with Relax's defaults."""
    values: dict[str, Any] = {
        "n_samples_per_prompt": 4,
        "rewards_normalization": True,
        "grpo_std_normalization": True,
        "normalize_advantages": False,
        "calculate_per_token_loss": True,
        "use_rollout_logprobs": False,
        "use_kl_loss": False,
        "kl_loss_coef": 0.0,
        "kl_loss_type": "k1",
        "entropy_coef": 0.0,
        "eps_clip": 0.2,
        "eps_clip_high": 0.28,
        "eps_clip_c": 3.0,
        "sapo_tau_pos": 1.0,
        "sapo_tau_neg": 1.05,
    }
    return types.SimpleNamespace(**{**values, **changes})
