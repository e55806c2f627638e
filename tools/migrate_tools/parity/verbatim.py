"""Where a draft's reward differs from the one that the rules write: changed versions that lead the search.

A model's edit, or a user's, is text that the frozen cases were not made for. Each difference undone, and the rules'
module whole, is one changed version of the draft. An input on which the rules' module and the draft part is put to both
sides as a follow-up case; it alone decides nothing. Syntax trees are compared, so comments and layout do not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain
from typing import Any

from migrate_tools.parity.focus import focus, focus_of
from migrate_tools.parity.mutation import FUNCTIONS, Code, Edit, Fault, is_text_statement

MOST = 40
"""Differences that are undone one by one; the module as a whole is tried always."""
EFFORT = 5.0
"""Tries for the whole module, in those that one version has in the search before the comparison; the differences
share as many again."""
OPERATOR = "difference from the rules' module"
LIST_KINDS = frozenset({"group order", "only the first of a list"})
"""Faults that may show only when a list of samples is rewarded."""


@dataclass(frozen=True)
class Leads:
    """Changed versions as `power_side` takes them, and how many places differ."""

    versions: tuple[dict[str, Any], ...] = ()
    places: int = 0


def leads(code: Code, rules: str, values: Sequence[str]) -> Leads:
    """Versions of the draft on the way back to the rules' module; none where both say the same.

    Args:
        rules: text of the module that the rules write.
        values: right answers, put into the groups of regular expressions.
    """
    try:
        other = Code(rules)
    except (SyntaxError, ValueError):
        return Leads()  # a draft that mends it has nothing to part from
    if _without_texts(code.source) == _without_texts(rules):
        return Leads()
    pairs = list(_joined(code, other, _differing(code.tree, other.tree)))
    undone = [fault for pair in pairs[:MOST] if (fault := _undone(code, other, *pair)) is not None]
    share = max(1.0, EFFORT / max(1, len(undone)))
    parts = [{**version(code, fault, values), "whole": rules, "effort": share} for fault in undone]
    around = focus_of([*_changed(code, other), *_changed(other, code)], values)
    whole = {"source": rules, "lines": [], "lists": True, "span": (0, 0), "text": "", "probe": None, "focus": around}
    return Leads((*parts, {**whole, "effort": EFFORT}), len(pairs))


def version(code: Code, fault: Fault, values: Sequence[str]) -> dict[str, Any]:
    """One changed module as `power_side` takes it: its text, where it was changed, and what matters there."""
    place = {"span": code.span(fault.node), "text": fault.after, "probe": code.probe(fault.node)}
    around = {"focus": focus(code, fault.node, fault.after, values)}
    return {"source": fault.source, "lines": fault.lines, "lists": fault.operator in LIST_KINDS, **place, **around}


def _joined(code: Code, other: Code, pairs: Iterable[tuple[ast.AST, ast.AST]]) -> Iterator[tuple[ast.AST, ast.AST]]:
    """The pairs; those of one statement as the smallest pair that holds them: they may only mean something together."""
    found: dict[ast.AST, list[tuple[ast.AST, ast.AST]]] = {}
    for node, original in pairs:
        holds = next((item for item in (node, *code.above(node)) if isinstance(item, ast.stmt)), node)
        found.setdefault(holds, []).append((node, original))
    for several in found.values():
        node, original = several[0]
        rest = {item for item, _ in several[1:]}
        while not rest <= {*ast.walk(node)}:
            node, original = code.parents[node], other.parents[original]
        yield node, original


def _undone(code: Code, other: Code, node: ast.AST, original: ast.AST) -> Fault | None:
    """The draft with one difference undone; None where that is no Python."""
    while not hasattr(node, "lineno") or not hasattr(original, "lineno"):
        above, before = code.parents.get(node), other.parents.get(original)
        if above is None or before is None:
            return None
        node, original = above, before
    return code.apply(Edit(OPERATOR, node, other.segment(original)))


def _differing(one: ast.AST, other: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """The smallest pairs of nodes in the same place that differ."""
    if _same(one, other):
        return
    inner = None if isinstance(one, ast.JoinedStr) else _inner(one, other)
    if inner is None:
        yield one, other
    else:
        yield from chain.from_iterable(_differing(*pair) for pair in inner)


def _inner(one: ast.AST, other: ast.AST) -> list[tuple[ast.AST, ast.AST]] | None:
    """Pairs of children to look into; None where the nodes themselves differ."""
    if type(one) is not type(other):
        return None
    pairs: list[tuple[ast.AST, ast.AST]] = []
    for name in one._fields:
        left, right = getattr(one, name, None), getattr(other, name, None)
        if isinstance(left, list) and isinstance(right, list):
            aligned = _aligned(one, left, right)
            if aligned is None:
                return None
            pairs += aligned
        elif isinstance(left, ast.AST) and isinstance(right, ast.AST):
            pairs.append((left, right))
        elif left != right or type(left) is not type(right):
            return None
    return pairs


def _aligned(parent: ast.AST, left: list[Any], right: list[Any]) -> list[tuple[ast.AST, ast.AST]] | None:
    """Pairs of two lists of nodes; None where one has what the other lacks (a module's own are found by name)."""
    if isinstance(parent, ast.Module):
        named = {_name(node): node for node in right if _name(node)}
        return [(node, named[_name(node)]) for node in left if _name(node) in named]
    if len(left) == len(right):
        if all(isinstance(item, ast.AST) for item in (*left, *right)):
            return list(zip(left, right, strict=True))
        return [] if left == right else None
    blocks = SequenceMatcher(None, [_dump(item) for item in left], [_dump(item) for item in right], autojunk=False)
    pairs: list[tuple[ast.AST, ast.AST]] = []
    for tag, start, end, first, last in blocks.get_opcodes():
        if tag in ("insert", "delete") or tag == "replace" and end - start != last - first:
            return None
        pairs += zip(left[start:end], right[first:last], strict=True) if tag == "replace" else ()
    return pairs


def _changed(code: Code, other: Code) -> list[ast.AST]:
    """Nodes of the functions and constants of one module that the other has not or has otherwise."""
    known = {_dump(node) for node in other.tree.body}
    return [item for node in code.tree.body if _dump(node) not in known for item in ast.walk(node)]


class _Texts(ast.NodeTransformer):
    """Takes docstrings out."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return ast.Pass() if is_text_statement(node) else node


def _without_texts(source: str) -> str:
    return ast.dump(_Texts().visit(ast.parse(source)))


def _name(node: ast.AST) -> str:
    """What a statement of a module defines."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return node.name
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return targets[0].id if isinstance(targets[0], ast.Name) else ""


def _same(one: ast.AST, other: ast.AST) -> bool:
    return _dump(one) == _dump(other) or is_text_statement(one) and is_text_statement(other)


def _dump(node: Any) -> str:
    return ast.dump(node) if isinstance(node, ast.AST) else repr(node)
