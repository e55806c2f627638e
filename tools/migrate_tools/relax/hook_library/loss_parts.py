"""What every custom loss shares: its inputs out of Relax's batch, and the end of verl's loss (ppo_loss).

Source of the end: verl 0.9.1 verl/workers/utils/losses.py:55 (importance weights, entropy, KL, loss_agg_mode).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from migrate_tools.relax.hook_library.correction import IS_LEVEL, REJECT, VETO, rollout_correction

AGGREGATION = "token-mean"
AGGREGATION_SCALE = 1.0
AGGREGATION_BY_SAMPLES = False
OWN_KL = ""
WEIGHTS_FROM_CURRENT = False
WEIGHTS_PER_RESPONSE = False
NO_WEIGHTS = False
LAYOUT = ("max_seq_lens", "padded_total_lengths", "dynamic_cp_size", "dynamic_cp_rank")


@dataclass
class LossParts:
    """One micro batch, flat over its response tokens, [tokens]."""

    log_probs: Any
    old_log_probs: Any
    advantages: Any
    masks: list[Any]
    entropy: Any
    lengths: list[int]

    @property
    def mask(self) -> Any:
        """Which tokens train.

        Raises:
            ValueError: the log-probs are not those of whole responses (context parallelism splits them).
        """
        import torch

        mask = torch.cat(self.masks).to(self.log_probs.device)
        if self.log_probs.shape != mask.shape:
            raise ValueError(
                f"{self.log_probs.shape[0]} log-probs for {mask.shape[0]} response tokens: this hook needs "
                "--context-parallel-size 1"
            )
        return mask

    def by_sample(self, values: Any) -> Iterator[tuple[Any, Any]]:
        """The values and the mask of each sample."""
        yield from zip(values.split(self.lengths), self.mask.split(self.lengths), strict=True)


def loss_parts(args: Any, batch: Any, logits: Any) -> LossParts:
    """Log-probs and entropy from the logits, the rest from the batch."""
    import torch
    from relax.backends.megatron.loss import get_log_probs_and_entropy

    _, found = get_log_probs_and_entropy(
        logits,
        args=args,
        unconcat_tokens=batch["unconcat_tokens"],
        total_lengths=batch["total_lengths"],
        response_lengths=batch["response_lengths"],
        with_entropy=True,
        **{name: batch[name] for name in LAYOUT if batch.get(name) is not None},
    )
    log_probs = torch.cat(list(found["log_probs"]))
    old = old_log_probs(args, batch, log_probs)
    advantages = batch["advantages"]
    advantages = torch.cat(list(advantages)) if isinstance(advantages, (list, tuple)) else advantages
    entropy = torch.cat(list(found["entropy"]))
    lengths = [int(length) for length in batch["response_lengths"]]
    return LossParts(log_probs, old, advantages.detach(), list(batch["loss_masks"]), entropy, lengths)


def old_log_probs(args: Any, batch: Any, log_probs: Any) -> Any:
    """Log-probs of the policy that the ratio is taken against; Relax's true on-policy mode keeps none."""
    import torch

    if getattr(args, "true_on_policy_mode", False) and not args.use_rollout_logprobs:
        return log_probs.detach()
    return torch.cat(list(batch["rollout_log_probs" if args.use_rollout_logprobs else "log_probs"])).detach()


def finished_loss(
    args: Any,
    batch: Any,
    parts: LossParts,
    token_loss: Callable[[Any, LossParts], tuple[Any, dict[str, Any]]],
    sum_of_sample_mean: Any,
) -> tuple[Any, dict[str, Any]]:
    """Weigh, aggregate, and add entropy and KL as verl does; metrics are detached scalars."""
    import torch

    losses, metrics = token_loss(args, parts)
    reduce = sum_of_sample_mean
    if IS_LEVEL != "none" or REJECT or VETO is not None:
        losses, masks, more = corrected(args, batch, parts, losses)
        metrics = {**metrics, **more}
        parts = LossParts(parts.log_probs, parts.old_log_probs, parts.advantages, masks, parts.entropy, parts.lengths)
        reduce = None
    if AGGREGATION not in ("token-mean", "seq-mean-token-mean"):
        reduce = None
    tokens_before = [mask.sum() for mask in batch["loss_masks"]]

    def total(values: Any) -> Any:
        return reduce(values) if reduce is not None else aggregate(args, parts, values, tokens_before)

    policy = total(losses)
    entropy = total(parts.entropy)
    loss = policy - args.entropy_coef * entropy
    report = {"pg_loss": policy, "entropy_loss": entropy}
    if args.use_kl_loss:
        reference = torch.cat(list(batch["ref_log_probs"])).detach()
        kl = total(kl_tokens(parts.log_probs, reference, OWN_KL or args.kl_loss_type))
        loss = loss + args.kl_loss_coef * kl
        report["kl_loss"] = kl
    report["ppo_kl"] = sum_of_sample_mean(parts.old_log_probs - parts.log_probs)
    report |= {name: sum_of_sample_mean(values) for name, values in metrics.items()}
    report["loss"] = loss
    return loss, {name: value.detach().clone() for name, value in report.items()}


def corrected(args: Any, batch: Any, parts: LossParts, losses: Any) -> tuple[Any, list[Any], dict[str, Any]]:
    """The losses weighed, the masks without what is rejected, and metrics."""
    import torch

    rollout = list(batch["rollout_log_probs"])
    train = list(parts.log_probs.detach().split(parts.lengths)) if WEIGHTS_FROM_CURRENT else None
    ones = torch.ones_like(losses)
    weights, masks, more = rollout_correction(
        args,
        pg_loss=ones,
        train_log_probs=train or list(batch.get("log_probs") or parts.log_probs.detach().split(parts.lengths)),
        rollout_log_probs=rollout,
        loss_masks=list(batch["loss_masks"]),
    )
    if NO_WEIGHTS:
        weights = ones
    if WEIGHTS_PER_RESPONSE:
        weights = torch.cat(
            [
                (((part + 1e-10).log() * mask).sum() / (mask.sum() + 1e-8)).exp().expand(part.shape)
                for part, mask in parts.by_sample(weights)
            ]
        )
    return losses * weights, masks, more


def aggregate(args: Any, parts: LossParts, values: Any, tokens_before: list[Any]) -> Any:
    """The values as the sum over samples (or tokens) that Relax then divides by the batch."""
    sums = [(part * mask).sum() for part, mask in parts.by_sample(values)]
    if AGGREGATION == "seq-mean-token-mean":
        sums = [part / tokens.clamp(min=1) for part, tokens in zip(sums, tokens_before, strict=True)]
    if AGGREGATION == "micro-batch-token-mean":
        return sum(sums) * len(sums) / parts.mask.sum().clamp(min=1)
    factor = AGGREGATION_SCALE * (len(sums) if AGGREGATION_BY_SAMPLES else 1)
    return sum(sums) * factor


def kl_tokens(log_probs: Any, reference: Any, kind: str) -> Any:
    """KL of every token by verl's estimator; a trailing + takes k2's gradient.

    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:2188 (kl_penalty).
    """
    difference = log_probs - reference
    base = kind.removesuffix("+")
    if base in ("kl", "k1"):
        value = difference
    elif base == "abs":
        value = difference.abs()
    elif base in ("mse", "k2"):
        value = 0.5 * difference.square()
    elif base in ("low_var_kl", "k3"):
        inverse = (-difference).clamp(-20.0, 20.0)
        value = (inverse.exp() - inverse - 1.0).clamp(-10.0, 10.0)
    else:
        raise ValueError(f"no KL estimator {kind!r}")
    if kind == base or base in ("mse", "k2"):
        return value
    gradient = 0.5 * difference.square()
    return gradient - gradient.detach() + value.detach()


def masked_mean(values: Any, mask: Any) -> Any:
    """Mean over the tokens that train."""
    return (values * mask).sum() / (mask.sum() + 1e-8)
