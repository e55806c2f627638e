"""Rules for what the reward manager hands over: keys of extra_info that it sets, lists of a batch of one length."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrate_tools.parity.faults_wiring import wrapper_names
from migrate_tools.parity.mutation import Code, Edit, call_name, text
from migrate_tools.parity.settled import never_runs
from migrate_tools.parity.value_before import is_stored

EXTRA = "extra_info"
BATCH = frozenset({"data_sources", "solution_strs", "ground_truths", "extra_infos"})
"""Parameters of a batch function."""


def default_never_used(code: Code, edit: Edit) -> str:
    """Another default for a key that the manager always sets."""
    node = edit.node
    call = code.parents.get(node) if edit.operator == "other default" else None
    if not isinstance(call, ast.Call) or call_name(call) != "get" or len(call.args) != 2 or call.args[1] is not node:
        return ""
    key = text(call.args[0])
    held = isinstance(call.func, ast.Attribute) and _is_extra(call.func.value)
    return f"the reward manager always sets {key}" if held and key in _manager_keys(code) else ""


def set_by_the_launch(code: Code, edit: Edit) -> str:
    """Another default for a variable of the environment that the launch sets."""
    call = code.parents.get(edit.node) if edit.operator == "other default" else None
    if not isinstance(call, ast.Call) or len(call.args) != 2 or call.args[1] is not edit.node:
        return ""
    asked = ast.unparse(call.func) in ("os.environ.get", "environ.get")
    return f"the launch sets {text(call.args[0])}" if asked and text(call.args[0]) in code.environment else ""


def row_never_read(code: Code, edit: Edit) -> str:
    """What the row has in extra_info is lost, but the scorer reads the manager's own keys alone."""
    keys = _manager_keys(code)
    if edit.operator != "extra_info lost" or not keys:
        return ""
    read = [_key_of(code, item) for item in _uses(code)]
    return "the scorer reads only keys that the manager sets" if all(key in keys for key in read) else ""


def told_but_unread(code: Code, edit: Edit) -> str:
    """A key of the rollout is not handed on, but the scorer names its keys and this is none of them."""
    statement = code.statement(edit.node)
    if edit.operator != "entry lost" or not isinstance(statement, ast.Assign):
        return ""
    if [getattr(target, "id", "") for target in statement.targets] != ["FROM_ROLLOUT"]:
        return ""
    lost = set(ast.literal_eval(statement.value)) - set(ast.literal_eval(edit.text))
    always = bool(_manager_keys(code))  # then it is never empty, and asking whether it is says nothing
    read = [_key_of(code, item) for item in _uses(code) if not (always and _is_asked(code, item))]
    return "the scorer does not read this key" if None not in read and not lost & set(read) else ""


def lists_of_a_batch(code: Code, edit: Edit) -> str:
    """`strict` is lost of a zip over what the wrapper passes to a batch function: a value for every sample each."""
    node, function = edit.node, code.function(edit.node)
    if edit.operator != "keyword argument lost" or not isinstance(node, ast.Call) or call_name(node) != "zip":
        return ""
    names = [item.id for item in node.args if isinstance(item, ast.Name)]
    only_strict = [word.arg for word in node.keywords] == ["strict"] and len(names) == len(node.args)
    if not only_strict or not set(names) <= BATCH or function is None or "_rewards" not in wrapper_names(code):
        return ""
    passed = {item.arg for item in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    kept = set(names) <= passed and not any(is_stored(function, name) for name in names)
    called = [item for item in ast.walk(code.tree) if call_name(item) == function.name]
    by_wrapper = bool(called) and all(_is_in(code, item, wrapper_names(code)) for item in called)
    return "every list of a batch has a value for each sample" if kept and by_wrapper else ""


def _is_in(code: Code, node: ast.AST, names: frozenset[str]) -> bool:
    function = code.function(node)
    return function is not None and function.name in names


def _manager_keys(code: Code) -> frozenset[str]:
    """Keys of MANAGER_ADDS, which the wrapper writes over those of the row."""
    for node in code.tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "MANAGER_ADDS":
            return frozenset(key for item in getattr(node.value, "keys", ()) if (key := text(item)) is not None)
    return frozenset()


def _uses(code: Code) -> Iterator[ast.Name]:
    """Every place where the scorer's functions use extra_info, save in branches that the launch rules out."""
    for function in (node for name, node in code.functions.items() if name not in wrapper_names(code)):
        for node in ast.walk(function):
            read = isinstance(node, ast.Name) and node.id == EXTRA and isinstance(node.ctx, ast.Load)
            if isinstance(node, ast.Name) and read and not never_runs(code, node):
                yield node


def _key_of(code: Code, name: ast.Name) -> str | None:
    """The key that is read at a use of extra_info; None where it goes anywhere else."""
    node: ast.AST = name
    parent = code.parents.get(node)
    if isinstance(parent, ast.BoolOp) and _is_extra(parent):
        node, parent = parent, code.parents.get(parent)
    if isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.ctx, ast.Load):
        return text(parent.slice)
    call = code.parents.get(parent) if isinstance(parent, ast.Attribute) and parent.attr == "get" else None
    return text(call.args[0]) if isinstance(call, ast.Call) and call.func is parent and call.args else None


def _is_asked(code: Code, name: ast.Name) -> bool:
    """Whether a use of extra_info only asks if it is empty."""
    parent = code.parents.get(name)
    return isinstance(parent, ast.If | ast.IfExp) and parent.test is name


def _is_extra(node: ast.AST) -> bool:
    """`extra_info`, or `extra_info or {}`."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and len(node.values) == 2:
        first, second = node.values
        return _is_extra(first) and isinstance(second, ast.Dict) and not second.keys
    return isinstance(node, ast.Name) and node.id == EXTRA
