"""What a Python module does besides computing, as a set of texts that two versions of it can be compared by.

Nothing is executed. Modules that only compute are listed; every other module, a few built-in functions and some
attribute names count as power, and each place that uses power is one text ("os.getenv('HOME')").
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from functools import cache
from types import ModuleType

from migrate_tools.verl.traits import FILE_CALLS, HTTP, JUDGE, PROCESS, SIGNAL

COMPUTING = frozenset(
    {
        "__future__", "abc", "bisect", "cmath", "collections", "copy", "dataclasses", "decimal", "difflib", "enum",
        "fractions", "functools", "heapq", "html", "itertools", "json", "math", "numbers", "operator", "re",
        "statistics", "string", "textwrap", "typing", "unicodedata",
    }
)  # fmt: skip
"""Modules of the standard library that touch nothing outside themselves; what of them does is in `REACHING`."""
REACHING = frozenset(
    {
        "operator.attrgetter", "operator.methodcaller", "string.Formatter", "typing.get_type_hints",
        "typing.ForwardRef", "dataclasses.make_dataclass", "json.load", "json.dump", "functools.singledispatch",
    }
)  # fmt: skip
PARTLY = {
    "ast": frozenset({"literal_eval"}),
    "asyncio": frozenset({"gather", "to_thread", "wait_for", "Lock", "Semaphore", "TimeoutError", "iscoroutine"}),
}
"""Modules of which only these names compute (or wait) and nothing else."""
BUILTINS = frozenset(
    {
        "exec", "eval", "compile", "__import__", "open", "input", "breakpoint", "globals", "locals", "vars", "dir",
        "setattr", "delattr", "hash", "print", "exit", "quit", "help", "SystemExit", "KeyboardInterrupt",
        "GeneratorExit", "BaseException",
    }
)  # fmt: skip
RISKY_ATTRIBUTES = FILE_CALLS | frozenset(
    {
        "rmdir", "touch", "symlink_to", "hardlink_to", "chmod", "iterdir", "rglob", "rename", "urlopen", "sendall",
        "recv", "connect", "Popen", "communicate", "check_output", "check_call", "post", "urlretrieve", "load", "save",
        "savez", "fromfile", "tofile", "memmap", "loadtxt", "savetxt", "genfromtxt", "DataSource", "to_csv",
        "to_parquet", "to_json", "to_pickle", "read_csv", "read_parquet", "read_json", "read_pickle", "sympify",
        "parse_expr", "lambdify", "eval", "exec", "system", "popen", "ctypeslib", "f2py", "modules",
        "tb_frame", "gi_frame", "cr_frame", "ag_frame", "f_back", "f_globals", "f_locals", "f_builtins",
        "gi_code", "func_globals", "mro",
    }
)  # fmt: skip
"""Attribute names that read, write, send or reach into the interpreter, whatever object they belong to."""
PLAIN_DUNDERS = frozenset({"__name__", "__init__", "__doc__", "__main__"})
OWN_METHODS = frozenset({"__init__", "__post_init__", "__call__", "__enter__", "__exit__"})
BUILT_IN_TYPES = frozenset({"float", "int", "str", "bool", "dict", "list", "tuple", "bytes", "complex"})
_OUTSIDE = HTTP | JUDGE | PROCESS | SIGNAL


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import, also relative ones (".x") and `from x import *` ("x.*")."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield node.lineno, base
            yield from ((node.lineno, f"{base}.*") for alias in node.names if alias.name == "*")


def uses(tree: ast.AST) -> dict[str, int]:
    """Every use of power as a text, with the first line it stands on."""
    return _Reader(tree).found()


def is_power(dotted: str) -> bool:
    """Whether a dotted name of an imported module reaches outside the computation."""
    root, _, rest = dotted.partition(".")
    if root in PARTLY:
        return rest.split(".")[0] not in PARTLY[root]
    if root in COMPUTING:
        return _reaches(dotted)
    return root in sys.stdlib_module_names or root in _OUTSIDE


@cache
def _reaches(dotted: str) -> bool:
    """Whether a name of a computing module is, or leads through, another module (json.codecs, typing.sys)."""
    parts = dotted.split(".")
    if any(".".join(parts[:end]) in REACHING for end in range(2, len(parts) + 1)):
        return True
    value: object = importlib.import_module(parts[0])
    for position, part in enumerate(parts[1:], 1):
        try:
            value = getattr(value, part)
        except AttributeError:
            return ".".join(parts[: position + 1]) not in ("collections.abc",)
        inside = isinstance(value, ModuleType) and value.__name__.split(".")[0] == parts[0]
        if isinstance(value, ModuleType) and not inside:
            return True
    return False


class _Reader:
    def __init__(self, tree: ast.AST) -> None:
        self._tree = tree
        self._names = dict(_aliases(tree))
        self._parents = {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self._found: dict[str, int] = {}

    def found(self) -> dict[str, int]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Name):
                self._name(node)
            elif isinstance(node, ast.Attribute):
                self._attribute(node)
            elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete | ast.For | ast.AsyncFor):
                self._targets(node)
            elif isinstance(node, ast.With | ast.AsyncWith):
                for item in node.items:
                    self._target(item.optional_vars)
            elif isinstance(node, ast.ClassDef):
                self._class(node)
            elif isinstance(node, ast.keyword) and node.arg == "return_exceptions":
                self._say(node.value, "return_exceptions=" + ast.unparse(node.value))
            elif isinstance(node, ast.Try | ast.TryStar):
                self._finally(node)
            elif isinstance(node, ast.ImportFrom):
                self._from(node)
        return self._found

    def _say(self, node: ast.AST, text: str) -> None:
        self._found.setdefault(text, getattr(node, "lineno", 0))

    def _whole(self, node: ast.AST) -> str:
        """The text of the call that an expression is the function of, else of the expression."""
        parent = self._parents.get(id(node))
        is_called = isinstance(parent, ast.Call) and parent.func is node
        return ast.unparse(parent if is_called and parent is not None else node)

    def _name(self, node: ast.Name) -> None:
        parent = self._parents.get(id(node))
        dotted = self._names.get(node.id)
        if node.id == "getattr":
            self._getattr(node, parent)
        elif node.id == "type" and isinstance(parent, ast.Call) and parent.func is node and len(parent.args) > 1:
            self._say(node, ast.unparse(parent))
        elif node.id in BUILTINS or (_is_dunder(node.id) and node.id not in PLAIN_DUNDERS):
            self._say(node, self._whole(node))
        elif dotted and is_power(dotted):
            is_root = isinstance(parent, ast.Attribute) and parent.value is node
            if not is_root:
                self._say(node, self._whole(node))

    def _getattr(self, node: ast.Name, parent: ast.AST | None) -> None:
        called = isinstance(parent, ast.Call) and parent.func is node and len(parent.args) >= 2
        name = parent.args[1] if called and isinstance(parent, ast.Call) else None
        if isinstance(name, ast.Constant) and isinstance(name.value, str) and not self._risky(name.value):
            return
        self._say(node, self._whole(node))

    def _attribute(self, node: ast.Attribute) -> None:
        parent = self._parents.get(id(node))
        if isinstance(parent, ast.Attribute) and not self._risky(node.attr):
            return  # the longest chain is looked at
        chain = _chain(node)
        root = chain.split(".")[0] if chain else ""
        dotted = self._names.get(root, "")
        power = bool(dotted) and is_power(dotted + chain[len(root) :])
        if power or self._risky(node.attr):
            self._say(node, self._whole(node))

    def _risky(self, name: str) -> bool:
        bare = name.strip("_")
        module = bare in sys.stdlib_module_names and bare not in COMPUTING | set(PARTLY) and bare not in _COMMON_WORDS
        return name in RISKY_ATTRIBUTES or (_is_dunder(name) and name not in PLAIN_DUNDERS) or module

    def _targets(self, node: ast.AST) -> None:
        for target in getattr(node, "targets", None) or [getattr(node, "target", None)]:
            self._target(target)

    def _target(self, target: ast.AST | None) -> None:
        """Assignment to something that other code owns: an attribute or item of a module, a class, `args`."""
        if isinstance(target, ast.Tuple | ast.List):
            for item in target.elts:
                self._target(item)
        if not isinstance(target, ast.Attribute | ast.Subscript):
            return
        inner: ast.AST = target
        while isinstance(inner, ast.Attribute | ast.Subscript):
            inner = inner.value
        owned = isinstance(inner, ast.Name) and inner.id not in self._names and inner.id != "args"
        if not owned:
            self._say(target, f"{ast.unparse(target)} = ...")

    def _class(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id in BUILT_IN_TYPES:
                self._say(node, f"class {node.name}({base.id})")
        for word in node.keywords:
            self._say(node, f"class {node.name}({word.arg}=...)")
        for item in node.body:
            named = item.name if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) else ""
            if _is_dunder(named) and named not in OWN_METHODS:
                self._say(item, f"{node.name}.{named}")

    def _finally(self, node: ast.Try | ast.TryStar) -> None:
        for statement in node.finalbody:
            for inner in ast.walk(statement):
                if isinstance(inner, ast.Return | ast.Break | ast.Continue):
                    self._say(inner, f"finally: {ast.unparse(inner)}")

    def _from(self, node: ast.ImportFrom) -> None:
        """Names that lead from a computing (or own) module to a powerful one."""
        for alias in node.names:
            dotted = f"{node.module or ''}.{alias.name}"
            if self._risky(alias.name) or (not node.level and is_power(dotted)):
                self._say(node, f"from {'.' * node.level}{node.module or ''} import {alias.name}")


_COMMON_WORDS = frozenset(
    {"test", "token", "code", "select", "queue", "calendar", "types", "this", "profile", "symbol"}
)
"""Modules of the standard library whose names are also ordinary attribute names."""


def _aliases(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (
                    (alias.asname, alias.name) if alias.asname else (alias.name.split(".")[0], alias.name.split(".")[0])
                )
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def _chain(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        inner = _chain(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return node.id if isinstance(node, ast.Name) else ""


def _is_dunder(name: str) -> bool:
    return len(name) > 4 and name.startswith("__") and name.endswith("__")
