"""Tools that ask services: what they ask of, and the taped answers in the place of those."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from migrate_tools.model import Launch, MultiTurn, Recipe
from migrate_tools.parity.mine import mine
from migrate_tools.parity.tape_settings import answer_settings
from migrate_tools.verl.agent_loops import extract_loops
from migrate_tools.verl.extract import NotExtractable
from migrate_tools.verl.extract_tools import extract_tools
from migrate_tools.verl.traits import find_traits

TAPED = frozenset({"http", "judge"})
"""Traits of code whose requests the tape answers."""
OUTSIDE = frozenset({"process"}) | TAPED
"""Traits of code whose answers come from outside."""


@dataclass(frozen=True)
class Services:
    """What the tools of a launch ask, and the settings of the tape that answers; None when it need not."""

    outside: tuple[str, ...] = ()
    tape: dict[str, Any] | None = None
    sure: bool = True
    """False where only a helper can send requests, such as one that opens images by path or by address."""

    @property
    def left(self) -> tuple[str, ...]:
        """What the tape does not stand for."""
        return tuple(name for name in self.outside if self.tape is None or name not in TAPED)


def joined_tapes(*tapes: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The settings of one tape that answers for several pieces of code; None when none asks."""
    asked = [tape for tape in tapes if tape is not None]
    keys = dict.fromkeys(key for tape in asked for key in tape)
    return {key: [item for tape in asked for item in tape.get(key, ())] for key in keys} if asked else None


def find_services(recipe: Recipe, launch: Launch, turns: MultiTurn) -> Services:
    """The services of a launch's tools, users and own loops, found in all of their code, verl's helpers included.

    The code is taken from the recipe and not from the example, so that a draft cannot change what is answered.
    """
    own = {
        trait for parts in (turns.tools, turns.interactions, turns.loops) for part in parts for trait in part.traits
    } & OUTSIDE
    code, asks = "", own & TAPED
    try:
        roots = {"project_root": Path(recipe.project_root), "recipe_root": Path(recipe.root)}
        extract = extract_loops if turns.loops else extract_tools
        code = extract(turns, **roots, verl=launch.verl).code
        asks = asks | (TAPED & set(find_traits(code)))
    except NotExtractable:  # written by hand, then: what the classes themselves say
        pass
    tape = answer_settings(mine([code])) if asks else None
    return Services(tuple(sorted(own | asks)), tape, bool(own & TAPED) or not asks)
