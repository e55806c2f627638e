"""Follows a Python launcher without running it, to the commands and verl entry points that it starts.

Assignments, lists, f-strings, dictionaries, argparse defaults, `os.environ.get`, its own functions and tests on known
values are followed; everything else becomes a value that only a run can tell.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Any

from migrate_tools.verl.pycalls import add_argument, function, method
from migrate_tools.verl.pyvalues import Item, Space, Text, Unknown, binary, compared, formatted, join, plain, truth
from migrate_tools.verl.symbolic import Piece

MAX_DEPTH = 8
MAX_STEPS = 20_000
Scope = dict[str, Any]


class TooLong(Exception):
    """The launcher takes more steps than a launcher needs."""


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class Follower:
    """Walks a module as if it were started as a program."""

    def __init__(
        self, tree: ast.Module, file: str, called: Callable[[str, ast.Call, list[Any], dict[str, Any]], bool]
    ) -> None:
        self.called = called
        """Told of every call with its evaluated arguments; True when it knows the call."""
        self.functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
        self.arguments = Space("args")
        self.untaken: list[tuple[str, int]] = []
        """Conditions that only a run can decide and that hold statements: source text and line."""
        self.argv: list[Any] = [Item(file, 0)]
        self.top: Scope = {"__name__": "__main__", "__file__": file}
        self._steps = 0
        self._depth = 0
        self.tree = tree

    def follow(self) -> None:
        """Walk the module.

        Raises:
            TooLong: it does not come to an end.
        """
        self._block(self.tree.body, self.top)

    def call_each(self, wanted: Callable[[ast.AST], bool]) -> None:
        """Call the module's functions that `wanted` picks, as if someone else did, without arguments.

        Raises:
            TooLong: one of them does not come to an end.
        """
        for node in list(self.functions.values()):
            if wanted(node):
                self._function(node, [], {})

    # ------------------------------------------------------------ statements

    def _block(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        for statement in body:
            self._steps += 1
            if self._steps > MAX_STEPS:
                raise TooLong
            self._statement(statement, scope)

    def _statement(self, node: ast.stmt, scope: Scope) -> None:
        if isinstance(node, ast.Assign):
            value = self.value(node.value, scope)
            for target in node.targets:
                self._bind(target, value, scope)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._bind(node.target, self.value(node.value, scope), scope)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            old, new = self.value(node.target, scope), self.value(node.value, scope)
            joined = ast.BinOp(left=node.target, op=node.op, right=node.value, lineno=node.lineno, col_offset=0)
            self._bind(node.target, binary(joined, old, new), scope)
        elif isinstance(node, ast.Expr):
            self.value(node.value, scope)
        elif isinstance(node, ast.Return):
            raise _Return(self.value(node.value, scope) if node.value else None)
        elif isinstance(node, ast.If):
            self._if(node, scope)
        elif isinstance(node, ast.For):
            self._for(node, scope)
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                self.value(item.context_expr, scope)
            self._block(node.body, scope)
        elif isinstance(node, ast.Try):
            self._block([*node.body, *node.orelse, *node.finalbody], scope)
        elif isinstance(node, ast.FunctionDef) and scope is not self.top:
            self.functions.setdefault(node.name, node)

    def _bind(self, target: ast.expr, value: Any, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            scope[target.id] = value
        elif isinstance(target, ast.Attribute) and ast.unparse(target) == "sys.argv":
            self.argv = list(value) if isinstance(value, list | tuple) else [value]
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value, scope)
            if isinstance(owner, Space):
                owner.values[target.attr] = value
        elif isinstance(target, ast.Subscript):
            owner, key = self.value(target.value, scope), plain(self.value(target.slice, scope))
            if isinstance(owner, dict) and isinstance(key, str | int):
                owner[key] = Item(plain(value), target.lineno)
        elif isinstance(target, ast.Tuple):
            values = value if isinstance(value, list | tuple) and len(value) == len(target.elts) else None
            for index, item in enumerate(target.elts):
                self._bind(item, values[index] if values else Unknown(ast.unparse(item), target.lineno), scope)

    def _if(self, node: ast.If, scope: Scope) -> None:
        decided = truth(self.value(node.test, scope))
        if decided is None:
            self.untaken.append((ast.unparse(node.test), node.lineno))
        self._block(node.body if decided else node.orelse, scope)

    def _for(self, node: ast.For, scope: Scope) -> None:
        items = self.value(node.iter, scope)
        if not isinstance(items, list | tuple) or len(items) > 500:
            self.untaken.append((f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}", node.lineno))
            return
        for item in items:
            self._bind(node.target, item, scope)
            self._block(node.body, scope)

    # ------------------------------------------------------------ expressions

    def value(self, node: ast.expr, scope: Scope) -> Any:
        """What an expression gives; calls are reported on the way."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return scope.get(node.id, self.top.get(node.id, Unknown(node.id, node.lineno)))
        if isinstance(node, ast.JoinedStr):
            parts = [
                formatted(part, self.value(part.value, scope)) if isinstance(part, ast.FormattedValue) else part.value
                for part in node.values
                if isinstance(part, ast.FormattedValue | ast.Constant)
            ]
            return join(parts, node.lineno, ast.unparse(node))
        if isinstance(node, ast.List | ast.Tuple):
            return self._elements(node.elts, scope)
        if isinstance(node, ast.Dict):
            return self._dict(node, scope)
        if isinstance(node, ast.BinOp):
            return binary(node, self.value(node.left, scope), self.value(node.right, scope))
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return compared(node, self.value(node.left, scope), self.value(node.comparators[0], scope))
        if isinstance(node, ast.BoolOp):
            return self._bool(node, scope)
        if isinstance(node, ast.UnaryOp):
            return self._unary(node, scope)
        if isinstance(node, ast.IfExp):
            decided = truth(self.value(node.test, scope))
            chosen = node.body if decided else node.orelse
            return self.value(chosen, scope) if decided is not None else Unknown(ast.unparse(node), node.lineno)
        if isinstance(node, ast.ListComp | ast.GeneratorExp) and len(node.generators) == 1:
            return self._comprehension(node, scope)
        if isinstance(node, ast.Call):
            return self._call(node, scope)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, scope)
        if isinstance(node, ast.Subscript):
            return self._subscript(node, scope)
        return Unknown(ast.unparse(node), node.lineno)

    def _elements(self, nodes: Sequence[ast.expr], scope: Scope) -> list[Any]:
        out: list[Any] = []
        for node in nodes:
            value = self.value(node.value if isinstance(node, ast.Starred) else node, scope)
            if isinstance(node, ast.Starred):
                out += (
                    value if isinstance(value, list | tuple) else [Unknown(f"*{ast.unparse(node.value)}", node.lineno)]
                )
            else:
                out.append(value if isinstance(value, Item) else Item(value, node.lineno))
        return out

    def _dict(self, node: ast.Dict, scope: Scope) -> Any:
        out: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            inner = self.value(value, scope)
            if key is None:
                if not isinstance(inner, dict):
                    return Unknown(ast.unparse(node), node.lineno)
                out.update(inner)
                continue
            name = plain(self.value(key, scope))
            if not isinstance(name, str | int):
                return Unknown(ast.unparse(node), node.lineno)
            out[name] = inner if isinstance(inner, Item) else Item(inner, value.lineno)
        return out

    def _bool(self, node: ast.BoolOp, scope: Scope) -> Any:
        value: Any = None
        for item in node.values:
            value = self.value(item, scope)
            decided = truth(value)
            if decided is None:
                return Unknown(ast.unparse(node), node.lineno)
            if decided == isinstance(node.op, ast.Or):
                return value
        return value

    def _unary(self, node: ast.UnaryOp, scope: Scope) -> Any:
        value = plain(self.value(node.operand, scope))
        if isinstance(node.op, ast.Not):
            decided = truth(value)
            return not decided if decided is not None else Unknown(ast.unparse(node), node.lineno)
        if isinstance(node.op, ast.USub) and isinstance(value, int | float):
            return -value
        return Unknown(ast.unparse(node), node.lineno)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp, scope: Scope) -> Any:
        generator = node.generators[0]
        items = self.value(generator.iter, scope)
        if not isinstance(items, list | tuple) or len(items) > 500:
            return Unknown(ast.unparse(node), node.lineno)
        out: list[Any] = []
        for item in items:
            inner = dict(scope)
            self._bind(generator.target, item, inner)
            kept = [truth(self.value(test, inner)) for test in generator.ifs]
            if None in kept:
                return Unknown(ast.unparse(node), node.lineno)
            if all(kept):
                line = max((v.line for v in _items(item)), default=node.lineno)
                out.append(Item(plain(self.value(node.elt, inner)), line))
        return out

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Any:
        text = ast.unparse(node)
        if text == "sys.executable":
            return "python3"
        if text == "sys.argv":
            return self.argv
        owner = plain(self.value(node.value, scope))
        if isinstance(owner, Space):
            return owner.values.get(node.attr, Unknown(text, node.lineno))
        if isinstance(owner, str) and node.attr in ("parent", "parents", "name", "stem"):
            path = PurePosixPath(owner)
            return [str(item) for item in path.parents] if node.attr == "parents" else str(getattr(path, node.attr))
        return Unknown(text, node.lineno)

    def _subscript(self, node: ast.Subscript, scope: Scope) -> Any:
        if ast.unparse(node.value) == "os.environ" and isinstance(node.slice, ast.Constant):
            return Text((Piece("variable", str(node.slice.value), node.lineno),))
        owner = plain(self.value(node.value, scope))
        if isinstance(node.slice, ast.Slice):
            bounds = [plain(self.value(b, scope)) if b else None for b in (node.slice.lower, node.slice.upper)]
            if isinstance(owner, list | str) and all(b is None or isinstance(b, int) for b in bounds):
                return owner[bounds[0] : bounds[1]]
            return Unknown(ast.unparse(node), node.lineno)
        key = plain(self.value(node.slice, scope))
        try:
            return (
                owner[key] if isinstance(owner, dict | list | tuple | str) else Unknown(ast.unparse(node), node.lineno)
            )
        except (KeyError, IndexError, TypeError):
            return Unknown(ast.unparse(node), node.lineno)

    # ------------------------------------------------------------ calls

    def _call(self, node: ast.Call, scope: Scope) -> Any:
        name = ast.unparse(node.func)
        given = self._elements(node.args, scope)
        keywords = {item.arg: self.value(item.value, scope) for item in node.keywords if item.arg}
        if self.called(name, node, given, keywords):
            return Unknown(name, node.lineno)
        if name in self.functions:
            return self._function(self.functions[name], given, keywords)
        if isinstance(node.func, ast.Attribute):
            if node.func.attr == "add_argument":
                return add_argument(self.arguments, node, given, keywords)
            if node.func.attr in ("parse_args", "parse_known_args"):
                return self.arguments if node.func.attr == "parse_args" else [self.arguments, []]
            found = method(plain(self.value(node.func.value, scope)), node, given, keywords)
            if found is not None:
                return found[0]
        return function(name, node, given, keywords)

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, given: list[Any], keywords: dict[str, Any]
    ) -> Any:
        if self._depth >= MAX_DEPTH:
            return Unknown(node.name, node.lineno)
        names = [item.arg for item in (*node.args.posonlyargs, *node.args.args)]
        inner: Scope = {}
        for name, default in zip(reversed(names), reversed(node.args.defaults), strict=False):
            inner[name] = self.value(default, self.top)
        for item, given_default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            if given_default is not None:
                inner[item.arg] = self.value(given_default, self.top)
        inner.update(zip(names, (plain(value) for value in given), strict=False))
        inner.update(keywords)
        self._depth += 1
        try:
            self._block(node.body, inner)
        except _Return as result:
            return result.value
        finally:
            self._depth -= 1
        return None


def _items(value: Any) -> list[Item]:
    if isinstance(value, Item):
        return [value]
    return [item for item in value if isinstance(item, Item)] if isinstance(value, list | tuple) else []
