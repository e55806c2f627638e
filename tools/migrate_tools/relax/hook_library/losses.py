"""verl's policy losses, token by token, as --custom-loss-function-path with --loss-type custom_loss.

`fn(args, batch, logits, sum_of_sample_mean) -> (loss, metrics)` (Relax contract, section 7), called in the Megatron
worker for each micro batch. Each function here computes the loss of every response token and hands it to
`finished_loss`, which adds what verl adds (importance weights, entropy, KL) and aggregates.
"""

from __future__ import annotations

from typing import Any

from migrate_tools.relax.hook_library.loss_parts import LossParts, finished_loss, loss_parts, masked_mean

CLIP_COV_RATIO = 0.0002
CLIP_COV_LOW = 1.0
CLIP_COV_HIGH = 5.0
KL_COV_RATIO = 0.0002
KL_COV_COEF = 1.0
DRO_BETA = 0.1


def dual_clip_loss(args: Any, batch: Any, logits: Any, sum_of_sample_mean: Any) -> tuple[Any, dict[str, Any]]:
    """PPO's clipped objective with a bound for negative advantages.

    L = max(-r A, -clip(r, 1 - low, 1 + high) A); where A < 0 at most -c A; r = exp(log pi - log pi_old).
    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:1286 (vanilla).
    """
    return finished_loss(args, batch, loss_parts(args, batch, logits), dual_clip_tokens, sum_of_sample_mean)


def dual_clip_tokens(args: Any, parts: LossParts) -> tuple[Any, dict[str, Any]]:
    """Loss of every token, and metrics of every token."""
    import torch

    advantages = parts.advantages
    ratio = (parts.log_probs - parts.old_log_probs).clamp(-20.0, 20.0).exp()
    plain = -advantages * ratio
    clipped = torch.maximum(plain, -advantages * ratio.clamp(1 - args.eps_clip, 1 + args.eps_clip_high))
    bounded = torch.minimum(clipped, -advantages * args.eps_clip_c)
    return torch.where(advantages < 0, bounded, clipped), {"pg_clipfrac": (clipped > plain).float()}


def sequence_ratio_loss(args: Any, batch: Any, logits: Any, sum_of_sample_mean: Any) -> tuple[Any, dict[str, Any]]:
    """GSPO: the clipped objective with the ratio of the whole response.

    s = exp(mean_t (log pi - log pi_old)), its gradient that of each token's log pi; L_t = max(-s A, -clip(s) A).
    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:1546 (gspo).
    """
    return finished_loss(args, batch, loss_parts(args, batch, logits), sequence_ratio_tokens, sum_of_sample_mean)


def sequence_ratio_tokens(args: Any, parts: LossParts) -> tuple[Any, dict[str, Any]]:
    """Loss of every token, and metrics of every token."""
    import torch

    difference = (parts.log_probs - parts.old_log_probs).detach()
    means = torch.cat(
        [
            ((part * mask).sum() / mask.sum().clamp(min=1)).expand(part.shape)
            for part, mask in parts.by_sample(difference)
        ]
    )
    ratio = (parts.log_probs - parts.log_probs.detach() + means).clamp(max=10.0).exp()
    plain = -parts.advantages * ratio
    clipped = torch.maximum(plain, -parts.advantages * ratio.clamp(1 - args.eps_clip, 1 + args.eps_clip_high))
    return clipped, {"pg_clipfrac": (clipped > plain).float()}


def soft_gate_loss(args: Any, batch: Any, logits: Any, sum_of_sample_mean: Any) -> tuple[Any, dict[str, Any]]:
    """SAPO: a sigmoid gate in place of the clip.

    L = -A 4 / tau sigmoid(tau (r - 1)), tau by the sign of A.
    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:1623 (sapo).
    """
    return finished_loss(args, batch, loss_parts(args, batch, logits), soft_gate_tokens, sum_of_sample_mean)


def soft_gate_tokens(args: Any, parts: LossParts) -> tuple[Any, dict[str, Any]]:
    """Loss of every token, and metrics of every token."""
    ratio = (parts.log_probs - parts.old_log_probs).clamp(-20.0, 20.0).exp()
    tau = parts.advantages.new_full(parts.advantages.shape, args.sapo_tau_neg).masked_fill(
        parts.advantages > 0, args.sapo_tau_pos
    )
    return -parts.advantages * (tau * (ratio - 1.0)).sigmoid() * 4.0 / tau, {}


def gpg_loss(args: Any, batch: Any, logits: Any, sum_of_sample_mean: Any) -> tuple[Any, dict[str, Any]]:
    """GPG: the plain policy gradient.

    L = -A log pi.
    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:1708 (gpg).
    """
    return finished_loss(args, batch, loss_parts(args, batch, logits), gpg_tokens, sum_of_sample_mean)


def gpg_tokens(args: Any, parts: LossParts) -> tuple[Any, dict[str, Any]]:
    """Loss of every token, and metrics of every token."""
    return -parts.log_probs * parts.advantages, {}


def clip_cov_loss(args: Any, batch: Any, logits: Any, sum_of_sample_mean: Any) -> tuple[Any, dict[str, Any]]:
    """Clip-Cov: the clipped objective; a random few tokens of high covariance do not train.

    cov = (A - mean A)(log pi - mean log pi) over the micro batch; of the tokens with lb < cov < ub that the clip leaves
    alone, max(int(ratio * tokens), 1) at random get loss 0.
    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:1744 (clip_cov).
    """
    return finished_loss(args, batch, loss_parts(args, batch, logits), clip_cov_tokens, sum_of_sample_mean)


def clip_cov_tokens(args: Any, parts: LossParts) -> tuple[Any, dict[str, Any]]:
    """Loss of every token, and metrics of every token."""
    import torch

    advantages, mask = parts.advantages, parts.mask
    ratio = (parts.log_probs - parts.old_log_probs).exp()
    plain = -advantages * ratio
    clipped = torch.maximum(plain, -advantages * ratio.clamp(1 - args.eps_clip, 1 + args.eps_clip_high))
    log_probs = parts.log_probs.detach()
    covariance = (advantages - masked_mean(advantages, mask)) * (log_probs - masked_mean(log_probs, mask))
    eligible = (covariance > CLIP_COV_LOW) & (covariance < CLIP_COV_HIGH) & (mask > 0) & (clipped <= plain)
    places = torch.nonzero(eligible).flatten()
    count = min(max(int(CLIP_COV_RATIO * float(mask.sum())), 1), len(places))
    chosen = places[torch.randperm(len(places))[:count].to(places.device)]
    trains = torch.ones_like(advantages).index_fill(0, chosen, 0.0)
    return clipped * trains, {"pg_clipfrac": 1.0 - trains}


def kl_cov_loss(args: Any, batch: Any, logits: Any, sum_of_sample_mean: Any) -> tuple[Any, dict[str, Any]]:
    """KL-Cov: the plain ratio objective; the tokens of highest covariance pay for moving away.

    L = -r A; for the max(1, int(ratio * tokens)) trained tokens of highest cov in the micro batch
    L = -r A + coef |log pi - log pi_old|.
    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:1849 (kl_cov).
    """
    return finished_loss(args, batch, loss_parts(args, batch, logits), kl_cov_tokens, sum_of_sample_mean)


def kl_cov_tokens(args: Any, parts: LossParts) -> tuple[Any, dict[str, Any]]:
    """Loss of every token, and metrics of every token."""
    import torch

    difference = parts.log_probs - parts.old_log_probs
    losses = -parts.advantages * difference.exp()
    places = torch.nonzero(parts.mask > 0).flatten()
    chosen = places[:0]
    if len(places):
        advantages, log_probs = parts.advantages[places], parts.log_probs.detach()[places]
        covariance = (advantages - advantages.mean()) * (log_probs - log_probs.mean())
        chosen = places[torch.topk(covariance, max(1, int(len(places) * KL_COV_RATIO))).indices]
    pays = torch.zeros_like(losses).index_fill(0, chosen, 1.0)
    return losses + KL_COV_COEF * difference.abs() * pays, {"pg_clipfrac": pays}


def geometric_mean_loss(args: Any, batch: Any, logits: Any, sum_of_sample_mean: Any) -> tuple[Any, dict[str, Any]]:
    """GMPO: the ratio of a response is the geometric mean of its tokens' clipped ratios.

    d = log pi - log pi_old; where A > 0 min(d, high), where A < 0 max(d, -low); L = -mean_t(A) exp(mean_t d), one a
    response, averaged over responses whatever loss_agg_mode says.
    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:1929 (geo_mean).
    """
    return finished_loss(args, batch, loss_parts(args, batch, logits), geometric_mean_tokens, sum_of_sample_mean)


def geometric_mean_tokens(args: Any, parts: LossParts) -> tuple[Any, dict[str, Any]]:
    """One loss a response, at every token of it, and metrics of every token."""
    import torch

    sign = parts.advantages.sign()
    difference = parts.log_probs - parts.old_log_probs
    clipped = difference.clamp(-args.eps_clip, args.eps_clip_high)
    smaller = sign * torch.minimum(sign * difference, sign * clipped)
    losses = []
    for (part, mask), (advantage, _) in zip(parts.by_sample(smaller), parts.by_sample(parts.advantages), strict=True):
        tokens = mask.sum() + 1e-8
        loss = -(advantage * mask).sum() / tokens * ((part * mask).sum() / tokens).exp()
        losses.append(loss.expand(part.shape))
    return torch.cat(losses), {"pg_clipfrac": (difference != clipped).float()}


def tv_bound_loss(args: Any, batch: Any, logits: Any, sum_of_sample_mean: Any) -> tuple[Any, dict[str, Any]]:
    """DPPO with a bound on the change of the token's probability.

    L = -A sg(min(r, c)) log pi m; m = 0 where A > 0 and pi - pi_old > high, or A <= 0 and pi - pi_old < -low.
    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:1380 (dppo_tv).
    """
    return finished_loss(args, batch, loss_parts(args, batch, logits), tv_bound_tokens, sum_of_sample_mean)


def tv_bound_tokens(args: Any, parts: LossParts) -> tuple[Any, dict[str, Any]]:
    """Loss of every token, and metrics of every token."""
    import torch

    moved = (parts.log_probs.exp() - parts.old_log_probs.exp()).detach()
    inside = torch.where(parts.advantages > 0, moved <= args.eps_clip_high, moved >= -args.eps_clip).to(moved.dtype)
    ratio = (parts.log_probs - parts.old_log_probs).clamp(-20.0, 20.0).exp().clamp(max=args.eps_clip_c).detach()
    return -parts.advantages * ratio * parts.log_probs * inside, {"pg_clipfrac": 1.0 - inside}


def binary_kl_bound_loss(args: Any, batch: Any, logits: Any, sum_of_sample_mean: Any) -> tuple[Any, dict[str, Any]]:
    """DPPO with a bound on the KL divergence of "this token or another".

    D = p_old log(p_old / p) + (1 - p_old) log((1 - p_old) / (1 - p)); L = -A sg(min(r, c)) log pi m; m = 0 where
    A > 0, D > high and p > p_old, or A <= 0, D > low and p < p_old.
    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:1461 (dppo_kl).
    """
    return finished_loss(args, batch, loss_parts(args, batch, logits), binary_kl_bound_tokens, sum_of_sample_mean)


def binary_kl_bound_tokens(args: Any, parts: LossParts) -> tuple[Any, dict[str, Any]]:
    """Loss of every token, and metrics of every token."""
    import torch

    log_probs, old = parts.log_probs.detach(), parts.old_log_probs
    new_p, old_p = log_probs.exp(), old.exp()
    rest = (1 - old_p) * torch.log((1.0 - old_p + 1e-8) / (1.0 - new_p + 1e-8))
    divergence = old_p * (old - log_probs) + rest
    up = (divergence <= args.eps_clip_high) | (new_p <= old_p)
    down = (divergence <= args.eps_clip) | (new_p >= old_p)
    inside = torch.where(parts.advantages > 0, up, down).to(divergence.dtype)
    ratio = (parts.log_probs - old).clamp(-20.0, 20.0).exp().clamp(max=args.eps_clip_c).detach()
    return -parts.advantages * ratio * parts.log_probs * inside, {"pg_clipfrac": 1.0 - inside}


def quadratic_penalty_loss(args: Any, batch: Any, logits: Any, sum_of_sample_mean: Any) -> tuple[Any, dict[str, Any]]:
    """DRO: the plain policy gradient with a quadratic penalty on the log-ratio.

    L = -(A log pi - beta / 2 (log pi - log pi_old)^2).
    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:2015 (dro).
    """
    return finished_loss(args, batch, loss_parts(args, batch, logits), quadratic_penalty_tokens, sum_of_sample_mean)


def quadratic_penalty_tokens(args: Any, parts: LossParts) -> tuple[Any, dict[str, Any]]:
    """Loss of every token, and metrics of every token."""
    difference = parts.log_probs - parts.old_log_probs
    return -(parts.log_probs * parts.advantages - 0.5 * DRO_BETA * difference.square()), {}


def clipped_weight_loss(args: Any, batch: Any, logits: Any, sum_of_sample_mean: Any) -> tuple[Any, dict[str, Any]]:
    """CISPO as verl clips it: both bounds, whatever the sign of the advantage.

    L = -sg(clip(r, 1 - low, 1 + high)) A log pi.
    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:2048 (cispo).
    """
    return finished_loss(args, batch, loss_parts(args, batch, logits), clipped_weight_tokens, sum_of_sample_mean)


def clipped_weight_tokens(args: Any, parts: LossParts) -> tuple[Any, dict[str, Any]]:
    """Loss of every token, and metrics of every token."""
    ratio = (parts.log_probs - parts.old_log_probs).clamp(-20.0, 20.0).exp().detach()
    weight = ratio.clamp(1 - args.eps_clip, 1 + args.eps_clip_high)
    return -weight * parts.advantages * parts.log_probs, {"pg_clipfrac": (ratio != weight).float()}


def reinforce_loss(args: Any, batch: Any, logits: Any, sum_of_sample_mean: Any) -> tuple[Any, dict[str, Any]]:
    """The plain policy gradient of verl's bypass mode, the correction against the rollout policy in the weights.

    L = -w A log pi, w from the current policy and the rollout's.
    Source: verl 0.9.1 verl/trainer/ppo/core_algos.py:2333 (bypass_mode with loss_type reinforce).
    """
    return finished_loss(args, batch, loss_parts(args, batch, logits), gpg_tokens, sum_of_sample_mean)
