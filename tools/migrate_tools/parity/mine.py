"""What a scorer's source says about the texts it looks for: literals, patterns, keys, limits."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from migrate_tools.parity.answer_shapes import Shape, answer_shapes
from migrate_tools.verl.secrets import redact

LITERALS = 60
PATTERNS = 24
TAG = re.compile(r"</?([A-Za-z][\w-]*)>")
TAGS = 6
RE_CALLS = frozenset(["compile", "search", "match", "fullmatch", "findall", "finditer", "split", "sub", "subn"])
RE_CHANGES = ("split", "sub", "subn")
MESSAGES = ("print", "warning", "error", "info", "debug", "warn")


@dataclass(frozen=True)
class Mined:
    """Facts from the source of a scorer, in order of appearance."""

    literals: tuple[str, ...] = ()
    """Short string constants that may stand in a response (docstrings, messages and credentials left out)."""
    patterns: tuple[str, ...] = ()
    """Regular expressions that compile."""
    keys: tuple[str, ...] = ()
    """Names used as dictionary keys or with .get()."""
    numbers: tuple[int, ...] = ()
    """Whole numbers from 8 to 20000: clip lengths, limits."""
    counted: tuple[str, ...] = ()
    """Texts that are counted in a response: `text.count("</answer>")`."""
    sought: tuple[str, ...] = ()
    """Those of the patterns that are looked for, not replaced or split at."""
    shapes: tuple[Shape, ...] = ()
    """Values that are read from the answers of a server."""

    @property
    def tags(self) -> tuple[str, ...]:
        """Names of the markup tags that the scorer looks for, in order of appearance."""
        found = (name for text in (*self.literals, *self.patterns) for name in TAG.findall(text))
        return tuple(dict.fromkeys(found))[:TAGS]


def mine(sources: Iterable[str]) -> Mined:
    """Reads every source text that parses; one that does not adds nothing."""
    literals: dict[str, None] = {}
    patterns: dict[str, None] = {}
    sought: dict[str, None] = {}
    keys: dict[str, None] = {}
    numbers: dict[int, None] = {}
    counted: dict[str, None] = {}
    texts = list(sources)
    for source in texts:
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            continue
        skipped = _not_texts(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                _call(node, patterns, sought, keys)
                counted.update(dict.fromkeys(_counted(node)))
            elif isinstance(node, ast.Subscript) and _is_text(node.slice):
                keys.setdefault(node.slice.value)  # type: ignore[attr-defined]
            elif isinstance(node, ast.Constant) and id(node) not in skipped:
                _constant(node.value, literals, numbers)
    return Mined(
        tuple(literals)[:LITERALS],
        tuple(patterns)[:PATTERNS],
        tuple(keys)[:LITERALS],
        tuple(numbers)[:LITERALS],
        tuple(counted),
        tuple(sought)[:PATTERNS],
        answer_shapes(texts),
    )


def _not_texts(tree: ast.AST) -> set[int]:
    """Constants that no response contains: docstrings, messages of raise, print and logging."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts = [node.value]
        elif (
            isinstance(node, ast.Raise)
            or isinstance(node, ast.Call)
            and _name(node.func) in ("print", "warning", "error", "info", "debug", "warn")
        ):
            parts = [node]
        for part in parts:
            skipped.update(id(child) for child in ast.walk(part))
    return skipped


def _call(node: ast.Call, patterns: dict[str, None], sought: dict[str, None], keys: dict[str, None]) -> None:
    name = _name(node.func)
    first = node.args[0] if node.args else None
    if name in RE_CALLS and first is not None:
        text = _literal_text(first)
        if text and _compiles(text) and set(text) & set("\\[(.*+?|^$"):
            patterns.setdefault(text)
            if name not in RE_CHANGES:
                sought.setdefault(text)
    elif name in ("get", "pop") and first is not None and _is_text(first):
        keys.setdefault(first.value)  # type: ignore[attr-defined]


def _counted(node: ast.Call) -> list[str]:
    if _name(node.func) != "count" or len(node.args) != 1 or not isinstance(node.func, ast.Attribute):
        return []
    text = _literal_text(node.args[0])
    return [text] if text.strip() else []


def _constant(value: object, literals: dict[str, None], numbers: dict[int, None]) -> None:
    if isinstance(value, str):
        if value.strip() and len(value) <= 60 and value.count("\n") < 3 and redact(value) == value:
            literals.setdefault(value)
    elif isinstance(value, int) and not isinstance(value, bool) and 8 <= abs(value) <= 20_000:
        numbers.setdefault(abs(value))


def _literal_text(node: ast.AST) -> str:
    """Text of a constant or of an f-string with its holes filled by a letter."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
    if isinstance(node, ast.BinOp):
        return _literal_text(node.left) + _literal_text(node.right)
    return ""


def _compiles(pattern: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
