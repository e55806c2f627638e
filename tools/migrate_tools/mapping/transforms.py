"""Registered value functions of the mapping tables: a verl value -> the text of a Relax flag.

A function returns the flag's text, None for a switch that is on, or `OMIT` when no flag is to be written.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from migrate_tools.mapping.draft import shell
from migrate_tools.mapping.facts import number_text


class Omit:
    """Type of `OMIT`: the flag is not written."""


OMIT: Final = Omit()
FlagText = str | None | Omit
Transform = Callable[[Any], FlagText]


def _truth(value: Any) -> bool:
    return value.strip().lower() in ("true", "1", "yes", "on") if isinstance(value, str) else bool(value)


def copy(value: Any) -> FlagText:
    """The same number or word; null writes nothing."""
    if value is None:
        return OMIT
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number_text(value)
    return shell(str(value))


def switch(value: Any) -> FlagText:
    """A switch that is on when the value is true."""
    return None if _truth(value) else OMIT


def switch_when_false(value: Any) -> FlagText:
    """A switch that is on when the value is false; null writes nothing."""
    return OMIT if value is None or _truth(value) else None


def positive(value: Any) -> FlagText:
    """The number, when it is above zero; -1, 0 and null mean "off" in verl."""
    if value is None or float(value) <= 0:
        return OMIT
    return number_text(value)


def above_one(value: Any) -> FlagText:
    """The number, when it is above one; one is the size of no parallelism."""
    if value is None or float(value) <= 1:
        return OMIT
    return number_text(value)


def top_k(value: Any) -> FlagText:
    """verl writes "all tokens" as -1 (vLLM) or 0 (HF); SGLang takes -1."""
    return OMIT if value is None else number_text(-1 if int(value) <= 0 else int(value))


def as_json(value: Any) -> FlagText:
    """A mapping as one quoted JSON word; empty or null writes nothing."""
    return OMIT if not value else shell(json.dumps(value, sort_keys=True))


TRANSFORMS: Final[dict[str, Transform]] = {
    "copy": copy,
    "switch": switch,
    "switch_when_false": switch_when_false,
    "positive": positive,
    "above_one": above_one,
    "top_k": top_k,
    "as_json": as_json,
}
NUMERIC: Final = frozenset({"positive", "above_one", "top_k"})
"""Transforms that only make sense with a unit of numbers."""

COMBINERS: Final = frozenset(
    {
        "algorithm",
        "batch",
        "data",
        "evaluation",
        "gpus",
        "kl",
        "lengths",
        "logging",
        "loss",
        "megatron",
        "model",
        "optimizer",
        "reward",
        "rollout",
        "schedule",
    }
)
"""Areas whose code makes flags out of several settings."""
