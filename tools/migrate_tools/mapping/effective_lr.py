"""Learning rate over the run, on each side by its own scheduler.

verl's FSDP engine: a factor per step (verl/utils/torch_functional.py, get_cosine_schedule_with_warmup 1dda039); its
Megatron engine and Relax: Megatron's OptimizerParamScheduler, counted in steps there and in updates here
(redai-studio/Relax relax/backends/megatron/model.py 07d5d193, get_optimizer_param_scheduler).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from migrate_tools.mapping.facts import ACTOR, Facts

OPTIM = ACTOR + "optim."
Curve = Callable[[float], float]


@dataclass(frozen=True)
class Megatron:
    """Megatron's scheduler; times in whatever unit `now` is given in (steps or updates)."""

    peak: float
    floor: float
    start: float
    warmup: float
    decay: float
    style: str

    def at(self, now: float) -> float:
        """The learning rate after `now` units."""
        if self.warmup > 0 and now <= self.warmup:
            return self.start + (self.peak - self.start) * now / self.warmup
        if self.style == "constant":
            return self.peak
        if now > self.decay:
            return self.floor
        if self.style == "inverse-square-root":
            return max(self.floor, self.peak * math.sqrt(max(self.warmup, 1)) / math.sqrt(max(now, 1)))
        ratio = (now - self.warmup) / max(self.decay - self.warmup, 1e-9)
        share = 1 - ratio if self.style == "linear" else 0.5 * (math.cos(math.pi * ratio) + 1)
        return self.floor + share * (self.peak - self.floor)


def verl_style(facts: Facts) -> str:
    """The schedule after warm-up as verl calls it."""
    names = ("lr_decay_style",) if facts.megatron else ("lr_scheduler_type", "warmup_style")
    return facts.text(*(OPTIM + name for name in names), default="constant").lower()


def verl_warmup(facts: Facts, total: int | None) -> float | None:
    """Warm-up in verl steps; None when it is a share of an unknown number of steps."""
    steps = facts.integer(OPTIM + "lr_warmup_steps")
    ratio = facts.number(OPTIM + "lr_warmup_steps_ratio") or 0.0
    # The FSDP worker takes 0 as "no warm-up"; Megatron's scheduler and the engines of 0.8 take it as unset.
    unset = steps is None or steps < 0 or (steps == 0 and (facts.megatron or facts.version >= (0, 8)))
    if not unset:
        return float(steps or 0)
    if not ratio:
        return 0.0
    return None if total is None else float(int(ratio * total))


def verl_floor(facts: Facts) -> float:
    """Where the schedule ends: an absolute rate (Megatron) or a share of the peak (FSDP)."""
    if facts.megatron:
        return facts.number(OPTIM + "min_lr") or 0.0
    return (facts.number(OPTIM + "lr") or 0.0) * (facts.number(OPTIM + "min_lr_ratio") or 0.0)


def verl_curve(facts: Facts, total: int | None) -> Curve | None:
    """Learning rate at a verl step, counted from 0; None when the run's length is needed and unknown."""
    peak, style = facts.number(OPTIM + "lr") or 0.0, verl_style(facts)
    warmup = verl_warmup(facts, total)
    if warmup is None or (style != "constant" and total is None):
        return None
    length = float(total or 0)
    if facts.megatron:
        decay = float(facts.integer(OPTIM + "lr_decay_steps") or length)
        start = facts.number(OPTIM + "lr_warmup_init") or 0.0
        return Megatron(peak, verl_floor(facts), start, warmup, decay, style).at
    least = facts.number(OPTIM + "min_lr_ratio") or 0.0
    cycles = facts.number(OPTIM + "num_cycles") or 0.5
    first = facts.number(OPTIM + "init_lr_ratio") or 0.0
    early = 0 if facts.flag(OPTIM + "zero_indexed_step", default=True) else 1

    def factor(step: float) -> float:
        if style == "constant":
            return step / warmup if step < warmup else 1.0
        now = step + early
        if now < warmup:
            return first + (1 - first) * now / warmup
        wave = math.cos(math.pi * cycles * 2 * (now - warmup) / max(1.0, length - warmup))
        return max(least, wave * (1 - least) / 2 + (1 + least) / 2)

    return lambda step: peak * factor(step)


def relax_curve(values: Mapping[str, Any], updates: int | None) -> Curve | None:
    """Learning rate at an update, counted from 0; None when the run's length is needed and unknown."""
    style, share = str(values["lr_decay_style"]), values.get("lr_warmup_fraction")
    decay = values.get("lr_decay_iters") or updates
    if decay is None and (share is not None or style != "constant"):
        return None
    warmup = float(share) * float(decay or 0) if share is not None else float(values.get("lr_warmup_iters") or 0)
    peak, floor, start = (float(values.get(name) or 0.0) for name in ("lr", "min_lr", "lr_warmup_init"))
    return Megatron(peak, floor, start, warmup, float(decay or 0), style).at
