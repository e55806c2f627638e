"""Porting faults round the scorer: what the reward manager, the launch and Relax contribute."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from migrate_tools.parity.mutation import FUNCTIONS, Code, Edit, FunctionNode, call_name, number, text
from migrate_tools.parity.outcomes import returns_whole
from migrate_tools.parity.settled import never_runs

HOOK = "reward_func"
WRAPPER_MARK = "\n# --- reward manager\n"
CHANGED_CONSTANTS = {
    "SPECIAL_TOKENS": ("special tokens kept", "()"),
    "OVERLONG_FACTOR": ("overlong penalty lost", "0.0"),
    "OVERLONG_BUFFER": ("overlong penalty changed", None),
    "OVERLONG_MAX_RESPONSE": ("overlong penalty changed", None),
    "MANAGER_ADDS": ("manager's keys lost", "{}"),
}
"""Constants of the generated module: the kind of fault, and the value (None: one more than it was)."""


def scorer_part(source: str) -> str:
    """The text of a module above what our template writes round the scorer; all of it in a module of another hand."""
    return source.partition(WRAPPER_MARK)[0]


def wrapper_names(code: Code) -> frozenset[str]:
    """Names that our template writes round the scorer: its constants, and everything below the scorer.

    In a module of another hand only the constants, where it has them.
    """
    place = code.source.find(WRAPPER_MARK)
    line = code.source.count("\n", 0, place) + 1
    below = [node for node in code.tree.body if node.lineno > line] if place >= 0 else []
    targets = (item for node in below for item in getattr(node, "targets", ()))
    names = {item.id for item in targets if isinstance(item, ast.Name)}
    defined = {node.name for node in below if isinstance(node, (*FUNCTIONS, ast.ClassDef))}
    return frozenset({*names, *defined, "REWARD_KWARGS", "FLOOR", *CHANGED_CONSTANTS})


FROM_ROLLOUT = re.compile(r"^FROM_ROLLOUT = .*$", re.MULTILINE)
"""The wrapper's own list of keys, which reads none."""


def constants(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A constant of the generated module has another value."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name) or code.function(node):
        return
    name = node.targets[0].id
    if name in CHANGED_CONSTANTS:
        kind, value = CHANGED_CONSTANTS[name]
        size = number(node.value)
        if value is None and size is not None:
            value = repr(size + max(1, abs(size) // 4))
        if value is not None:
            yield Edit(kind, node.value, value, "" if name != "MANAGER_ADDS" else _unread(code, node.value))
    elif name == "REWARD_KWARGS" and isinstance(node.value, ast.Dict):
        yield from _settings(code, node.value)


def _unread(code: Code, value: ast.AST) -> str:
    """Why keys of a dict do not matter: the module names none of them anywhere else, nor hands extra_info on whole."""
    names = [text(key) for key in getattr(value, "keys", ())]
    rest = FROM_ROLLOUT.sub("", code.source.replace(code.segment(value), "", 1))
    used = [name for name in names if name and re.search(rf"['\"]{re.escape(name)}['\"]", rest)]
    whole = re.search(r"\*\*extra_info|\bextra_info\.(items|keys|values)|in extra_info\b|dict\(extra_info", rest)
    return "" if used or whole else "the scorer reads none of these keys"


def _settings(code: Code, settings: ast.Dict) -> Iterator[Edit]:
    """One argument that the launch sets is not passed."""
    pairs = [(key, value) for key, value in zip(settings.keys, settings.values, strict=True) if key is not None]
    for lost, value in pairs:
        kept = [f"{code.segment(one)}: {code.segment(two)}" for one, two in pairs if one is not lost]
        name = text(lost) or ""
        same = any(default is not None and _equal(default, value) for default in _defaults(code, name))
        why = f"{name} is {code.segment(value)} by default" if same else ""
        yield Edit("setting of the launch lost", settings, "{" + ", ".join(kept) + "}", why)


def _defaults(code: Code, name: str) -> Iterator[ast.expr | None]:
    """Defaults of the parameter `name` of functions that take what the reward manager passes."""
    for function in code.functions.values():
        arguments = function.args
        names = [item.arg for item in (*arguments.posonlyargs, *arguments.args)]
        if name in names and {"solution_str", "solution_strs", "ground_truth"} & set(names):
            place = names.index(name) - len(names) + len(arguments.defaults)
            yield arguments.defaults[place] if place >= 0 else None
        for item, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if item.arg == name:
                yield default


def _equal(one: ast.expr, other: ast.expr) -> bool:
    try:
        return bool(ast.literal_eval(one) == ast.literal_eval(other))
    except ValueError:
        return False


def source_branch_lost(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A data source is not dispatched any more."""
    if isinstance(node, ast.If) and any(
        isinstance(item, ast.Name) and "data_source" in item.id for item in ast.walk(node.test)
    ):
        yield Edit("data_source branch lost", node.test, "False", lines=(node.body[0].lineno,))


def group_order(code: Code, node: ast.AST) -> Iterator[Edit]:
    """The rewards of a list of samples come back in another order."""
    function = code.function(node)
    if isinstance(node, ast.Return) and node.value is not None and function is not None and function.name == HOOK:
        branch = next((item for item in code.above(node) if isinstance(item, ast.If)), None)
        if branch is not None and "isinstance" in code.segment(branch.test):
            yield Edit("group order", node.value, f"({code.segment(node.value)})[::-1]")


def request_changed(code: Code, node: ast.AST) -> Iterator[Edit]:
    """extra_info or the data source do not reach the scorer, or the label does as text."""
    function = code.function(node)
    if not isinstance(node, ast.Dict) or function is None or function.name != "_request":
        return
    for key, value in zip(node.keys, node.values, strict=True):
        if text(key) == "extra_info":
            yield Edit("extra_info lost", value, "{}", _never_read(code, "extra_info"))
        elif text(key) == "data_source":
            same = "every row has the default source" if code.sources == {_default_source(code)} else ""
            yield Edit("data_source lost", value, "DATA_SOURCE_DEFAULT", same or _never_read(code, "data_source"))
        elif text(key) == "ground_truth":
            why = "every label is a text" if code.text_labels else _only_as_text(code, "ground_truth")
            yield Edit("label as text", value, f"str({code.segment(value)})", why)


def _default_source(code: Code) -> str | None:
    """DATA_SOURCE_DEFAULT of the module."""
    for node in code.tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DATA_SOURCE_DEFAULT":
            return text(node.value)
    return None


def _never_read(code: Code, name: str) -> str:
    """Why a parameter does not matter: the functions of the scorer only pass it on under its own name, if at all.

    What stands in branches that the launch rules out does not count.
    """
    functions = [node for own, node in code.functions.items() if own not in wrapper_names(code)]
    loads = [item for function in functions for item in ast.walk(function) if isinstance(item, ast.Name)]
    names = (name, f"{name}s")
    if any(item.id == "kwargs" for item in loads) and not _declared(functions, name):
        return ""
    used = [item for item in loads if item.id in names and isinstance(item.ctx, ast.Load)]
    used = [item for item in used if not never_runs(code, item)]
    read = [item for item in used if not (_passed_on(code, item) or item.id != name and _taken_apart(code, item, name))]
    return "" if read else f"the scorer does not read {name}"


def _only_as_text(code: Code, name: str) -> str:
    """Why a parameter may as well be a text: the scorer does not read it, or makes it one wherever it does."""
    functions = [node for own, node in code.functions.items() if own not in wrapper_names(code)]
    loads = [item for function in functions for item in ast.walk(function) if isinstance(item, ast.Name)]
    used = [item for item in loads if item.id == name and not _passed_on(code, item)]
    if used and all(_made_text(code, item) for item in used):
        return f"the scorer makes {name} a text itself"
    return _never_read(code, name)


def _made_text(code: Code, name: ast.Name) -> bool:
    """True for `str(name)` and for `{name}` in an f-string, without a format of its own."""
    holder = code.parents.get(name)
    if isinstance(holder, ast.FormattedValue):
        return holder.format_spec is None and holder.conversion in (-1, ord("s"))
    return call_name(holder or name) == "str"


def _declared(functions: Iterable[FunctionNode], name: str) -> bool:
    """True when every function that takes any keyword declares this one itself."""
    loose = [node for node in functions if node.args.kwarg is not None]
    return all(name in {item.arg for item in ast.walk(node.args) if isinstance(item, ast.arg)} for node in loose)


def _passed_on(code: Code, name: ast.Name) -> bool:
    """True for `g(extra_info=extra_info)`, and for `g(extra_info)` where g is ours and calls it so too."""
    holder = code.parents.get(name)
    if isinstance(holder, ast.keyword):
        return holder.arg == name.id and call_name(code.parents.get(holder) or holder) in code.functions
    if not isinstance(holder, ast.Call) or name not in holder.args:
        return False
    target = code.functions.get(call_name(holder))
    names = [item.arg for item in (*target.args.posonlyargs, *target.args.args)] if target is not None else []
    place = holder.args.index(name)
    return place < len(names) and names[place] == name.id and not any(isinstance(a, ast.Starred) for a in holder.args)


def _taken_apart(code: Code, several: ast.Name, name: str) -> bool:
    """True for `for ..., name in zip(..., names)`, where what is done with each shows, and for `len(names)`."""
    call = code.parents.get(several)
    if not isinstance(call, ast.Call) or several not in call.args:
        return False
    if call_name(call) == "len":
        return True
    loop = code.parents.get(call)
    if call_name(call) != "zip" or not isinstance(loop, ast.For | ast.comprehension) or loop.iter is not call:
        return False
    place = call.args.index(several)
    targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else []
    plain = not any(isinstance(item, ast.Starred) for item in (*call.args, *targets))
    return plain and place < len(targets) and getattr(targets[place], "id", "") == name


def result_changed(code: Code, node: ast.AST) -> Iterator[Edit]:
    """The score as a whole number; an exception of the scorer let through; no penalty."""
    function = code.function(node)
    if function is None or function.name not in wrapper_names(code):
        return
    if function.name == "_number" and isinstance(node, ast.Call) and code.segment(node) == "float(value)":
        entry = next(_entries(code), None)
        reason = "every reward is a whole number" if entry is not None and returns_whole(code, entry) else ""
        yield Edit("int for float", node, "float(int(value))", reason)
    elif function.name == "_attempt" and isinstance(node, ast.ExceptHandler) and node.type is not None:
        whole = code.segment(node).replace(code.segment(node.type), "()", 1)
        yield Edit("exception let through", node, whole)
    elif isinstance(node, ast.AugAssign) and "penalty" in code.segment(node):
        yield Edit("overlong penalty lost", node, "pass")


def _entries(code: Code) -> Iterator[FunctionNode]:
    """The functions of the scorer that the wrapper calls."""
    attempt = code.functions.get("_attempt")
    for node in ast.walk(attempt) if attempt is not None else ():
        name = call_name(node)
        if name in code.functions and name not in wrapper_names(code):
            yield code.functions[name]


WIRING_OPERATORS = (constants, source_branch_lost, group_order, request_changed, result_changed)
