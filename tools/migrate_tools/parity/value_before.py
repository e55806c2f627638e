"""What a name stands for, only where that is certain: what it was given last, the default that no call changes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from migrate_tools.parity.mutation import Code, FunctionNode

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
            if is_stored(before, name.id):
                single = isinstance(before, ast.Assign) and len(before.targets) == 1
                plain = single and isinstance(before.targets[0], ast.Name) and not is_stored(before.value, name.id)
                return before.value if plain else None
        if (
            not isinstance(parent, (ast.If, ast.With, ast.Try))
            or isinstance(parent, ast.Try)
            and block is not parent.body
        ):
            return None
        if isinstance(parent, (ast.If, ast.With)) and is_stored(_head(parent), name.id):
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


def is_stored(node: ast.AST, name: str) -> bool:
    """True when a name gets a value, or loses it, inside a node."""
    return next(stores(node, name), None) is not None


def stores(node: ast.AST, name: str) -> Iterator[ast.Name]:
    """Every place inside a node where a name gets a value, or loses it."""
    for item in ast.walk(node):
        if isinstance(item, ast.Name) and item.id == name and not isinstance(item.ctx, ast.Load):
            yield item


def arguments_for(code: Code, function: FunctionNode, parameter: str) -> Iterator[ast.expr | None]:
    """What each call of the module gives a parameter; None for a call, or another use, that cannot be followed."""
    names = [item.arg for item in (*function.args.posonlyargs, *function.args.args)]
    plain = function is code.functions.get(function.name) and not function.decorator_list
    if not plain or parameter not in names or is_stored(function, parameter):
        yield None
        return
    place = names.index(parameter)
    for use in (node for node in ast.walk(code.tree) if isinstance(node, ast.Name) and node.id == function.name):
        call = code.parents.get(use)
        if not isinstance(call, ast.Call) or call.func is not use:
            yield None
            continue
        value = next((item.value for item in call.keywords if item.arg == parameter), None)
        known = not any(isinstance(item, ast.Starred) for item in call.args)
        yield call.args[place] if known and place < len(call.args) else value if known else None


def never_given(code: Code, node: ast.expr) -> ast.expr | None:
    """The default of a parameter that no call of the module gives another value, and its function neither."""
    function = code.function(node)
    if not isinstance(node, ast.Name) or function is None or function is not code.functions.get(function.name):
        return None
    names = [item.arg for item in (*function.args.posonlyargs, *function.args.args)]
    named = [item for item in ast.walk(function) if isinstance(item, ast.Name) and item.id == node.id]
    uses = [item for item in ast.walk(code.tree) if isinstance(item, ast.Name) and item.id == function.name]
    calls = [call for use in uses if isinstance(call := code.parents.get(use), ast.Call) and call.func is use]
    if not calls or len(calls) != len(uses) or any(not isinstance(item.ctx, ast.Load) for item in named):
        return None
    place = names.index(node.id) if node.id in names else len(names)
    for call in calls:
        spread = any(isinstance(item, ast.Starred) for item in call.args) or None in {
            word.arg for word in call.keywords
        }
        if spread or len(call.args) > place or node.id in {word.arg for word in call.keywords}:
            return None
    default = next(default_of(code, function.name, node.id), None)
    return default if isinstance(default, ast.Constant) else None


def constant_of(code: Code, node: ast.expr) -> ast.Constant | None:
    """The constant that a name of the module stands for; None where it may get another value anywhere."""
    value = assigned_once(code, node)
    return value if isinstance(value, ast.Constant) else None


def assigned_once(code: Code, node: ast.expr) -> ast.expr | None:
    """What a name of the module is given, at its top; None where it may get another value anywhere."""
    if not isinstance(node, ast.Name) or len(found := list(stores(code.tree, node.id))) != 1:
        return None
    statement = code.parents.get(found[0])
    plain = isinstance(statement, ast.Assign) and statement in code.tree.body and len(statement.targets) == 1
    arguments = (item.arg for item in ast.walk(code.tree) if isinstance(item, ast.arg))
    if not plain or node.id in arguments or not isinstance(statement, ast.Assign):
        return None
    return statement.value


def default_of(code: Code, function: str, parameter: str) -> Iterator[ast.expr]:
    """The default of a parameter of one of the module's functions; nothing where it has none."""
    found = code.functions.get(function)
    if found is None:
        return
    arguments = found.args
    names = [item.arg for item in (*arguments.posonlyargs, *arguments.args)]
    if parameter in names and (place := names.index(parameter) - len(names) + len(arguments.defaults)) >= 0:
        yield arguments.defaults[place]
    for item, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if item.arg == parameter and default is not None:
            yield default
