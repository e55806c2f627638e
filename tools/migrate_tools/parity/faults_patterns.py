"""Porting faults in regular expressions: a flag lost, greedy for lazy, an anchor or an optional part left out."""

from __future__ import annotations

import ast
import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as sre_parse  # type: ignore[import-not-found]
import warnings
from collections.abc import Iterator
from typing import Any

from migrate_tools.parity.mutation import Code, Edit, call_name

RE_CALLS = frozenset(["compile", "search", "match", "fullmatch", "findall", "finditer", "split", "sub", "subn"])
FLAGS = frozenset(["DOTALL", "IGNORECASE", "MULTILINE", "S", "I", "M"])
LONG = {"S": "DOTALL", "I": "IGNORECASE", "M": "MULTILINE"}
OPTIONAL = re.compile(r"\\s\*|\[[-+]{1,2}\]\?|(?<![\\\])])-\?|\\[$%]\?|\(\?:[^()]*\)\?")
"""Parts of a pattern that may be absent: blanks, signs, units, a group."""


def pattern_of(node: ast.AST) -> tuple[ast.Constant, str] | None:
    """The pattern of a call of the re module and its text, when it is a plain one."""
    if not isinstance(node, ast.Call) or call_name(node) not in RE_CALLS or not node.args:
        return None
    if not (isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") in ("re", "regex")):
        return None
    first = node.args[0]
    return (first, first.value) if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def flag_lost(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A flag of a pattern is not given."""
    if not isinstance(node, ast.Call) or call_name(node) not in RE_CALLS:
        return
    pattern = pattern_of(node)
    for holder in [*node.args[1:], *(keyword.value for keyword in node.keywords if keyword.arg == "flags")]:
        for flag in ast.walk(holder):
            if isinstance(flag, ast.Attribute) and flag.attr in FLAGS and _is_re(flag.value):
                why = _without(pattern[1], LONG.get(flag.attr, flag.attr)) if pattern is not None else ""
                yield Edit("pattern flag lost", flag, "0", why)


def _is_re(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("re", "regex")


def _without(pattern: str, flag: str) -> str:
    """Why a pattern means the same without a flag; empty when it does not."""
    tree = parsed(pattern)
    if tree is None:
        return ""
    kinds = set(_kinds(tree))
    if flag == "DOTALL" and sre.ANY not in kinds:
        return "the pattern has no dot"
    if flag == "MULTILINE" and sre.AT not in kinds:
        return "the pattern has no anchor"
    if flag == "IGNORECASE" and not kinds & {sre.LITERAL, sre.NOT_LITERAL, sre.IN, sre.RANGE}:
        return "the pattern has no letter"
    return ""


def pattern_changed(code: Code, node: ast.AST) -> Iterator[Edit]:
    """Greedy for lazy and the other way round, an anchor or an optional part left out."""
    found = pattern_of(node)
    if found is None:
        return
    place, pattern = found
    for kind, changed in pattern_variants(pattern, call_name(node)):
        if parsed(changed) is not None and changed != pattern:
            yield Edit(kind, place, literal(changed), _same_pattern(pattern, changed))


def pattern_variants(pattern: str, call: str = "search") -> Iterator[tuple[str, str]]:
    """Changed patterns and the kind of each.

    Args:
        call: the function of the re module that uses it; `match` and `fullmatch` are anchored themselves.
    """
    for found in re.finditer(r"(?<!\\)([*+])\?", pattern):
        if not _bounded(pattern, found.start()):
            yield "greedy for lazy", pattern[: found.end() - 1] + pattern[found.end() :]
    for found in re.finditer(r"(?<![\\^])\(?\.([*+])(?!\?)", pattern):
        if found.end() < len(pattern) and pattern[found.end() :].strip(")$"):
            yield "lazy for greedy", f"{pattern[: found.end()]}?{pattern[found.end() :]}"
    anchors = [r"\\b", r"(?<![\\\[])\$" if call != "fullmatch" else r"(?!)"]
    anchors += [r"(?<![\\\[])\^"] if call not in ("match", "fullmatch") else []
    for found in re.finditer("|".join(anchors), pattern):
        yield "anchor lost", pattern[: found.start()] + pattern[found.end() :]
    for found in OPTIONAL.finditer(pattern):
        inner = found.start() > 0 and found.end() < len(pattern)
        if inner or found.group() != "\\s*":  # at the ends it changes nothing but the match's own length
            yield "optional part lost", pattern[: found.start()] + pattern[found.end() :]


def _bounded(pattern: str, place: int) -> bool:
    """True where a class excludes the very character that must follow: lazy and greedy then stop at the same place."""
    before = re.search(r"\[\^((?:\\.|[^\]\\])+)\]$", pattern[:place])
    after = re.match(r"[*+]\?\)*(\\.|[^\\\[\](){}.*+?|^$])", pattern[place:])
    return bool(before and after and after.group(1) in re.findall(r"\\.|.", before.group(1), re.DOTALL))


def parsed(pattern: str) -> Any | None:
    """The pattern's tree; None when it is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return sre_parse.parse(pattern)
    except (re.error, RecursionError, OverflowError):
        return None


def _same_pattern(one: str, other: str) -> str:
    return "the two patterns are one" if repr(parsed(one)) == repr(parsed(other)) else ""


def _kinds(tree: Any) -> Iterator[Any]:
    for kind, detail in tree:
        yield kind
        for part in detail if isinstance(detail, (list, tuple)) else [detail]:
            if isinstance(part, sre_parse.SubPattern):
                yield from _kinds(part)
            elif isinstance(part, list):
                for branch in part:
                    if isinstance(branch, sre_parse.SubPattern):
                        yield from _kinds(branch)


def literal(pattern: str) -> str:
    """The pattern as source text, raw where that is possible."""
    if not pattern.endswith("\\") and "\n" not in pattern and pattern.isprintable():
        for quote in ('"', "'"):
            if quote not in pattern:
                return f"r{quote}{pattern}{quote}"
    return repr(pattern)


PATTERN_OPERATORS = (flag_lost, pattern_changed)
