"""Exception handlers that catch nearly everything, and what they stand around."""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from dataclasses import dataclass, field

BROAD = frozenset({"Exception", "BaseException", "BaseExceptionGroup", "ExceptionGroup", "StandardError"})
MANY = 5
"""So many types in one handler are as good as all."""


@dataclass
class Handlers:
    """Broad handlers of one module."""

    count: Counter[str] = field(default_factory=Counter)
    """Function -> how many stand in it; "" for the module itself."""
    inside: set[str] = field(default_factory=set)
    """Texts of the simple statements that such a handler stands around."""
    outside: set[str] = field(default_factory=set)
    first: dict[str, int] = field(default_factory=dict)
    """Function -> line of its first one."""


def broad_handlers(tree: ast.AST) -> Handlers:
    """Where a module catches nearly everything."""
    found = Handlers()
    _visit(tree, "", False, found)
    return found


def widened(new: Handlers, old: Handlers) -> list[tuple[int, str]]:
    """Line and text of each handler that the old version does not have or does not have around so much."""
    problems = [
        (new.first[name], f"catches nearly everything in {name or 'the module'}")
        for name, count in new.count.items()
        if count > old.count[name]
    ]
    caught = sorted((new.inside & old.outside) - old.inside)
    if caught and not problems:
        problems.append((min(new.first.values(), default=0), f"catches nearly everything around `{caught[0][:80]}`"))
    return problems


def is_broad(handler: ast.ExceptHandler) -> bool:
    """Whether a handler takes every ordinary exception, or so many types (or computed ones) that it may."""
    if handler.type is None:
        return True
    if isinstance(handler.type, ast.Tuple):
        return len(handler.type.elts) >= MANY or any(_is_broad_type(item) for item in handler.type.elts)
    return _is_broad_type(handler.type)


def _is_broad_type(node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        known = getattr(builtins, node.id, None)
        if node.id in BROAD:
            return True
        return not (isinstance(known, type) or node.id.endswith(("Error", "Exception", "Timeout")))
    return not isinstance(node, ast.Attribute) or node.attr in BROAD


def _visit(node: ast.AST, function: str, covered: bool, found: Handlers) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            _visit(child, child.name, False, found)
            continue
        if isinstance(child, ast.Try | ast.TryStar):
            _visit_try(child, function, covered, found)
            continue
        if isinstance(child, ast.stmt) and not any(
            isinstance(part, ast.stmt) for part in ast.walk(child) if part != child
        ):
            (found.inside if covered else found.outside).add(ast.unparse(child))
        _visit(child, function, covered, found)


def _visit_try(node: ast.Try | ast.TryStar, function: str, covered: bool, found: Handlers) -> None:
    broad = [handler for handler in node.handlers if is_broad(handler)]
    if broad:
        found.count[function] += len(broad)
        found.first.setdefault(function, broad[0].lineno)
    body = ast.Module(body=node.body, type_ignores=[])
    _visit(body, function, covered or bool(broad), found)
    for part in (node.handlers, node.orelse, node.finalbody):
        _visit(ast.Module(body=list(part), type_ignores=[]), function, covered, found)  # type: ignore[arg-type]
