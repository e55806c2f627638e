"""From two values that a scorer compared to texts on which the comparison may go the other way.

Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from migrate_tools.parity.edits import NUMBER, resized, shown

MOST = 14
STEPS = (0.0, 1.0, -1.0, 0.001, -0.001)


def solutions(how: str, left: Any, right: Any, raw: str, values: Sequence[str]) -> list[str]:
    """Changed forms of `raw`, the likeliest first.

    Args:
        how: the comparison (Eq, Lt, In ...), the text method, or "len" for a size against the bound of a cut.
        values: answers of the row; a text that is not in `raw` is put where one of them stands.
    """
    if isinstance(left, str):
        made = _texts(how, left, right, raw, values)
    elif how == "len":
        made = _sizes(left, right, raw)
    else:
        made = _numbers(left, right, raw)
    found = dict.fromkeys(text for text in made if text != raw)
    return list(found)[:MOST]


def _texts(how: str, left: str, right: Any, raw: str, values: Sequence[str]) -> Iterator[str]:
    if not isinstance(right, str):
        return
    if how in ("Eq", "NotEq"):
        yield from _put(left, right, raw)
        yield from _put(right, left, raw)
        for value in values:
            if value in raw:
                yield from _put(value, left, raw)
                yield from _put(value, right, raw)
        return
    spot = next((text for text in (right, *values) if text and len(text) < len(raw) and text in raw), "")
    if left in right and left in raw:
        yield raw.replace(left, "")
        yield raw.replace(left, "", 1)
        yield raw.replace(left, left + left)
    if how in ("startswith", "removeprefix"):
        yield left + raw
    if how in ("endswith", "removesuffix"):
        yield raw + left
    if spot:
        middle = len(spot) // 2
        for form in (left + spot, spot + left, spot[:middle] + left + spot[middle:], spot + left + spot):
            yield from _put(spot, form, raw)
    yield from (left + raw, raw + left, f"{raw}{left}{raw}")


def _put(old: str, new: str, raw: str) -> Iterator[str]:
    """`raw` with its last `old`, then every one, replaced."""
    if not old:
        return
    if old not in raw:
        found = re.search(re.escape(old), raw, re.IGNORECASE) if len(old) < 200 else None
        if found is None:
            return
        old = found.group()
    head, _, tail = raw.rpartition(old)
    yield head + new + tail
    yield raw.replace(old, new)


def _sizes(size: int, bound: int, raw: str) -> Iterator[str]:
    for delta in (0, 1, -1, 40):
        for front in (False, True):
            yield resized(raw, max(len(raw) + bound - size + delta, 0), front)


def _numbers(left: float, right: float, raw: str) -> Iterator[str]:
    """Numbers of the text moved by the difference: exact where the compared one is a number of the text plus or minus
    something; texts of another length or with blocks repeated, where it counts them."""
    if left in (float("inf"), float("-inf")) or left != left or right != right:
        return
    gap = right - left
    if abs(gap) > 1e12:
        return
    same = [match for match in NUMBER.finditer(raw[-6000:]) if float(match.group()) in (left, right)]
    others = [match for match in NUMBER.finditer(raw[-6000:]) if float(match.group()) not in (left, right)]
    start = max(len(raw) - 6000, 0)
    for match in [*same[:2], *others[-4:]]:
        here = float(match.group())
        for moved in [here + gap + step for step in STEPS] if match in same else (here + gap, here - gap):
            yield raw[: start + match.start()] + shown(moved) + raw[start + match.end() :]
    if float(gap).is_integer() and abs(gap) <= 20_000:
        for step in (0, 1, -1):
            if len(raw) + gap + step >= 0:
                yield resized(raw, int(len(raw) + gap + step), False)
    if 0 < gap <= 12:
        blocks = re.findall(r"<\w+>.*?</\w+>|[^\n]+", raw, re.DOTALL)
        if blocks:
            yield raw + "\n" + "\n".join([blocks[-1]] * int(gap + 0.999))
    words = raw.split(" ")
    if 0 < -gap < len(words):
        yield " ".join(words[: len(words) + int(gap)])
