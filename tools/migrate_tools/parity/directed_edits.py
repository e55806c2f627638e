"""Small changes of a response text, one to three at a time, for inputs that tell a changed scorer from the right one.

Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from migrate_tools.parity import edits, forms

SIGNS = " \n\t.,$%+-0159aAxX{}()[]<>:;\"'`\\/_=*#é\u00a0١"
"""Characters that are put in."""


@dataclass(frozen=True)
class Material:
    """What a change may use."""

    values: Sequence[str]
    """Answers of the row."""
    others: Sequence[str]
    """Answers of other rows."""
    literals: Sequence[str]
    """Texts that the scorer looks for."""
    numbers: Sequence[int]
    """Lengths that it knows."""
    texts: Sequence[str]
    """Other responses."""


Change = Callable[[str, Material, Random], str]


def changed(raw: str, material: Material, rng: Random) -> str:
    """The text after one to three changes."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        raw = rng.choice(CHANGES)(raw, material, rng)
    return raw


def _sign_in(raw: str, material: Material, rng: Random) -> str:
    place = _place(raw, material, rng)
    return raw[:place] + rng.choice(SIGNS) + raw[place:]


def _place(raw: str, material: Material, rng: Random) -> int:
    """A place at or in a value where the text has one, else anywhere."""
    value = next((value for value in material.values if value and value in raw), "")
    if value and rng.random() < 0.6:
        start = raw.rfind(value)
        return rng.choice((start, start + len(value), rng.randint(start, start + len(value))))
    return rng.randint(0, len(raw))


def _sign_out(raw: str, material: Material, rng: Random) -> str:
    place = _place(raw, material, rng)
    return raw[:place] + raw[place + 1 :]


def _case(raw: str, material: Material, rng: Random) -> str:
    words = list(re.finditer(r"[A-Za-z]+", raw[:4000]))
    if not words:
        return raw
    word = rng.choice(words)
    form = rng.choice((str.upper, str.lower, str.title, str.swapcase))
    return raw[: word.start()] + form(word.group()) + raw[word.end() :]


def _twice(raw: str, material: Material, rng: Random) -> str:
    parts = re.split(r"(\s+)", raw[:4000])
    place = rng.randrange(len(parts))
    return "".join(parts[: place + 1]) + rng.choice((" ", "\n", "")) + "".join(parts[place:]) + raw[4000:]


def _hollow(raw: str, material: Material, rng: Random) -> str:
    """What stands between two marks becomes blank, empty, or another text."""
    found = list(re.finditer(r"(?<=[>{(\[`])[^<>{}()\[\]`]+(?=[<})\]`])", raw[:4000]))
    if not found:
        return raw
    inner = rng.choice(found)
    options = (" ", "", "\n", f" {inner.group()}\n", f"\n{inner.group()}\n", rng.choice(material.values or [""]))
    new = rng.choice(options)
    return raw[: inner.start()] + new + raw[inner.end() :]


def _value(raw: str, material: Material, rng: Random) -> str:
    value = next((value for value in material.values if value and value in raw), "")
    if not value:
        return raw + rng.choice(material.values or [""])
    shorter = [value[:-1], value[1:], value.replace(" ", ""), value.split(" ")[0]]
    options = [*forms.variants(value), *material.values, *shorter, forms.wrong_for(value)]
    if material.others and rng.random() < 0.2:
        options = list(material.others)
    return raw.replace(value, rng.choice(options or [value]), rng.choice((1, -1)))


def _value_form(raw: str, material: Material, rng: Random) -> str:
    value = next((value for value in material.values if value and value in raw), "")
    return edits.value_edit(raw, value, rng.randrange(1024)) or raw


def _literal(raw: str, material: Material, rng: Random) -> str:
    if not material.literals:
        return raw
    piece = rng.choice(material.literals)
    if rng.random() < 0.3:
        present = [text for text in material.literals if text in raw]
        return raw.replace(rng.choice(present), piece, 1) if present else raw
    place = _place(raw, material, rng)
    return raw[:place] + rng.choice(("", " ")) + piece + rng.choice(("", "", " ")) + raw[place:]


def _resized(raw: str, material: Material, rng: Random) -> str:
    if not material.numbers:
        return raw
    size = rng.choice(material.numbers) + rng.choice((-2, -1, 0, 0, 1, 1, 2))
    filler = rng.choice(("x ", "\n", " ", "word "))
    missing = max(0, size - len(raw))
    padding = (filler * (missing // len(filler) + 1))[:missing]
    return rng.choice((raw + padding, padding + raw, raw[:1] + padding + raw[1:]))


def _joined(raw: str, material: Material, rng: Random) -> str:
    other = rng.choice(material.texts or [raw])[:4000]
    pair = [raw, other] if rng.random() < 0.5 else [other, raw]
    return rng.choice(("\n", " ", "\n\n", "")).join(pair)


def _number(raw: str, material: Material, rng: Random) -> str:
    return edits.number_edit(raw, rng) or raw


def _plain(raw: str, material: Material, rng: Random) -> str:
    return edits.plain_edit(raw, rng.randrange(1024))


def _cut(raw: str, material: Material, rng: Random) -> str:
    return edits.cut(raw, rng) if raw else raw


CHANGES: tuple[Change, ...] = (
    _sign_in, _sign_in, _sign_out, _case, _twice, _hollow, _value, _value, _value_form, _literal, _literal, _resized,
    _joined, _number, _number, _plain, _cut,
)  # fmt: skip
