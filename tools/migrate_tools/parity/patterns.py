"""Texts that match a regular expression, with a chosen value in its groups."""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as sre_parse  # type: ignore[import-not-found]
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from migrate_tools.parity import forms
from migrate_tools.parity.draws import reproducible

LONGEST = 2000
"""Characters of a drawn text, at most."""
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


def rewritten(pattern: str, replacement: str, values: Sequence[str]) -> list[tuple[str, str]]:
    """Texts that `pattern` finds, each with what putting `replacement` in its place makes of it."""
    texts = [*plain(pattern), *(text for value in values if (text := filled(pattern, value)) is not None)]
    try:
        pairs = [(text, re.sub(pattern, replacement, text)) for text in texts]
    except (re.error, IndexError):
        return []
    return [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]


def plain(pattern: str) -> list[str]:
    """Texts that `pattern` matches with what it says itself in its groups, in a few forms."""
    made: list[str] = []
    for turn in range(6):
        try:
            tree = sre_parse.parse(pattern)
            made.append(_Writer(None, turn).write(tree))
        except (re.error, RecursionError, OverflowError):
            return []
    return list(dict.fromkeys(text for text in made if text))


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
            times = min(max(low, self._turn - 1 if self._turn > 2 else 1 if self._turn % 3 != 2 else 0), 20)
            return self.write(inner) * min(times, int(high)) if times else ""
        if kind is sre.SUBPATTERN:
            group, _, _, inner = detail
            text = self.write(inner) if group is None or self._value is None else self._value
            if group is not None:
                self._groups[group] = text
            return text
        if kind is sre.ASSERT:
            return self.write(detail[1])
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
    from hypothesis import strategies

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found: list[str] = _collected(strategies.from_regex(pattern), count)
        except Exception:  # a pattern that hypothesis cannot draw from adds no case
            return []
    return list(dict.fromkeys(_writable(text) for text in found if len(text) <= LONGEST))


def compositions(
    literals: Sequence[str], regexes: Sequence[str], tags: Sequence[str], answers: Sequence[Sequence[str]], count: int
) -> list[tuple[int, str]]:
    """Rows and texts that hypothesis draws: a few pieces, each a wrapped or bare value, a block, a literal, a match.

    The same ones on every run.
    """
    from hypothesis import strategies as st

    def text(row: int) -> Any:
        values = [*answers[row][:3], *forms.variants(answers[row][0])[:12], forms.wrong_for(answers[row][0])]
        value: Any = st.sampled_from(values)
        numbers = st.one_of(st.integers(-9999, 9999), st.floats(-99, 99, width=16)).map(str)
        pieces: list[Any] = [
            value,
            st.builds(lambda wrapper, one, other: forms.wrap(wrapper, one, other), wrappers, value, value),
            st.one_of(numbers, st.text(max_size=6)),
        ]
        if literals:
            pieces += [st.sampled_from(literals), st.tuples(st.sampled_from(literals), value).map("".join)]
        if tags:
            pieces.append(st.builds(lambda tag, inner: f"<{tag}>{inner}</{tag}>", st.sampled_from(tags), value))
        pieces += [st.from_regex(pattern) for pattern in usable[:4]]
        joint = st.sampled_from(("", " ", "\n"))
        return st.builds(
            lambda parts, between: (row, between.join(parts)),
            st.lists(st.one_of(pieces), min_size=1, max_size=4),
            joint,
        )

    wrappers = st.sampled_from(forms.WRAPPERS)
    usable = [pattern for pattern in regexes if drawn(pattern, 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _collected(st.one_of([text(row) for row in range(min(len(answers), 6))]), count)
    return list(dict.fromkeys((row, _writable(text)) for row, text in found if len(text) <= LONGEST))


def _collected(strategy: Any, count: int) -> list[Any]:
    """`count` values that hypothesis generates, without choosing by chance."""
    from hypothesis import HealthCheck, Phase, Verbosity, given, settings

    found: list[Any] = []

    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: Any) -> None:
        found.append(value)

    run: Callable[[], None] = collect
    with reproducible():
        run()
    return found


def _writable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
