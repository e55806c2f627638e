"""A rule for questions whose answer is known: whether a value is None that never is."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from migrate_tools.parity.mutation import FUNCTIONS, Code, Edit, FunctionNode, call_name
from migrate_tools.parity.value_before import arguments_for, is_stored, value_before

VALUES = (ast.JoinedStr, ast.BinOp, ast.Compare, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.DictComp)
MAKERS = frozenset(
    {"str", "int", "float", "bool", "len", "repr", "list", "tuple", "dict", "set", "sorted", "sum", "abs"}
)
TEXT_METHODS = frozenset(
    {"strip", "lstrip", "rstrip", "lower", "upper", "replace", "split", "rsplit", "join", "format"}
)
DEEPEST = 6


def never_none_is_asked(code: Code, edit: Edit) -> str:
    """A condition is lost beside, or is itself, `x is None` of an x that never is None."""
    node = edit.node
    if edit.operator != "condition lost" or not isinstance(node, ast.BoolOp) or not _is_truth_alone(code, node):
        return ""
    *kept, lost = node.values
    asked = kept if isinstance(node.op, ast.And) else [lost]
    found = next((item for item in asked if _never_true(code, item)), None)
    return f"{code.segment(found)} never holds" if found is not None else ""


def _is_truth_alone(code: Code, node: ast.BoolOp) -> bool:
    """True where only the truth of a condition counts, not which of its values it is."""
    if all(isinstance(item, ast.Compare) for item in node.values):
        return True
    parent = code.parents.get(node)
    return isinstance(parent, (ast.If, ast.IfExp, ast.While)) and parent.test is node


def _never_true(code: Code, node: ast.expr) -> bool:
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.Is):
        return False
    other = node.comparators[0]
    return isinstance(other, ast.Constant) and other.value is None and _something(code, node.left, DEEPEST)


def _something(code: Code, node: ast.expr, depth: int) -> bool:
    """True when the value is certainly not None (or there is none because of an exception)."""
    if isinstance(node, ast.Constant):
        return node.value is not None
    if isinstance(node, VALUES) or depth == 0:
        return depth > 0
    if isinstance(node, ast.IfExp):
        return _something(code, node.body, depth) and _something(code, node.orelse, depth)
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Slice) or call_name(node.value) in ("split", "rsplit")
    if isinstance(node, ast.Name):
        return _name(code, node, depth)
    return isinstance(node, ast.Call) and _called(code, node, depth)


def _called(code: Code, node: ast.Call, depth: int) -> bool:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr in TEXT_METHODS
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in code.functions:
        return _returns_something(code, code.functions[name], depth - 1)
    return name in MAKERS and not _is_stored(code, name)


def _returns_something(code: Code, function: FunctionNode, depth: int) -> bool:
    inside = [node for node in ast.walk(function) if code.function(node) is function]
    if isinstance(function, ast.AsyncFunctionDef) or function.decorator_list or not _ends(function.body):
        return False
    if any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in inside):
        return False
    returned = [node.value for node in inside if isinstance(node, ast.Return)]
    return all(value is not None and _something(code, value, depth) for value in returned)


def _ends(block: Sequence[ast.stmt]) -> bool:
    """True when what follows the block is never reached."""
    last = block[-1]
    if isinstance(last, (ast.Return, ast.Raise)):
        return True
    if isinstance(last, ast.If):
        return bool(last.orelse) and _ends(last.body) and _ends(last.orelse)
    if isinstance(last, ast.Try):
        return _ends([*last.body, *last.orelse]) and all(_ends(item.body) for item in last.handlers)
    return False


def _name(code: Code, node: ast.Name, depth: int) -> bool:
    value = value_before(code, node)
    if value is not None:
        return _something(code, value, depth - 1)
    function = code.function(node)
    given = list(arguments_for(code, function, node.id)) if function is not None else []
    return bool(given) and all(item is not None and _something(code, item, depth - 1) for item in given)


def _is_stored(code: Code, name: str) -> bool:
    """True when the module gives the name a meaning of its own anywhere."""
    defined = (item for item in ast.walk(code.tree) if isinstance(item, (*FUNCTIONS, ast.ClassDef)))
    return is_stored(code.tree, name) or any(item.name == name for item in defined)
