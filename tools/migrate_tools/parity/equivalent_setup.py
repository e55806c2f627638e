"""Rules for what happens once, before any input: imports, how many workers a pool has, how they start."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from migrate_tools.parity.mutation import Code, Edit, FunctionNode, call_name

POOLS = frozenset({"ProcessPoolExecutor", "ThreadPoolExecutor"})
SUBMITS = frozenset({"submit", "map", "apply", "apply_async", "starmap"})
SURROUNDINGS = frozenset(
    {"random", "os", "sys", "time", "threading", "multiprocessing", "numpy", "torch", "gc", "signal"}
)
"""Packages whose state a forked worker inherits and a spawned one does not."""


def imports_alone(code: Code, edit: Edit) -> str:
    """An exception of imports at the head of the module: it comes for every input or for none."""
    node = edit.node
    holder = node if isinstance(node, ast.ExceptHandler) else code.parents.get(node)
    guarded = code.parents.get(holder) if isinstance(holder, ast.ExceptHandler) else None
    if edit.operator != "exception let through" or not isinstance(guarded, ast.Try) or code.function(guarded):
        return ""
    only = all(isinstance(item, (ast.Import, ast.ImportFrom)) for item in (*guarded.body, *guarded.orelse))
    return "the imports work for every input or for none" if only else ""


def workers_of_a_pool(code: Code, edit: Edit) -> str:
    """The number of workers of a pool changes how long it takes, not what it gives."""
    return "the number of workers changes no result" if _lost(edit) == {"max_workers"} else ""


def start_of_workers(code: Code, edit: Edit) -> str:
    """How a pool starts its workers (fork, spawn), where what runs in them reads nothing that they could inherit."""
    if _lost(edit) != {"mp_context"} or call_name(edit.node) != "ProcessPoolExecutor":
        return ""
    calls = [node for node in ast.walk(code.tree) if call_name(node) in SUBMITS and isinstance(node, ast.Call)]
    names = [node.args[0].id if node.args and isinstance(node.args[0], ast.Name) else "" for node in calls]
    if not names or any(name not in code.functions for name in names) or {"initializer"} & _keywords(edit.node):
        return ""
    working = {code.functions[name] for name in names}
    alone = all(_reads_nothing(code, function) for function in working) and not _used_outside(code, working)
    return "what runs in the workers reads nothing that they inherit" if alone else ""


def _lost(edit: Edit) -> set[str | None]:
    """Keyword arguments of a pool that are not passed any more."""
    node = edit.node
    if edit.operator != "keyword argument lost" or not isinstance(node, ast.Call) or call_name(node) not in POOLS:
        return set()
    return _keywords(node) - _keywords(ast.parse(edit.text, mode="eval").body)


def _keywords(node: ast.AST) -> set[str | None]:
    return {word.arg for word in node.keywords} if isinstance(node, ast.Call) else set()


def _reads_nothing(code: Code, function: FunctionNode) -> bool:
    """True for a function that uses its arguments, built-in functions and packages that it imports itself, alone."""
    inside = list(ast.walk(function))
    if any(isinstance(node, (ast.Global, ast.Nonlocal)) for node in inside) or function.decorator_list:
        return False
    own = {item.arg for item in inside if isinstance(item, ast.arg)}
    own |= {item.id for item in inside if isinstance(item, ast.Name) and not isinstance(item.ctx, ast.Load)}
    own |= {alias.asname or alias.name.partition(".")[0] for alias in _imported(inside)}
    signature = set(ast.walk(function.args)) | set(ast.walk(function.returns or ast.Pass()))
    loads = {item.id for item in inside if isinstance(item, ast.Name) and item not in signature} - own
    return all(hasattr(builtins, name) for name in loads) and not SURROUNDINGS & set(_packages(inside))


def _imported(nodes: list[ast.AST]) -> Iterator[ast.alias]:
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from node.names


def _packages(nodes: list[ast.AST]) -> Iterator[str]:
    """Top names of what is imported."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or ".").partition(".")[0]


def _used_outside(code: Code, working: set[FunctionNode]) -> bool:
    """True when a package of the workers' functions is used elsewhere too, but for naming its exceptions."""
    packages = {name for function in working for name in _packages(list(ast.walk(function)))}
    rest = [node for node in ast.walk(code.tree) if not working & {node, *code.above(node)}]
    theirs = [
        node for node in rest if isinstance(node, (ast.Import, ast.ImportFrom)) and packages & set(_packages([node]))
    ]
    names = {alias.asname or alias.name.partition(".")[0] for alias in _imported([*theirs])}
    uses = [node for node in rest if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load)]
    return any(not _names_an_exception(code, use) for use in uses)


def _names_an_exception(code: Code, name: ast.Name) -> bool:
    parent = code.parents.get(name)
    holder = code.parents.get(parent) if isinstance(parent, ast.Tuple) else parent
    return isinstance(holder, ast.ExceptHandler) and holder.type in (name, parent)
