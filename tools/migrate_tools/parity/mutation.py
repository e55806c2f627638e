"""Changed versions of a module: one small edit of its text each, found in its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
MESSAGES = frozenset({"print", "warning", "error", "info", "debug", "warn", "exception", "log", "write"})
"""Calls whose arguments no score depends on."""
GENERATED = frozenset({"RELAX_METADATA", "ADDED_METADATA", "EXTRA_KEYS", "DATA_SOURCE_DEFAULT", "THREADS"})
"""Constants of the generated module that are no part of the recipe."""


@dataclass(frozen=True)
class Edit:
    """One replacement in a module, not applied yet."""

    operator: str
    node: ast.AST
    text: str
    """What stands in the node's place."""
    equivalent: str = ""
    """Why no input can tell the change, when the operator knows."""
    lines: tuple[int, ...] = ()
    """Lines of which one runs when the change can matter; empty: those of the node."""


Operator = Callable[["Code", ast.AST], Iterator[Edit]]


@dataclass(frozen=True)
class Fault:
    """One changed module."""

    operator: str
    line: int
    lines: tuple[int, ...]
    """Lines of the unchanged module of which at least one runs when the change can matter; empty: always."""
    before: str
    after: str
    source: str
    equivalent: str = ""
    """The rule by which no input can tell it from the unchanged module; empty when there is none."""
    node: ast.AST = field(default_factory=ast.Pass, compare=False, repr=False)
    """What was changed, in the tree of its `Code`."""

    def shown(self) -> dict[str, object]:
        """For the evidence."""
        return {"operator": self.operator, "line": self.line, "change": f"{_short(self.before)} -> {self.after_short}"}

    @property
    def after_short(self) -> str:
        """The new text on one line."""
        return _short(self.after) or "(nothing)"


class Code:
    """A module's text and tree, with what operators ask about a node."""

    def __init__(
        self,
        source: str,
        *,
        text_labels: bool = False,
        sources: Collection[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Of the rows: `text_labels`, every label is a text; `sources`, their data sources when all are known.

        `environment`: the variables that the launch sets.
        """
        self.source, self.text_labels, self.sources = source, text_labels, frozenset(sources)
        self.environment = dict(environment or {})
        self.tree = ast.parse(source)
        self._rows = source.encode().split(b"\n")
        self._starts = [0]
        for row in self._rows:
            self._starts.append(self._starts[-1] + len(row) + 1)
        self.parents: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node

    def segment(self, node: ast.AST) -> str:
        """The text of a node."""
        start, end = self.span(node)
        return self.source.encode()[start:end].decode()

    def span(self, node: ast.AST) -> tuple[int, int]:
        """First byte of a node and the byte after it."""
        start = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def source_between(self, one: ast.AST, other: ast.AST) -> str:
        """The text between two nodes, without blanks and brackets: the sign of a comparison."""
        return self.source.encode()[self.span(one)[1] : self.span(other)[0]].decode().strip(" \n\\()")

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes round a node, from the inside out."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds a node."""
        return next(item for item in (node, *self.above(node)) if isinstance(item, ast.stmt))

    def function(self, node: ast.AST) -> FunctionNode | None:
        """The innermost function that holds a node; None at module level."""
        return next((item for item in self.above(node) if isinstance(item, FUNCTIONS)), None)

    @cached_property
    def functions(self) -> dict[str, FunctionNode]:
        """The module's own functions by name."""
        return {node.name: node for node in self.tree.body if isinstance(node, FUNCTIONS)}

    def nodes(self, skip: Collection[str]) -> Iterator[ast.AST]:
        """What may be changed: everything but messages, annotations, docstrings, imports and skipped functions."""
        for top in self.tree.body:
            if getattr(top, "name", None) in skip or isinstance(top, (ast.Import, ast.ImportFrom, ast.If, ast.Expr)):
                continue
            names = {item.id for item in getattr(top, "targets", ()) if isinstance(item, ast.Name)}
            if not names & GENERATED and not names & set(skip):
                yield from self._inside(top)

    def _inside(self, node: ast.AST) -> Iterator[ast.AST]:
        if isinstance(node, (ast.Raise, ast.Assert)) or is_message(node) or is_text_statement(node):
            return
        if hasattr(node, "lineno") or isinstance(node, ast.comprehension):
            yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list") or isinstance(node, ast.FormattedValue):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._inside(child)

    def operand(self, node: ast.AST) -> str:
        """The text of a node, in brackets where it would fall apart beside an operator."""
        whole = isinstance(node, (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript, ast.Dict, ast.List))
        return self.segment(node) if whole else f"({self.segment(node)})"

    def apply(self, edit: Edit) -> Fault | None:
        """The changed module; None when the text stays the same or is no Python."""
        start, end = self.span(edit.node)
        whole = self.source.encode()
        before = whole[start:end].decode()
        changed = (whole[:start] + edit.text.encode() + whole[end:]).decode()
        if _same_expression(before, edit.text):
            return None
        first, last = self._top(edit.node)
        try:
            compile(whole[first:start] + edit.text.encode() + whole[end:last], "changed", "exec")
        except (SyntaxError, ValueError):
            return None
        lines = edit.lines or tuple(sorted(self._lines(edit.node)))
        line: int = edit.node.lineno  # type: ignore[attr-defined]
        return Fault(edit.operator, line, lines, before, edit.text, changed, edit.equivalent, edit.node)

    def _top(self, node: ast.AST) -> tuple[int, int]:
        """The span of the top-level statement that holds a node, decorators included."""
        top = next((item for item in (node, *self.above(node)) if self.parents.get(item) is self.tree), node)
        decorators: list[ast.expr] = getattr(top, "decorator_list", [])
        lines = [top.lineno, *(item.lineno for item in decorators)]  # type: ignore[attr-defined]
        return self._starts[min(lines) - 1], self.span(top)[1]

    def probe(self, node: ast.AST) -> tuple[int, int] | None:
        """The span of the innermost expression round a change whose value tells whether it did anything; None: none."""
        item: ast.AST | None = node
        while item is not None and not isinstance(item, (ast.stmt, ast.ExceptHandler, ast.arguments, ast.JoinedStr)):
            parent = self.parents.get(item)
            if self.function(item) is None or isinstance(parent, (ast.FormattedValue, ast.JoinedStr)):
                return None
            within = isinstance(parent, (ast.Slice, ast.comprehension, ast.keyword, ast.pattern))
            called = isinstance(parent, ast.Call) and (parent.func is item or isinstance(item, ast.Constant))
            stored = not isinstance(getattr(item, "ctx", ast.Load()), ast.Load)
            if isinstance(item, ast.expr) and not (
                within or called or stored or isinstance(item, (ast.Slice, ast.Starred))
            ):
                return self.span(item)
            item = parent
        return None

    def _lines(self, node: ast.AST) -> set[int]:
        """Lines of which one runs when the change can matter; none where that cannot be said."""
        function = self.function(node)
        if function is None:
            return self._uses(self.statement(node))
        if any(isinstance(item, ast.arguments) for item in self.above(node)):
            return {statement.lineno for statement in function.body}
        if isinstance(node, (ast.ExceptHandler, ast.stmt)):
            return {node.body[0].lineno if isinstance(node, ast.ExceptHandler) else node.lineno}
        return {self.statement(node).lineno, *range(node.lineno, node.end_lineno + 1)}  # type: ignore[attr-defined]

    def _uses(self, statement: ast.stmt) -> set[int]:
        """Lines in functions that read a constant of the module; none when it is read at module level too."""
        names = {item.id for item in getattr(statement, "targets", ()) if isinstance(item, ast.Name)}
        lines: set[int] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load):
                if self.function(node) is None:
                    return set()
                lines |= {node.lineno, self.statement(node).lineno}
        return lines


def _same_expression(one: str, other: str) -> bool:
    try:
        first, second = ast.parse(one, mode="eval").body, ast.parse(other, mode="eval").body
    except SyntaxError:
        return one == other
    if number(first) is not None and number(second) is not None:
        return number(first) == number(second)  # 0 and 0.0 are one reward
    return ast.dump(first) == ast.dump(second)


def is_message(node: ast.AST) -> bool:
    """True for a call that prints or logs."""
    return isinstance(node, ast.Call) and call_name(node) in MESSAGES


def is_text_statement(node: ast.AST) -> bool:
    """True for a docstring or another text that stands alone."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def call_name(node: ast.AST) -> str:
    """Name of the called function or method, without what it belongs to; empty for anything else."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def number(node: ast.AST | None) -> float | int | None:
    """Value of a plain number with its sign; None for anything else, bool included."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return node.value
    return None


def text(node: ast.AST | None) -> str | None:
    """Value of a plain text; None for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def changed_versions(
    code: Code,
    operators: Sequence[Operator],
    judge: Callable[[Code, Edit], str],
    *,
    skip: Collection[str] = (),
    each: int,
    most: int,
) -> list[Fault]:
    """Changed modules of every operator, spread over the module.

    Args:
        judge: the rule by which no input can tell a change, or empty.
        skip: names of functions and constants that are left alone.
        each: how many of one operator at most; as many again that a rule calls equivalent.
        most: how many at most.
    """
    edits: dict[str, list[Edit]] = {}
    nodes = list(code.nodes(skip))
    for operator in operators:
        for node in nodes:
            for edit in operator(code, node):
                edits.setdefault(edit.operator, []).append(edit)
    chosen = [_applied(code, found, judge, each) for found in edits.values()]
    turns = max(map(len, chosen), default=0)
    return [faults[turn] for turn in range(turns) for faults in chosen if turn < len(faults)][:most]


def _applied(code: Code, edits: Sequence[Edit], judge: Callable[[Code, Edit], str], each: int) -> list[Fault]:
    """`each` faults evenly over the edits of one operator, and the equivalent ones met on the way."""
    first = [position * len(edits) // each for position in range(each)] if len(edits) > each else [*range(len(edits))]
    order = [*first, *(position for position in range(len(edits)) if position not in set(first))]
    real: list[Fault] = []
    equal: list[Fault] = []
    seen: set[str] = set()
    for edit in (edits[position] for position in order):
        if len(real) == each:
            break
        fault = code.apply(replace(edit, equivalent=edit.equivalent or judge(code, edit)))
        if fault is None or fault.source in seen:
            continue
        seen.add(fault.source)
        (equal if fault.equivalent else real).append(fault)
    return real + equal[:each]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 90 else f"{line[:87]}..."
