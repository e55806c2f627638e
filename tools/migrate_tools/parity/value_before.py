"""What a name was given last before it is used: only where that is certain."""

from __future__ import annotations

import ast
from typing import Any

from migrate_tools.parity.mutation import Code

OWN_NAMES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def value_before(code: Code, name: ast.Name) -> ast.expr | None:
    """What the name was given last before its use, in the same block or one round it; None when not certain."""
    statement: ast.AST = code.statement(name)
    function = code.function(name)
    if function is None or any(isinstance(node, (ast.Global, ast.Nonlocal)) for node in ast.walk(function)):
        return None
    if any(isinstance(node, OWN_NAMES) for node in code.above(name) if _within(code, node, statement)):
        return None
    if any(isinstance(node, ast.NamedExpr) and node.target.id == name.id for node in ast.walk(statement)):
        return None
    while statement is not function:
        block, parent = _block(code, statement)
        for before in reversed(block[: block.index(statement)]):
            if _stores(before, name.id):
                single = isinstance(before, ast.Assign) and len(before.targets) == 1
                plain = single and isinstance(before.targets[0], ast.Name) and not _stores(before.value, name.id)
                return before.value if plain else None
        if (
            not isinstance(parent, (ast.If, ast.With, ast.Try))
            or isinstance(parent, ast.Try)
            and block is not parent.body
        ):
            return None
        if isinstance(parent, (ast.If, ast.With)) and _stores(_head(parent), name.id):
            return None
        statement = parent
    return None


def _within(code: Code, node: ast.AST, statement: ast.AST) -> bool:
    return statement in code.above(node)


def _block(code: Code, statement: ast.AST) -> tuple[list[Any], ast.AST | None]:
    """The list of statements that holds one, and what has that list."""
    parent = code.parents.get(statement)
    for field in ("body", "orelse", "finalbody"):
        found = getattr(parent, field, None)
        if isinstance(found, list) and statement in found:
            return found, parent
    return [statement], None


def _head(node: ast.If | ast.With) -> ast.AST:
    """What runs before the blocks of a statement."""
    if isinstance(node, ast.If):
        return node.test
    return ast.Module([ast.With(node.items, [])], [])


def _stores(node: ast.AST, name: str) -> bool:
    inside = ast.walk(node)
    return any(isinstance(item, ast.Name) and item.id == name and not isinstance(item.ctx, ast.Load) for item in inside)
