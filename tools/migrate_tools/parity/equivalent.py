"""When no input can tell a changed module from the unchanged one: few rules, each of them certain.

A rule that is not sure says nothing; the change then counts as one that the cases should have seen.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from typing import Any

from migrate_tools.parity.equivalent_checked import adds_nothing, first_anyway, stands_once, whole_already
from migrate_tools.parity.equivalent_keys import (
    default_never_used,
    lists_of_a_batch,
    row_never_read,
    set_by_the_launch,
    told_but_unread,
)
from migrate_tools.parity.equivalent_match import (
    end_taken,
    from_the_start,
    one_choice,
    only_whether_it_matches,
    whole_anyway,
)
from migrate_tools.parity.equivalent_none import never_none_is_asked
from migrate_tools.parity.equivalent_one import one_item_at_most
from migrate_tools.parity.equivalent_setup import imports_alone, start_of_workers, workers_of_a_pool
from migrate_tools.parity.equivalent_strip import stripped_already
from migrate_tools.parity.equivalent_swap import treated_alike
from migrate_tools.parity.equivalent_text import gives_back_what_it_gets, not_there_to_remove
from migrate_tools.parity.mutation import FUNCTIONS, Code, Edit, FunctionNode, call_name, number, text
from migrate_tools.parity.outcomes import is_truth, is_whole
from migrate_tools.parity.settled import settled_by_the_launch
from migrate_tools.parity.value_before import constant_of, default_of, never_given

BLANKS = frozenset({"strip", "lstrip", "rstrip"})
LIBRARY: dict[str, Any] = {"loads": json.loads, "sub": re.sub, "split": re.split, "open": open, "sorted": sorted}
DEFAULTS: dict[str, dict[str, Any]] = {"zip": {"strict": False}, "enumerate": {"start": 0}}
"""Defaults of built-in functions that do not tell them."""


def rule(code: Code, edit: Edit) -> str:
    """Why no input can tell the change; empty when no rule says so."""
    return next((why for check in RULES if (why := check(code, edit))), "")


def blanks_are_skipped(code: Code, edit: Edit) -> str:
    """float(), int() and split() without arguments pass over blanks at the ends themselves."""
    node = edit.node
    if call_name(node) not in BLANKS or not isinstance(node, ast.Call) or node.args:
        return ""
    if edit.text != code.segment(node.func.value):  # type: ignore[attr-defined]
        return ""
    parent = code.parents.get(node)
    if isinstance(parent, ast.Call) and parent.args == [node] and call_name(parent) in ("float", "int"):
        return f"{call_name(parent)}() passes over blanks"
    following = code.parents.get(parent) if isinstance(parent, ast.Attribute) else None
    if isinstance(following, ast.Call) and not following.args and not following.keywords:
        step = call_name(following)
        if step == "split" or (step in BLANKS and call_name(node) in (step, "lstrip", "rstrip") and step == "strip"):
            return f"{step}() follows"
    return ""


def same_number(code: Code, edit: Edit) -> str:
    """int() and float() of something that is 0 or 1, or of a whole number: 1, 1.0 and True are one reward."""
    node = edit.node
    if edit.operator not in ("int for float", "float for int") or not isinstance(node, ast.Call):
        return ""
    value = node.args[0]
    if is_truth(code, value) and _beside_a_float(code, node):
        return "a truth value is the same number either way"
    if is_truth(code, value) or (edit.operator == "int for float" and isinstance(number(value), int)):
        return "a truth value is the same number either way" if _is_result(code, node) else ""
    if edit.operator == "int for float" and is_whole(code, value) and _is_result(code, node):
        return "a whole number is the same reward as a float"
    if edit.operator == "float for int" and _is_result(code, node) and call_name(value) in ("len", "sum", "count"):
        return "a whole number is the same reward as a float"
    return ""


def one_number(code: Code, edit: Edit) -> str:
    """Another value for the score that is the same number: 0 and False are one reward."""
    if edit.operator != "other value for the score" or not isinstance(edit.node, ast.expr):
        return ""
    one, other = _constant(edit.node), _constant(ast.parse(edit.text, mode="eval").body)
    return "the same number" if one is not None and one == other else ""


def equal_entry_stays(code: Code, edit: Edit) -> str:
    """An entry lost of a list that is only asked whether it holds something, where an equal one stays: 0, False."""
    node, parent = edit.node, code.parents.get(edit.node)
    asked = isinstance(parent, ast.Compare) and parent.comparators == [node]
    if edit.operator != "entry lost" or not asked or not isinstance(parent.ops[0], (ast.In, ast.NotIn)):  # type: ignore[union-attr]
        return ""
    try:
        before, after = ast.literal_eval(code.segment(node)), ast.literal_eval(edit.text)
    except (ValueError, SyntaxError):
        return ""
    return "an equal entry stays" if all(item in after for item in before) else ""


def _constant(node: ast.expr) -> float | None:
    plain = number(node)
    if plain is None and isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return float(node.value)
    return None if plain is None else float(plain)


def _beside_a_float(code: Code, node: ast.AST) -> bool:
    """True for an operand of a sum, difference, product or quotient whose other operand is a float in any case."""
    parent = code.parents.get(node)
    if not isinstance(parent, ast.BinOp) or not isinstance(parent.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
        return False
    return _is_float(parent.right if parent.left is node else parent.left)


def _is_float(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        return _is_float(node.left) or _is_float(node.right)
    return isinstance(node, ast.Constant) and isinstance(node.value, float)


def _is_result(code: Code, node: ast.AST) -> bool:
    """True where a value is returned as it is, or stands in a dict or a choice that is."""
    for parent in code.above(node):
        if isinstance(parent, ast.Return):
            return True
        if not isinstance(parent, (ast.Dict, ast.IfExp)) or parent is getattr(parent, "test", None):
            return False
        node = parent
    return False


def keyword_is_default(code: Code, edit: Edit) -> str:
    """The argument that is not passed any more has this very value by default."""
    if edit.operator != "keyword argument lost" or not isinstance(edit.node, ast.Call):
        return ""
    kept = {item.arg for item in _parsed_call(edit.text).keywords}
    lost = next((item for item in edit.node.keywords if item.arg not in kept), None)
    if lost is None or lost.arg is None:
        return ""
    name = call_name(edit.node)
    if name in code.functions:
        defaults = list(default_of(code, name, lost.arg))
    else:  # a function kept in a table: every function that has the parameter is meant
        having = [own for own, node in code.functions.items() if lost.arg in _parameters(node)]
        found = [list(default_of(code, own, lost.arg)) for own in having]
        local = isinstance(edit.node.func, ast.Name) and code.function(edit.node) is not None
        defaults = [item for items in found for item in items] if local and all(found) else []
    given = never_given(code, lost.value) or constant_of(code, lost.value) or lost.value
    if defaults and all(ast.dump(default) == ast.dump(given) for default in defaults):
        return f"{lost.arg} is {code.segment(given)} by default"
    if not isinstance(lost.value, ast.Constant) or name in code.functions:
        return ""
    if isinstance(edit.node.func, ast.Name) and DEFAULTS.get(name, {}).get(lost.arg, lost) == lost.value.value:
        return f"{lost.arg} is {lost.value.value!r} by default"
    if (known := LIBRARY.get(name)) is not None:
        parameter = inspect.signature(known).parameters.get(lost.arg)
        if parameter is not None and parameter.default == lost.value.value:
            return f"{lost.arg} is {lost.value.value!r} by default"
    return ""


def _parameters(function: FunctionNode) -> set[str]:
    return {item.arg for item in ast.walk(function.args) if isinstance(item, ast.arg)}


def _parsed_call(source: str) -> ast.Call:
    node = ast.parse(source, mode="eval").body
    assert isinstance(node, ast.Call)
    return node


def value_unused(code: Code, edit: Edit) -> str:
    """A name that the function never reads is given another value."""
    statement = code.statement(edit.node)
    function = code.function(statement)
    if function is None or not isinstance(statement, ast.Assign) or edit.node not in set(ast.walk(statement.value)):
        return ""
    if not all(isinstance(target, ast.Name) for target in statement.targets) or not _cannot_fail(statement.value):
        return ""
    names = {target.id for target in statement.targets if isinstance(target, ast.Name)}
    reads = (node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    shared = any(isinstance(node, (ast.Global, ast.Nonlocal)) for node in ast.walk(function))
    return "" if shared or names & set(reads) else f"{', '.join(sorted(names))} is never read"


def _cannot_fail(value: ast.expr) -> bool:
    return all(isinstance(node, (ast.Constant, ast.Name, ast.Load, ast.JoinedStr)) for node in ast.walk(value))


def only_one_item(code: Code, edit: Edit) -> str:
    """First and last are one where the length was just found to be one."""
    subscript = end_taken(code, edit)
    if subscript is None:
        return ""
    wanted = f"len({code.segment(subscript.value)}) == 1"
    for item in code.above(subscript):
        if isinstance(item, ast.If) and code.segment(item.test) == wanted and _in_body(item, subscript):
            return "there is one item only"
        if isinstance(item, FUNCTIONS):
            break
    return ""


def _in_body(branch: ast.If, node: ast.AST) -> bool:
    return any(node in set(ast.walk(item)) for item in branch.body)


def part_of_a_removed_whole(code: Code, edit: Edit) -> str:
    """A character that is removed twice in one chain of replacements."""
    node = edit.node
    if (
        call_name(node) != "replace"
        or not isinstance(node, ast.Call)
        or len(node.args) != 2
        or text(node.args[1]) != ""
    ):
        return ""
    if edit.text != code.segment(node.func.value):  # type: ignore[attr-defined]
        return ""
    item = code.parents.get(node)
    while isinstance(item, ast.Attribute):
        outer = code.parents.get(item)
        if call_name(outer or item) != "replace" or not isinstance(outer, ast.Call) or len(outer.args) != 2:
            return ""
        single = len(text(outer.args[0]) or "") == 1 and text(outer.args[1]) == ""
        if single and text(outer.args[0]) == text(node.args[0]):
            return "the same character is removed again"
        if not single:
            return ""
        item = code.parents.get(outer)
    return ""


def filled_in_again(code: Code, edit: Edit) -> str:
    """A number in the place of a dict whose other keys the wrapper fills in with the same values."""
    assigned = (node for node in code.tree.body if isinstance(node, ast.Assign))
    fill = next((node.value for node in assigned if _assigns(node, "EXTRA_KEYS")), None)
    if edit.operator != "number for dict" or fill is None:
        return ""
    try:
        given, filled = ast.literal_eval(code.segment(edit.node)), ast.literal_eval(fill)
    except (ValueError, SyntaxError):
        return ""
    score = given.pop("score")
    without = {**filled, "acc": score}
    return "the wrapper fills in the same values" if {**filled, **given} == without else ""


def _assigns(node: ast.Assign, name: str) -> bool:
    return any(isinstance(item, ast.Name) and item.id == name for item in node.targets)


def never_none(code: Code, edit: Edit) -> str:
    """`extra_info or {}` in a scorer whose wrapper always passes a dict."""
    node = edit.node
    if edit.operator != "condition lost" or not isinstance(node, ast.BoolOp) or not isinstance(node.op, ast.Or):
        return ""
    first, *others = node.values
    empty = len(others) == 1 and isinstance(others[0], ast.Dict) and not others[0].keys
    passed = isinstance(first, ast.Name) and first.id == "extra_info" and "_request" in code.functions
    return "extra_info is always a dict" if empty and passed else ""


RULES = (
    never_none,
    default_never_used,
    set_by_the_launch,
    settled_by_the_launch,
    row_never_read,
    told_but_unread,
    filled_in_again,
    blanks_are_skipped,
    same_number,
    one_number,
    equal_entry_stays,
    keyword_is_default,
    value_unused,
    only_one_item,
    part_of_a_removed_whole,
    not_there_to_remove,
    never_none_is_asked,
    only_whether_it_matches,
    one_choice,
    whole_anyway,
    from_the_start,
    one_item_at_most,
    imports_alone,
    workers_of_a_pool,
    start_of_workers,
    treated_alike,
    lists_of_a_batch,
    stands_once,
    first_anyway,
    whole_already,
    adds_nothing,
    gives_back_what_it_gets,
    stripped_already,
)
