"""verl's policy loss as its own rules make it: the loss in force, its clipping and its aggregation. Writes no flags."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from migrate_tools.mapping.algorithm_table import LOSSES, PolicyLoss
from migrate_tools.mapping.facts import ACTOR, Facts

CLIP, LOW, HIGH, DUAL = (ACTOR + name for name in ("clip_ratio", "clip_ratio_low", "clip_ratio_high", "clip_ratio_c"))
ROLLOUT_LOG_PROBS = ACTOR + "use_rollout_log_probs"
AGG, SCALE = ACTOR + "loss_agg_mode", ACTOR + "loss_scale_factor"
BYPASS, BYPASS_LOSS, OLD_REINFORCE = (
    "algorithm.rollout_correction." + name for name in ("bypass_mode", "loss_type", "use_policy_gradient")
)


@dataclass(frozen=True)
class Mode:
    """verl's loss in force, with what bypass mode makes of it."""

    name: str
    row: PolicyLoss
    bypass: bool


def clip_range(facts: Facts) -> tuple[float, float]:
    """Lower and upper clip ratio in force: low and high win over clip_ratio where they are not null."""
    both = facts.number(CLIP, default=0.2) or 0.2
    low, high = facts.number(LOW), facts.number(HIGH)
    return (both if low is None else low), (both if high is None else high)


def loss_in_force(facts: Facts) -> Mode:
    """The loss that verl computes; since 0.7 bypass mode takes vanilla or the plain gradient, whatever is set."""
    name, bypass = facts.loss_mode, facts.flag(BYPASS)
    if bypass:
        if facts.text(BYPASS_LOSS) == "reinforce" or facts.flag(OLD_REINFORCE):
            name = "reinforce"
        elif facts.has(BYPASS_LOSS):
            name = "vanilla"
    return Mode(name, LOSSES.get(name, LOSSES["vanilla"]), bypass or facts.flag(ROLLOUT_LOG_PROBS))


def aggregation(facts: Facts) -> str:
    """verl's loss aggregation in force; some losses average per sequence whatever the setting says."""
    row = loss_in_force(facts).row
    if row.per_sequence == "always" or (row.per_sequence and _fixed_in_source(facts)):
        return "seq-mean-token-mean"
    return facts.text(AGG, default="token-mean")


def _fixed_in_source(facts: Facts) -> bool:
    """Whether this verl's gspo ignores loss_agg_mode: its source says so, else its version (0.9.1 reads it)."""
    source = Path(facts.launch.verl.root, "verl", "trainer", "ppo", "core_algos.py")
    if source.is_file():
        text = source.read_text(encoding="utf-8", errors="replace").partition("def compute_policy_loss_gspo")[2]
        return 'loss_agg_mode="seq-mean-token-mean", **' in text.partition("\n@register")[0] or bool(
            re.search(r'agg_loss\([^)]*loss_agg_mode="seq-mean-token-mean"\)', text.partition("\n@register")[0])
        )
    return release(facts) != (0, 9, 1)


def release(facts: Facts) -> tuple[int, ...]:
    """verl's version with its third number, (0, 0, 0) when it carries none."""
    numbers = [int(part) for part in re.findall(r"\d+", facts.launch.verl.version)[:3]]
    return tuple((numbers + [0, 0, 0])[:3])
