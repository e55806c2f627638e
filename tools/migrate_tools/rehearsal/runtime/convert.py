"""From rewarded samples to training data: the checks of the conversion and the group normalisation.

Relax recipe contract, sections 2 (after the reward), 3 (conversion checks) and 4 (invariants).
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from migrate_tools.rehearsal.runtime.sample import Sample, SampleStatus

_STANDARDISED = ("grpo", "gspo", "sapo", "cispo", "m2po")


def reward_problem(value: Any) -> str | None:
    """Why a trained reward value is unusable, or None."""
    if type(value) not in (float, int):
        return f"the reward value is {type(value).__name__}, not a Python float"
    if not math.isfinite(value):
        return f"the reward value is {value}"
    return None


def sample_problems(sample: Sample, *, logprobs: bool) -> Iterator[str]:
    """What the conversion to training data would reject, or silently train wrongly."""
    if sample.status not in (SampleStatus.COMPLETED, SampleStatus.TRUNCATED):
        yield f"the final status is {sample.status.name}"
    if not len(sample.tokens) >= sample.response_length >= 1:
        yield f"{len(sample.tokens)} tokens with a response length of {sample.response_length}"
    if sample.loss_mask is not None:
        if len(sample.loss_mask) != sample.response_length:
            yield f"a loss mask of {len(sample.loss_mask)} for a response of {sample.response_length} tokens"
        elif not sum(sample.loss_mask):
            yield "an all-zero loss mask: the sample trains nothing"
    if (sample.rollout_log_probs is not None) != logprobs:
        yield "rollout_log_probs are set on some samples only"
    elif sample.rollout_log_probs is not None and len(sample.rollout_log_probs) != sample.response_length:
        yield f"{len(sample.rollout_log_probs)} log-probs for a response of {sample.response_length} tokens"
    if sample.train_metadata is not None:
        yield "train_metadata is set, which the default tensor conversion cannot hold"


def turn_problems(sample: Sample, said: Collection[tuple[int, ...]]) -> Iterator[str]:
    """What breaks the invariants of a multi-turn sample (recipe contract, section 4).

    Args:
        said: token ids of every answer that the engine gave.
    """
    mask, ids = sample.loss_mask, sample.tokens[len(sample.tokens) - sample.response_length :]
    if mask is None:
        yield "a multi-turn rollout sets no loss mask, so that results of tools would be trained on"
        return
    logprobs = sample.rollout_log_probs or []
    for value, group in itertools.groupby(zip(ids, mask, logprobs, strict=False), key=lambda item: item[1]):
        run = list(group)
        if value == 1 and tuple(item[0] for item in run) not in said:
            yield "trained tokens are not those that the engine returned"
        elif value == 0 and any(item[2] != 0.0 for item in run):
            yield "tokens of a tool's result have a log-prob"
        elif value not in (0, 1):
            yield f"the loss mask holds {value}"


def group_problems(samples: Sequence[Sample], size: int) -> Iterator[str]:
    """Groups that are not complete; the normalisation demands exactly `size` samples of each."""
    for index, group in _groups(samples).items():
        if index is None:
            yield "a sample has no group_index"
        elif len(group) != size:
            yield f"group {index} has {len(group)} samples, not {size}"


def _groups(samples: Sequence[Sample]) -> dict[int | None, list[int]]:
    groups: dict[int | None, list[int]] = defaultdict(list)
    for position, sample in enumerate(samples):
        groups[sample.group_index].append(position)
    return groups


def normalise(args: Any, samples: Sequence[Sample], raw: Sequence[float]) -> list[float]:
    """Rewards as --advantage-estimator normalises them within each prompt's group."""
    name = args.advantage_estimator
    if not args.rewards_normalization or name not in (*_STANDARDISED, "reinforce_plus_plus_baseline", "rloo"):
        return list(raw)
    result = list(raw)
    for positions in _groups(samples).values():
        values = [raw[position] for position in positions]
        mean = sum(values) / len(values)
        for position, value in zip(positions, values, strict=True):
            if name == "rloo":
                result[position] = (value - mean) * len(values) / max(len(values) - 1, 1)
            elif name in _STANDARDISED and args.grpo_std_normalization and len(values) > 1:
                deviation = math.sqrt(sum((item - mean) ** 2 for item in values) / (len(values) - 1))
                result[position] = (value - mean) / (deviation + 1e-6)
            else:
                result[position] = value - mean
    return result


def normalisation_problems(
    args: Any, samples: Sequence[Sample], raw: Sequence[float], done: Sequence[Any]
) -> Iterator[str]:
    """Processed rewards that are not numbers, or non-zero in a group whose rewards are all equal."""
    if len(done) != len(samples):
        yield f"{len(done)} processed rewards for {len(samples)} samples"
        return
    for sample, value in zip(samples, done, strict=True):
        items = value if isinstance(value, list) else [value]
        if isinstance(value, list) and len(value) != sample.response_length:
            yield f"a per-token reward of {len(value)} for a response of {sample.response_length} tokens"
        if any(reward_problem(float(item) if hasattr(item, "__float__") else item) for item in items):
            yield f"a processed reward is not a finite number: {value}"
    if args.custom_reward_post_process_path or not args.rewards_normalization:
        return
    if args.advantage_estimator in (*_STANDARDISED, "rloo", "reinforce_plus_plus_baseline"):
        for positions in _groups(samples).values():
            if len({raw[position] for position in positions}) == 1 and any(abs(done[p]) > 1e-4 for p in positions):
                yield "a group of equal rewards has a non-zero normalised reward"


def zero_variance_groups(samples: Sequence[Sample], raw: Sequence[float]) -> int:
    """Groups whose rewards are all equal: they train nothing."""
    return sum(len({raw[position] for position in positions}) == 1 for positions in _groups(samples).values())
