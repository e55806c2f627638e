"""What a generated example may not do: import verl or the old scorer, or look at the frozen oracle.

Read from the source text: imports, names of modules and paths put together from constants, and code in strings. What
is put together at run time is seen by `watch` while the example runs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path

ORACLE_NAMES = ("oracle.json", "outcomes.jsonl", "cases.jsonl", "rows.parquet", "parity/")
IMPORTERS = frozenset({"import_module", "__import__", "find_spec", "run_module"})
LOADERS = frozenset({"spec_from_file_location", "SourceFileLoader", "run_path", "exec_module"})
RUNNERS = frozenset({"exec", "eval", "compile"})
DEEPEST = 4
"""Code in a string in a string ..."""


def check_example(example_dir: Path, old: Collection[str] = ()) -> tuple[str, ...]:
    """One line for every place in the Python files below `example_dir` that breaks the rule; empty when none does.

    Args:
        old: files of the old scorer, relative to the recipe ("recipe/x/reward.py"): neither imported nor named.
    """
    problems: list[str] = []
    for path in sorted(example_dir.rglob("*.py")):
        name = str(path.relative_to(example_dir))
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError, ValueError) as error:
            problems.append(f"{name}: cannot be parsed ({error.__class__.__name__})")
            continue
        problems += [f"{name}:{line}: {text}" for line, text in sorted(set(_Reader(old).problems(tree)))]
    return tuple(problems)


def check_module(text: str, old: Collection[str] = ()) -> tuple[str, ...]:
    """The same for the text of one module ("LINE: what it does").

    Raises:
        SyntaxError: it is not Python.
    """
    return tuple(f"{line}: {what}" for line, what in sorted(set(_Reader(old).problems(ast.parse(text)))))


def old_modules(old: Collection[str]) -> frozenset[str]:
    """Dotted names under which files of the old scorer can be imported."""
    names: set[str] = set()
    for file in old:
        parts = Path(file).with_suffix("").parts
        parts = parts[:-1] if parts[-1:] == ("__init__",) else parts
        names |= {".".join(parts[start:]) for start in range(len(parts))}
    return frozenset(name for name in names if name)


class _Reader:
    def __init__(self, old: Collection[str]) -> None:
        self._old = old
        self._modules = old_modules(old)

    def problems(self, tree: ast.AST, depth: int = 0) -> Iterator[tuple[int, str]]:
        docstrings = _docstrings(tree)
        inside = {id(child) for node in ast.walk(tree) if _joins(node) for child in ast.walk(node) if child is not node}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, f"imports {a.name}") for a in node.names if self._forbidden(a.name))
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
                yield from ((node.lineno, f"imports {name}") for name in names[:1] if self._forbidden(name))
                yield from ((node.lineno, f"imports {name}") for name in names[1:] if name in self._modules)
            elif isinstance(node, ast.Call):
                yield from self._call(node, depth)
            if isinstance(node, ast.expr) and id(node) not in docstrings and id(node) not in inside:
                yield from self._text(node)

    def _call(self, node: ast.Call, depth: int) -> Iterator[tuple[int, str]]:
        called = _called(node.func)
        first = folded(node.args[0]) if node.args else None
        if called in IMPORTERS and first is not None and self._forbidden(first):
            yield node.lineno, f"imports {first}"
        if called in LOADERS:
            texts = [folded(item) for item in (*node.args, *(word.value for word in node.keywords))]
            yield from (
                (node.lineno, f"loads {text}") for text in texts if text and (self._is_old(text) or "verl/" in text)
            )
        if called in RUNNERS and first is not None and depth < DEEPEST:
            try:
                inner = ast.parse(first)
            except (SyntaxError, ValueError):
                return
            yield from ((node.lineno, f"in a string: {text}") for _, text in self.problems(inner, depth + 1))

    def _text(self, node: ast.expr) -> Iterator[tuple[int, str]]:
        text = folded(node)
        if text is None:
            return
        for name in ORACLE_NAMES:
            if name in text:
                yield node.lineno, f"names the parity oracle ({name})"
                return

    def _forbidden(self, name: str) -> bool:
        return name.partition(".")[0] == "verl" or name in self._modules

    def _is_old(self, text: str) -> bool:
        return any(text == file or text.endswith(f"/{file}") for file in self._old)


def folded(node: ast.AST) -> str | None:
    """The text of an expression made of constants alone: literals, +, joins, formats, replace, decode; else None."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bytes):
            return node.value.decode("utf-8", "replace")
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Div):
        sides = [folded(node.left), folded(node.right)]
        separator = "/" if isinstance(node.op, ast.Div) else ""
        return None if None in sides else separator.join(side for side in sides if side is not None)
    if isinstance(node, ast.JoinedStr):
        parts = [folded(item.value) if isinstance(item, ast.FormattedValue) else folded(item) for item in node.values]
        return None if None in parts else "".join(part for part in parts if part is not None)
    if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "::-1":
        inner = folded(node.value)
        return None if inner is None else inner[::-1]
    return _folded_call(node) if isinstance(node, ast.Call) else None


def _folded_call(node: ast.Call) -> str | None:
    name = _called(node.func)
    if name == "chr" and len(node.args) == 1 and isinstance(node.args[0], ast.Constant):
        value = node.args[0].value
        return chr(value) if isinstance(value, int) and 0 <= value < 0x110000 else None
    if name in ("Path", "str") and node.args:
        parts = [folded(item) for item in node.args]
        return None if None in parts else "/".join(part for part in parts if part is not None)
    if not isinstance(node.func, ast.Attribute):
        return None
    base = folded(node.func.value)
    if base is None:
        return None
    if name == "join" and len(node.args) == 1 and isinstance(node.args[0], (ast.List, ast.Tuple)):
        parts = [folded(item) for item in node.args[0].elts]
        return None if None in parts else base.join(part for part in parts if part is not None)
    arguments = [folded(item) for item in node.args]
    if None in arguments:
        return None
    words = [item for item in arguments if item is not None]
    if name == "replace" and len(words) == 2:
        return base.replace(words[0], words[1])
    if name == "format":
        return re.sub(r"\{\d*\}", lambda _: words.pop(0) if words else "", base)
    return base if name in ("decode", "strip", "encode", "lower") else None


def _joins(node: ast.AST) -> bool:
    return isinstance(node, (ast.BinOp, ast.JoinedStr, ast.Call, ast.Subscript)) and folded(node) is not None


def _docstrings(tree: ast.AST) -> set[int]:
    return {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def _called(function: ast.AST) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
