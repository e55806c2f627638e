"""What the reward manager of a launch adds to extra_info and logs, read from the manager's source in that verl.

Where the source is not at hand, what the releases 0.4 to 0.9 do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from migrate_tools.model import Launch
from migrate_tools.verl.reward_manager import manager_file

NAMES = {"limited": "rate_limited", "ratelimited": "rate_limited", "": "naive"}
SINGLE_TURN = "verl/experimental/agent_loop/single_turn_agent_loop.py"
DATASET = "verl/utils/dataset/rl_dataset.py"


@dataclass(frozen=True)
class Added:
    """What a manager does around the scorer beyond calling it."""

    keys: dict[str, Any] = field(default_factory=dict)
    """Keys of extra_info that the manager sets, for a single-turn response."""
    logs_acc: bool = False
    """A plain number is logged as acc."""
    none_for_missing: bool = False
    """A row without extra_info gives None instead of an empty dict."""
    takes_dict: bool = True
    """A dict with "score" is understood (verl before 0.4 wants a number)."""
    passes_fields: bool = False
    """What the agent loop collected (tool_rewards, turn_scores, ...) goes into extra_info."""
    file: str | None = None
    """The manager's file inside the verl source, or None."""


def manager_name(launch: Launch) -> str:
    """The manager of a launch under the name that current verl has for it, or as written."""
    return NAMES.get(launch.reward.manager, launch.reward.manager)


def added(launch: Launch) -> Added:
    """The facts of the manager of one launch."""
    name, root = manager_name(launch), Path(launch.verl.root)
    file = manager_file(root, name, launch.config)
    if file is None:
        return _by_version(launch, name)
    source, turns, dataset = _read(root / file), _read(root / SINGLE_TURN), _read(root / DATASET)
    keys: dict[str, Any] = {}
    if "tool_extra_fields" in source and "turn_scores" in turns:
        keys |= {"turn_scores": [], "tool_rewards": []}
    if re.search(r"""extra_info\[["']num_turns["']\]\s*=""", source):
        keys["num_turns"] = launch.reward.num_turns
    if re.search(r"""\[["']rollout_reward_scores["']\]\s*=""", source):
        keys["rollout_reward_scores"] = {}
    if re.search(r"""extra_info\[["']experiment_name["']\]\s*=""", source):
        keys["experiment_name"] = launch.get("trainer.experiment_name")
    missing = bool(re.search(r"""get\(["']extra_info["'], (None|\[None\])""", source))
    return Added(
        keys=keys,
        logs_acc=bool(re.search(r"""reward_extra_info\[["']acc["']\]""", source)),
        none_for_missing=missing and """row_dict["extra_info"] = dict()""" not in dataset,
        takes_dict=bool(re.search(r"""\[["']score["']\]""", source)),
        passes_fields="tool_extra_fields" in source,
        file=file,
    )


def told_keys(launch: Launch) -> tuple[str, ...]:
    """Keys of extra_info that a rollout of several turns fills, as far as the manager of this verl passes them on.

    num_turns comes from either kind of rollout, the scores of whole episodes from the SGLang rollout alone (0.6), the
    rewards of single calls and turns from the agent loop (naive, rate_limited and remote of the reward loop).
    """
    if launch.multi_turn is None:
        return ()
    found = added(launch)
    names = ("num_turns",) if "num_turns" in found.keys else ()
    if launch.multi_turn.runner == "engine":
        return (*names, "rollout_reward_scores") if "rollout_reward_scores" in found.keys else names
    return (*names, "tool_rewards", "turn_scores") if found.passes_fields else names


def _by_version(launch: Launch, name: str) -> Added:
    version = tuple(int(part) for part in re.findall(r"\d+", launch.verl.version)[:2]) or (0, 4)
    spec = launch.reward
    keys: dict[str, Any] = {}
    if name == "gdpo":
        keys["experiment_name"] = launch.get("trainer.experiment_name")
    turns = name in ("naive", "remote") and spec.num_turns is not None
    if turns:
        keys["num_turns"] = spec.num_turns
    if version >= (0, 6) and (name == "batch" or turns):
        keys["rollout_reward_scores"] = {}
    return Added(keys=keys, passes_fields=version >= (0, 7) and name in ("naive", "rate_limited", "remote"))


@lru_cache(maxsize=64)
def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
