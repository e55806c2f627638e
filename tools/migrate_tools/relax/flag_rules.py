"""Rules between flags: what Relax checks at start-up, and what it silently changes.

Each rule has an id ("kl.exclusive"), a severity and the section of the flag rules it comes from; `error` is what
stops Relax or breaks training, `warning` what it silently ignores or changes. Facts read from
redai-infra/Relax 05149ae1, redai-studio/Relax 02bf712a and 6c0099bb (relax/utils/arguments.py).
Standard library only: the stand-in trainer runs this module inside the sandbox.
"""

from __future__ import annotations

from collections.abc import Iterable

from migrate_tools.relax import (  # noqa: F401  (importing a rule module registers its rules)
    flag_rules_algo,
    flag_rules_batch,
    flag_rules_placement,
    flag_rules_reward,
)
from migrate_tools.relax.contract import FlagContract
from migrate_tools.relax.flag_model import Parsed, Problem
from migrate_tools.relax.flag_rules_base import RULES, Line, Rule, run_rules

__all__ = ["RULES", "Rule", "check_config_keys", "check_rules"]


def check_rules(parsed: Parsed, *, gpus: int | None = None) -> tuple[Problem, ...]:
    """Every breach of a rule, errors first.

    Args:
        parsed: a command line; its own parse problems are not repeated here.
        gpus: GPUs of the cluster, None when unknown.
    """
    found = run_rules(Line(parsed, gpus))
    return tuple(sorted(found, key=lambda problem: problem.severity != "error"))


def check_config_keys(keys: Iterable[str], contract: FlagContract) -> tuple[Problem, ...]:
    """Keys of a --custom-config-path file that would silently override an argument of Relax (flag rules 13)."""
    taken = contract.dests
    return tuple(
        Problem(
            "config.overrides-argument",
            "error",
            f"the key {key} of the config file overrides the Relax argument of that name after validation",
            section="13",
        )
        for key in keys
        if key in taken
    )
