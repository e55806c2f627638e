"""Answers that are hard to compare, from hard_answers.tsv: right answers, equal ways to write them, near misses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

FILE = "hard_answers.tsv"
BETWEEN = " ;; "


class Hard(NamedTuple):
    """One right answer with answers that are equal to it and answers that are not."""

    kind: str
    """number, math, choice or words."""
    gold: str
    equal: tuple[str, ...]
    different: tuple[str, ...]


@cache
def hard_answers() -> tuple[Hard, ...]:
    """All of them, in the order of the file."""
    text = (files("migrate_tools.parity") / FILE).read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    return tuple(Hard(kind, gold, _several(equal), _several(different)) for kind, gold, equal, different in rows)


def kind_of(answer: str) -> str:
    """Which kind of hard answer suits a row with this answer; "other" for long or structured ones."""
    text = answer.strip()
    if len(text) > 80 or "\n" in text or text[:1] in "[{" and '"' in text:
        return "other"
    if re.fullmatch(r"\\?\$?[-+]?[\d,]*\.?\d+\\?%?", text):
        return "number"
    if re.fullmatch(r"\(?[A-Za-z]\)?|yes|no|true|false", text, re.IGNORECASE):
        return "choice"
    if re.search(r"[\\^_=+*/{}()\[\]]|\d", text):
        return "math"
    return "words"


def suiting(kinds: Sequence[str], count: int) -> list[Hard]:
    """`count` of those that suit the kinds, spread over the file; a numeric answer is a mathematical one too."""
    wanted = set(kinds) | ({"math"} if "number" in kinds else set()) | ({"number"} if "math" in kinds else set())
    found = [hard for hard in hard_answers() if hard.kind in wanted]
    if len(found) <= count:
        return found
    return [found[position * len(found) // count] for position in range(count)]


def _several(cell: str) -> tuple[str, ...]:
    return tuple(cell.split(BETWEEN))
