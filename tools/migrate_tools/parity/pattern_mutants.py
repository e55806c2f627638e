"""Mutants of a regular expression: every part of it left out, repeated otherwise or narrowed, one at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator

TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?(?:P?<\w+>|P=\w+\)|<?[=!]|[a-zA-Z-]*:|[a-zA-Z]+\))|[*+?][?+]?|\{\d*,?\d*\}\??|.",
    re.DOTALL,
)
REPEAT = re.compile(r"[*+?][?+]?|\{\d*,?\d*\}\??")
OTHER_REPEATS = {"*": ("+", "?"), "+": ("*", ""), "?": ("", "*"), "*?": ("*",), "+?": ("+",), "??": ("?",)}
NARROWED = {"\\d": ("[0-9]",), "\\s": (" ",), "\\w": ("[a-z]", "[A-Za-z]"), "\\S": ("\\w",), ".": ("\\w",)}
ANCHORS = frozenset({"^", "$", "\\b", "\\B", "\\A", "\\Z"})


def pattern_mutants(pattern: str) -> Iterator[str]:
    """Changed patterns; some of them may be no pattern, and some may match the same texts."""
    tokens = TOKEN.findall(pattern)
    for place, token in enumerate(tokens):
        before, after = "".join(tokens[:place]), "".join(tokens[place + 1 :])
        if place and REPEAT.fullmatch(token):
            for other in OTHER_REPEATS.get(token, ("", "+")):
                yield before + other + after
        elif token[0] == "[" and len(token) > 2:
            for changed in _classes(token):
                yield before + changed + after
        elif token.isalnum() and place + 1 < len(tokens) and tokens[place + 1].isalnum():
            continue  # of a word only the last letter
        elif token[0] not in "()|" or token in ANCHORS:
            for other in NARROWED.get(token, ()):
                yield before + other + after
            following = tokens[place + 1] if place + 1 < len(tokens) else ""
            if token not in ANCHORS and REPEAT.fullmatch(following):
                after = "".join(tokens[place + 2 :])
            yield before + after
    yield from _groups(tokens)


def _classes(token: str) -> Iterator[str]:
    """The class without one of its members, or turned round."""
    inner = token[1:-1]
    sign, inner = ("^", inner[1:]) if inner[:1] == "^" else ("", inner)
    members = re.findall(r"\\.-\\.|[^\\]-[^\]\\]|\\.|.", inner, re.DOTALL)
    for place in range(len(members)) if len(members) > 1 else ():
        yield f"[{sign}{''.join(members[:place] + members[place + 1 :])}]"
    for place, member in enumerate(members):
        if len(member) == 3 and member[1] == "-" and member[0] != member[2]:
            shorter = f"{member[:2]}{chr(ord(member[2]) - 1)}"
            yield f"[{sign}{''.join([*members[:place], shorter, *members[place + 1 :]])}]"
    if len(members) == 1 and members[0] in NARROWED:
        yield from NARROWED[members[0]]


def _groups(tokens: list[str]) -> Iterator[str]:
    """An optional group left out or made necessary, and every branch of an alternative left out."""
    opened: list[int] = [-1]
    bars: list[list[int]] = [[]]
    for place, token in enumerate([*tokens, ")"]):
        if token.startswith("(") and not token.endswith(")"):
            opened.append(place)
            bars.append([])
        elif token == "|":
            bars[-1].append(place)
        elif token == ")":
            start = opened.pop() if opened else -1
            cuts = [start, *bars.pop(), place] if bars else [start, place]
            for one, two in zip(cuts, cuts[1:], strict=False) if len(cuts) > 2 else ():
                kept = tokens[: one + 1] + tokens[two + 1 :] if one == start else tokens[:one] + tokens[two:]
                yield "".join(kept)
            if start >= 0 and not bars:
                bars.append([])
            following = tokens[place + 1] if place + 1 < len(tokens) else ""
            if start >= 0 and REPEAT.fullmatch(following):
                yield "".join(tokens[:start] + tokens[place + 2 :])
