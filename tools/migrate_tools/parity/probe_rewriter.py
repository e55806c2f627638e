"""Puts probes into the functions of a module: the part that changes the syntax tree.

Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

METHODS = frozenset(
    ["strip", "lstrip", "rstrip", "lower", "upper", "casefold", "title", "capitalize", "replace", "translate"]
    + ["removeprefix", "removesuffix", "split", "rsplit", "splitlines", "partition", "rpartition", "join"]
    + ["find", "rfind", "index", "rindex", "count", "startswith", "endswith", "get"]
    + ["isdigit", "isdecimal", "isnumeric", "isalpha", "isalnum", "isupper", "islower", "isspace"]
    + ["search", "match", "fullmatch", "findall", "finditer", "sub", "subn"]
)
COMPARED = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn)
BRANCH = ("test", "handler", "case")
"""Kinds of sites that are branches: a test has two sides, the others one."""


class Site(NamedTuple):
    """One place that has a probe."""

    file: str
    line: int
    column: int
    kind: str
    """line, test, handler, case, operand, compare, method, index, bound or loop."""
    function: str
    first: int
    """Line of the function."""


class Rewriter(ast.NodeTransformer):
    """Adds probes to the bodies of functions; module and class level stay as they are."""

    def __init__(self, file: str, sites: list[Site]) -> None:
        self._file = file
        self._sites = sites
        self._functions: list[tuple[str, int]] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        self._functions.append((node.name, node.lineno))
        docstring = node.body[:1] if ast.get_docstring(node, clean=False) is not None else []
        node.body = [*docstring, *self._block(node.body[len(docstring) :])] or node.body
        self._functions.pop()
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [self.visit(item) if isinstance(item, FUNCTIONS) else item for item in node.body]
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not self._functions and isinstance(node, ast.expr):
            return node
        return super().generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        return self._with_test(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        return self._with_test(node)

    def _with_test(self, node: ast.If | ast.While) -> ast.AST:
        if not self._functions:
            return super().generic_visit(node)
        node.test = self._test(node.test)
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        return self._for(node)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        return self._for(node)

    def _for(self, node: ast.For | ast.AsyncFor) -> ast.AST:
        if not self._functions:
            return super().generic_visit(node)
        box = self.visit(node.iter)
        node.iter = box if isinstance(node, ast.AsyncFor) else self._call("loop", node.iter, box)
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def visit_With(self, node: ast.With) -> ast.AST:
        return self._with(node)

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST:
        return self._with(node)

    def _with(self, node: ast.With | ast.AsyncWith) -> ast.AST:
        if not self._functions:
            return super().generic_visit(node)
        node.items = [self.visit(item) for item in node.items]
        node.body = self._block(node.body)
        return node

    def visit_Try(self, node: ast.Try) -> ast.AST:
        if not self._functions:
            return super().generic_visit(node)
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        node.finalbody = self._block(node.finalbody)
        for handler in node.handlers:
            handler.body = [self._hit("handler", handler), *self._block(handler.body)]
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        if not self._functions:
            return node
        node.subject = self.visit(node.subject)
        for case in node.cases:
            case.guard = case.guard and self._test(case.guard)
            case.body = [self._hit("case", case.pattern), *self._block(case.body)]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if self._functions:
            node.test = self._test(node.test)
            node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        if self._functions:
            node.test = self._test(node.test)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        if self._functions:
            box = self.visit(node.iter)
            node.iter = box if node.is_async else self._call("loop", node.iter, box)
            node.ifs = [self._test(test) for test in node.ifs]
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        if self._functions:
            node.values = [self._call("operand", value, self.visit(value)) for value in node.values]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if not self._functions or not all(isinstance(op, COMPARED) for op in node.ops):
            return self.generic_visit(node)
        if not all(_simple(middle) for middle in node.comparators[:-1]):
            return self.generic_visit(node)
        ends = [node.left, *node.comparators]
        parts: list[ast.expr] = [
            self._call("compare", node, ast.Constant(type(op).__name__), self.visit(left), self.visit(_copy(right)))
            for op, left, right in zip(node.ops, ends, ends[1:], strict=False)
        ]
        return parts[0] if len(parts) == 1 else ast.copy_location(ast.BoolOp(ast.And(), parts), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not self._functions:
            return node
        function = node.func
        if not isinstance(function, ast.Attribute) or function.attr not in METHODS or _is_super(function.value):
            return self.generic_visit(node)
        receiver = self.visit(function.value)
        args = [self.visit(arg) for arg in node.args]
        call = self._call("method", node, receiver, ast.Constant(function.attr), *args)
        call.keywords = [self.visit(keyword) for keyword in node.keywords]
        return call

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if not self._functions or not isinstance(node.ctx, ast.Load):
            return self.generic_visit(node)
        place = _whole(node.slice)
        if place is not None and -3 < place < 3:
            return self._call("index", node, self.visit(node.value), ast.Constant(place))
        if isinstance(node.slice, ast.Slice):
            bounds = [bound for part in (node.slice.lower, node.slice.upper) if (bound := _whole(part)) is not None]
            if bounds:
                node.value = self._call("bound", node, self.visit(node.value), ast.Constant(abs(bounds[0])))
                return node
        return self.generic_visit(node)

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return list(self._statements(body))

    def _statements(self, body: list[ast.stmt]) -> Iterator[ast.stmt]:
        for statement in body:
            if not isinstance(statement, (*FUNCTIONS, ast.Try, ast.Global, ast.Nonlocal)):
                yield self._hit("line", statement)
            yield self.visit(statement)

    def _test(self, node: ast.expr) -> ast.Call:
        return self._call("test", node, self.visit(node))

    def _hit(self, kind: str, node: ast.AST) -> ast.stmt:
        call = self._call("hit", node, kind=kind)
        return ast.copy_location(ast.Expr(call), node)

    def _call(self, name: str, place: Any, *args: ast.expr, kind: str = "") -> ast.Call:
        function, first = self._functions[-1]
        self._sites.append(Site(self._file, place.lineno, place.col_offset, kind or name, function, first))
        number = ast.Constant(len(self._sites) - 1)
        call = ast.Call(ast.Name(f"_probe_{name}", ast.Load()), [number, *args], [])
        return ast.copy_location(call, place)


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _simple(node: ast.expr) -> bool:
    """True for what may be asked for twice."""
    if isinstance(node, ast.Subscript):
        return _simple(node.value) and isinstance(node.slice, ast.Constant)
    if isinstance(node, ast.Attribute):
        return _simple(node.value)
    return isinstance(node, (ast.Name, ast.Constant))


def _copy(node: ast.expr) -> ast.expr:
    from copy import deepcopy

    return deepcopy(node)


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "super"


def _whole(node: ast.expr | None) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _whole(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None
