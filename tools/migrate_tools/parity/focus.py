"""What an input needs to reach and show one change of a scorer: the texts and numbers that stand round it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from migrate_tools.parity import patterns
from migrate_tools.parity.faults_patterns import RE_CALLS, parsed
from migrate_tools.parity.mutation import Code, call_name, number, text

NEAR, FAR = 24, 40
"""Texts of the change itself, and of the function round it, at most."""
FOLDED = (("ß", "ss"), ("ſ", "s"), ("ﬁ", "fi"), ("ς", "σ"), ("İ", "i"), ("A", "a"))
BLANKS = (("\t", ""), ("\n", ""), ("\u00a0", ""), (" ", ""), ("\r\n", ""), ("\u2003", " "), ("\x0b", " "))
DIGITS = (("²", "2"), ("٣", "3"), ("３", "3"), ("½", ""))
METHODS = {
    **dict.fromkeys(("lower", "upper", "casefold", "title", "swapcase"), FOLDED),
    **dict.fromkeys(("strip", "lstrip", "rstrip", "split", "splitlines"), BLANKS),
    **dict.fromkeys(("isdigit", "isdecimal", "isnumeric", "isalnum", "isalpha"), DIGITS),
}
"""What methods of a text treat as the same, or nearly."""
LATEX = {
    "frac": (
        (r"\frac{1}{2}", r"\frac12"),
        (r"\frac{3}{4}", "3/4"),
        (r"\frac{1}{2}x", r"\frac12x"),
        (r"\frac{1}{2}", ""),
    ),
    "sqrt": ((r"\sqrt{3}", r"\sqrt3"), (r"\sqrt{3}", ""), (r"\sqrt{2}+\sqrt{3}", r"\sqrt2+\sqrt3")),
    "text": ((r"5\text{ cm}", "5"), (r"\text{ab}", "ab"), (r"\text{ab}", r"\mbox{ab}")),
    "left": ((r"\left(1,2\right)", "(1,2)"),),
    "boxed": ((r"\boxed{7}", "7"),),
    "pi": ((r"\pi", "3.14"),),
}
"""Commands of LaTeX that a scorer names, in forms that mean the same, and left out."""
SPECIAL = frozenset("\\[(.*+?|^$")


def focus(code: Code, node: ast.AST, after: str, values: Sequence[str]) -> dict[str, list[Any]]:
    """Texts of the change (`near`), texts of its function (`far`), numbers of both, and `pairs` of
    texts of which one is put in the place of the other.

    Args:
        node: what is changed.
        after: what stands in its place.
        values: right answers, put into the groups of regular expressions.
    """
    before, changed = code.segment(node), _tree(after)
    own = list(ast.walk(node))
    new = list(ast.walk(changed)) if changed is not None else []
    function = code.function(node)
    around = list(ast.walk(code.statement(node)))
    wide = list(ast.walk(function)) if function is not None else []
    near = [item for item in _texts(own, values) if item not in after]
    near += [item for item in _texts(new, values) if item not in before]
    return _found(
        [*near, *_texts(own, values), *_texts(around, values)], (own, new, around, wide), (own, around, wide), values
    )


def focus_of(nodes: Sequence[ast.AST], values: Sequence[str]) -> dict[str, list[Any]]:
    """The same for a change that is not one place: everything that stands in its nodes is near."""
    return _found(_texts(nodes, values), (nodes,), (nodes,), values)


def _found(
    near: Iterable[str],
    counted: Sequence[Sequence[ast.AST]],
    paired: Sequence[Sequence[ast.AST]],
    values: Sequence[str],
) -> dict[str, list[Any]]:
    return {
        "near": list(dict.fromkeys(near))[:NEAR],
        "far": list(dict.fromkeys(_texts(paired[-1], values)))[:FAR],
        "numbers": list(dict.fromkeys(item for nodes in counted for item in _numbers(nodes)))[:NEAR],
        "pairs": list(dict.fromkeys(item for nodes in paired for item in _pairs(nodes, values)))[:FAR],
    }


def _tree(source: str) -> ast.AST | None:
    try:
        return ast.parse(source)
    except SyntaxError:
        return None


def _texts(nodes: Sequence[ast.AST], values: Sequence[str]) -> Iterator[str]:
    """Plain texts among nodes; texts that the regular expressions among them match."""
    calls = [node for node in nodes if isinstance(node, ast.Call) and node.args and call_name(node) in RE_CALLS]
    in_calls = {id(node.args[0]) for node in calls}
    for node in nodes:
        string = text(node)
        if not string or len(string) > 200:
            continue
        if (id(node) in in_calls or "\\" in string) and set(string) & SPECIAL and parsed(string) is not None:
            yield from _matched(string, tuple(values[:2]))
        if id(node) not in in_calls:
            yield string


@lru_cache(maxsize=2000)
def _matched(pattern: str, values: tuple[str, ...]) -> tuple[str, ...]:
    """Texts that a pattern matches, with values in its groups and without."""
    filled = [patterns.filled(pattern, value, turn) for turn in range(5) for value in values]
    made = dict.fromkeys([*(text for text in filled if text is not None), *patterns.plain(pattern)])
    return tuple(dict.fromkeys([*made, *(text + text[-1:] for text in made)]))


def _pairs(nodes: Sequence[ast.AST], values: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Texts that the scorer puts in the place of others: calls of replace and sub, tables of two columns."""
    for string in map(text, nodes):
        if string and "\\" in string:
            yield from LATEX.get(string.strip("\\{} "), ())
    for node in nodes:
        parts = node.args if isinstance(node, ast.Call) else getattr(node, "elts", ())
        texts = [text(part) for part in parts]
        name = call_name(node)
        yield from METHODS.get(name, ())
        if name in ("sub", "subn") and len(texts) >= 2 and texts[0] is not None and texts[1] is not None:
            yield from _rewritten(texts[0], texts[1], tuple(values[:2]))
        elif (name == "replace" or isinstance(node, (ast.Tuple, ast.List))) and len(texts) >= 2:
            if texts[0] and texts[1] is not None and (name or len(texts) == 2):
                yield texts[0], texts[1]
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                one, other = text(key), text(value)
                if one and other is not None:
                    yield one, other


@lru_cache(maxsize=500)
def _rewritten(pattern: str, replacement: str, values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(patterns.rewritten(pattern, replacement, values))


def _numbers(nodes: Sequence[ast.AST]) -> Iterator[float | int]:
    for node in nodes:
        value = number(node)
        if value is not None:
            yield value
