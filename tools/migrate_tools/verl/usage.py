"""How a reward uses an argument: which keys it reads, and what kind of value each must be.

A value is addressed by a path from the argument: `("answer", "*")` is an element of `ground_truth["answer"]`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

ValuePath: TypeAlias = tuple[str, ...]
FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
ITEM = "*"
STRING_METHODS = frozenset(
    [
        "strip",
        "lower",
        "upper",
        "split",
        "startswith",
        "endswith",
        "replace",
        "encode",
        "lstrip",
        "rstrip",
        "casefold",
        "splitlines",
        "find",
        "format",
    ]
)
LIST_METHODS = frozenset({"append", "tolist", "index", "count", "extend"})
DICT_METHODS = frozenset({"items", "keys", "values"})
MAX_DEPTH = 6


class Usage:
    """Facts about an argument: at each path a set of words.

    Words: string, number, int, bool, list, dict, json, loop, optional, `unpack:N`, `value:REPR` (a constant it meets).
    """

    def __init__(self) -> None:
        self.facts: dict[ValuePath, set[str]] = {}

    def add(self, path: ValuePath, *words: str) -> None:
        """Record words at a path, and the path itself."""
        self.facts.setdefault(path, set()).update(words)

    def keys(self, path: ValuePath = ()) -> tuple[str, ...]:
        """Keys that are read below a path, in order of first sight."""
        found = [item[len(path)] for item in self.facts if len(item) > len(path) and item[: len(path)] == path]
        return tuple(dict.fromkeys(key for key in found if key != ITEM))

    def at(self, path: ValuePath = ()) -> set[str]:
        """The words of a path."""
        return self.facts.get(path, set())

    def is_text(self, path: ValuePath = ()) -> bool:
        """Whether the value is text: string methods are called on it, or its characters are compared."""
        values = [word[6:] for word in self.at((*path, ITEM)) if word.startswith("value:")]
        return "string" in self.at(path) or any(len(value) == 3 and value[0] in "\"'" for value in values)

    def has_items(self, path: ValuePath = ()) -> bool:
        """Whether elements of the value are used."""
        return any(item[: len(path) + 1] == (*path, ITEM) for item in self.facts)


def read_usage(code: str, parameter: str) -> Usage:
    """How the functions of a module text use a parameter of this name, followed through direct calls."""
    tree = ast.parse(code)
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, FunctionNode)}
    usage = Usage()
    seen: set[tuple[str, str, ValuePath]] = set()
    for node in functions.values():
        if parameter in _parameters(node):
            _Follow(functions, usage, seen).read(node, parameter, ())
    return usage


def compared_constants(code: str, parameter: str) -> tuple[str, ...]:
    """Strings that a parameter is compared with, tested in, or looked up in: the data_source values a reward names."""
    found: dict[str, None] = {}
    tree = ast.parse(code)
    tables = _string_tables(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and _mentions(node.left, parameter):
            for operator, side in zip(node.ops, node.comparators, strict=True):
                if isinstance(operator, ast.Eq | ast.In):
                    found.update(dict.fromkeys(_strings(side, tables)))
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and node.args
            and _mentions(node.args[0], parameter)
        ):
            found.update(dict.fromkeys(_strings(node.func.value, tables)))
        elif isinstance(node, ast.Subscript) and _mentions(node.slice, parameter):
            found.update(dict.fromkeys(_strings(node.value, tables)))
    return tuple(found)


def _mentions(node: ast.expr, name: str) -> bool:
    return any(isinstance(item, ast.Name) and item.id == name for item in ast.walk(node))


def _string_tables(tree: ast.Module) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            strings = list(_strings(node.value, {}))
            for target in targets:
                if isinstance(target, ast.Name) and strings:
                    found[target.id] = strings
    return found


def _strings(node: ast.expr, tables: dict[str, list[str]]) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        for item in node.elts:
            yield from _strings(item, tables)
    elif isinstance(node, ast.Dict):
        for key in node.keys:
            if key is not None:
                yield from _strings(key, tables)
    elif isinstance(node, ast.Name):
        yield from tables.get(node.id, ())


def _parameters(node: FunctionNode) -> list[str]:
    return [item.arg for item in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]


class _Follow:
    """Follows one value through a function: names that hold it or a part of it, and what is done with them."""

    def __init__(self, functions: dict[str, FunctionNode], usage: Usage, seen: set[tuple[str, str, ValuePath]]) -> None:
        self._functions = functions
        self._usage = usage
        self._seen = seen
        self._names: dict[str, ValuePath] = {}

    def read(self, function: FunctionNode, parameter: str, path: ValuePath, depth: int = 0) -> None:
        key = (function.name, parameter, path)
        if key in self._seen or depth > MAX_DEPTH:
            return
        self._seen.add(key)
        self._names = {parameter: path}
        self._annotation(function, parameter, path)
        for _ in range(2):
            for node in ast.walk(function):
                self._bind(node)
        self._usage.add(path)
        for node in ast.walk(function):
            self._use(node, depth)

    def path(self, node: ast.expr | None) -> ValuePath | None:
        """The path that an expression reads, or None."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Subscript):
            base = self.path(node.value)
            if base is None:
                return None
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                return (*base, node.slice.value)
            return (*base, ITEM) if not isinstance(node.slice, ast.Slice) else base
        if isinstance(node, ast.Call):
            return self._call_path(node)
        if isinstance(node, ast.BoolOp):
            return self.path(node.values[0])
        if isinstance(node, ast.IfExp):
            return self.path(node.body) or self.path(node.orelse)
        return None

    def _call_path(self, node: ast.Call) -> ValuePath | None:
        name = ast.unparse(node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop") and node.args:
            base = self.path(node.func.value)
            key = node.args[0]
            if base is not None and isinstance(key, ast.Constant) and isinstance(key.value, str):
                return (*base, key.value)
        if name in ("json.loads", "ast.literal_eval", "eval") and node.args:
            inner = self.path(node.args[0])
            if inner is not None:
                self._usage.add(inner, "json")
            return inner
        if name in ("str", "list", "dict", "tuple", "set", "copy.deepcopy") and node.args:
            return self.path(node.args[0])
        return None

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            self._bind_target(node.targets[0], node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            self._bind_target(node.target, node.value)
        elif isinstance(node, ast.For | ast.comprehension):
            found = self.path(node.iter)
            if found is not None and isinstance(node.target, ast.Name):
                self._names.setdefault(node.target.id, (*found, ITEM))
                self._usage.add(found, "loop")

    def _bind_target(self, target: ast.expr, value: ast.expr) -> None:
        found = self.path(value)
        if found is None:
            return
        if isinstance(target, ast.Name):
            self._names.setdefault(target.id, found)
        elif isinstance(target, ast.Tuple | ast.List):
            self._usage.add(found, f"unpack:{len(target.elts)}")
            self._usage.add((*found, ITEM))
            for item in target.elts:
                if isinstance(item, ast.Name):
                    self._names.setdefault(item.id, (*found, ITEM))

    def _annotation(self, function: FunctionNode, parameter: str, path: ValuePath) -> None:
        arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        note = next((item.annotation for item in arguments if item.arg == parameter), None)
        text = ast.unparse(note).lower() if note is not None else ""
        words = (("int", "int"), ("float", "number"), ("bool", "bool"), ("list", "list"), ("dict", "dict"))
        for start, word in words:
            if text.startswith((start, f"optional[{start}", f"typing.{start}")):
                self._usage.add(path, word)
        if text.startswith(("list[str", "optional[list[str")):
            self._usage.add((*path, ITEM), "string")
        if text in ("str", "optional[str]", "str | none"):
            self._usage.add(path, "string")

    # ------------------------------------------------------------ uses

    def _use(self, node: ast.AST, depth: int) -> None:
        if isinstance(node, ast.Call):
            self._use_call(node, depth)
        elif isinstance(node, ast.Subscript):
            found = self.path(node)
            if found is not None and isinstance(node.ctx, ast.Load):
                self._usage.add(found)
        elif isinstance(node, ast.Compare):
            self._use_compare(node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Mult | ast.Div | ast.Pow):
            for side in (node.left, node.right):
                found = self.path(side)
                if found is not None and "list" not in self._usage.at(found):
                    self._usage.add(found, "number")

    def _use_call(self, node: ast.Call, depth: int) -> None:
        name = ast.unparse(node.func)
        found = self.path(node)
        if found is not None and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
            self._usage.add(
                found, "optional", *(f"value:{ast.unparse(item)}" for item in node.args[1:2] if _literal(item))
            )
        if isinstance(node.func, ast.Attribute):
            base = self.path(node.func.value)
            if base is not None:
                for methods, word in ((STRING_METHODS, "string"), (LIST_METHODS, "list"), (DICT_METHODS, "dict")):
                    if node.func.attr in methods:
                        self._usage.add(base, word)
        first = self.path(node.args[0]) if node.args else None
        if first is not None:
            words = {"float": "number", "int": "int", "round": "number", "abs": "number", "any": "list", "all": "list"}
            if name in words:
                self._usage.add(first, words[name])
            elif name == "isinstance" and len(node.args) == 2:
                self._usage.add(first, *_instance_words(node.args[1]))
        if isinstance(node.func, ast.Name) and node.func.id in self._functions:
            self._enter(self._functions[node.func.id], node, depth)

    def _enter(self, function: FunctionNode, call: ast.Call, depth: int) -> None:
        names = _parameters(function)
        pairs = list(zip(names, call.args, strict=False))
        pairs += [(item.arg, item.value) for item in call.keywords if item.arg in names]
        for name, value in pairs:
            found = self.path(value)
            if found is not None and name is not None:
                _Follow(self._functions, self._usage, self._seen).read(function, name, found, depth + 1)

    def _use_compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, operands[:-1], operands[1:], strict=True):
            if isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
                for side in (left, right):
                    found = self.path(side)
                    if found is not None:
                        self._usage.add(found, "number")
            elif isinstance(operator, ast.In | ast.NotIn):
                self._use_membership(left, right)
            elif isinstance(operator, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
                for side, other in ((left, right), (right, left)):
                    found = self.path(side)
                    if found is not None and _literal(other):
                        self._usage.add(found, f"value:{ast.unparse(other)}")

    def _use_membership(self, left: ast.expr, right: ast.expr) -> None:
        holder, member = self.path(right), self.path(left)
        text = left.value if isinstance(left, ast.Constant) and isinstance(left.value, str) else None
        if (
            holder is not None
            and text is not None
            and ("dict" in self._usage.at(holder) or text in self._usage.keys(holder))
        ):
            self._usage.add((*holder, text), "optional")
        if member is not None:
            self._usage.add(member, *(f"value:{ast.unparse(item)}" for item in _elements(right)))


def _elements(node: ast.expr) -> list[ast.expr]:
    return [item for item in node.elts if _literal(item)] if isinstance(node, ast.List | ast.Tuple | ast.Set) else []


def _literal(node: ast.expr) -> bool:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return value is not None and value != ""


def _instance_words(node: ast.expr) -> set[str]:
    words = {"str": "string", "list": "list", "dict": "dict", "int": "int", "float": "number", "tuple": "list"}
    names = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
    # isinstance tests say what is handled, not what comes; one single type is a strong hint, several are none.
    return {words[name] for name in names if name in words} if len(names) == 1 else set()
