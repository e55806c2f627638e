"""Values of Python expressions that can be told without running them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from migrate_tools.verl.symbolic import Piece


@dataclass(frozen=True)
class Text:
    """A string of known text and of variables that the environment or the command line gives."""

    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Unknown:
    """A value that only a run can tell; `what` is its source text."""

    what: str
    line: int


@dataclass
class Space:
    """Attributes by name: parsed arguments, or an imported module."""

    name: str
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Item:
    """An element of a list of words, with the line that makes it."""

    value: Any
    line: int


def pieces_of(value: Any, line: int) -> tuple[Piece, ...] | None:
    """A value as pieces of text; None when only a run can tell it."""
    if isinstance(value, Item):
        return pieces_of(value.value, value.line)
    if isinstance(value, Text):
        return value.pieces
    if isinstance(value, str | int | float | bool) or value is None:
        return (Piece("literal", str(value), line),)
    if isinstance(value, list | tuple) and all(isinstance(plain(v), str | int | float | bool) for v in value):
        return (Piece("literal", str([plain(v) for v in value]), line),)
    return None


def plain(value: Any) -> Any:
    """A value without its place."""
    return value.value if isinstance(value, Item) else value


def join(parts: Iterable[Any], line: int, what: str) -> Any:
    """Values one after the other as one text."""
    pieces: list[Piece] = []
    for part in parts:
        found = pieces_of(part, line)
        pieces += found if found is not None else (Piece("opaque", what, line),)
    if all(piece.kind == "literal" for piece in pieces):
        return "".join(piece.text for piece in pieces)
    return Text(tuple(pieces))


def formatted(node: ast.FormattedValue, value: Any) -> Any:
    """The value of one `{...}` of an f-string."""
    value = plain(value)
    spec = node.format_spec
    if spec is not None and isinstance(value, int | float | str):
        text = "".join(str(part.value) for part in getattr(spec, "values", []) if isinstance(part, ast.Constant))
        try:
            return format(value, text)
        except ValueError:
            return Unknown(ast.unparse(node.value), node.lineno)
    return repr(value) if node.conversion == ord("r") and not isinstance(value, Text | Unknown) else value


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
}  # fmt: skip
_SIMPLE = (str, int, float, bool, type(None))


def binary(node: ast.BinOp, left: Any, right: Any) -> Any:
    """`left op right`, where both are known."""
    left, right = plain(left), plain(right)
    if isinstance(left, list) and isinstance(right, list | tuple) and isinstance(node.op, ast.Add):
        return [*left, *right]
    if isinstance(node.op, ast.Add) and (isinstance(left, Text) or isinstance(right, Text)):
        return join((left, right), node.lineno, ast.unparse(node))
    if isinstance(node.op, ast.Div) and isinstance(left, str | Text) and isinstance(right, str | Text):
        return join((left, "/", right), node.lineno, ast.unparse(node))
    if type(left) in _SIMPLE and type(right) in _SIMPLE and type(node.op) in _OPERATORS:
        if isinstance(node.op, ast.Mult) and (isinstance(left, str) or isinstance(right, str)):
            return Unknown(ast.unparse(node), node.lineno)
        try:
            return _OPERATORS[type(node.op)](left, right)
        except (TypeError, ValueError, ArithmeticError):
            pass
    return Unknown(ast.unparse(node), node.lineno)


def compared(node: ast.Compare, left: Any, right: Any) -> Any:
    """`left op right`; Unknown where it depends on what only a run can tell."""
    left, right = plain(left), plain(right)
    known = type(left) in _SIMPLE and (type(right) in _SIMPLE or isinstance(right, list | tuple | dict))
    kind = type(node.ops[0])
    if known and kind in (ast.In, ast.NotIn) and isinstance(right, str | list | tuple | dict):
        items = right if isinstance(right, str | dict) else [plain(item) for item in right]
        try:
            return (left in items) == (kind is ast.In)
        except TypeError:
            pass
    if known and kind in _COMPARISONS:
        try:
            return _COMPARISONS[kind](left, right)
        except TypeError:
            pass
    return Unknown(ast.unparse(node), node.lineno)


def truth(value: Any) -> bool | None:
    """Whether a value counts as true; None when only a run can tell."""
    value = plain(value)
    if isinstance(value, Unknown | Space):
        return None
    if isinstance(value, Text):
        return True if any(piece.kind == "literal" and piece.text for piece in value.pieces) else None
    return bool(value)
