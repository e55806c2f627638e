"""Tools that ask services: what they ask of, and the taped answers in the place of those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
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
DEPTH = 2
"""Parts of a path, the root among them, of which a folder with data has more: "/v1" is a route."""
TAKEN = frozenset(
    {"bin", "boot", "data", "dev", "etc", "lib", "lib32", "lib64", "loop", "opt", "proc", "project", "root", "run"}
    | {"sbin", "stage", "sys", "tmp", "tools", "usr", "var", "verl", "work"}
)
"""Folders of the root that the sandbox has or mounts."""


@dataclass(frozen=True)
class Services:
    """What the tools of a launch ask, and the settings of the tape that answers; None when it need not."""

    outside: tuple[str, ...] = ()
    tape: dict[str, Any] | None = None
    folders: tuple[str, ...] = ()
    """Folders with data that the settings of tools and users name: empty ones stand in for them."""
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
    return Services(tuple(sorted(own | asks)), tape, named_folders(turns), bool(own & TAPED) or not asks)


def named_folders(turns: MultiTurn) -> tuple[str, ...]:
    """Folders outside the recipe that a tool's or user's settings name by their whole path, such as one of databases.

    What a setting names by a suffix is a file, which nothing can stand in for.
    """
    found: set[str] = set()
    for value in (
        text for parts in (turns.tools, turns.interactions) for part in parts for text in _texts(part.config)
    ):
        path = PurePosixPath(value)
        deep = path.is_absolute() and len(path.parts) > DEPTH and ".." not in path.parts
        if deep and not path.suffix and path.parts[1] not in TAKEN and value.isprintable():
            found.add(str(path))
    return tuple(sorted(found))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)
