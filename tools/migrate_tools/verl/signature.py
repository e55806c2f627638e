"""How a function of a module text can be called, and whether calling it gives something to await."""

from __future__ import annotations

import ast
from typing import NamedTuple

CALL_KEYWORDS = ("data_source", "solution_str", "ground_truth", "extra_info")
"""Keywords with which every verl reward manager since 0.2 calls the scorer."""


class Signature(NamedTuple):
    """Parameters of a function."""

    parameters: tuple[str, ...]
    """In order; "*x" and "**x" as written."""
    required: tuple[str, ...]
    """Without a default."""

    def missing_for(self, keywords: tuple[str, ...]) -> tuple[str, ...]:
        """Which of `keywords` the function does not take."""
        if any(name.startswith("**") for name in self.parameters):
            return ()
        return tuple(word for word in keywords if word not in self.parameters)

    def unfilled_by(self, keywords: tuple[str, ...]) -> tuple[str, ...]:
        """Required parameters that `keywords` do not fill."""
        return tuple(name for name in self.required if name not in keywords)


def read_signature(arguments: ast.arguments, *, bound: bool = False) -> Signature:
    """The signature of a def; `bound` leaves `self` out."""
    positional = [*arguments.posonlyargs, *arguments.args]
    without = len(positional) - len(arguments.defaults)
    names = [item.arg for item in positional]
    required = names[:without]
    if bound:
        names, required = names[1:], required[1:]
    if arguments.vararg:
        names.append(f"*{arguments.vararg.arg}")
    for item, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        names.append(item.arg)
        if default is None:
            required.append(item.arg)
    if arguments.kwarg:
        names.append(f"**{arguments.kwarg.arg}")
    return Signature(tuple(names), tuple(required))


def _top_level(tree: ast.Module) -> dict[str, ast.stmt]:
    found: dict[str, ast.stmt] = {}

    def collect(body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found[node.name] = node
            elif isinstance(node, ast.Assign):
                found.update({target.id: node for target in node.targets if isinstance(target, ast.Name)})
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                found[node.target.id] = node
            elif isinstance(node, ast.If):
                collect(node.body)
                collect(node.orelse)
            elif isinstance(node, ast.Try):
                collect(node.body)

    collect(tree.body)
    return found


class Callables:
    """The top-level names of a module text, and what calling one means."""

    def __init__(self, code: str) -> None:
        self._names = _top_level(ast.parse(code))

    def signature(self, name: str) -> Signature | None:
        """Signature of a function, of a class instance's `__call__`, or of what a partial wraps; None when unclear."""
        node = self._definition(name)
        if isinstance(node, ast.ClassDef):
            method = _method(node, "__call__")
            return read_signature(method.args, bound=True) if method else None
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return read_signature(node.args)
        return None

    def is_awaitable(self, name: str, depth: int = 0) -> bool:
        """Whether calling the name gives a coroutine."""
        node = self._definition(name)
        if depth > 10 or node is None:
            return False
        if isinstance(node, ast.ClassDef):
            return isinstance(_method(node, "__call__"), ast.AsyncFunctionDef)
        if isinstance(node, ast.AsyncFunctionDef):
            return not any(self._runs_to_the_end(item) for item in node.decorator_list)
        if isinstance(node, ast.FunctionDef):
            return self._returns_awaitable(node, depth)
        return False

    def _definition(self, name: str, depth: int = 0) -> ast.stmt | None:
        node = self._names.get(name)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and depth < 10:
            return self._assigned(node.value, depth)
        return node

    def _assigned(self, value: ast.expr, depth: int) -> ast.stmt | None:
        if isinstance(value, ast.Name):
            return self._definition(value.id, depth + 1)
        if isinstance(value, ast.Call):
            called = value.func
            is_partial = isinstance(called, ast.Name | ast.Attribute) and ast.unparse(called).endswith("partial")
            if value.args and isinstance(value.args[0], ast.Name) and (is_partial or not self._is_class(called)):
                return self._definition(value.args[0].id, depth + 1)
            if isinstance(called, ast.Name):
                return self._definition(called.id, depth + 1)
        return None

    def _is_class(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and isinstance(self._names.get(node.id), ast.ClassDef)

    def _returns_awaitable(self, node: ast.FunctionDef, depth: int) -> bool:
        """A plain def that returns the coroutine of an async function without awaiting it."""
        inner = {item.name: item for item in ast.walk(node) if isinstance(item, ast.AsyncFunctionDef)}
        for item in _own_returns(node):
            if isinstance(item.value, ast.Call) and isinstance(item.value.func, ast.Name):
                called = item.value.func.id
                if called in inner or (called != node.name and self.is_awaitable(called, depth + 1)):
                    return True
        return False

    def _runs_to_the_end(self, decorator: ast.expr) -> bool:
        """Whether a decorator of the module turns a coroutine function into a plain one (`asyncio.run` inside)."""
        name = decorator.func if isinstance(decorator, ast.Call) else decorator
        node = self._names.get(name.id) if isinstance(name, ast.Name) else None
        if not isinstance(node, ast.FunctionDef):
            return False
        text = ast.unparse(node)
        return "asyncio.run(" in text or "run_until_complete(" in text


def returns_awaitable(code: str, name: str) -> bool:
    """Whether calling a top-level name of a module text gives something to await."""
    return Callables(code).is_awaitable(name)


def _method(node: ast.ClassDef, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    for item in node.body:
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and item.name == name:
            return item
    return None


def _own_returns(node: ast.FunctionDef) -> list[ast.Return]:
    found: list[ast.Return] = []
    stack: list[ast.AST] = list(node.body)
    while stack:
        item = stack.pop()
        if isinstance(item, ast.Return):
            found.append(item)
        elif not isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            stack.extend(ast.iter_child_nodes(item))
    return found


def is_selector_node(node: ast.FunctionDef) -> bool:
    """Whether a function takes a data_source alone and returns a scorer (the 0.0.2-0.1 forks)."""
    if [item.arg for item in node.args.args] != ["data_source"]:
        return False
    returned = [item.value for item in ast.walk(node) if isinstance(item, ast.Return) and item.value is not None]
    return bool(returned) and all(isinstance(item, ast.Attribute | ast.Name) for item in returned)


def is_selector(code: str, name: str) -> bool:
    """Whether a top-level function of a module text is a selector."""
    return any(
        isinstance(node, ast.FunctionDef) and node.name == name and is_selector_node(node)
        for node in ast.parse(code).body
    )


def selector_name(code: str) -> str | None:
    """Name of the first top-level selector of a module text."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return None
    return next((node.name for node in tree.body if isinstance(node, ast.FunctionDef) and is_selector_node(node)), None)
