"""A rule for texts that have no blanks at their ends any more: what is stripped again stays as it is."""

from __future__ import annotations

import ast

from migrate_tools.parity.equivalent_checked import made_sure
from migrate_tools.parity.equivalent_text import has_no_blank
from migrate_tools.parity.mutation import Code, Edit, call_name
from migrate_tools.parity.outcomes import assigned, returned
from migrate_tools.parity.value_before import arguments_for, value_before

STRIPS = frozenset({"strip", "lstrip", "rstrip"})
LOST = frozenset({"normalisation step dropped", "one side not normalised"})
DEEPEST = 8


def stripped_already(code: Code, edit: Edit) -> str:
    """`strip()` is lost on what was stripped before, or was cut out without blanks."""
    node = edit.node
    if edit.operator not in LOST or call_name(node) not in STRIPS or not isinstance(node, ast.Call):
        return ""
    if node.args or node.keywords or not isinstance(node.func, ast.Attribute):
        return ""
    inner = node.func.value
    if edit.text not in (code.segment(inner), f"({code.segment(inner)})"):
        return ""
    return "there is no blank at its ends any more" if _stripped(code, inner, False, DEEPEST) else ""


def _stripped(code: Code, node: ast.expr, none: bool, depth: int) -> bool:
    """True for a text without blanks at its ends in any case; `none`: None does not come this far."""
    if depth == 0:
        return False
    if isinstance(node, ast.Constant):
        return none if node.value is None else isinstance(node.value, str) and node.value == node.value.strip()
    if call_name(node) == "strip" and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return not node.args and not node.keywords
    if isinstance(node, ast.IfExp):
        return all(_stripped(code, item, none, depth - 1) for item in (node.body, node.orelse))
    if isinstance(node, ast.Name):
        return has_no_blank(code, node) or _named(code, node, none, depth)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in code.functions:
        function = code.functions[node.func.id]
        ends = isinstance(function.body[-1], ast.Return) or none
        own = isinstance(function, ast.FunctionDef) and not function.decorator_list and ends
        return (
            own and not _yields(function) and all(_stripped(code, item, none, depth - 1) for item in returned(function))
        )
    return has_no_blank(code, node)


def _yields(function: ast.AST) -> bool:
    return any(isinstance(item, (ast.Yield, ast.YieldFrom)) for item in ast.walk(function))


def _named(code: Code, name: ast.Name, none: bool, depth: int) -> bool:
    """Everything that a name may stand for: what it was given, here or by the calls of the function."""
    function = code.function(name)
    if function is None:
        return False
    sure = {ast.unparse(item) for item in made_sure(code, name)}
    none = none or bool(sure & {name.id, f"{name.id} is not None"})
    last = value_before(code, name)
    values: list[ast.expr | None] = [last] if last is not None else [*assigned(code, name)]
    values = values or list(arguments_for(code, function, name.id))
    return bool(values) and all(item is not None and _stripped(code, item, none, depth - 1) for item in values)
