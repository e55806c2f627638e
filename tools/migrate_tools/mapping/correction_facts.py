"""verl's correction for the rollout policy, as its own rules make it. Writes no flags.

Three generations: actor.tis_imp_ratio_cap (0.5), algorithm.rollout_is* (0.6.0), algorithm.rollout_correction.* (since
0.6.1; rejection by ratio until 0.7.0, by KL estimators since 0.7.1).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from migrate_tools.mapping.facts import ACTOR, Facts

IS = "algorithm.rollout_correction."
CAP = ACTOR + "tis_imp_ratio_cap"
OLD = "algorithm.rollout_is"
OFF: Final = ("", "null", "none", "false")
KL_RULES: Final = frozenset(
    {"token_k1", "token_k2", "token_k3", "seq_sum_k1", "seq_sum_k2", "seq_sum_k3", "seq_mean_k1", "seq_mean_k2",
     "seq_mean_k3", "seq_max_k2", "seq_max_k3"}
)  # fmt: skip
RATIO_RULES: Final = {"token": "token_ratio", "sequence": "seq_sum_ratio", "geometric": "seq_mean_ratio"}
IS_KEYS: Final = (IS + "rollout_is", OLD, OLD + "_level", OLD + "_mode")
THRESHOLD_KEYS: Final = (IS + "rollout_is_threshold", OLD + "_threshold", OLD + "_threshold_lower")
RS_KEYS: Final = (IS + "rollout_rs", IS + "rollout_rs_threshold", IS + "rollout_rs_threshold_lower")
VETO_KEYS: Final = (IS + "rollout_token_veto_threshold", OLD + "_veto_threshold")
NORMALISE: Final = IS + "rollout_is_batch_normalize"


@dataclass(frozen=True)
class Correction:
    """What verl's launch asks for; `problems` are texts about what cannot be read or expressed."""

    level: str = "none"
    """none, token, sequence, geometric."""
    lower: float | None = None
    """Weights below it (and above `upper`) become 0 (IcePop); None: they are capped at `upper`."""
    upper: float = 2.0
    reject: tuple[tuple[str, float | None, float], ...] = ()
    veto: float | None = None
    normalise: bool = False
    problems: tuple[str, ...] = field(default=())

    @property
    def active(self) -> bool:
        """Whether anything is corrected."""
        return self.level != "none" or bool(self.reject) or self.veto is not None

    @property
    def plain(self) -> bool:
        """Whether Relax's own --use-tis is the same: capped weights of tokens."""
        return self.level == "token" and self.lower is None and not self.reject and self.veto is None

    def constants(self) -> dict[str, Any]:
        """The constants of the hook library."""
        return {
            "IS_LEVEL": self.level,
            "IS_LOWER": self.lower,
            "IS_UPPER": self.upper,
            "REJECT": [list(rule) for rule in self.reject],
            "VETO": self.veto,
        }


def read_correction(facts: Facts) -> Correction:
    """verl's correction under the rules of the launch's version."""
    cap = facts.number(CAP, default=-1.0) or -1.0
    if cap > 0:
        return Correction("token", None, cap)
    if facts.has(OLD + "_threshold"):
        return _first_generation(facts)
    problems: list[str] = []
    level = facts.text(IS + "rollout_is").lower()
    level = "none" if level in OFF else level
    if level not in ("none", "token", "sequence"):
        problems.append(f"importance weights per {level}: verl has token and sequence")
        level = "none"
    bounds = _bounds(facts.get(IS + "rollout_is_threshold", default=2.0))
    if bounds is None:
        problems.append(f"the threshold {facts.get(IS + 'rollout_is_threshold')!r} is no number")
        level, bounds = "none", (None, 2.0)
    veto = facts.number(VETO_KEYS[0])
    return Correction(level, *bounds, _rejection(facts, problems), veto, facts.flag(NORMALISE), tuple(problems))


def _first_generation(facts: Facts) -> Correction:
    upper = facts.number(OLD + "_threshold")
    if not facts.flag(OLD) or upper is None:
        return Correction()
    lower = None
    if facts.text(OLD + "_mode", default="truncate").lower() == "mask":
        lower = facts.number(OLD + "_threshold_lower") or 1.0 / upper
    return Correction(facts.text(OLD + "_level", default="token").lower(), lower, upper, (), facts.number(VETO_KEYS[1]))


def _bounds(value: object) -> tuple[float | None, float] | None:
    """Lower and upper bound from 2.0 or "0.5_2.0"."""
    try:
        numbers = [float(part) for part in re.split("_", str(value).strip("'\" "))]
    except ValueError:
        return None
    if len(numbers) == 1:
        return None, numbers[0]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else None


def _rejection(facts: Facts, problems: list[str]) -> tuple[tuple[str, float | None, float], ...]:
    words = facts.text(RS_KEYS[0]).strip("'\" ")
    if words.lower() in OFF:
        return ()
    threshold = facts.get(RS_KEYS[1])
    specs = [part.strip() for part in str(threshold).strip("'\" ").split(",") if part.strip()]
    names = list(dict.fromkeys(part.strip() for part in words.split(",") if part.strip()))
    if threshold is None or len(specs) not in (1, len(names)):
        problems.append(f"rollout_rs={words} with rollout_rs_threshold={threshold}: one threshold, or one each")
        return ()
    rules: list[tuple[str, float | None, float]] = []
    for name, spec in zip(names, specs * len(names) if len(specs) == 1 else specs, strict=False):
        bounds = _bounds(spec)
        if bounds is None or name not in KL_RULES and name not in RATIO_RULES:
            problems.append(f"rollout_rs={name} with threshold {spec} is no rule of verl")
        elif name in RATIO_RULES:
            lower = facts.number(RS_KEYS[2]) or bounds[0] or 1.0 / bounds[1]
            rules.append((RATIO_RULES[name], lower, bounds[1]))
        else:
            below = (bounds[0] or 1.0 / bounds[1]) if name.endswith("k1") else None
            rules.append((name, below, bounds[1]))
    return tuple(rules)
