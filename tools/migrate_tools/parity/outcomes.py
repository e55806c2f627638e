"""What an expression of a scorer can be, as far as its text says for certain: a truth value, a whole number."""

from __future__ import annotations

import ast
from collections.abc import Callable

from migrate_tools.parity.mutation import Code, FunctionNode, call_name, number, text
from migrate_tools.parity.value_before import arguments_for, never_given, value_before

TRUTHS = frozenset({"bool", "any", "all", "isinstance", "startswith", "endswith", "isdigit", "issubset"})
LISTS = frozenset({"list", "sorted", "split", "rsplit", "splitlines", "findall"})
DEEPEST = 6
Judge = Callable[[Code, ast.expr, int], bool]


def is_truth(code: Code, value: ast.expr, depth: int = 0) -> bool:
    """True when an expression is a truth value in any case."""
    if depth > DEEPEST:
        return False
    if isinstance(value, ast.BoolOp):
        return all(is_truth(code, item, depth + 1) for item in value.values)
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not):
        return True
    if isinstance(value, ast.Constant):
        return isinstance(value.value, bool)
    built_in = call_name(value) in TRUTHS and call_name(value) not in code.functions
    return built_in or isinstance(value, ast.Compare) or _through(code, value, is_truth, depth)


def is_whole(code: Code, value: ast.expr, depth: int = 0) -> bool:
    """True when an expression is a whole number or a truth value in any case, or a dict whose score is one."""
    if depth > DEEPEST:
        return False
    if (plain := number(value)) is not None:
        return float(plain).is_integer()
    if isinstance(value, ast.Dict):
        scores = [item for key, item in zip(value.keys, value.values, strict=True) if text(key) == "score"]
        return bool(scores) and all(is_whole(code, item, depth + 1) for item in scores)
    if isinstance(value, ast.Tuple) and value.elts:
        return is_whole(code, value.elts[0], depth + 1)
    if isinstance(value, ast.Subscript) and number(value.slice) == 0 and isinstance(value.value, ast.Name):
        return is_whole(code, value.value, depth + 1)  # a number has no items, so it is a tuple
    name = call_name(value)
    if isinstance(value, ast.Call) and name in ("int", "len", "float", "count") and name not in code.functions:
        return name != "float" or len(value.args) == 1 and is_whole(code, value.args[0], depth + 1)
    return is_truth(code, value, depth) or _through(code, value, is_whole, depth)


def is_list(code: Code, value: ast.expr, depth: int = 0) -> bool:
    """True when an expression is a list in any case."""
    if depth > DEEPEST:
        return False
    if isinstance(value, ast.Name):
        last, function = value_before(code, value), code.function(value)
        given = [last] if last is not None else list(arguments_for(code, function, value.id)) if function else []
        return bool(given) and all(item is not None and is_list(code, item, depth + 1) for item in given)
    name = call_name(value)
    if isinstance(value, ast.Call) and name in LISTS and name not in code.functions:
        return isinstance(value.func, ast.Name) is (name in ("list", "sorted"))
    return isinstance(value, (ast.List, ast.ListComp))


def returns_whole(code: Code, function: FunctionNode) -> bool:
    """True when a function gives a whole number in any case."""
    return all(is_whole(code, value) for value in returned(function))


def _through(code: Code, value: ast.expr, judge: Judge, depth: int) -> bool:
    """What a name, a choice or a call of an own function stands for, judged the same way."""
    sources: list[ast.expr] = []
    if isinstance(value, ast.IfExp):
        sources = [value.body, value.orelse]
    elif isinstance(value, ast.Await):
        sources = [value.value]
    elif isinstance(value, ast.Name):
        default = never_given(code, value)
        sources = [default] if default is not None else assigned(code, value)
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in code.functions:
        sources = returned(code.functions[value.func.id])
    return bool(sources) and all(judge(code, item, depth + 1) for item in sources)


def assigned(code: Code, name: ast.Name) -> list[ast.expr]:
    """Values that the enclosing function assigns to a name; empty when it gets one in another way too.

    A name whose items are set later (`result["score"] -= 1`) counts as one that it gets in another way.
    """
    function = code.function(name)
    if function is None or name.id in {item.arg for item in ast.walk(function.args) if isinstance(item, ast.arg)}:
        return []
    values: list[ast.expr] = []
    for node in ast.walk(function):
        if not isinstance(node, ast.Name) or node.id != name.id:
            continue
        holder = code.parents.get(node)
        if isinstance(holder, ast.Subscript) and not isinstance(holder.ctx, ast.Load):
            return []
        if not isinstance(node.ctx, ast.Load):
            if not isinstance(holder, ast.Assign):
                return []
            values.append(holder.value)
    return values


def returned(function: FunctionNode) -> list[ast.expr]:
    """What a function returns; a bare return counts as None."""
    found = [node.value or ast.Constant(None) for node in ast.walk(function) if isinstance(node, ast.Return)]
    return found or [ast.Constant(None)]
