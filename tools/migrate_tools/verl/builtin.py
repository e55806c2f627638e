"""verl's own dispatch by data_source: which scorer each data_source selects under a given verl source."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from migrate_tools.errors import MachineError
from migrate_tools.model import Note, SourceCount, SourceRef
from migrate_tools.verl.truth import UnknownValue, truth

NAMES = ("default_compute_score", "_default_compute_score")
DISPATCH = "verl/utils/reward_score/__init__.py"


@dataclass(frozen=True)
class Branch:
    """One branch of a dispatch."""

    condition: str
    """Its test as written; "else" for the last."""
    scorer: str
    """`module.function` that it calls or returns; empty when it only raises."""
    line: int
    test: ast.expr | None = None


@dataclass(frozen=True)
class Dispatch:
    """A function that chooses a scorer by data_source."""

    file: str
    function: str
    branches: tuple[Branch, ...]

    def select(self, data_source: str) -> Branch | None:
        """The branch for a data_source; None when there is none, or it only raises."""
        for branch in self.branches:
            try:
                if branch.test is None or truth(branch.test, {"data_source": data_source}):
                    return branch if branch.scorer else None
            except UnknownValue:
                return branch if branch.scorer else None
        return None


def find_builtin(verl_root: Path) -> tuple[str, str]:
    """File and name of the dispatch in a verl source (renamed in 0.4).

    Raises:
        MachineError: the folder holds no verl source.
    """
    path = verl_root / DISPATCH
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        raise MachineError(f"{path}: no verl reward dispatch there", "give a verl source with --verl-root") from None
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for name in NAMES:
        if name in defined:
            return DISPATCH, name
    raise MachineError(f"{path}: neither {NAMES[0]} nor {NAMES[1]}", "give another verl source with --verl-root")


def read_dispatch(path: Path, shown: str, function: str) -> Dispatch:
    """The branches of a dispatch function; none when it does not choose by data_source.

    Raises:
        SyntaxError: the file is not valid Python.
        OSError: it cannot be read.
    """
    tree = ast.parse(path.read_text(encoding="utf-8-sig"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function:
            return Dispatch(shown, function, tuple(_branches(node)))
    return Dispatch(shown, function, ())


def _branches(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterable[Branch]:
    for node in ast.walk(function):
        if isinstance(node, ast.If) and "data_source" in {n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)}:
            rest: list[ast.stmt] = [node]
            while len(rest) == 1 and isinstance(rest[0], ast.If):
                item = rest[0]
                yield Branch(ast.unparse(item.test), _scorer(item.body), item.lineno, item.test)
                rest = item.orelse
            if rest:
                yield Branch("else", _scorer(rest), rest[0].lineno)
            return


def _scorer(body: list[ast.stmt]) -> str:
    found = ""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Raise) and statement is node:
                return ""
            if isinstance(node, ast.Attribute | ast.Name) and "compute_score" in ast.unparse(node):
                text = ast.unparse(node)
                found = found or text
    return found or ("" if all(isinstance(item, ast.Raise) for item in body) else "(inline)")


def unmatched(dispatch: Dispatch, sources: Iterable[SourceCount]) -> tuple[Note, ...]:
    """A note for every data_source that selects no scorer: verl raises NotImplementedError there."""
    notes = []
    for source in sources:
        if dispatch.branches and dispatch.select(source.name) is None:
            rows = "rows" if source.rows is None else f"{source.rows} rows"
            where = source.file or source.split
            notes.append(
                Note(
                    code="R03-data-source-unmatched",
                    text=f"data_source {source.name!r} ({rows} of {where}) selects no scorer in {dispatch.file}; "
                    "verl stops there with NotImplementedError",
                    source=SourceRef(file=dispatch.file, line=dispatch.branches[-1].line),
                )
            )
    return tuple(notes)
