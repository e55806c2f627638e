"""Decides simple shell conditions without running them."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from typing import TypeAlias

from migrate_tools.verl.shelltree import Node, Script
from migrate_tools.verl.symbolic import Piece, static

Expand: TypeAlias = Callable[[list[Node] | None, Script, bool], tuple[Piece, ...]]
"""Turns word parts into pieces."""


def decide(pieces: Expand, statements: list[Node], script: Script) -> bool | None:
    """Whether a condition holds when nobody sets a variable from outside; None when only a run can tell."""
    if len(statements) != 1 or not statements[0].get("Cmd"):
        return None
    result = _command(pieces, statements[0]["Cmd"], script)
    return result if result is None or not statements[0].get("Negated") else not result


def _command(pieces: Expand, command: Node, script: Script) -> bool | None:
    kind = command["Type"]
    if kind == "BinaryCmd":
        first, second = decide(pieces, [command["X"]], script), decide(pieces, [command["Y"]], script)
        return _combine(
            "&&" in script.between(command["X"]["End"]["Offset"], command["Y"]["Pos"]["Offset"]), first, second
        )
    if kind == "Block" and len(command.get("Stmts") or []) == 1:
        return decide(pieces, command["Stmts"], script)
    if kind == "TestClause":
        return _expression(pieces, command["X"], script)
    if kind == "CallExpr" and command.get("Args"):
        words = [static(pieces(w.get("Parts"), script, False)) for w in command["Args"]]
        if words[0] in ("true", ":"):
            return True
        if words[0] == "false":
            return False
        if words[0] in ("[", "test"):
            return _simple_test(words[1:-1] if words[0] == "[" else words[1:])
    return None


def _expression(pieces: Expand, node: Node, script: Script) -> bool | None:
    kind = node.get("Type")
    if kind == "ParenTest":
        return _expression(pieces, node["X"], script)
    if kind == "UnaryTest":
        operator = script.between(node["Pos"]["Offset"], node["X"]["Pos"]["Offset"]).strip()
        if operator == "!":
            inner = _expression(pieces, node["X"], script)
            return None if inner is None else not inner
        return _simple_test([operator, _text_of(pieces, node["X"], script)])
    if kind == "BinaryTest":
        operator = script.between(node["X"]["End"]["Offset"], node["Y"]["Pos"]["Offset"]).strip()
        if operator in ("&&", "||"):
            both = _expression(pieces, node["X"], script), _expression(pieces, node["Y"], script)
            return _combine(operator == "&&", *both)
        left, right = _text_of(pieces, node["X"], script), _text_of(pieces, node["Y"], script)
        if operator in ("==", "=", "!=") and left is not None and right is not None:
            return fnmatch.fnmatchcase(left, right) == (operator != "!=")
        return _simple_test([left, operator, right])
    text = _text_of(pieces, node, script)
    return None if text is None else bool(text)


def _text_of(pieces: Expand, node: Node, script: Script) -> str | None:
    return static(pieces(node.get("Parts"), script, False))


def _combine(conjunction: bool, first: bool | None, second: bool | None) -> bool | None:
    if conjunction:
        return False if first is False or second is False else (True if first and second else None)
    return True if first or second else (False if first is False and second is False else None)


def _simple_test(words: list[str | None]) -> bool | None:
    """`[ ... ]` with one operator; None when a word is unknown or a file is asked for."""
    if words[:1] == ["!"]:
        inner = _simple_test(words[1:])
        return None if inner is None else not inner
    if any(word is None for word in words):
        return None
    texts = [word or "" for word in words]
    if len(texts) == 1:
        return bool(texts[0])
    if len(texts) == 2:
        return {"-n": bool(texts[1]), "-z": not texts[1]}.get(texts[0])
    if len(texts) != 3:
        return None
    left, operator, right = texts
    if operator in ("=", "==", "!="):
        return (left == right) == (operator != "!=")
    try:
        order = int(left) - int(right)
    except ValueError:
        return None
    return {
        "-eq": order == 0,
        "-ne": order != 0,
        "-gt": order > 0,
        "-ge": order >= 0,
        "-lt": order < 0,
        "-le": order <= 0,
    }.get(operator)
