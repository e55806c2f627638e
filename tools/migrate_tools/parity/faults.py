"""Seeded porting faults: small changes of a reward module, of the kinds that ports really get wrong."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
Change = Callable[[ast.AST], ast.AST | None]
"""Changes a copied node in place or returns its replacement; None removes the statement."""
TEXT_STEPS = frozenset(
    ["strip", "lstrip", "rstrip", "lower", "upper", "replace", "removeprefix", "removesuffix", "casefold"]
)
FLAGS = frozenset(["DOTALL", "IGNORECASE", "MULTILINE", "S", "I", "M", "X", "VERBOSE"])
COMPARISONS: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclass(frozen=True)
class Fault:
    """One changed module."""

    operator: str
    line: int
    source: str


def seed_faults(
    source: str, *, lines: Collection[int] | None = None, skip: Collection[str] = (), most: int = 48
) -> list[Fault]:
    """Changed versions of a module, taken in turn from every operator, spread over the module.

    Args:
        lines: only what stands on these lines is changed (all lines when None).
        skip: names of functions that are left alone.
        most: how many at most.
    """
    by_operator: dict[str, list[tuple[ast.stmt, int, Change]]] = {}
    for top in ast.parse(source).body:
        if getattr(top, "name", None) in skip:
            continue
        for position, node in enumerate(_nodes(top)):
            if lines is not None and isinstance(top, FUNCTIONS) and getattr(node, "lineno", 0) not in lines:
                continue
            for operator, change in _changes(node):
                by_operator.setdefault(operator, []).append((top, position, change))
    share = max(2, most // max(len(by_operator), 1))
    faults: list[Fault] = []
    for operator, points in by_operator.items():
        step = max(1, len(points) // share)
        for top, position, change in points[::step][:share]:
            fault = _apply(source, top, position, operator, change)
            if fault is not None:
                faults.append(fault)
    return faults[:most]


def _nodes(top: ast.stmt) -> Iterator[ast.AST]:
    """What may change in one statement of the module, in a fixed order."""
    if isinstance(top, FUNCTIONS):
        yield from (node for statement in top.body for node in ast.walk(statement))
    elif isinstance(top, (ast.Assign, ast.AnnAssign)):
        yield top


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    if isinstance(node, (ast.Assign, ast.AnnAssign)) and "SPECIAL_TOKENS" in ast.unparse(node).partition("=")[0]:
        yield "special tokens kept", _empty_value
    elif isinstance(node, ast.Subscript):
        yield from _subscript(node)
    elif isinstance(node, ast.Call):
        yield from _call(node)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        yield "comparison changed", _compare
    elif isinstance(node, ast.Return) and _number(node.value) is not None:
        yield "return swapped", _swap_return
    elif isinstance(node, ast.AugAssign):
        yield (
            (
                "overlong penalty lost"
                if "overlong" in ast.unparse(node) or "penalty" in ast.unparse(node)
                else "term lost"
            ),
            _drop,
        )
    elif isinstance(node, ast.BoolOp):
        yield "and for or", _bool_op
    elif isinstance(node, ast.If):
        yield "branch lost", _negate
    elif (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, (ast.Mult, ast.Add, ast.Sub))
        and _number(node.right) is not None
    ):
        yield "constant changed", _constant
    elif isinstance(node, ast.Dict):
        yield from _dict(node)


def _subscript(node: ast.Subscript) -> Iterator[tuple[str, Change]]:
    index = _number(node.slice)
    if index in (0, -1):
        yield "first for last match", _other_end
    elif isinstance(node.slice, ast.Slice) and (node.slice.lower or node.slice.upper):
        yield "clip changed", _other_clip
    elif isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str) and isinstance(node.ctx, ast.Load):
        yield "other dict key", _other_key


def _call(node: ast.Call) -> Iterator[tuple[str, Change]]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in TEXT_STEPS and isinstance(node.func, ast.Attribute):
        yield "normalisation step dropped", _receiver
    if name in ("float", "int") and node.args:
        yield "float for int", _other_number
    if name in ("rfind", "find", "rindex", "index", "search", "match", "fullmatch"):
        yield "first for last match" if "ind" in name else "strictness changed", _other_search
    if any(isinstance(arg, ast.Attribute) and arg.attr in FLAGS for arg in node.args):
        yield "pattern flag lost", _no_flags
    if node.keywords and any(keyword.arg for keyword in node.keywords):
        yield "keyword argument lost", _no_keyword
    if name == "get" and node.args and isinstance(node.args[0], ast.Constant):
        yield "other dict key", _other_key


def _dict(node: ast.Dict) -> Iterator[tuple[str, Change]]:
    if any(isinstance(key, ast.Constant) and key.value == "score" for key in node.keys):
        yield "score key filled otherwise", _other_score


def _apply(source: str, top: ast.stmt, position: int, operator: str, change: Change) -> Fault | None:
    """The module with one node of one of its statements changed; None when the text stays the same."""
    clone = copy.deepcopy(top)
    target = next(node for index, node in enumerate(_nodes(clone)) if index == position)
    line = int(getattr(target, "lineno", 0))
    replacement = change(target)
    if replacement is None:
        replacement = ast.copy_location(ast.Pass(), target)
    if replacement is not target:
        _Replace(target, replacement).visit(clone)
    text = ast.unparse(ast.fix_missing_locations(clone))
    if text == ast.unparse(top):
        return None
    module = source.splitlines()
    first = min([top.lineno, *(decorator.lineno for decorator in getattr(top, "decorator_list", ()))])
    module[first - 1 : top.end_lineno] = text.splitlines()
    changed = "\n".join(module) + "\n"
    try:
        compile(changed, "fault", "exec")
    except SyntaxError:
        return None
    return Fault(operator, line, changed)


class _Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, replacement: ast.AST) -> None:
        self._target, self._replacement = target, replacement

    def visit(self, node: ast.AST) -> ast.AST:
        return self._replacement if node is self._target else self.generic_visit(node)


def _number(node: ast.AST | None) -> float | int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return node.value
    return None


def _empty_value(node: ast.AST) -> ast.AST:
    node.value = ast.Tuple([], ast.Load())  # type: ignore[attr-defined]
    return node


def _drop(node: ast.AST) -> None:
    return None


def _other_end(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Subscript)
    node.slice = ast.Constant(-1 if _number(node.slice) == 0 else 0)
    return node


def _other_clip(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Subscript)
    assert isinstance(node.slice, ast.Slice)
    bound = "lower" if node.slice.lower is not None else "upper"
    setattr(node.slice, bound, ast.BinOp(getattr(node.slice, bound), ast.Add(), ast.Constant(1)))
    return node


def _other_key(node: ast.AST) -> ast.AST:
    key: Any = node.slice if isinstance(node, ast.Subscript) else node.args[0]  # type: ignore[attr-defined]
    key.value = f"{key.value}_"
    return node


def _receiver(node: ast.AST) -> ast.AST:
    return node.func.value  # type: ignore[attr-defined,no-any-return]


def _other_number(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Call)
    name = getattr(node.func, "id", "float")
    inner = ast.Call(ast.Name("float", ast.Load()), list(node.args), [])
    return ast.Call(ast.Name("int", ast.Load()), [inner], []) if name == "float" else inner


def _other_search(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Call)
    other = {
        "rfind": "find",
        "find": "rfind",
        "rindex": "index",
        "index": "rindex",
        "search": "match",
        "match": "search",
        "fullmatch": "match",
    }
    if isinstance(node.func, ast.Attribute):
        node.func.attr = other[node.func.attr]
    return node


def _no_flags(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Call)
    node.args = [arg for arg in node.args if not (isinstance(arg, ast.Attribute) and arg.attr in FLAGS)]
    return node


def _no_keyword(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Call)
    node.keywords = node.keywords[:-1]
    return node


def _compare(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Compare)
    node.ops = [COMPARISONS[type(node.ops[0])]()]
    return node


def _swap_return(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Return)
    value = _number(node.value)
    node.value = ast.Constant(0.0 if value else 1.0)
    return node


def _bool_op(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    return node


def _negate(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.If)
    node.test = ast.UnaryOp(ast.Not(), node.test)
    return node


def _constant(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.BinOp)
    node.right = ast.Constant((_number(node.right) or 0) + (1 if isinstance(_number(node.right), int) else 0.05))
    return node


def _other_score(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Dict)
    for index, key in enumerate(node.keys):
        if isinstance(key, ast.Constant) and key.value == "score":
            node.values[index] = ast.BinOp(ast.Constant(1.0), ast.Sub(), node.values[index])
    return node
