"""Traits, kind and signature of a reward function, found without extracting it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from migrate_tools.verl.builtin import NAMES
from migrate_tools.verl.extract_graph import Definition, GraphBuilder, NotExtractable
from migrate_tools.verl.extract_rewrite import is_standard
from migrate_tools.verl.module_finder import ModuleFinder
from migrate_tools.verl.signature import Callables, Signature
from migrate_tools.verl.traits import find_traits


class FunctionFacts(NamedTuple):
    """What is known about a reward function."""

    signature: Signature | None
    line: int | None
    is_async: bool
    traits: tuple[str, ...]


class _Shallow(GraphBuilder):
    """Does not enter verl's dispatch by data_source: which scorer it takes is the data's business."""

    def __init__(self, finder: ModuleFinder, entry: Path) -> None:
        super().__init__(finder)
        self._entry = entry

    def _need(self, target: Definition) -> None:
        if target[1] in NAMES and target[0] != self._entry:
            return
        super()._need(target)


def reward_traits(finder: ModuleFinder, path: Path, name: str) -> FunctionFacts | None:
    """Facts of a function; None when the file has no such name."""
    module = finder.load(path)
    builder = GraphBuilder(finder)
    target = builder.resolve(module, name)
    if not isinstance(target, tuple):
        return None
    home = finder.load(target[0])
    callables = Callables(home.code)
    return FunctionFacts(
        callables.signature(target[1]),
        home.line_of(target[1]),
        callables.is_awaitable(target[1]),
        _traits(finder, path, target),
    )


def _traits(finder: ModuleFinder, path: Path, target: Definition) -> tuple[str, ...]:
    if target[1] in NAMES and finder.shown(target[0]).startswith("verl/"):
        return ()
    builder = _Shallow(finder, target[0])
    try:
        graph, _ = builder.build(*target)
    except NotExtractable:
        return find_traits(finder.load(target[0]).code)
    parts: list[str] = []
    for item, indexes in graph.needed.items():
        module = finder.load(item)
        for external in graph.externals.get(item, ()):
            used = is_standard(external) or (item, external) in graph.evaluated
            parts += [external.text(external.local)] if used else []
        parts += [module.tree.code_for_node(module.statements[index].node) for index in sorted(indexes)]
    found = find_traits("\n".join(part for part in parts if "__future__" not in part))
    return tuple(word for word in found if not _is_own(finder, path, word))


def _is_own(finder: ModuleFinder, path: Path, trait: str) -> bool:
    """Whether an `import:` trait names the recipe's or verl's own code."""
    kind, _, name = trait.partition(":")
    return kind == "import" and (name in ("verl", "recipe") or finder.find_absolute([name], path) is not None)
