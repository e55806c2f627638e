"""What becomes of the environment variables that a launch script exports (skill/mapping/environment.yaml)."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache
from typing import Literal

from pydantic import Field

from migrate_tools.model import Conserved, Frozen, Launch, SourceRef
from migrate_tools.resources import resource_dir
from migrate_tools.verl.secrets import REMOVED

TABLE = "environment.yaml"
_UNKNOWN = "in no table: export it where Relax runs, if something in your code reads it"


class EnvironmentRow(Frozen):
    """Variables by shell pattern, and their state."""

    names: tuple[str, ...] = Field(min_length=1)
    state: Literal["verl_only", "relax_sets_it", "left_to_user", "changes_training"]
    reason: str = Field(min_length=1)


@cache
def rows() -> tuple[EnvironmentRow, ...]:
    """The table, in its order."""
    import yaml

    content = yaml.safe_load((resource_dir("skill") / "mapping" / TABLE).read_text(encoding="utf-8"))
    return tuple(EnvironmentRow.model_validate(item) for item in content)


def environment_items(launch: Launch) -> tuple[Conserved, ...]:
    """One item for every exported variable of the launch; its value is not part of it."""
    source = SourceRef(file=launch.script)
    return tuple(_item(launch, name, source) for name in sorted(launch.environment))


def turns_environment(launch: Launch) -> dict[str, str]:
    """Exported variables that tools, users or agent loops read, and their values; credentials are left out."""
    turns = launch.multi_turn
    if turns is None:
        return {}
    traits = [part.traits for parts in (turns.tools, turns.interactions, turns.loops) for part in parts]
    read = {trait for found in traits for trait in found}
    return {
        name: value
        for name, value in sorted(launch.environment.items())
        if f"env:{name}" in read and REMOVED not in value
    }


def _item(launch: Launch, name: str, source: SourceRef) -> Conserved:
    state, reason = _state(launch, name)
    return Conserved(area="environment", name=name, state=state, reason=reason, source=source)


def _state(launch: Launch, name: str) -> tuple[str, str]:
    if name in launch.reward.environment:
        return "read_by_reward", "a setting of the reward module"
    if name in turns_environment(launch):
        return "read_by_tools", "a default in the example's environment or agent"
    if any(re.search(rf"\$\{{?{re.escape(name)}\b", item.text) for item in launch.settings):
        return "in_settings", "part of the settings that use it"
    for row in rows():
        if any(fnmatchcase(name, pattern) for pattern in row.names):
            return row.state, row.reason
    return "left_to_user", _UNKNOWN
