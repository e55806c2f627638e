"""What hooks on the Relax side do to rows of the effective-training table.

A generated hook registers here what it computes, in the words of verl's side; a hook that is not registered shows as
its path, so that the row differs until somebody says what it does.
"""

from __future__ import annotations

from typing import Any, Final

from migrate_tools.mapping.effective_side import Side

HOOK_EFFECTS: Final[dict[str, dict[str, Any]]] = {}
"""Function name (last part of the dotted path) -> row name -> value of that row."""


def hook_effect(path: str, row: str) -> Side | None:
    """The cell that a hook makes of a row; None where it leaves the row alone or is not known."""
    effects = HOOK_EFFECTS.get(path.rsplit(".", 1)[-1], {})
    if row not in effects:
        return None
    value = effects[row]
    return Side(value, f"{value} (hook {path.rsplit('.', 1)[-1]})")
