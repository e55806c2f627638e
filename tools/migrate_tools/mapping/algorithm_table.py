"""What Relax makes of every advantage estimator, policy loss and loss aggregation that verl has.

Data only: the mapping reads it, skill/references/algorithms.md is generated from it, and a test compares it with the
registries of verl's own source. Versions are those of the released wheels that have the name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Advantage = Literal["group mean and std", "group mean", "raw reward", "hook", "critic", ""]


@dataclass(frozen=True)
class Estimator:
    """One advantage estimator of verl."""

    since: str
    relax: str
    """--advantage-estimator; empty: refused."""
    advantage: Advantage = ""
    """How the processed reward, which is the advantage, comes about."""
    hook: str = ""
    """Function of --custom-reward-post-process-path."""
    whiten: bool = False
    """verl whitens over the tokens of the batch: --normalize-advantages."""
    whole_rollout: bool = False
    """The hook needs the statistics of the whole rollout, which only sync mode hands over."""
    exact: str = ""
    """How exact it is, and what decides."""
    refusal: str = ""


ESTIMATORS: Final[dict[str, Estimator]] = {
    "grpo": Estimator("0.2", "grpo", "group mean and std", exact="the same formula"),
    "grpo_vectorized": Estimator("0.6", "grpo", "group mean and std", exact="the same formula"),
    "rloo": Estimator(
        "0.3", "grpo", "hook", "leave_one_out",
        exact="the same advantage; Relax's own rloo is not used: its loss has no ratio and no clip, verl's has both",
    ),
    "rloo_vectorized": Estimator("0.6", "grpo", "hook", "leave_one_out", exact="as rloo"),
    "reinforce_plus_plus": Estimator(
        "0.2", "grpo", "raw reward", whiten=True,
        exact="the same advantage without KL in the reward (a discount below 1 by a hook); with it "
        "Relax's reinforce_plus_plus, which takes k1 and the variance with n instead of n - 1",
    ),
    "reinforce_plus_plus_baseline": Estimator(
        "0.4", "grpo", "group mean", whiten=True,
        exact="the same advantage; Relax's own estimator of the name is not used: it demands a k2 KL loss",
    ),
    "gae": Estimator("0.1", "ppo", "critic", whiten=True, exact="the same formula; Relax applies no KL with a critic"),
    "gpg": Estimator(
        "0.5", "grpo", "hook", "gpg_advantage", whole_rollout=True,
        exact="the same formula over the rollout; under the on-policy policy that is one mini batch of verl",
    ),
    "opo": Estimator("0.4", "grpo", "hook", "length_weighted_baseline", exact="the same formula"),
    "grpo_passk": Estimator("0.4", "grpo", "hook", "pass_at_k", exact="the same formula"),
    "gdpo": Estimator("0.7.1", "grpo", "hook", "decoupled_rewards", whiten=True, exact="the same formula"),
    "remax": Estimator(
        "0.2", "", refusal="ReMax needs an extra greedy sample for every prompt, which Relax's rollout does not make"
    ),
    "optimal_token_baseline": Estimator(
        "0.7.1", "",
        refusal="the baseline of a token needs the training policy's probabilities of all samples of the prompt; the "
        "reward hooks of Relax have none, its loss hook sees one micro batch",
    ),
    "tir_optimal_token_baseline": Estimator(
        "0.7.1", "",
        refusal="the baseline of a token needs the training policy's probabilities of all samples of the prompt; the "
        "reward hooks of Relax have none, its loss hook sees one micro batch",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class PolicyLoss:
    """One policy loss of verl."""

    since: str
    hook: str = ""
    """Function of --custom-loss-function-path; empty: refused."""
    estimator: str = ""
    """Relax's estimator that carries the loss without a hook."""
    native_when: Literal["always", "ratio is 1", "never"] = "never"
    """When Relax's own loss is the same."""
    per_sequence: Literal["", "always", "before 0.9.1"] = ""
    """verl averages per sequence whatever loss_agg_mode says."""
    exact: str = ""
    refusal: str = ""


LOSSES: Final[dict[str, PolicyLoss]] = {
    "vanilla": PolicyLoss(
        "0.1", "dual_clip_loss", "grpo", "ratio is 1",
        exact="Relax's own loss where no dual clip can act (one update a rollout: the ratio stays 1); else the hook, "
        "because Relax parses --eps-clip-c and does not apply it",
    ),
    "gspo": PolicyLoss(
        "0.6", "sequence_ratio_loss", "gspo", "always", "before 0.9.1", exact="the same loss and gradient"
    ),
    "sapo": PolicyLoss("0.7", "soft_gate_loss", "sapo", "always", "always", exact="the same loss"),
    "cispo": PolicyLoss(
        "0.7", "clipped_weight_loss", "cispo", "ratio is 1",
        exact="Relax's own loss while the ratio stays 1; else the hook: verl clips both ways, Relax by the sign of A",
    ),
    "gpg": PolicyLoss("0.5", "gpg_loss", exact="the same loss"),
    "clip_cov": PolicyLoss("0.4.1", "clip_cov_loss", exact="the same loss; covariance over a micro batch on both"),
    "kl_cov": PolicyLoss("0.4.1", "kl_cov_loss", exact="the same loss; covariance over a micro batch on both"),
    "geo_mean": PolicyLoss(
        "0.6", "geometric_mean_loss", per_sequence="always",
        exact="the same loss, averaged over the batch; since 0.8 verl adds up the means of micro batches, so that its "
        "gradient grows with their number",
    ),
    "dppo_tv": PolicyLoss("0.7.1", "tv_bound_loss", exact="the same loss"),
    "dppo_kl": PolicyLoss("0.7.1", "binary_kl_bound_loss", exact="the same loss"),
    "dro": PolicyLoss("0.9", "quadratic_penalty_loss", exact="the same loss"),
    "reinforce": PolicyLoss(
        "0.7", "reinforce_loss", exact="the same loss (bypass_mode with loss_type reinforce; 0.6.1 use_policy_gradient)"
    ),
    "bypass_mode": PolicyLoss(
        "0.7", refusal="verl sets it itself with algorithm.rollout_correction.bypass_mode; set that instead"
    ),
    "rollout_correction": PolicyLoss(
        "0.6.1", refusal="verl sets it itself with algorithm.rollout_correction.use_policy_gradient; set that instead"
    ),
    "gvpo": PolicyLoss(
        "", refusal="its loss compares all samples of a prompt, and Relax's loss hook sees one micro batch"
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Aggregation:
    """One loss_agg_mode of verl."""

    since: str
    relax: str
    exact: str


AGGREGATIONS: Final[dict[str, Aggregation]] = {
    "token-mean": Aggregation(
        "0.1", "--calculate-per-token-loss",
        "exact since 0.8; before it verl averages the tokens of each micro batch and then micro batches, Relax always "
        "the tokens of the batch",
    ),
    "seq-mean-token-mean": Aggregation("0.4", "Relax's default", "the same mean"),
    "seq-mean-token-sum": Aggregation("0.4", "hook token_sum", "the same sum"),
    "seq-mean-token-sum-norm": Aggregation(
        "0.4", "hook token_sum",
        "the same sum over loss_scale_factor or the response length; before 0.7.1 verl also weighs with the samples of "
        "a micro batch, which a dynamic batch does not keep",
    ),
    "token-sum": Aggregation("0.9", "hook token_sum", "the same sum"),
}  # fmt: skip
