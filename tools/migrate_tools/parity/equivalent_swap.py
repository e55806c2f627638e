"""A rule for two values that change places, where everything that reads them treats them alike."""

from __future__ import annotations

import ast
import copy

from migrate_tools.parity.mutation import MESSAGES, Code, Edit, call_name, number
from migrate_tools.parity.outcomes import is_whole
from migrate_tools.parity.value_before import stores


def treated_alike(code: Code, edit: Edit) -> str:
    """Two numbers are unpacked in the other order, and no condition of the function changes when they are exchanged."""
    target, function = edit.node, code.function(edit.node)
    if edit.operator != "values unpacked in another order" or not isinstance(target, ast.Tuple) or function is None:
        return ""
    names = [item.id for item in target.elts if isinstance(item, ast.Name)]
    statement = code.parents.get(target)
    if len(names) != 2 or not isinstance(statement, ast.Assign) or not _numbers(code, statement.value):
        return ""
    if any(len(list(stores(function, name))) != 1 for name in names):
        return ""
    uses = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id in names and node not in target.elts
    ]
    found = [_condition(code, use, names) for use in uses if not _in_message(code, use)]
    alike = all(test is not None and _plain(test) == _plain(_exchanged(test, *names)) for test in found)
    return f"{names[0]} and {names[1]} are treated alike" if alike else ""


def _numbers(code: Code, value: ast.expr) -> bool:
    """True for a call of an own function that returns two numbers in any case."""
    function = code.functions.get(call_name(value))
    inside = ast.walk(function) if function is not None else ()
    returned = [node.value for node in inside if isinstance(node, ast.Return)]
    return bool(returned) and all(
        isinstance(item, ast.Tuple) and len(item.elts) == 2 and all(is_whole(code, part) for part in item.elts)
        for item in returned
    )


def _in_message(code: Code, use: ast.Name) -> bool:
    return any(call_name(item) in MESSAGES for item in code.above(use))


def _condition(code: Code, use: ast.Name, names: list[str]) -> ast.expr | None:
    """The condition that a use stands in: these names compared with numbers, joined by one `and` or `or`; else None."""
    compare = code.parents.get(use)
    whole = code.parents.get(compare) if isinstance(compare, ast.Compare) else None
    if not isinstance(whole, ast.BoolOp) or not all(isinstance(item, ast.Compare) for item in whole.values):
        return None
    sides = [side for item in whole.values if isinstance(item, ast.Compare) for side in (item.left, *item.comparators)]
    same = all(number(side) is not None or isinstance(side, ast.Name) and side.id in names for side in sides)
    return whole if same else None


def _exchanged(test: ast.expr, one: str, other: str) -> ast.expr:
    changed = copy.deepcopy(test)
    for node in ast.walk(changed):
        if isinstance(node, ast.Name) and node.id in (one, other):
            node.id = other if node.id == one else one
    return changed


def _plain(test: ast.expr) -> tuple[str, ...]:
    """The comparisons of a condition, in no order: each is of numbers, so none of them fails."""
    return tuple(sorted(ast.dump(item) for item in test.values)) if isinstance(test, ast.BoolOp) else (ast.dump(test),)
