"""Evaluates a test of reward code when some of its names are known, without running anything of it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any


class UnknownValue(Exception):
    """The test depends on something that is not known."""


def truth(node: ast.expr, values: Mapping[str, object]) -> bool:
    """The truth of a test under known names; unknown parts matter only where they can change the result.

    Raises:
        UnknownValue: the result depends on something unknown.
    """
    if isinstance(node, ast.BoolOp):
        decisive = isinstance(node.op, ast.Or)
        unknown = False
        for part in node.values:
            try:
                if truth(part, values) == decisive:
                    return decisive
            except UnknownValue:
                unknown = True
        if unknown:
            raise UnknownValue
        return not decisive
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not truth(node.operand, values)
    return bool(evaluate(node, values))


STRING_METHODS = frozenset({"startswith", "endswith", "lower", "upper", "strip", "split", "replace", "casefold"})


def evaluate(node: ast.expr, values: Mapping[str, object]) -> Any:
    """The value of a side-effect free expression over known names and literals.

    Raises:
        UnknownValue: it is anything else.
    """
    if isinstance(node, ast.Name):
        if node.id not in values:
            raise UnknownValue
        return values[node.id]
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [evaluate(item, values) for item in node.elts]
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compare(node.ops[0], evaluate(node.left, values), evaluate(node.comparators[0], values))
    if isinstance(node, ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        return truth(node, values)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant | ast.UnaryOp):
        try:
            return evaluate(node.value, values)[ast.literal_eval(node.slice)]
        except (TypeError, IndexError, KeyError, ValueError):
            raise UnknownValue from None
    if isinstance(node, ast.Call):
        return _call(node, values)
    raise UnknownValue


def _compare(operator: ast.cmpop, left: Any, right: Any) -> bool:
    try:
        if isinstance(operator, ast.Eq):
            return bool(left == right)
        if isinstance(operator, ast.NotEq):
            return bool(left != right)
        if isinstance(operator, ast.In):
            return left in right
        if isinstance(operator, ast.NotIn):
            return left not in right
        if isinstance(operator, ast.Is):
            return left is right
        if isinstance(operator, ast.IsNot):
            return left is not right
    except TypeError:
        raise UnknownValue from None
    raise UnknownValue


def _call(node: ast.Call, values: Mapping[str, object]) -> Any:
    if node.keywords:
        raise UnknownValue
    arguments = [evaluate(item, values) for item in node.args]
    if isinstance(node.func, ast.Name) and node.func.id == "str" and len(arguments) == 1:
        return str(arguments[0])
    if isinstance(node.func, ast.Attribute) and node.func.attr in STRING_METHODS:
        owner = evaluate(node.func.value, values)
        if isinstance(owner, str):
            arguments = [tuple(item) if isinstance(item, list) else item for item in arguments]
            try:
                return getattr(owner, node.func.attr)(*arguments)
            except (TypeError, ValueError):
                raise UnknownValue from None
    raise UnknownValue
