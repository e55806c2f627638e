"""The schema of a tool as verl shows it to the model: its pydantic classes keep some fields, in their own order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from migrate_tools.model import MultiTurn
from migrate_tools.verl.loop_release import version_pair

PROPERTY = ("type", "description", "enum")


def shown_schema(schema: Mapping[str, Any], *, whole: bool) -> dict[str, Any]:
    """What the chat template gets (verl/tools/schemas.py of 0.4 to 0.9): `items`, `minItems` and the like are dropped.

    Args:
        whole: with the fields that are not set, as verl's SGLang rollout dumps it; its agent loops leave them out.
    """
    function = schema.get("function") or {}
    made = _fields(function, ("name", "description"), whole)
    if whole or "parameters" in function:
        made["parameters"] = _parameters(function.get("parameters") or {}, whole)
    if whole or "strict" in function:
        made["strict"] = bool(function.get("strict", False))
    return {"type": schema.get("type", "function"), "function": made}


def tools_by(turns: MultiTurn, version: str) -> str:
    """The key of extra_info by which rows choose among the tools; empty where every row has all (verl before 0.8)."""
    if turns.runner == "engine":
        return "tools_kwargs"
    return "tool_selection" if version_pair(turns.loop_release or version) >= (0, 8) else ""


def _parameters(given: Mapping[str, Any], whole: bool) -> dict[str, Any]:
    properties = {
        name: _fields(value, PROPERTY, whole) if isinstance(value, Mapping) else value
        for name, value in (given.get("properties") or {}).items()
    }
    made = {"type": given.get("type", "object"), "properties": properties}
    if whole or given.get("required") is not None:
        made["required"] = list(given.get("required") or ())
    return made


def _fields(given: Mapping[str, Any], names: tuple[str, ...], whole: bool) -> dict[str, Any]:
    return {name: given.get(name) for name in names if whole or given.get(name) is not None}
