"""The flags that a Relax checkout adds to its parsers, read from syntax trees.

Read: every `X.add_argument(...)` with names that are literal, built from loops over literals, or passed to a helper
function that adds the argument for its caller (to a depth of three helpers); `set_defaults`. A name or a field that
only a running program knows is listed as not read.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from migrate_tools.relax.checkout_literals import UNKNOWN, Module, Resolver

MAX_TURNS = 500
"""Turns of a loop over literals, or bindings of a helper, that are followed."""
HELPER_DEPTH = 3
FIELDS = ("dest", "type", "action", "nargs", "choices", "default", "const")
_SWITCH_DEFAULT = {"store_true": False, "store_false": True}
Bindings = Mapping[str, Any]


@dataclass(frozen=True)
class Unread:
    """A call that adds a flag in a way that only a running program knows."""

    file: str
    line: int
    why: str


@dataclass
class ReadFlags:
    """What was found: entries in the form of flags.json (plus `at` and `computed`), by name."""

    flags: dict[str, dict[str, Any]] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)


@dataclass(frozen=True)
class _Site:
    """A call with what encloses it."""

    call: ast.Call
    module: Module
    function: ast.FunctionDef | ast.AsyncFunctionDef | None
    loops: tuple[ast.For, ...]


class FlagReader:
    """Reads the flags of a set of modules.

    Args:
        modules: dotted name -> module; `entry` is the one whose `main` belongs to the trainer.
    """

    def __init__(self, modules: Mapping[str, Module], entry: str) -> None:
        self._resolver = Resolver(modules)
        self._sites = [site for module in modules.values() for site in _sites(module, entry)]
        self._found = ReadFlags()
        self._local_names: dict[int, dict[str, Any]] = {}

    def read(self) -> ReadFlags:
        """Every flag; the first place that adds one is its place, a later default replaces an earlier one."""
        for site in self._sites:
            if _called(site.call) == "add_argument":
                for bindings in self._bindings(site, HELPER_DEPTH):
                    self._add(site, *bindings)
        for site in self._sites:
            if _called(site.call) == "set_defaults":
                self._set_defaults(site)
        return self._found

    def _bindings(self, site: _Site, depth: int) -> list[tuple[Bindings, _Site | None, Mapping[str, Any]]]:
        """(names bound, the outermost call of the helper, its surplus keywords) for each way the call is reached."""
        function = site.function
        found: list[tuple[Bindings, _Site | None, Mapping[str, Any]]] = []
        parameters = _all_parameters(function)
        given = [*site.call.args, *(item.value for item in site.call.keywords), *(loop.iter for loop in site.loops)]
        named = {node.id for item in given for node in ast.walk(item) if isinstance(node, ast.Name)}
        if function is not None and depth and named.intersection(parameters):
            for caller in self._sites:
                if _called(caller.call) == function.name and caller.call is not site.call:
                    for outer, top, surplus in self._bindings(caller, depth - 1):
                        bound, extra = self._bind(caller, function, outer)
                        for turn in self._turns(site, bound):
                            found.append((turn, top or caller, {**surplus, **extra}))
        if found:
            return found[:MAX_TURNS]
        return [(turn, None, {}) for turn in self._turns(site, {})]

    def _bind(
        self, caller: _Site, function: ast.FunctionDef | ast.AsyncFunctionDef, outer: Bindings
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Parameters of a helper bound by one call, and the keywords that go to its **parameter."""
        names = _parameters(function)
        if names and names[0] in ("self", "cls") and isinstance(caller.call.func, ast.Attribute):
            names = names[1:]
        bound: dict[str, Any] = {}
        defaults = function.args.defaults
        for name, node in zip(
            _parameters(function)[len(_parameters(function)) - len(defaults) :], defaults, strict=False
        ):
            bound[name] = self._resolver.value(node, caller.module)
        for parameter, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
            if default is not None:
                bound[parameter.arg] = self._resolver.value(default, caller.module)
        positional = [self._resolver.value(item, caller.module, outer) for item in caller.call.args]
        bound |= dict(zip(names, positional, strict=False))
        if function.args.vararg:
            bound[function.args.vararg.arg] = positional[len(names) :]
        known = {*names, *(item.arg for item in function.args.kwonlyargs)}
        extra: dict[str, Any] = {}
        for keyword in caller.call.keywords:
            if keyword.arg is not None:
                where = bound if keyword.arg in known else extra
                where[keyword.arg] = self._keyword(keyword.arg, keyword.value, caller.module, outer)
        return bound, extra

    def _turns(self, site: _Site, bound: Bindings) -> list[Bindings]:
        """The names bound in each turn of the literal loops round a call."""
        known = id(site.function)
        if known not in self._local_names:
            self._local_names[known] = _locals(site, self._resolver)
        turns: list[dict[str, Any]] = [{**self._local_names[known], **bound}]
        for loop in site.loops:
            after = []
            for turn in turns:
                items = self._resolver.value(loop.iter, site.module, turn)
                if not isinstance(items, list | tuple | dict):
                    return list(turns)
                after += [{**turn, **_unpacked(loop.target, item)} for item in items]
            turns = after[:MAX_TURNS]
        return list(turns)

    def _add(self, site: _Site, bound: Bindings, top: _Site | None, surplus: Mapping[str, Any]) -> None:
        place = top or site
        file, line = place.module.path.as_posix(), place.call.lineno
        names = list(self._names(site, bound))
        flags = [name for name in names if isinstance(name, str) and name.startswith("--")]
        if not flags:
            if UNKNOWN in names:
                self._unread(file, line, "its name is computed")
            return
        given = self._keywords(site, bound, surplus)
        entry: dict[str, Any] = {"flag": flags[0], "family": "relax", "at": f"{file}:{line}"}
        computed = sorted(name for name in FIELDS if given.get(name, None) is UNKNOWN)
        entry |= {name: given[name] for name in FIELDS if name in given and given[name] is not UNKNOWN}
        entry = _tidied(entry, "default" in given)
        if len(flags) > 1:
            entry["aliases"] = flags[1:]
        if computed:
            entry["computed"] = computed
        before = self._found.flags.get(flags[0])
        if before is None:
            self._found.flags[flags[0]] = entry
        elif "default" in entry:
            before["default"] = entry["default"]

    def _names(self, site: _Site, bound: Bindings) -> Iterator[Any]:
        for argument in site.call.args:
            if isinstance(argument, ast.Starred):
                value = self._resolver.value(argument.value, site.module, bound)
                yield from value if isinstance(value, list | tuple) else [UNKNOWN]
            else:
                yield self._resolver.value(argument, site.module, bound)

    def _keywords(self, site: _Site, bound: Bindings, surplus: Mapping[str, Any]) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for keyword in site.call.keywords:
            if keyword.arg is not None:
                given[keyword.arg] = self._keyword(keyword.arg, keyword.value, site.module, bound)
            elif isinstance(keyword.value, ast.Name) and keyword.value.id == _keywords_name(site.function):
                given |= surplus
            else:
                value = self._resolver.value(keyword.value, site.module, bound)
                given |= (
                    {str(key): _typed(str(key), item) for key, item in value.items()} if isinstance(value, dict) else {}
                )
        return given

    def _keyword(self, name: str, node: ast.expr, module: Module, bound: Bindings) -> Any:
        if name == "type":
            return self._type(node, module, bound)
        if name == "action":
            return _action(node, self._resolver.value(node, module, bound))
        return self._resolver.value(node, module, bound)

    def _type(self, node: ast.expr, module: Module, bound: Bindings) -> Any:
        value = self._resolver.value(node, module, bound)
        if isinstance(value, type):
            return value.__name__
        if isinstance(value, str):
            return value
        text = ast.unparse(node)
        if text in ("json.loads", "loads") or "json" in text.lower():
            return "json"
        return "bool" if "bool" in text.lower() else "str" if value is not UNKNOWN or text == "None" else UNKNOWN

    def _set_defaults(self, site: _Site) -> None:
        values = self._keywords(site, {}, {})
        for entry in self._found.flags.values():
            dest = entry.get("dest") or entry["flag"].lstrip("-").replace("-", "_")
            if dest in values and values[dest] is not UNKNOWN:
                entry["default"] = values[dest]

    def _unread(self, file: str, line: int, why: str) -> None:
        item = Unread(file, line, why)
        if item not in self._found.unread:
            self._found.unread.append(item)


def _sites(module: Module, entry: str) -> Iterator[_Site]:
    """Every call of the module with its function and loops, in the order of the file.

    Left out: what runs only when the file is a program of its own (`if __name__ == "__main__"`, and `main` of any
    module but the trainer's).
    """

    def visit(
        node: ast.AST, function: ast.FunctionDef | ast.AsyncFunctionDef | None, loops: tuple[ast.For, ...]
    ) -> Iterator[_Site]:
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name == "main" and module.name != entry:
                return
            function, loops = node, ()
        elif isinstance(node, ast.For):
            loops = (*loops, node)
        elif isinstance(node, ast.Call):
            yield _Site(node, module, function, loops)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, function, loops)

    return visit(module.tree, None, ())


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef | None) -> list[str]:
    """Names of the parameters that take a positional argument, in order."""
    if function is None:
        return []
    return [item.arg for item in (*function.args.posonlyargs, *function.args.args)]


def _all_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef | None) -> set[str]:
    """Names of all parameters."""
    if function is None:
        return set()
    arguments = function.args
    rest = [item for item in (arguments.vararg, arguments.kwarg) if item is not None]
    return {*_parameters(function), *(item.arg for item in (*arguments.kwonlyargs, *rest))}


def _keywords_name(function: ast.FunctionDef | ast.AsyncFunctionDef | None) -> str | None:
    return function.args.kwarg.arg if function is not None and function.args.kwarg else None


def _locals(site: _Site, resolver: Resolver) -> dict[str, Any]:
    """Names of the function that are assigned exactly once, to something with a static value."""
    if site.function is None:
        return {}
    assigned: dict[str, list[ast.expr]] = {}
    for node in ast.walk(site.function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            assigned.setdefault(node.targets[0].id, []).append(node.value)
    values = {name: resolver.value(nodes[0], site.module) for name, nodes in assigned.items() if len(nodes) == 1}
    return {name: value for name, value in values.items() if value is not UNKNOWN}


def _unpacked(target: ast.expr, item: Any) -> dict[str, Any]:
    if isinstance(target, ast.Name):
        return {target.id: item}
    if isinstance(target, ast.Tuple | ast.List) and isinstance(item, list | tuple):
        pairs = itertools.zip_longest(target.elts, item, fillvalue=UNKNOWN)
        return {
            name: value
            for node, part in pairs
            if isinstance(node, ast.expr)
            for name, value in _unpacked(node, part).items()
        }
    return {}


def _typed(name: str, value: Any) -> Any:
    return value.__name__ if name == "type" and isinstance(value, type) else value


def _action(node: ast.expr, value: Any) -> Any:
    if isinstance(value, str):
        return value
    text = ast.unparse(node).rpartition(".")[2]
    return "boolean_optional" if text == "BooleanOptionalAction" else text if text.isidentifier() else UNKNOWN


def _tidied(entry: dict[str, Any], default_given: bool) -> dict[str, Any]:
    """The entry in the form of flags.json: no field that argparse fills in itself, defaults as argparse makes them."""
    entry = {key: value for key, value in entry.items() if value is not None or key == "default"}
    if entry.get("action") == "store":
        del entry["action"]
    if not default_given and entry.get("action") in _SWITCH_DEFAULT:
        entry["default"] = _SWITCH_DEFAULT[entry["action"]]
    kind, default = entry.get("type"), entry.get("default")
    if isinstance(default, str) and kind in ("int", "float"):
        try:
            entry["default"] = int(default) if kind == "int" else float(default)
        except ValueError:
            del entry["default"]
            entry["computed"] = ["default"]
    if "choices" in entry:
        entry["choices"] = list(entry["choices"])
    if kind == "str":
        del entry["type"]
    return entry
