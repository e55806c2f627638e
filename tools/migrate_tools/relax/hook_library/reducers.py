"""verl's loss_agg_mode as --custom-pg-loss-reducer-function-path.

`fn(total_lengths, response_lengths, loss_masks, calculate_per_token_loss) -> reducer(tensor) -> scalar`. Relax divides
the sum of a global batch's reductions by --global-batch-size (redai-studio/Relax relax/backends/megatron/loss.py
0405262), so a reducer returns the sum over the samples of its micro batch. It replaces the policy term's only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

REDUCER_SCALE = 1.0
REDUCER_BY_SAMPLES = False


def token_sum(
    total_lengths: list[int], response_lengths: list[int], loss_masks: list[Any], calculate_per_token_loss: bool
) -> Callable[[Any], Any]:
    """The sum over the tokens that train, times a constant.

    sum_i sum_t m_it x_it * c. With c = 1 and Relax's division by the batch this is seq-mean-token-sum; c = 1 / horizon
    gives seq-mean-token-sum-norm, c = the batch size gives token-sum. Where verl weighs a micro batch by its samples
    (seq-mean-token-sum-norm before 0.7.1, dynamic micro batches) they are a factor as well.
    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:1140 (agg_loss); 0.6.1 core_algos.py:772.
    """
    require_sample_loss(calculate_per_token_loss)
    factor = REDUCER_SCALE * (len(loss_masks) if REDUCER_BY_SAMPLES else 1)

    def reduce(values: Any) -> Any:
        parts = split_samples(values, response_lengths)
        return sum((part * mask).sum() for part, mask in zip(parts, loss_masks, strict=True)) * factor

    return reduce


def micro_batch_token_mean(
    total_lengths: list[int], response_lengths: list[int], loss_masks: list[Any], calculate_per_token_loss: bool
) -> Callable[[Any], Any]:
    """token-mean of one micro batch, weighed by its samples: what verl before 0.8 calls token-mean.

    n * sum_it m_it x_it / sum_it m_it, n the samples of the micro batch.
    Source: verl 0.6.1 verl/trainer/ppo/core_algos.py:772 and verl/workers/actor/dp_actor.py.
    """
    require_sample_loss(calculate_per_token_loss)

    def reduce(values: Any) -> Any:
        parts = split_samples(values, response_lengths)
        total = sum((part * mask).sum() for part, mask in zip(parts, loss_masks, strict=True))
        tokens = sum(mask.sum() for mask in loss_masks)
        return total * len(loss_masks) / tokens.clamp(min=1)

    return reduce


def split_samples(values: Any, response_lengths: list[int]) -> Any:
    """The flat values of a micro batch, one tensor a sample.

    Raises:
        ValueError: they are not one value a response token (context parallelism splits responses).
    """
    if values.shape[0] != sum(response_lengths):
        raise ValueError(
            f"{values.shape[0]} values for {sum(response_lengths)} response tokens: this hook needs "
            "--context-parallel-size 1"
        )
    return values.split(list(response_lengths), dim=0)


def require_sample_loss(calculate_per_token_loss: bool) -> None:
    """Raise ValueError when Relax divides by tokens instead of samples."""
    if calculate_per_token_loss:
        raise ValueError("this reducer is written for a run without --calculate-per-token-loss")
