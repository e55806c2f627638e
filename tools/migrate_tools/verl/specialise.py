"""Removes the branches of a dispatch that the data never selects.

What is known is a finite set of values for some parameters (data_source, unset sandbox settings). It is carried along
direct calls; a branch goes only when its test is false for every combination of known values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from migrate_tools.model import Note
from migrate_tools.verl.extract_graph import GraphBuilder
from migrate_tools.verl.module_finder import ModuleFinder
from migrate_tools.verl.prune import Known, prune
from migrate_tools.verl.pymodule import ImportedName, PyModule

FunctionKey: TypeAlias = tuple[Path, str]
FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
CARRIED = ("data_source", "sandbox_fusion_url")
MAX_ROUNDS = 6


def specialise(finder: ModuleFinder, path: Path, entry: str, known: Known) -> tuple[Note, ...]:
    """Drop the branches that cannot be reached, in the entry and in what it calls; the finder then serves the new text.

    Returns a note for every dropped branch.
    """
    if not known:
        return ()
    original: dict[Path, PyModule] = {}
    facts: dict[FunctionKey, Known] = {}
    dropped: dict[tuple[str, int], Note] = {}
    _prune_ahead(finder, path, entry, known, original)
    for _ in range(MAX_ROUNDS):
        graph, root = GraphBuilder(finder).build(path, entry)
        for item in graph.order:
            original.setdefault(item, finder.load(item))
        new_facts = _propagate(_Calls(finder, graph.order, graph.needed), root, known)
        if new_facts == facts:
            break
        facts = new_facts
        dropped = {}
        for item, module in original.items():
            wanted = {name: values for (where, name), values in facts.items() if where == item}
            code, found = prune(module, wanted) if wanted else (module.code, [])
            dropped.update({(note.source.file, note.source.line or 0): note for note in found if note.source})
            if code != finder.load(item).code:
                finder.edit(item, code)
    return tuple(dropped[key] for key in sorted(dropped))


def _prune_ahead(finder: ModuleFinder, path: Path, entry: str, known: Known, original: dict[Path, PyModule]) -> None:
    """Prune along the direct calls from the entry, so that the files of other branches need not even be read.

    This looks at one call of each function only; the rounds that follow check it against all calls.
    """
    builder = GraphBuilder(finder)
    queue: list[tuple[FunctionKey, Known]] = []
    target = builder.resolve(finder.load(path), entry)
    if isinstance(target, tuple):
        queue.append((target, known))
    done: set[FunctionKey] = set()
    while queue:
        key, facts = queue.pop()
        function = _function(finder, key)
        if function is None or key in done:
            continue
        done.add(key)
        stable = _stable(function, facts)
        module = finder.load(key[0])
        code, _ = prune(module, {key[1]: stable}) if stable else (module.code, [])
        if code != module.code:
            original.setdefault(key[0], module)
            finder.edit(key[0], code)
        function = _function(finder, key)
        if function is not None and stable:
            queue += _onward(GraphBuilder(finder), finder, key, function, stable)


def _function(finder: ModuleFinder, key: FunctionKey) -> FunctionNode | None:
    for node in ast.parse(finder.load(key[0]).code).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == key[1]:
            return node
    return None


def _onward(
    builder: GraphBuilder, finder: ModuleFinder, key: FunctionKey, function: FunctionNode, facts: Known
) -> list[tuple[FunctionKey, Known]]:
    """Functions that a function hands its known values to."""
    module, local = finder.load(key[0]), _local_imports(function)
    found: list[tuple[FunctionKey, Known]] = []
    for call in (item for item in ast.walk(function) if isinstance(item, ast.Call)):
        if not any(
            isinstance(item, ast.Name) and item.id in facts for item in (*call.args, *(k.value for k in call.keywords))
        ):
            continue
        target = _target(builder, module, call.func, local)
        called = _function(finder, target) if target else None
        if target is None or called is None:
            continue
        passed = {name: _passed(called, call, name, facts) for name in CARRIED if name in _parameters(called)}
        found.append((target, {name: values for name, values in passed.items() if values is not None}))
    return found


class _Calls:
    """Direct calls among the needed functions."""

    def __init__(self, finder: ModuleFinder, order: Iterable[Path], needed: Mapping[Path, set[int]]) -> None:
        self.functions: dict[FunctionKey, FunctionNode] = {}
        self.sites: dict[FunctionKey, list[tuple[FunctionKey | None, ast.Call | None]]] = {}
        builder = GraphBuilder(finder)
        for path in order:
            module = finder.load(path)
            tree = ast.parse(module.code)
            for index in sorted(needed[path]):
                node = tree.body[index] if index < len(tree.body) else None
                caller: FunctionKey | None = None
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    caller = (path, node.name)
                    self.functions[caller] = node
                if node is not None:
                    self._read(builder, module, node, caller)

    def _read(self, builder: GraphBuilder, module: PyModule, node: ast.stmt, caller: FunctionKey | None) -> None:
        local = _local_imports(node)
        called = {id(item.func): item for item in ast.walk(node) if isinstance(item, ast.Call)}
        inner = {id(item.value) for item in ast.walk(node) if isinstance(item, ast.Attribute)}
        for item in ast.walk(node):
            if isinstance(item, ast.Name | ast.Attribute) and id(item) not in inner:
                target = _target(builder, module, item, local)
                if target is not None:
                    self.sites.setdefault(target, []).append((caller, called.get(id(item))))


def _local_imports(node: ast.AST) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in ast.walk(node):
        if isinstance(item, ast.ImportFrom):
            for alias in item.names:
                local = alias.asname or alias.name
                name = ImportedName(item.module or "", item.level, alias.name, local, alias.asname is not None)
                found.setdefault(local, []).append(name)
        elif isinstance(item, ast.Import):
            for alias in item.names:
                local = alias.asname or alias.name.split(".")[0]
                name = ImportedName(alias.name, 0, None, local, alias.asname is not None)
                found.setdefault(local, []).append(name)
    return found


def _target(builder: GraphBuilder, module: PyModule, node: ast.expr, local: dict[str, list[Any]]) -> FunctionKey | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    if node.id in local:
        candidates = [builder.resolve_import(module, item) for item in local[node.id]]
        current = next((item for item in candidates if item is not None), None)
    elif node.id in module.bindings:
        current = builder.resolve(module, node.id)
    else:
        return None
    while isinstance(current, PyModule) and parts:
        current = builder.resolve(current, parts.pop())
    return current if isinstance(current, tuple) and not parts else None


def _propagate(calls: _Calls, root: FunctionKey, known: Known) -> dict[FunctionKey, Known]:
    """What is known in each function: the union over its calls; nothing when one call is unclear."""
    facts: dict[FunctionKey, Known] = {}
    if root in calls.functions:
        facts[root] = _stable(calls.functions[root], known)
    for _ in range(MAX_ROUNDS):
        before = dict(facts)
        for key, function in calls.functions.items():
            if key != root and any(name in _parameters(function) for name in CARRIED):
                facts[key] = _stable(function, _from_calls(calls, key, function, facts))
        if facts == before:
            break
    return {key: value for key, value in facts.items() if value}


def _from_calls(
    calls: _Calls, key: FunctionKey, function: FunctionNode, facts: Mapping[FunctionKey, Known]
) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    sites = [site for site in calls.sites.get(key, ()) if site[0] != key]
    for name in CARRIED:
        if name not in _parameters(function) or not sites:
            continue
        values: list[object] = []
        for caller, call in sites:
            passed = _passed(function, call, name, facts.get(caller, {}) if caller else {})
            if passed is None:
                break
            values.extend(value for value in passed if value not in values)
        else:
            found[name] = tuple(values)
    return found


def _passed(function: FunctionNode, call: ast.Call | None, name: str, facts: Known) -> tuple[object, ...] | None:
    """Values that a call gives to a parameter; None when unclear."""
    if call is None or any(isinstance(item, ast.Starred) for item in call.args):
        return None
    if any(item.arg is None for item in call.keywords):
        return None
    position = _parameters(function).index(name)
    value = next((item.value for item in call.keywords if item.arg == name), None)
    if value is None and position < len(call.args):
        value = call.args[position]
    if value is None:
        value = _default(function, name)
    if isinstance(value, ast.Constant):
        return (value.value,)
    if isinstance(value, ast.Name) and value.id in facts:
        return facts[value.id]
    return None


def _parameters(function: FunctionNode) -> list[str]:
    return [item.arg for item in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]


def _default(function: FunctionNode, name: str) -> ast.expr | None:
    positional = [*function.args.posonlyargs, *function.args.args]
    pairs = dict(zip([item.arg for item in positional][::-1], function.args.defaults[::-1], strict=False))
    pairs.update(
        {
            item.arg: default
            for item, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
            if default is not None
        }
    )
    return pairs.get(name)


def _stable(function: FunctionNode, known: Known) -> dict[str, tuple[object, ...]]:
    """The known parameters that the function has and never assigns."""
    stored = {
        item.id
        for item in ast.walk(function)
        if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store | ast.Del)
    }
    inner = {
        item.arg
        for node in ast.walk(function)
        if node is not function and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for item in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    }
    own = _parameters(function)
    return {name: values for name, values in known.items() if name in own and name not in stored | inner}
