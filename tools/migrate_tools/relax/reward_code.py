"""What the wrapper of a reward must know about the scorer: parameters, result keys, names, blocking calls."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

FOUR: Final = ("data_source", "solution_str", "ground_truth", "extra_info")
"""What a verl reward manager passes."""
BLOCKING: Final = re.compile(
    r"\brequests\.|\burlopen\(|\btime\.sleep\(|\bsubprocess\.|\bhttpx\.(get|post|Client)\b|(?<!Async)\bOpenAI\(|\bsignal\."
    r"|\bfrom time import\b.*\bsleep\b|\bopen\(|\bexec\(|\bmultiprocessing\b"
)
"""Calls that stop an event loop while they run."""


class Taken(NamedTuple):
    """Which of the four values a scorer takes."""

    names: tuple[str, ...]
    all: bool


def taken(code: str, entry: str, declared: Collection[str]) -> Taken:
    """The values to pass: those that the definition of `entry` names, all when it takes any keyword.

    Args:
        declared: parameters as the reader found them, used where `entry` is not a plain function.
    """
    names = _parameters(code, entry) or tuple(declared)
    singular = [name.removesuffix("s") if name.removesuffix("s") in FOUR else name for name in names]
    if not names or any(name.startswith("**") for name in names):
        return Taken(FOUR, True)
    found = tuple(name for name in FOUR if name in singular)
    return Taken(found, found == FOUR)


def _parameters(code: str, entry: str) -> tuple[str, ...]:
    for node in ast.parse(code).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == entry and not node.decorator_list:
            arguments = node.args
            plain = [item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
            return tuple(plain + ([f"**{arguments.kwarg.arg}"] if arguments.kwarg else []))
    return ()


def result_keys(code: str) -> dict[str, Any]:
    """Keys of the results that some branch may lack, and the value that stands for "none" (0.0, or "" for text).

    A scorer without any dict result has one key, `acc`, because a plain number is logged under that name.
    """
    keys: dict[str, Any] = {}
    complete: list[set[str]] = []
    for found in _dict_results(ast.parse(code)):
        complete.append(set(found))
        for name, value in found.items():
            if name not in keys or keys[name] == 0.0:
                keys[name] = value
    if not keys or _returns_number(code):
        keys.setdefault("acc", 0.0)
    keys.pop("score", None)
    return keys


def _dict_results(tree: ast.Module) -> Iterator[dict[str, Any]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            pairs = list(zip(node.keys, node.values, strict=True))
            named = {key.value: _nothing(value) for key, value in pairs if _is_text(key)}  # type: ignore[union-attr]
            if "score" in named:
                yield named
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
            named = {item.arg: _nothing(item.value) for item in node.keywords if item.arg}
            if "score" in named:
                yield named
    yield from _filled(tree)


def _filled(tree: ast.Module) -> Iterator[dict[str, Any]]:
    """Dicts that are filled key by key: result["score"] = ..."""
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        by_name: dict[str, dict[str, Any]] = {}
        for node in ast.walk(function):
            if not isinstance(node, ast.Assign):
                continue
            for target in node.targets:
                if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and _is_text(target.slice):
                    by_name.setdefault(target.value.id, {})[target.slice.value] = _nothing(node.value)  # type: ignore[attr-defined]
        yield from (keys for keys in by_name.values() if "score" in keys)


def _is_text(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _nothing(value: ast.expr) -> Any:
    return "" if _is_text(value) or isinstance(value, ast.JoinedStr) else 0.0


def _returns_number(code: str) -> bool:
    returns = (node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Return))
    return any(isinstance(value, ast.Constant) and type(value.value) in (int, float) for value in returns)


def lowest_score(code: str, entry: str) -> float:
    """The lowest negative number that scoring functions return, else 0.0: what a failed scorer is worth."""
    lowest = 0.0
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = [node for node in ast.walk(ast.parse(code)) if isinstance(node, kinds)]
    scoring = [node for node in functions if node.name == entry or re.search(r"score|reward", node.name)]
    for node in (inner for function in scoring for inner in ast.walk(function)):
        for value in _score_expressions(node):
            for item in ast.walk(value):
                if isinstance(item, ast.UnaryOp) and isinstance(item.op, ast.USub):
                    number = item.operand.value if isinstance(item.operand, ast.Constant) else None
                    if type(number) in (int, float) and number <= 10:  # type: ignore[operator]
                        lowest = min(lowest, -float(number))  # type: ignore[arg-type]
    return lowest


def _score_expressions(node: ast.AST) -> Iterator[ast.expr]:
    """Expressions that become a score as they stand; arithmetic and subscripts are not followed."""
    found: list[ast.expr | None] = []
    if isinstance(node, ast.Return):
        found.append(node.value)
    elif isinstance(node, ast.Assign):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        found += [node.value] if {"score", "reward"} & set(names) else []
    elif isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        found += [value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "score"]
    for value in found:
        if isinstance(value, ast.IfExp):
            yield from (value.body, value.orelse)
        elif isinstance(value, (ast.UnaryOp, ast.Constant)):
            yield value


def split_future(code: str) -> tuple[str, str]:
    """`from __future__` lines and the rest of a module."""
    lines = code.splitlines()
    future = [line for line in lines if line.startswith("from __future__ import")]
    rest = [line for line in lines if not line.startswith("from __future__ import")]
    return "\n".join(dict.fromkeys(future)), "\n".join(rest).strip("\n")


def split_imports(code: str) -> tuple[list[str], str]:
    """The import statements at the head of a code, a text each, and the rest."""
    lines = code.splitlines()
    imports: list[str] = []
    start = 0
    for node in ast.parse(code).body:
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            break
        imports.append("\n".join(lines[node.lineno - 1 : node.end_lineno]))
        start = node.end_lineno or start
    return imports, "\n".join(lines[start:]).strip("\n")


def top_names(code: str) -> frozenset[str]:
    """Names that the module level of a code binds, imports included."""
    found: set[str] = set()
    for node in ast.parse(code).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(item.asname or item.name).split(".")[0] for item in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        else:
            names = (item for item in ast.walk(node) if isinstance(item, ast.Name))
            found |= {item.id for item in names if isinstance(item.ctx, ast.Store)}
    return frozenset(found)


def module_imports(code: str) -> frozenset[str]:
    """Modules bound under their own name at module level (`import os`)."""
    return frozenset(
        item.name
        for node in ast.parse(code).body
        if isinstance(node, ast.Import)
        for item in node.names
        if item.asname is None
    )


def renamed(code: str, old: str, new: str) -> str:
    """The code with a module-level name changed; attributes and keyword arguments of that name stay."""
    tokens = list(tokenize.generate_tokens(io.StringIO(code).readline))
    lines = code.splitlines(keepends=True)
    depth, spots = 0, []
    for index, item in enumerate(tokens):
        if item.type == tokenize.OP and item.string in "([{":
            depth += 1
        elif item.type == tokenize.OP and item.string in ")]}":
            depth -= 1
        if item.type != tokenize.NAME or item.string != old:
            continue
        before = tokens[index - 1].string if index else ""
        after = tokens[index + 1].string if index + 1 < len(tokens) else ""
        if before == "." or (after == "=" and depth > 0):
            continue
        spots.append(item.start)
    for row, column in reversed(spots):
        line = lines[row - 1]
        lines[row - 1] = line[:column] + new + line[column + len(old) :]
    return "".join(lines)
