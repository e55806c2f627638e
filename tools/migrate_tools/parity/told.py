"""What a multi-turn rollout tells the reward beside the text: num_turns, tool_rewards, turn_scores, reward scores.

verl's agent loop leaves these in extra_info, the migrated rollout in the sample's metadata. A case carries the values
as JSON text, so that both sides get the same. Runs inside the sandbox too: standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from migrate_tools.relax.metadata_names import ROLLOUT_METADATA

COLUMN: Final = ROLLOUT_METADATA
"""Stands among a row's columns where inputs are looked for, so that these values are changed like any others."""
TURNS: Final = (2, 4, 3, 6, 8, 5, 12, 1, 20)
NUMBERS: Final[tuple[list[float], ...]] = ([1.0], [], [0.0], [0.5, -0.25], [1.0, 0.0, 1.0], [-0.1, 0.3], [0.05] * 5)
NOTHING: Final[dict[str, Any]] = {"names": [], "tools": [], "default": {}}
"""Of a launch without such a rollout."""
MISSING_EVERY: Final = 8
"""One case in so many is of a rollout that tells nothing."""


def values(names: Sequence[str], tools: Sequence[str], number: int) -> str:
    """What the rollout of the case with this number tells, as JSON; empty when it tells nothing.

    Args:
        names: keys that the agent loop of this verl fills.
        tools: names of the tools, under which verl 0.6 keeps their scores.
    """
    if not names or number % MISSING_EVERY == MISSING_EVERY - 1:
        return ""
    return json.dumps({name: _value(name, tools, number + 3 * place) for place, name in enumerate(names)})


def default(names: Sequence[str], tools: Sequence[str]) -> dict[str, Any]:
    """Values that changed ones start from: every list has items."""
    return {name: _value(name, tools, 4 if name == "turn_scores" else 3) for name in names}


def _value(name: str, tools: Sequence[str], number: int) -> Any:
    if name == "num_turns":
        return TURNS[number % len(TURNS)]
    if name == "rollout_reward_scores":
        scores = [0.0, 1.0, 0.5, -0.1]
        return {tool: scores[(number + place) % len(scores)] for place, tool in enumerate(tools)}
    return list(NUMBERS[number % len(NUMBERS)])


def read(text: str) -> dict[str, Any]:
    """The values of a case."""
    return dict(json.loads(text)) if text else {}


def as_columns(told: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of verl's batch in which its agent loop leaves them."""
    if not told:
        return {}
    fields = {name: value for name, value in told.items() if name not in ("num_turns", "rollout_reward_scores")}
    columns: dict[str, Any] = {"tool_extra_fields": fields}
    if "num_turns" in told:
        columns["__num_turns__"] = told["num_turns"]
    if "rollout_reward_scores" in told:
        columns["reward_scores"] = told["rollout_reward_scores"]
    return columns
