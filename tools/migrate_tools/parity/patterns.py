"""Texts that match a regular expression, with a chosen value in its groups."""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as sre_parse  # type: ignore[import-not-found]
import warnings
from typing import Any

CATEGORIES = {
    sre.CATEGORY_DIGIT: "7",
    sre.CATEGORY_NOT_DIGIT: "d",
    sre.CATEGORY_SPACE: " ",
    sre.CATEGORY_NOT_SPACE: "s",
    sre.CATEGORY_WORD: "w",
    sre.CATEGORY_NOT_WORD: "-",
}


def filled(pattern: str, value: str, turn: int = 0) -> str | None:
    """A short text that `pattern` finds, `value` in its groups where that still matches.

    Args:
        turn: picks another branch of alternatives and another number of repeats.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = sre_parse.parse(pattern)
            compiled = re.compile(pattern, re.DOTALL)
        for text in (_Writer(value, turn).write(tree), _Writer(None, turn).write(tree)):
            if compiled.search(text):
                return text
    except (re.error, RecursionError, OverflowError):
        return None
    return None


class _Writer:
    def __init__(self, value: str | None, turn: int) -> None:
        self._value = value
        self._turn = turn
        self._groups: dict[int, str] = {}

    def write(self, tree: Any) -> str:
        return "".join(self._one(kind, detail) for kind, detail in tree)

    def _one(self, kind: Any, detail: Any) -> str:
        if kind is sre.LITERAL:
            return chr(detail)
        if kind is sre.NOT_LITERAL:
            return "a" if detail != ord("a") else "b"
        if kind is sre.ANY:
            return "a"
        if kind is sre.IN:
            return self._member(detail)
        if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT) or kind is getattr(sre, "POSSESSIVE_REPEAT", None):
            low, high, inner = detail
            times = min(max(low, 1 if self._turn % 3 != 2 else 0), 20)
            return self.write(inner) * min(times, int(high)) if times else ""
        if kind is sre.SUBPATTERN:
            group, _, _, inner = detail
            text = self.write(inner) if group is None or self._value is None else self._value
            if group is not None:
                self._groups[group] = text
            return text
        if kind is sre.BRANCH:
            return self.write(detail[1][self._turn % len(detail[1])])
        if kind is sre.GROUPREF:
            return self._groups.get(detail, "")
        return ""

    def _member(self, options: Any) -> str:
        negated = bool(options) and options[0][0] is sre.NEGATE
        if negated:
            refused = {chr(detail) for kind, detail in options if kind is sre.LITERAL}
            return next(char for char in "a7 b-é" if char not in refused)
        kind, detail = options[self._turn % len(options)]
        if kind is sre.LITERAL:
            return chr(detail)
        if kind is sre.RANGE:
            return chr(detail[0] + min(self._turn, detail[1] - detail[0]))
        return CATEGORIES.get(detail, "a")


def drawn(pattern: str, count: int) -> list[str]:
    """Up to `count` texts that hypothesis draws for `pattern`; the same ones on every run."""
    from hypothesis import HealthCheck, Phase, Verbosity, given, settings, strategies

    texts: dict[str, None] = {}

    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategies.from_regex(pattern))
    def collect(text: str) -> None:
        if len(text) <= 2000:
            texts.setdefault(text.encode("utf-8", "replace").decode())

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            collect()
    except Exception:  # a pattern that hypothesis cannot draw from adds no case
        return list(texts)
    return list(texts)
