"""Outcome estimators of verl as --custom-reward-post-process-path: `fn(args, samples) -> (raw, processed)`.

Relax's grpo, gspo, sapo and cispo take the processed number as the advantage of every token of the sample (studio also
a list, one number a token), so what is returned here is the advantage itself. In sync mode the whole rollout comes in
one call; in fully async mode a part of it, always of whole groups (Relax contract, section 7).
"""

from __future__ import annotations

from typing import Any

GROUP_EPSILON = 1e-6
ALONE_TRAINS = True
PASS_AT_K_BY_STD = True
GDPO_KEYS: tuple[str, ...] = ()
GDPO_WEIGHTS: tuple[float, ...] = ()
GDPO_BY_STD = True
GAMMA = 1.0


def leave_one_out(args: Any, samples: list[Any]) -> tuple[list[float], list[float]]:
    """RLOO: the reward minus the mean reward of the other samples of the prompt.

    A_i = r_i - mean(r_j, j != i). verl multiplies (r_i - mean) by n / (n - 1), which is the same number. A prompt with
    one sample keeps its reward (rloo) or trains nothing (rloo_vectorized).
    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:588 (rloo) and :834 (rloo_vectorized).
    """
    raw = raw_rewards(args, samples)
    done = list(raw)
    for group in group_positions(args, samples):
        others = len(group) - 1
        total = sum(raw[position] for position in group)
        for position in group:
            if others:
                done[position] = raw[position] - (total - raw[position]) / others
            elif not ALONE_TRAINS:
                done[position] = 0.0
    return raw, done


def length_weighted_baseline(args: Any, samples: list[Any]) -> tuple[list[float], list[float]]:
    """OPO: the reward minus the mean reward of the prompt, weighted by length.

    A_i = r_i - sum(l_j r_j) / sum(l_j), l the tokens that train. A prompt with one sample keeps its reward.
    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:640.
    """
    raw = raw_rewards(args, samples)
    done = list(raw)
    for group in group_positions(args, samples):
        lengths = [trained_tokens(samples[position]) for position in group]
        if len(group) == 1 or not sum(lengths):
            continue
        weighted = sum(length * raw[position] for length, position in zip(lengths, group, strict=True))
        for position in group:
            done[position] = raw[position] - weighted / sum(lengths)
    return raw, done


def pass_at_k(args: Any, samples: list[Any]) -> tuple[list[float], list[float]]:
    """Pass@k: only the best sample of a prompt trains, by its lead over the second best.

    A_best = (r_1 - r_2) / (std(r) + 1e-6), the others 0; without the division when norm_adv_by_std_in_grpo is off.
    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:472.
    """
    raw = raw_rewards(args, samples)
    done = [0.0] * len(raw)
    for group in group_positions(args, samples):
        if len(group) < 2:
            raise ValueError("Pass@k needs at least two samples a prompt")
        best, second = sorted(group, key=lambda position: raw[position], reverse=True)[:2]
        lead = raw[best] - raw[second]
        if PASS_AT_K_BY_STD:
            lead /= spread([raw[position] for position in group]) + GROUP_EPSILON
        done[best] = lead
    return raw, done


def gpg_advantage(args: Any, samples: list[Any]) -> tuple[list[float], list[float]]:
    """GPG: the reward minus the prompt's mean, times the batch's share of rewards that are not zero, inverted.

    A_i = N / max(#{r != 0}, 1) * (r_i - mean(r)), N and the count over the whole call. A prompt with one sample keeps
    its reward. The factor is a statistic of the batch: only a call with the whole rollout gives verl's number.
    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:771.
    """
    raw = raw_rewards(args, samples)
    factor = len(raw) / max(sum(reward != 0 for reward in raw), 1)
    done = list(raw)
    for group in group_positions(args, samples):
        mean = sum(raw[position] for position in group) / len(group) if len(group) > 1 else 0.0
        for position in group:
            done[position] = factor * (raw[position] - mean)
    return raw, done


def decoupled_rewards(args: Any, samples: list[Any]) -> tuple[list[float], list[float]]:
    """GDPO: every component of the reward is normalised within the prompt, then the components are added.

    S_i = sum_k w_k (r_ik - mean(r_k)) / (std(r_k) + 1e-6). verl then whitens over the tokens of the batch, which
    --normalize-advantages does here. Components are read from the reward's dict.
    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:362.
    """
    raw = raw_rewards(args, samples)
    done = [0.0] * len(raw)
    weights = GDPO_WEIGHTS or (1.0,) * len(GDPO_KEYS)
    for group in group_positions(args, samples):
        for key, weight in zip(GDPO_KEYS, weights, strict=True):
            values = [float(samples[position].reward[key]) for position in group]
            mean = sum(values) / len(values) if len(values) > 1 else 0.0
            scale = (spread(values) if len(values) > 1 else 1.0) + GROUP_EPSILON if GDPO_BY_STD else 1.0
            for position, value in zip(group, values, strict=True):
                done[position] += weight * (value - mean) / scale
    return raw, done


def discounted_returns(args: Any, samples: list[Any]) -> tuple[list[float], list[list[float]]]:
    """REINFORCE++ with a discount: the reward, discounted once for every trained token after this one.

    G_t = gamma^k r, k the trained tokens after t; 0 on tokens that do not train. verl then whitens over the tokens of
    the batch, which --normalize-advantages does here. A response that ends in a token that does not train loses its
    reward, as in verl.
    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:694.
    """
    raw = raw_rewards(args, samples)
    done: list[list[float]] = []
    for reward, sample in zip(raw, samples, strict=True):
        mask = sample.loss_mask if sample.loss_mask is not None else [1] * sample.response_length
        value = reward if mask and mask[-1] else 0.0
        returns = [0.0] * len(mask)
        for position in reversed(range(len(mask))):
            if mask[position]:
                returns[position] = value
                value *= GAMMA
        done.append(returns)
    return raw, done


def group_positions(args: Any, samples: list[Any]) -> list[list[int]]:
    """Positions of the samples of each prompt.

    Raises:
        ValueError: a sample has no group, or a group is not complete.
    """
    groups: dict[int, list[int]] = {}
    for position, sample in enumerate(samples):
        if sample.group_index is None:
            raise ValueError(f"sample {position} has no group_index")
        groups.setdefault(sample.group_index, []).append(position)
    for index, group in groups.items():
        if len(group) != args.n_samples_per_prompt:
            raise ValueError(f"group {index} has {len(group)} samples, not {args.n_samples_per_prompt}")
    return list(groups.values())


def raw_rewards(args: Any, samples: list[Any]) -> list[float]:
    """The trained reward of each sample."""
    return [float(sample.get_reward_value(args)) for sample in samples]


def trained_tokens(sample: Any) -> int:
    """Tokens of the response that train."""
    return int(sum(sample.loss_mask)) if sample.loss_mask is not None else int(sample.response_length)


def spread(values: list[float]) -> float:
    """Standard deviation with n - 1, as torch.std."""
    mean = sum(values) / len(values)
    return float((sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5)
