"""Static values in a checkout's Python: what an expression is worth when no code is run.

Understood: literals, arithmetic, f-strings and concatenation, names of module constants (also imported from another
module of the checkout), members and value lists of an Enum, `list(...)`, `tuple(...)`, `sorted(...)`, `dict.keys()`.
Everything else is `UNKNOWN`, never a guess.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

MAX_DEPTH = 20


class Unknown:
    """The value of an expression that only a running program knows."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.LShift: operator.lshift,
    ast.BitOr: operator.or_,
}
_BUILTINS: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool}
_COLLECTIONS: dict[str, Callable[[Any], Any]] = {"list": list, "tuple": tuple, "sorted": sorted, "set": set}
LARGEST = 10_000
"""Longest text or list that is built."""


class Module:
    """One parsed file: its module-level names, imports and enumerations."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self.name, self.path, self.tree = name, path, tree
        self.constants: dict[str, ast.expr] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self.imported: dict[str, tuple[str, str]] = {}
        """Local name -> (module, name there); the second is empty for `import module`."""
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                base = self._absolute(node)
                self.imported |= {item.asname or item.name: (base, item.name) for item in node.names}
            elif isinstance(node, ast.Import):
                self.imported |= {item.asname or item.name: (item.name, "") for item in node.names}
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions.setdefault(node.name, node)
            elif isinstance(node, ast.ClassDef):
                self.classes.setdefault(node.name, node)
        for statement in tree.body:
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    if isinstance(target, ast.Name):
                        self.constants[target.id] = statement.value
            elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
                self.constants[statement.target.id] = statement.value

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.name.split(".") if self.path.name == "__init__.py" else self.name.split(".")[:-1]
        package = package[: len(package) - node.level + 1]
        return ".".join([*package, *([node.module] if node.module else [])])


class Resolver:
    """Values of expressions over a set of modules."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self._modules = modules

    def value(self, node: ast.expr | None, module: Module, local: Mapping[str, Any] | None = None) -> Any:
        """The value of `node` as written in `module`, or UNKNOWN. `local` binds names of the enclosing function."""
        try:
            return self._value(node, module, local or {}, 0)
        except (TypeError, ValueError, ArithmeticError, RecursionError, MemoryError):
            return UNKNOWN

    def find_class(self, name: str, module: Module) -> tuple[ast.ClassDef, Module] | None:
        """The class that `name` stands for in `module`, followed through imports."""
        for _ in range(MAX_DEPTH):
            if name in module.classes:
                return module.classes[name], module
            source = module.imported.get(name)
            if source is None or source[0] not in self._modules or not source[1]:
                return None
            module, name = self._modules[source[0]], source[1]
        return None

    def _value(self, node: ast.expr | None, module: Module, local: Mapping[str, Any], depth: int) -> Any:
        if node is None or depth > MAX_DEPTH:
            return UNKNOWN

        def of(item: ast.expr | None) -> Any:
            return self._value(item, module, local, depth + 1)

        match node:
            case ast.Constant():
                return node.value
            case ast.List() | ast.Tuple() | ast.Set():
                items = [of(item) for item in node.elts]
                return UNKNOWN if UNKNOWN in items else items if isinstance(node, ast.List) else tuple(items)
            case ast.Dict():
                keys, values = [of(key) for key in node.keys], [of(item) for item in node.values]
                return UNKNOWN if UNKNOWN in keys else dict(zip(keys, values, strict=True))
            case ast.UnaryOp(op=ast.USub()):
                inner = of(node.operand)
                return UNKNOWN if inner is UNKNOWN else -inner
            case ast.BinOp():
                left, right, do = of(node.left), of(node.right), _OPERATORS.get(type(node.op))
                known = do is not None and left is not UNKNOWN and right is not UNKNOWN and _small(left, right)
                return do(left, right) if known and do is not None else UNKNOWN
            case ast.JoinedStr():
                parts = [self._part(part, of) for part in node.values]
                return UNKNOWN if UNKNOWN in parts else "".join(parts)
            case ast.Name():
                return self._name(node.id, module, local, depth)
            case ast.Attribute():
                return self._attribute(node, module, depth)
            case ast.ListComp() | ast.GeneratorExp():
                return self._enum_values(node, module)
            case ast.Call():
                return self._call(node, module, of)
        return UNKNOWN

    @staticmethod
    def _part(part: ast.expr, of: Callable[[ast.expr], Any]) -> Any:
        if isinstance(part, ast.FormattedValue):
            value = of(part.value) if part.format_spec is None else UNKNOWN
            return value if value is UNKNOWN else str(value)
        return of(part)

    def _name(self, name: str, module: Module, local: Mapping[str, Any], depth: int) -> Any:
        if name in local:
            return local[name]
        if name in module.constants:
            return self._value(module.constants[name], module, {}, depth + 1)
        source = module.imported.get(name)
        if source and source[1] and source[0] in self._modules:
            return self._name(source[1], self._modules[source[0]], {}, depth + 1) if depth < MAX_DEPTH else UNKNOWN
        return _BUILTINS.get(name, UNKNOWN)

    def _attribute(self, node: ast.Attribute, module: Module, depth: int) -> Any:
        """`Enum.MEMBER`, `Enum.MEMBER.value`, `module.CONSTANT`."""
        inner = node.value.value if node.attr == "value" and isinstance(node.value, ast.Attribute) else node.value
        member = node.value.attr if node.attr == "value" and isinstance(node.value, ast.Attribute) else node.attr
        if not isinstance(inner, ast.Name):
            return UNKNOWN
        if found := self.find_class(inner.id, module):
            return self._members(*found).get(member, UNKNOWN)
        source = module.imported.get(inner.id)
        name = f"{source[0]}.{source[1]}".rstrip(".") if source else ""
        return self._name(member, self._modules[name], {}, depth + 1) if name in self._modules else UNKNOWN

    def _members(self, node: ast.ClassDef, module: Module) -> dict[str, Any]:
        return {
            target.id: self.value(item.value, module)
            for item in node.body
            if isinstance(item, ast.Assign)
            for target in item.targets
            if isinstance(target, ast.Name)
        }

    def _enum_values(self, node: ast.ListComp | ast.GeneratorExp, module: Module) -> Any:
        """`[e.value for e in Enum]`."""
        first = node.generators[0]
        plain = len(node.generators) == 1 and not first.ifs and isinstance(first.target, ast.Name)
        if not plain or not isinstance(first.iter, ast.Name) or not isinstance(node.elt, ast.Attribute):
            return UNKNOWN
        found = self.find_class(first.iter.id, module)
        if found is None or node.elt.attr not in ("value", "name"):
            return UNKNOWN
        members = self._members(*found)
        values = list(members if node.elt.attr == "name" else members.values())
        return UNKNOWN if UNKNOWN in values or not values else values

    @staticmethod
    def _call(node: ast.Call, module: Module, of: Callable[[ast.expr], Any]) -> Any:
        function = node.func
        if isinstance(function, ast.Name) and len(node.args) == 1 and not node.keywords:
            inner = of(node.args[0])
            if inner is UNKNOWN:
                return UNKNOWN
            if function.id in _COLLECTIONS:
                made = _COLLECTIONS[function.id](inner)
                return sorted(made) if function.id == "set" else made
            if function.id in _BUILTINS:
                return _BUILTINS[function.id](inner)
        if isinstance(function, ast.Attribute) and not node.keywords:
            inner = of(function.value)
            if isinstance(inner, dict) and function.attr == "keys" and not node.args:
                return list(inner)
            if isinstance(inner, str) and function.attr == "replace" and len(node.args) == 2:
                words = [of(item) for item in node.args]
                return UNKNOWN if UNKNOWN in words else inner.replace(*words)
        return UNKNOWN


def _small(left: Any, right: Any) -> bool:
    """Whether an operation on these stays small."""
    for item in (left, right):
        if isinstance(item, str | list | tuple) and len(item) > LARGEST:
            return False
        if isinstance(item, int) and abs(item) > 1 << 62:
            return False
    return not (isinstance(right, int) and right > LARGEST and isinstance(left, str | list | tuple)) and not (
        isinstance(left, int) and left > LARGEST and isinstance(right, str | list | tuple)
    )
