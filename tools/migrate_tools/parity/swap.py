"""Versions of a module that differ in one place, made by compiling the top-level statement round it anew.

Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

SEEN, REACHED, NEAR = "__seen__", "__reached__", "__near__"
NOTED = f"{SEEN}({REACHED}(), ".encode()
"""Stands before an expression whose value is noted: that it is reached counts even where it raises."""
LONGEST, MOST_NOTES, MOST_COMPARED = 300, 2000, 8
"""Characters of a value that are compared; values and comparisons of one run."""


@dataclass
class Pair:
    """The right and the faulty form of one place, both able to note the value there."""

    right: dict[str, Any]
    faulty: dict[str, Any]
    """Names of the module and what they stand for."""
    noting: bool = False
    """The value there is noted whenever it is reached."""
    whole: Callable[..., Any] | None = None
    """The entry of a module of its own, where a statement alone could not be compiled anew."""


class Versions:
    """A module and changed forms of it."""

    def __init__(self, source: str, entry: str, name: str = "directed_scorer", file: str = "<scorer>") -> None:
        """Raises:
        Exception: whatever running the module raises.
        """
        self._source, self._entry, self._name, self._file = source.encode(), entry, name, file
        self._notes: list[str] = []
        self._noting = False
        self.compared: list[tuple[Any, ...]] = []
        """What the comparison in question compared in the last run of the right form."""
        self._module = self._load(source)
        self._space = self._module.__dict__
        tree = ast.parse(source)
        starts = [0]
        for line in self._source.split(b"\n"):
            starts.append(starts[-1] + len(line) + 1)
        self._tops = [
            (starts[_first_line(node) - 1], starts[node.end_lineno - 1] + node.end_col_offset, _alone(node, tree))  # type: ignore[operator]
            for node in tree.body
        ]

    @property
    def entry(self) -> Callable[..., Any]:
        """The function as it stands in the module now."""
        function: Callable[..., Any] = self._space[self._entry]
        return function

    def pair(self, version: Mapping[str, Any]) -> Pair:
        """Both forms of a change.

        Args:
            version: `span` (bytes), `text` that stands there instead, `probe`: span of the expression whose value is
                noted, or none; `operands`: texts of what is compared there, or none.

        Raises:
            Exception: whatever the changed statement raises when it is run.
        """
        (start, end), text = version["span"], version["text"].encode()
        plain = self._source[start:end]
        if version.get("operands"):
            plain = f"({NEAR}({', '.join(version['operands'])}) and ({plain.decode()}))".encode()
        for first, last, names in self._tops:
            if first <= start and end <= last and names:
                before = {name: self._space[name] for name in names}
                try:
                    right = self._form(first, last, start, end, plain, version["probe"], names)
                    both = self._noting
                    faulty = self._form(first, last, start, end, text, version["probe"], names)
                finally:
                    self._space.update(before)
                return Pair(right, faulty, noting=both and self._noting)
        changed = self._source[:start] + text + self._source[end:]
        return Pair({}, {}, whole=self._load(changed.decode()).__dict__[self._entry])

    def run(self, pair: Pair, which: str, call: Callable[[Callable[..., Any]], Any]) -> tuple[Any, list[str]]:
        """What `call` makes of the entry while the right or the faulty form stands; and the values noted."""
        self._notes.clear()
        self.compared.clear()
        if pair.whole is not None:
            return call(pair.whole if which == "faulty" else self.entry), []
        before = {name: self._space[name] for name in pair.right}
        self._space.update(pair.faulty if which == "faulty" else pair.right)
        try:
            return call(self.entry), self._notes.copy()
        finally:
            self._space.update(before)

    def _form(
        self, first: int, last: int, start: int, end: int, text: bytes, probe: list[int] | None, names: tuple[str, ...]
    ) -> dict[str, Any]:
        self._noting = bool(probe)
        if probe:
            inner = self._source[probe[0] : start] + text + self._source[end : probe[1]]
            noted = NOTED + inner + b")"
            whole = self._source[first : probe[0]] + noted + self._source[probe[1] : last]
        else:
            whole = self._source[first:start] + text + self._source[end:last]
        try:
            compiled = compile(whole, self._file + "+", "exec")
        except SyntaxError:
            if not probe:
                raise
            return self._form(first, last, start, end, text, None, names)
        exec(compiled, self._space)
        return {name: self._space[name] for name in names}

    def _near(self, *operands: Any) -> bool:
        if len(self.compared) < MOST_COMPARED:
            self.compared += zip(operands, operands[1:], strict=False)
        return True

    def _load(self, source: str) -> types.ModuleType:
        module = types.ModuleType(self._name)
        sys.modules[self._name] = module
        module.__dict__[NEAR] = self._near
        module.__dict__.update(noting(self._notes))
        exec(compile(source, self._file, "exec"), module.__dict__)
        return module


def noting(notes: list[str]) -> dict[str, Callable[..., Any]]:
    """The names that a text with NOTED in it needs; what they see goes to `notes`."""

    def reached() -> None:
        if len(notes) < MOST_NOTES:
            notes.append("reached")

    def seen(_: None, value: Any) -> Any:
        if len(notes) < MOST_NOTES:
            try:
                notes.append(repr(value)[:LONGEST])
            except Exception:
                notes.append("?")
        return value

    return {REACHED: reached, SEEN: seen}


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(item.lineno for item in decorators)])


def _alone(node: ast.stmt, tree: ast.Module) -> tuple[str, ...]:
    """Names that a statement binds, when nothing else reads them while the module is loaded; else none."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        names = {node.name}
    elif isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets):
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
    else:
        return ()
    bound = [item for other in tree.body if other is not node for item in _bound(other)]
    read = {name for other in tree.body if other is not node for name in _read_on_load(other)}
    return () if names & (read | set(bound)) else tuple(sorted(names))


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    return [item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)]


def _read_on_load(node: ast.AST) -> set[str]:
    """Names that are read when a top-level statement is run; functions only for their defaults and decorators."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        own = [*node.args.defaults, *node.args.kw_defaults, *getattr(node, "decorator_list", ())]
        return {name for item in own if item is not None for name in _read_on_load(item)}
    found = {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else set[str]()
    for child in ast.iter_child_nodes(node):
        found |= _read_on_load(child)
    return found
