"""What an edit of a Python file may not bring in, compared with the first draft and the recipe's own code."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from migrate_tools.parity.guard import check_module, folded

from migrate_agent.llm.handlers import Handlers, broad_handlers, widened
from migrate_agent.llm.python_uses import COMPUTING, PARTLY, imports, is_power, uses

LONG_LITERAL = 8
"""From this many characters on, a text of the frozen inputs in the code is no accident."""
TABLE = 3
"""So many new literals that are whole values of the frozen inputs are a table of them."""
_HIDDEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\x00]")
_CODING = re.compile(r"^[ \t\f]*#.*?coding[:=]", re.MULTILINE)
_ADDRESS = re.compile(r"\b(?:https?|ftp|file|wss?)://")
_PLACE = re.compile(r"^(?:/|~)[\w.]|\.\./|(?:^|/)migration/|^/proc|^/dev")
_BROAD_LINE = re.compile(r"\s*except\s*(?::|\(?(?:\w+, *)*(?:Base)?Exception\b)")
_KEYWORD = re.compile(r"\b(?:return|await|yield|in|not|and|or|if|else|lambda|raise|with|assert|except)\s+")
_DUNDER = re.compile(r"__[A-Za-z]+__")


@dataclass(frozen=True)
class Frozen:
    """Texts of the frozen inputs: responses, and whole values of the rows."""

    texts: tuple[str, ...] = ()
    values: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Allowed:
    """What the original does, and so its port may do."""

    originals: tuple[str, ...]
    """Module texts: the file as first drafted, and the recipe's code that it comes from."""
    own: frozenset[str] = frozenset()
    """Dotted names of the example's modules."""
    old: tuple[str, ...] = ()
    """Files of the old scorer."""
    frozen: Frozen = Frozen()


def python_problems(text: str, allowed: Allowed) -> list[str]:
    """One line for every thing that an edited module may not do; empty when it may stay."""
    if problem := _unreadable(text):
        return [problem]
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [f"{getattr(error, 'lineno', None) or 1}: not Python: {error.args[0] if error.args else error}"]
    originals = [parsed for item in allowed.originals if (parsed := _parsed(item)) is not None]
    broken = "\n".join(item for item in allowed.originals if _parsed(item) is None)
    found = [
        *_imports(tree, originals, allowed.own, broken),
        *_uses(tree, originals, broken),
        *widened(broad_handlers(tree), _joined_handlers(originals, broken)),
        *_literals(tree, originals, allowed, broken),
    ]
    lines = [f"{line}: {what}" for line, what in sorted(set(found))]
    return [*lines, *(line for line in check_module(text, allowed.old) if line not in lines)]


def _unreadable(text: str) -> str:
    if match := _HIDDEN.search(text.removeprefix("\ufeff")):
        return f"{text.count(chr(10), 0, match.start()) + 1}: a character that cannot be seen"
    head = "\n".join(text.split("\n")[:2])
    return "1: names an encoding of its own" if _CODING.search(head) else ""


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _imports(
    tree: ast.Module, originals: Iterable[ast.Module], own: Collection[str], broken: str
) -> Iterator[tuple[int, str]]:
    known = {name for item in originals for _, name in imports(item)}
    known |= set(re.findall(r"^[ \t]*(?:import|from)[ \t]+([\w.]+)", broken, re.MULTILINE))
    for line, name in imports(tree):
        root = name.partition(".")[0]
        inside = name in own or (name.startswith(".") and any(item.endswith(f".{name.strip('.')}") for item in own))
        computing = root in COMPUTING | set(PARTLY) and not (root in COMPUTING and is_power(name))
        if name not in known and not inside and not computing:
            yield line, f"imports {name}, which the original does not"


def _uses(tree: ast.Module, originals: Iterable[ast.Module], broken: str) -> Iterator[tuple[int, str]]:
    known = {text for item in originals for text in uses(item)}
    bare = _bare(broken)
    for text, line in uses(tree).items():
        if text not in known and not _stands_in(_bare(text), bare):
            yield line, f"`{text[:120]}` is not in the original"


def _stands_in(use: str, bare: str) -> bool:
    """Whether a use stands in the bare text of a draft; a short one as a whole word."""
    before = r"(?<!\.)" if len(use) >= LONG_LITERAL else r"(?<![\w.])"
    after = "" if use.endswith((")", "]")) or use.startswith("from") else r"(?![\w.(])"
    return bool(bare) and re.search(before + re.escape(use) + after, bare) is not None


def _bare(text: str) -> str:
    """A text without blanks and quotes: how something is found again in code that cannot be parsed."""
    return re.sub(r"[\s\"'\\]|\.\.\.$", "", _KEYWORD.sub(";", text))


def _joined_handlers(originals: Iterable[ast.Module], broken: str) -> Handlers:
    joined = Handlers()
    for item in originals:
        found = broad_handlers(item)
        joined.count |= found.count
        joined.inside |= found.inside
        joined.outside |= found.outside
    name = ""
    for line in broken.splitlines():
        if match := re.match(r"\s*(?:async\s+)?def\s+(\w+)", line):
            name = match[1]
        joined.count[name] += bool(_BROAD_LINE.match(line))
    return joined


def _literals(
    tree: ast.Module, originals: Iterable[ast.Module], allowed: Allowed, broken: str
) -> Iterator[tuple[int, str]]:
    known = "\n".join([*(text for item in originals for _, text in _texts(item)), broken])
    numbers = {str(value) for item in originals for _, value in _numbers(item)}
    new = [(line, text) for line, text in _texts(tree) if text and text not in known]
    for line, text in new:
        if _ADDRESS.search(text):
            yield line, f"names an address that the original does not: {text[:60]!r}"
        elif _PLACE.search(text):
            yield line, f"names a path that the original does not: {text[:60]!r}"
        elif _DUNDER.search(text):
            yield line, f"names an internal of Python in a text: {text[:60]!r}"
        elif len(text.strip()) >= LONG_LITERAL and any(text.strip() in item for item in allowed.frozen.texts):
            yield line, f"holds a text of the frozen inputs: {text[:60]!r}"
    whole = [(line, text) for line, text in new if text.strip() in allowed.frozen.values]
    whole += [
        (line, str(value))
        for line, value in _numbers(tree)
        if str(value) not in numbers and str(value) in allowed.frozen.values and abs(value) > 1
    ]
    if len({text for _, text in whole}) >= TABLE:
        yield whole[0][0], f"holds {len(whole)} whole values of the frozen inputs"


def _texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every string that stands in the code or is put together from constants; no docstrings."""
    skipped: set[int] = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if id(node) in skipped or not isinstance(node, ast.expr):
            continue
        text = folded(node)
        if text is not None:
            yield node.lineno, text


def _numbers(tree: ast.AST) -> Iterator[tuple[int, float]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield node.lineno, node.value  # type: ignore[misc]
