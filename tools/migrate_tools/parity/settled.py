"""What the launch has settled: values that a module takes from the environment, and branches that no run enters.

Only where certain: the environment is asked and never changed by the module, and a name gets its value once.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

from migrate_tools.parity.mutation import Code, Edit, text
from migrate_tools.parity.value_before import assigned_once
from migrate_tools.verl.secrets import REMOVED

ASKS = frozenset({"os.environ.get", "environ.get", "os.getenv", "getenv"})
METHODS = frozenset({"lower", "upper", "casefold", "title", "strip", "lstrip", "rstrip", "startswith", "endswith"})
KINDS: dict[str, Callable[[Any], Any]] = {"int": int, "float": float, "str": str, "bool": bool, "len": len}
COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda one, other: one in other, ast.NotIn: lambda one, other: one not in other,
}  # fmt: skip


class _Unsettled(Exception):
    """The value depends on something else."""


def settled_by_the_launch(code: Code, edit: Edit) -> str:
    """An expression comes out the same, since what it asks the environment for is set by the launch."""
    for node in (edit.node, *code.above(edit.node)):
        if not isinstance(node, ast.expr) or not _asks(code):
            return ""
        names: set[str] = set()
        try:
            one, other = _Values(code, names).of(node), _Values(code, names).of(_changed(code, edit, node))
        except (_Unsettled, SyntaxError):
            continue
        if names and type(one) is type(other) and one == other:
            return f"the launch sets {', '.join(sorted(names))}"
    return ""


def _changed(code: Code, edit: Edit, node: ast.expr) -> ast.expr:
    """An expression with the edit applied inside it.

    Raises:
        SyntaxError: it is no expression then.
    """
    start = code.span(node)[0]
    first, last = (place - start for place in code.span(edit.node))
    whole = code.segment(node).encode()
    return ast.parse(f"({(whole[:first] + edit.text.encode() + whole[last:]).decode()})", mode="eval").body


def never_runs(code: Code, node: ast.AST) -> bool:
    """True for a node in a branch that the launch rules out."""
    for parent in code.above(node):
        if isinstance(parent, (ast.If, ast.IfExp)) and _asks(code):
            body, other = ([item] if isinstance(item, ast.expr) else item for item in (parent.body, parent.orelse))
            here = node in body
            if (here or node in other) and _truth(code, parent.test) not in (None, here):
                return True
        node = parent
    return False


def _truth(code: Code, test: ast.expr) -> bool | None:
    """Whether a condition holds; None where the launch does not settle that."""
    try:
        return bool(_Values(code, set()).of(test))
    except _Unsettled:
        return None


class _Values:
    """Values of expressions."""

    def __init__(self, code: Code, names: set[str], within: Collection[str] = ()) -> None:
        """`names`: gets the variables of the environment that were asked for; `within`: names being settled."""
        self._code, self._names, self._within = code, names, frozenset(within)

    def of(self, node: ast.expr) -> Any:
        """The value.

        Raises:
            _Unsettled: it is not known, or taking it may fail.
        """
        try:
            return self._of(node)
        except _Unsettled:
            raise
        except Exception as error:
            raise _Unsettled from error

    def _of(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Tuple | ast.List | ast.Set) and all(isinstance(i, ast.Constant) for i in node.elts):
            return tuple(self.of(item) for item in node.elts)
        if isinstance(node, ast.Name):
            return self._named(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return not self.of(node.operand)
        if isinstance(node, ast.BoolOp):
            return self._joined(node)
        if isinstance(node, ast.IfExp):
            return self.of(node.body if self.of(node.test) else node.orelse)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return COMPARE[type(node.ops[0])](self.of(node.left), self.of(node.comparators[0]))
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("os.environ", "environ"):
            return self._variable(text(node.slice))
        if isinstance(node, ast.Call) and not node.keywords:
            return self._called(node)
        raise _Unsettled

    def _joined(self, node: ast.BoolOp) -> Any:
        """`and` stops at the first false part, `or` at the first true one; a part that settles it needs no others."""
        wanted = isinstance(node.op, ast.Or)
        for part in node.values[:-1]:
            if bool(value := self.of(part)) is wanted:
                return value
        return self.of(node.values[-1])

    def _called(self, node: ast.Call) -> Any:
        name = ast.unparse(node.func)
        if name in ASKS and node.args:
            return self._variable(text(node.args[0]))
        if name in KINDS and name not in self._code.functions and len(node.args) == 1:
            return KINDS[name](self.of(node.args[0]))
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            held = self.of(node.func.value)
            if isinstance(held, str):
                return getattr(held, node.func.attr)(*(self.of(item) for item in node.args))
        raise _Unsettled

    def _named(self, node: ast.Name) -> Any:
        """The value of a constant of the module."""
        code = self._code
        if node.id in self._within or node.id in _other_names(code):
            raise _Unsettled
        if (value := assigned_once(code, node)) is None:
            raise _Unsettled
        return _Values(code, self._names, {*self._within, node.id}).of(value)

    def _variable(self, name: str | None) -> str:
        """The value that the launch gives a variable; what it does not set is the machine's."""
        value = self._code.environment.get(name) if name is not None else None
        if name is None or value is None or REMOVED in value or _changes_environment(self._code):
            raise _Unsettled
        self._names.add(name)
        return value


def _asks(code: Code) -> bool:
    """True where the launch can settle anything: it sets variables, and the module asks for some."""
    return bool(code.environment) and ("environ" in code.source or "getenv" in code.source)


@lru_cache(maxsize=4)
def _other_names(code: Code) -> set[str]:
    """Names that the module gives a meaning otherwise than as a variable or parameter: imports, functions ..."""
    names: set[str] = set()
    for node in ast.walk(code.tree):
        if isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            names.add(node.attr)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler):
            names.add(node.name or "")
    return names


@lru_cache(maxsize=4)
def _changes_environment(code: Code) -> bool:
    """True where the module does anything with the environment but ask it for one variable."""
    for node in ast.walk(code.tree):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name in ("putenv", "unsetenv", "load_dotenv"):
            return True
        if name != "environ":
            continue
        parent = code.parents.get(node)
        asked = isinstance(parent, ast.Attribute) and parent.attr == "get"
        read = isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.ctx, ast.Load)
        if not asked and not read and not isinstance(parent, ast.Compare):
            return True
    return False
