"""Rules for what happens once, before any input: imports, and how many workers a pool has."""

from __future__ import annotations

import ast

from migrate_tools.parity.mutation import Code, Edit, call_name

POOLS = frozenset({"ProcessPoolExecutor", "ThreadPoolExecutor"})


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
    node = edit.node
    if edit.operator != "keyword argument lost" or not isinstance(node, ast.Call) or call_name(node) not in POOLS:
        return ""
    kept = ast.parse(edit.text, mode="eval").body
    names = {word.arg for word in kept.keywords} if isinstance(kept, ast.Call) else set()
    lost = {word.arg for word in node.keywords} - names
    return "the number of workers changes no result" if lost == {"max_workers"} else ""
