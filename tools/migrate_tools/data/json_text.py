"""Columns that hold JSON text: what the text says. Standard library only, for what runs inside the sandbox."""

from __future__ import annotations

import json
from typing import Any


def decoded(value: Any) -> Any:
    """The list or dict that a JSON text holds; any other value as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    try:
        found = json.loads(value)
    except (json.JSONDecodeError, RecursionError):
        return value
    return found if isinstance(found, (dict, list)) else value
