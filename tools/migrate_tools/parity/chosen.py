"""Which of the inputs that were run become cases.

Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

EVEN = 0.45
"""Share of accepted and of rejected cases that is aimed at."""
CROSSED = ("cross", "pairs", "special", "edits")
CROSSED_SHARE = 0.25
"""Share of the cases for accepted responses with another answer in the value's place or under an edit."""
HANGING = 3
"""Made inputs on which the scorer does not come back, at most: each costs its full time again."""


def choose(logged: Sequence[Mapping[str, Any]], given: int, count: int) -> list[int]:
    """Numbers of the inputs to keep, in the order in which they were run: `count` of them, the given ones all.

    After the given ones come those that did something new, then accepted responses with other answers in them or
    under an edit, then others, from the smaller one of the accepted and the rejected side as long as there are any.

    Args:
        logged: lines of the log: an input that was begun, followed by what it did unless it never came back.
    """
    results = _results(logged)
    families = [entry["case"].get("family", "") for entry in logged if "case" in entry]
    made = _made(results, given)
    kept = [number for number in range(len(results)) if number < given]
    kept += [number for number in made if _new(results[number])][: max(0, count - len(kept))]
    good = {number for number in range(len(results)) if _good(results[number])}
    crossed = [number for number in made if families[number] in CROSSED]
    kept = _filled(kept, crossed, good, min(count, len(kept) + int(count * CROSSED_SHARE)))
    return sorted(_filled(kept, made, good, count))


def telling(logged: Sequence[Mapping[str, Any]]) -> list[int]:
    """Numbers of the inputs that did something new."""
    return [number for number, result in enumerate(_results(logged)) if _new(result)]


def _results(logged: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
    results: list[Mapping[str, Any] | None] = []
    for entry in logged:
        if "case" in entry:
            results.append(None)
        else:
            results[-1] = entry
    return results


def _filled(kept: Sequence[int], waiting: Sequence[int], good: set[int], count: int) -> list[int]:
    """`kept` and so many of the waiting ones that there are `count`, from the smaller side while that is too small."""
    filled, taken = [*kept], set(kept)
    sides = {True: deque[int](), False: deque[int]()}
    for number in waiting:
        if number not in taken:
            sides[number in good].append(number)
    accepted = len(good & taken)
    while len(filled) < count and (sides[True] or sides[False]):
        if not (sides[True] and sides[False]):
            side = bool(sides[True])
        elif accepted < EVEN * len(filled) or len(filled) - accepted < EVEN * len(filled):
            side = accepted < EVEN * len(filled)
        else:
            side = sides[True][0] < sides[False][0]
        filled.append(sides[side].popleft())
        accepted += side
    return filled


def _made(results: Sequence[Mapping[str, Any] | None], given: int) -> list[int]:
    numbers = [number for number in range(given, len(results)) if results[number] is not None]
    hanging = [number for number in range(given, len(results)) if results[number] is None][:HANGING]
    return sorted(numbers + hanging)


def _new(result: Mapping[str, Any] | None) -> bool:
    return result is None or bool(result.get("new"))


def _good(result: Mapping[str, Any] | None) -> bool:
    score = result.get("score") if result else None
    return score is not None and score > 0
