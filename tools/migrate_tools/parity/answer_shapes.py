"""Shapes of the answers that a scorer reads from a server: the keys and indexes it follows, from its syntax tree.

A value is followed from where an answer is decoded (`reply.json()`, `json.loads(...)`) through assignments, loops,
calls of the module's own functions and their results. Nothing is run; what cannot be followed adds no shape.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

PASSES = 4
"""Rounds over a module; each follows a value through one more function."""
MOST = 24
DEEPEST = 8
BODY, TEXT = "body", "text"
"""Where the JSON stands: the body of an HTTP answer, or a text within it (what a judge has written)."""
RAW = "raw"
"""The undecoded body of an answer."""
NUMBERS = frozenset({"float", "int", "round", "abs", "min", "max", "sum", "isnan", "isfinite", "clip"})
TEXT_METHODS = frozenset(
    {"strip", "lower", "upper", "split", "startswith", "endswith", "replace", "lstrip", "rstrip", "find", "splitlines"}
)
SAME_TEXT = frozenset({"decode", "strip", "lstrip", "rstrip", "upper", "lower"})
"""Methods after which it still is the same value: what it is compared with then counts for it."""
TEXT_CALLS = frozenset({"search", "match", "fullmatch", "findall", "finditer", "sub", "split"})
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)

Path = tuple[str | int, ...]
Place = tuple[str, Path]
"""Where the JSON stands and the keys and indexes that lead to a value in it."""


@dataclass(frozen=True)
class Shape:
    """One value that is read from an answer."""

    root: str
    path: Path
    kind: str
    """`number`, `text`, `truth`, or empty: not known."""
    values: tuple[str | int | float | bool, ...] = ()
    """Constants that the value is compared with."""

    def setting(self) -> dict[str, Any]:
        """The shape as JSON."""
        return {"root": self.root, "path": list(self.path), "kind": self.kind, "values": list(self.values)}


def answer_shapes(sources: Iterable[str]) -> tuple[Shape, ...]:
    """The values that the modules read from answers, in order of appearance; a text that does not parse adds none."""
    found: dict[Place, Shape] = {}
    for source in sources:
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            continue
        for shape in _Reader(tree).shapes():
            found.setdefault((shape.root, shape.path), shape)
    return tuple(found.values())[:MOST]


@dataclass
class _Use:
    kinds: set[str] = field(default_factory=set)
    values: dict[str | int | float | bool, None] = field(default_factory=dict)


class _Reader:
    """Follows decoded answers through one module. A name stands for one value in its whole function."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        self._functions = {node.name: node for node in nodes}
        self._names: dict[tuple[ast.AST | None, str], dict[Place, None]] = {}
        self._results: dict[str, dict[Place, None]] = {}
        self._uses: dict[Place, _Use] = {}
        self._bodies_only = True

    def shapes(self) -> Iterator[Shape]:
        for self._bodies_only in (True, False):  # which texts are bodies is known first
            for _ in range(PASSES):
                for node in ast.walk(self._tree):
                    self._bind(node)
        for node in ast.walk(self._tree):
            if isinstance(node, ast.expr):
                for place in self.places(node):
                    self._use(place, node)
        places = [place for place in self._uses if place[1] and place[0] != RAW]
        for root, path in places:
            longer = (other for kind, other in places if kind == root and len(other) > len(path))
            if not any(other[: len(path)] == path for other in longer):
                use = self._uses[root, path]
                kind = next((kind for kind in ("number", "text", "truth") if kind in use.kinds), "")
                yield Shape(root, path, kind, tuple(use.values))

    def places(self, node: ast.expr | None) -> dict[Place, None]:
        """What of an answer the expression may be."""
        if isinstance(node, ast.Name):
            scope = self._scope(node)
            return self._names.get((scope, node.id)) or self._names.get((None, node.id), {})
        if isinstance(node, (ast.Await, ast.NamedExpr)):
            return self.places(node.value)
        if isinstance(node, ast.Attribute):
            return {(RAW, ()): None} if node.attr in ("text", "content") and isinstance(node.value, ast.Name) else {}
        if isinstance(node, ast.BoolOp):
            return {place: None for value in node.values for place in self.places(value)}
        if isinstance(node, ast.IfExp):
            return {**self.places(node.body), **self.places(node.orelse)}
        if isinstance(node, ast.Subscript):
            key = _key(node.slice)
            return {} if key is None else _deeper(self.places(node.value), key)
        return self._called(node) if isinstance(node, ast.Call) else {}

    def _called(self, node: ast.Call) -> dict[Place, None]:
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if method == "json" and not node.args:
            return {(BODY, ()): None}
        if method in ("read", "text") and not node.args:
            return {(RAW, ()): None}
        if method in SAME_TEXT and isinstance(node.func, ast.Attribute):
            return self.places(node.func.value)
        if isinstance(node.func, ast.Name) and node.func.id == "str" and len(node.args) == 1:
            return self.places(node.args[0])
        if method in ("loads", "load") and node.args and _names_json(node.func):
            raw = method == "load" or (RAW, ()) in self.places(node.args[0])
            return {(BODY, ()): None} if raw else {} if self._bodies_only else {(TEXT, ()): None}
        if method in ("get", "pop") and node.args and isinstance(node.func, ast.Attribute):
            key = _key(node.args[0])
            return _deeper(self.places(node.func.value), key) if isinstance(key, str) else {}
        return self._results.get(node.func.id, {}) if isinstance(node.func, ast.Name) else {}

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                self._name(target, self.places(node.value))
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            self._loop(node.target, node.iter)
        elif isinstance(node, ast.Return):
            if isinstance(function := self._scope(node), (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._results.setdefault(function.name, {}).update(self.places(node.value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self._functions:
            function = self._functions[node.func.id]
            names = [item.arg for item in (*function.args.posonlyargs, *function.args.args)]
            given = [*zip(names, node.args, strict=False), *((word.arg, word.value) for word in node.keywords)]
            for name, value in given:
                if name is not None:
                    self._names.setdefault((function, name), {}).update(self.places(value))

    def _loop(self, target: ast.expr, items: ast.expr) -> None:
        if isinstance(items, ast.Call) and isinstance(items.func, ast.Name) and isinstance(target, ast.Tuple):
            if items.func.id == "enumerate" and len(target.elts) == 2 and items.args:
                self._loop(target.elts[1], items.args[0])
            elif items.func.id == "zip":
                for one, given in zip(target.elts, items.args, strict=False):
                    self._loop(one, given)
            return
        self._name(target, _deeper(self.places(items), 0))

    def _name(self, target: ast.expr, places: dict[Place, None]) -> None:
        if isinstance(target, ast.Name) and places:
            self._names.setdefault((self._scope(target), target.id), {}).update(places)

    def _scope(self, node: ast.AST) -> ast.AST | None:
        while (above := self._parents.get(node)) is not None:
            if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                return above
            node = above
        return None

    def _use(self, place: Place, node: ast.expr) -> None:
        use = self._uses.setdefault(place, _Use())
        parent = self._parents.get(node)
        if isinstance(parent, ast.Call) and node in parent.args:
            name = _called_name(parent)
            use.kinds |= {"number"} if name in NUMBERS else {"text"} if name in TEXT_CALLS else set()
        elif isinstance(parent, ast.Attribute) and parent.attr in TEXT_METHODS:
            use.kinds.add("text")
        elif isinstance(parent, ast.BinOp) and isinstance(parent.op, ARITHMETIC):
            other = parent.right if parent.left is node else parent.left
            use.kinds.add("text" if isinstance(other, ast.Constant) and isinstance(other.value, str) else "number")
        elif isinstance(parent, ast.Compare):
            self._compared(use, parent, node)
        elif isinstance(parent, (ast.If, ast.IfExp)) and parent.test is node or _is_not(parent):
            use.kinds.add("truth")

    def _compared(self, use: _Use, compare: ast.Compare, node: ast.expr) -> None:
        others = [item for item in (compare.left, *compare.comparators) if item is not node]
        inside = isinstance(compare.ops[0], (ast.In, ast.NotIn))
        if inside and compare.left is not node:
            use.kinds.add("text")
            return
        for other in others:
            for item in other.elts if isinstance(other, (ast.Tuple, ast.List, ast.Set)) else [other]:
                value = item.value if isinstance(item, ast.Constant) else None
                if isinstance(value, (str, int, float)):
                    use.values.setdefault(value)
                    kind = "text" if isinstance(value, str) else "truth" if isinstance(value, bool) else "number"
                    use.kinds.add(kind)


def _deeper(places: dict[Place, None], key: str | int) -> dict[Place, None]:
    return {(root, (*path, key)): None for root, path in places if len(path) < DEEPEST}


def _key(node: ast.expr) -> str | int | None:
    """A key or an index; from the end counts as the first, lists of answers have one item."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return 0
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, bool):
        return None
    return min(value, 3) if isinstance(value, int) else value if isinstance(value, str) else None


def _names_json(function: ast.expr) -> bool:
    value = function.value if isinstance(function, ast.Attribute) else None
    return isinstance(value, ast.Name) and value.id in ("json", "orjson", "ujson", "simplejson")


def _called_name(call: ast.Call) -> str:
    function = call.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _is_not(node: ast.AST | None) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
