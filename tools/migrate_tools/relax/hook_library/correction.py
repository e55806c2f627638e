"""verl's rollout correction as --custom-tis-function-path: importance weights and rejection for the rollout policy.

`fn(args, *, pg_loss, train_log_probs, rollout_log_probs, loss_masks, total_lengths, response_lengths)` returns the
loss, the masks and metrics. pg_loss is flat over the response tokens of the micro batch, the others are lists, one
tensor a sample.
"""

from __future__ import annotations

from typing import Any

IS_LEVEL = "none"
IS_LOWER: float | None = None
IS_UPPER = 2.0
REJECT: tuple[tuple[str, float | None, float], ...] = ()
VETO: float | None = None
SAFE_LOG_RATIO = 20.0


def rollout_correction(
    args: Any,
    *,
    pg_loss: Any,
    train_log_probs: list[Any],
    rollout_log_probs: list[Any],
    loss_masks: list[Any],
    **_: Any,
) -> tuple[Any, list[Any], dict[str, Any]]:
    """Weigh the policy loss by pi_train / pi_rollout, and leave out what the two policies disagree on.

    With d = log pi_train - log pi_rollout. Weight: exp(d) a token, exp(sum d) a sequence, or exp(mean d) (verl 0.6.0);
    capped from above (TIS), or 0 outside [lower, upper] (IcePop). Rejection: k1 = -d, k2 = d^2 / 2, k3 = e^d - 1 - d,
    of a token or the sum, mean or maximum of a sequence (before 0.7.1 exp of d itself). Veto: a sequence with one
    token whose ratio is below a bound.
    Source: verl 0.9.1 verl/trainer/ppo/rollout_corr_helper.py:197 and :522; 0.6.1 the same file :82 and :318.
    """
    import torch

    weights, masks, kept = [], [], []
    for train, rollout, mask in zip(train_log_probs, rollout_log_probs, loss_masks, strict=True):
        if train.shape != mask.shape:
            raise ValueError(
                f"{train.shape[0]} log-probs for a mask of {mask.shape[0]} tokens: this hook needs "
                "--context-parallel-size 1"
            )
        difference = (train - rollout).detach().float()
        keep = kept_tokens(difference, mask)
        weights.append(importance_weights(difference, mask))
        kept.append(keep)
        masks.append((mask * keep).to(mask.dtype))
    flat = torch.cat(weights)
    difference = torch.cat(list(train_log_probs)) - torch.cat(list(rollout_log_probs))
    metrics = {
        "tis": flat.clone(),
        "rejected": 1.0 - torch.cat(kept),
        "mismatch_kl": -difference.detach(),
    }
    return pg_loss * flat.to(pg_loss.dtype), masks, metrics


def importance_weights(difference: Any, mask: Any) -> Any:
    """Weights of one sample's tokens, [tokens]."""
    if IS_LEVEL == "none":
        return difference.new_ones(difference.shape)
    if IS_LEVEL == "token":
        ratio = difference
    else:
        ratio = (difference * mask).sum().expand_as(difference)
        if IS_LEVEL == "geometric":
            ratio = ratio / mask.sum().clamp(min=1)
    weights = ratio.clamp(-SAFE_LOG_RATIO, SAFE_LOG_RATIO).exp() * mask
    if IS_LOWER is None:
        return weights.clamp(max=IS_UPPER)
    return weights * ((weights >= IS_LOWER) & (weights <= IS_UPPER))


def kept_tokens(difference: Any, mask: Any) -> Any:
    """1.0 for the tokens of one sample that every rule of rejection keeps, else 0.0."""
    import math

    keep = difference.new_ones(difference.shape)
    tokens = mask.sum().clamp(min=1)
    safe = difference.clamp(-SAFE_LOG_RATIO, SAFE_LOG_RATIO)
    for rule, lower, upper in REJECT:
        level, _, estimator = rule.rpartition("_")
        if estimator == "k1":
            value = -safe
        elif estimator == "k2":
            value = 0.5 * safe**2
        elif estimator == "k3":
            value = safe.exp() - 1.0 - safe
        else:  # "ratio": verl before 0.7.1 compares pi_train / pi_rollout, not its logarithm
            value = difference
        if level == "seq_sum":
            value = (value * mask).sum().expand_as(difference)
        elif level == "seq_mean":
            value = ((value * mask).sum() / tokens).expand_as(difference)
        elif level == "seq_max":
            trained = value[mask > 0]
            value = (trained.max() if trained.numel() else value.sum() * 0).expand_as(difference)
        if estimator == "ratio":
            value = value.clamp(-SAFE_LOG_RATIO, SAFE_LOG_RATIO).exp()
        low, high = (lower, upper)
        if estimator == "k1":
            low, high = math.log(lower or 1.0 / upper), math.log(upper)
        passed = value <= high if low is None else (value >= low) & (value <= high)
        keep = keep * passed.to(keep.dtype)
    if VETO is not None and bool(((difference < math.log(VETO)) & (mask > 0)).any()):
        keep = keep * 0
    return keep
