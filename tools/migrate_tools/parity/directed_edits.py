"""Small changes of a response text, one to three at a time, for inputs that tell a changed scorer from the right one.

Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from migrate_tools.parity import edits, forms

SIGNS = " \n\t.,$%+-0159aAxX{}()[]<>:;\"'`\\/_=*#é\u00a0١\r\x0bß²"
"""Characters that are put in."""
ALIKE = (
    ("ß", "ss"), ("İ", "i\u0307"), ("ſ", "s"), ("\u212a", "k"), ("ﬁ", "fi"), ("É", "é"), ("Σ", "ς"),
    ("é", "e\u0301"), ("３", "3"), ("٣", "3"), ("²", "2"), ("½", "1/2"), ("\u00a0", " "), ("\t", " "), ("  ", " "),
    ("\n", " "), ("\u2212", "-"), ("\u2013", "-"), ("’", "'"), ("“", '"'), ("\u200b", ""), ("\r\n", "\n"),
    ("A", "a"), (" ", ""), (" ", "_"), (",", ""), (".", ""), ("0", ""), ("-", " "), ("-", ""), ("\n", ""), ("\t", ""),
)  # fmt: skip
"""Pairs that one way of writing an answer has where another has the other."""


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
    near: Sequence[str] = ()
    """Texts that matter for the change that is looked for."""
    pairs: Sequence[Sequence[str]] = ()
    """Texts that the scorer puts in the place of others."""
    amounts: Sequence[float] = ()
    """Numbers that matter for it."""
    own: Sequence[Any] = ()
    """Values of the row, of any type."""


BOUNDARY = re.compile(r"\s|(?<=\w)(?=[^\w\s])|(?<=[^\w\s])(?=[\w])|(?<=[^\w\s])(?=[^\w\s])")
DECORATIONS = (
    " {}", "{} ", "{}\n", "\n{}", "\t{}", "{}\r\n", "\u00a0{}", "{}.", "${}$", "{}{}", "", " ", "-{}", "({})", '"{}"',
)  # fmt: skip
"""Forms of a label as data sets hold it by mistake."""

BLOCK = re.compile(r"<(\w+)>.*?</\1>|\\\w+\{[^{}]*\}|[^\n]+", re.DOTALL)
LINE = re.compile(r"[^\n]+")

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


def piece_of(material: Material, rng: Random) -> str:
    """A text that the scorer looks for, those that matter most first."""
    if material.near and (rng.random() < 0.7 or not material.literals):
        return material.near[int(len(material.near) * rng.random() ** 1.5)]
    return rng.choice(material.literals) if material.literals else rng.choice(SIGNS)


def _literal(raw: str, material: Material, rng: Random) -> str:
    piece = piece_of(material, rng)
    if rng.random() < 0.3:
        present = [text for text in (*material.near, *material.literals) if text in raw]
        return raw.replace(rng.choice(present), piece, 1) if present else raw
    place = _place(raw, material, rng)
    return raw[:place] + rng.choice(("", " ")) + piece + rng.choice(("", "", " ")) + raw[place:]


def _piece_out(raw: str, material: Material, rng: Random) -> str:
    """One of the texts that the scorer looks for is not there any more, or stands twice."""
    present = [text for text in (*material.near, *material.literals) if text and text in raw]
    present += list(dict.fromkeys(re.findall(r"</?\w+>|```\w*|\\\w+", raw[:4000])))
    if not present:
        return raw
    piece = rng.choice(present)
    places = [found.start() for found in re.finditer(re.escape(piece), raw)]
    place = rng.choice(places)
    form = rng.choice(("", "", piece + piece, piece.upper(), piece.title(), f"{piece} ", f" {piece}", f"\n{piece}\n"))
    return raw[:place] + form + raw[place + len(piece) :]


def _block(raw: str, material: Material, rng: Random) -> str:
    """A block in tags, a line or a box once more, elsewhere, or so often that a count is reached."""
    parts = BLOCK if rng.random() < 0.7 else LINE
    blocks = [found.group() for found in parts.finditer(raw[:4000])]
    if not blocks:
        return raw
    block = rng.choice(blocks)
    counts = [int(item) for item in material.amounts if 1 <= item <= 12 and float(item).is_integer()] or [2]
    times = rng.choice((1, 1, 2, rng.choice(counts), rng.choice(counts) + 1))
    joint = "\n" if parts is LINE else rng.choice(("\n", " ", ""))
    many = joint.join([block] * times)
    if rng.random() < 0.3:
        raw = raw.replace(block, "", 1)
    place = rng.choice((0, len(raw), raw.find(block) if block in raw else 0, rng.randint(0, len(raw))))
    return raw[:place] + many + joint + raw[place:]


def _tagged(raw: str, material: Material, rng: Random) -> str:
    """A block in one of the scorer's tags that the text may lack, before, after or between its blocks."""
    known = [*material.near, *material.literals]
    found_tags = (re.fullmatch(r"</?(\w+)>|([a-z_]{3,15})", text) for text in known)
    tags = [match.group(1) or match.group(2) for match in found_tags if match]
    if not tags:
        return raw
    tag, inner = rng.choice(tags), rng.choice(("x", "", "some text", *material.values[:2]))
    places = [0, len(raw), *(found.end() for found in re.finditer(r"</\w+>\s*", raw[:4000]))]
    place = rng.choice(places)
    return f"{raw[:place]}<{tag}>{inner}</{tag}>{rng.choice(('', chr(10)))}{raw[place:]}"


def _amount(raw: str, material: Material, rng: Random) -> str:
    """A number of the text becomes one of those that matter, the middle of two, or one just beside it."""
    found = list(edits.NUMBER.finditer(raw[:4000]))
    own = [value for value in material.own if isinstance(value, (int, float))]
    known = own if own and (rng.random() < 0.6 or not material.amounts) else material.amounts
    if not found or not known:
        return raw
    match, one, other = rng.choice(found), rng.choice(known), rng.choice(known)
    step = 0 if rng.random() < 0.6 else rng.choice((1, -1, 0.5, 0.001, -0.001, 0.01))
    options = (one, one, (one + other) / 2, one - other, one + other, float(match.group()) + one)
    value = rng.choice(options) + step
    if not abs(value) < 1e12:
        return raw
    return raw[: match.start()] + edits.shown(value) + raw[match.end() :]


def _json_value(raw: str, material: Material, rng: Random) -> str:
    """A value of the first JSON in the text becomes one of the row or of the scorer, or one of another type."""
    if (found := edits.first_json(raw)) is None:
        return raw
    value, start, end = found
    return raw[:start] + json.dumps(_with_value(value, material, rng), ensure_ascii=False) + raw[end:]


def _with_value(value: Any, material: Material, rng: Random) -> Any:
    if isinstance(value, list) and value and rng.random() < 0.2:
        return _grown(value, rng)
    if isinstance(value, (dict, list)) and value and rng.random() < 0.75:
        copy = value.copy()
        place = rng.choice(list(copy) if isinstance(copy, dict) else range(len(copy)))
        if rng.random() < 0.15:
            del copy[place]
        else:
            copy[place] = _with_value(copy[place], material, rng)
        return copy
    if isinstance(value, dict) and rng.random() < 0.6:
        return {**value, piece_of(material, rng): _with_value(0, material, rng)}
    choice = rng.randrange(4)
    if choice == 0 and material.own:
        return rng.choice(material.own)
    if choice == 1:
        return rng.choice((5, 0, -1.5, None, True, "", "text", [], {}, [1], [1, 2, 3], "7", [None, None], {"x": 1}))
    if isinstance(value, str):
        return _CHANGED_TEXT[rng.randrange(len(_CHANGED_TEXT))](value) if choice == 2 else piece_of(material, rng)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        numbers = [item for item in (*material.own, *material.amounts) if isinstance(item, (int, float))]
        return rng.choice((value + 1, value - 1, -value, float(value), str(value), *numbers))
    return piece_of(material, rng)


def _grown(values: list[Any], rng: Random) -> list[Any]:
    """A list with more items like its last one, the numbers in them moved on by one step each."""
    step, times = rng.choice((0, 1, 1, 10)), rng.choice((1, 2, 2, 3))
    return [*values, *(edits.shifted(values[-1], step * (turn + 1)) for turn in range(times))]


_CHANGED_TEXT: tuple[Callable[[str], str], ...] = (
    str.upper, str.lower, str.title, lambda text: f" {text} ", lambda text: f"{text}\n", lambda text: f"{text}x",
    lambda text: text[1:],    lambda text: text[:-1], lambda text: f"a {text}", lambda text: text.replace(" ", "  "),
)  # fmt: skip


def _alike(raw: str, material: Material, rng: Random) -> str:
    """A sign becomes another one that means the same."""
    pairs = [pair for one in ALIKE for pair in (one, one[::-1]) if pair[0] and pair[0] in raw]
    if not pairs:
        return raw
    old, new = rng.choice(pairs)
    places = [found.start() for found in re.finditer(re.escape(old), raw)][-20:]
    place = rng.choice(places)
    return raw[:place] + new + raw[place + len(old) :]


def _blank(raw: str, material: Material, rng: Random) -> str:
    """A blank where two kinds of signs meet, another one for a blank, or one less."""
    start = max(0, len(raw) - 1500)
    places = [start + found.start() for found in BOUNDARY.finditer(raw[start:])]
    if not places:
        return f" {raw} "
    place = rng.choice(places)
    end = place + 1 if raw[place : place + 1].isspace() and rng.random() < 0.8 else place
    return raw[:place] + rng.choice((" ", " ", "\n", "\t", "  ", "", "\r\n", "\u00a0")) + raw[end:]


def decorated(value: str, rng: Random) -> str:
    """A label as data sets hold it by mistake: blanks at its ends, another case, signs round it."""
    if rng.random() < 0.3:
        return rng.choice((str.upper, str.lower, str.title, str.swapcase))(value)
    if rng.random() < 0.1 and " " in value:
        return value.replace(" ", rng.choice(("", "  ")))
    return rng.choice(DECORATIONS).replace("{}", value)


def _renamed(raw: str, material: Material, rng: Random) -> str:
    """A text gives way to one that the scorer takes for the same, or the other way round."""
    pairs = [
        pair for one, other in material.pairs for pair in ((one, other), (other, one)) if pair[0] and pair[0] in raw
    ]
    if not pairs:
        return _alike(raw, material, rng)
    one, other = rng.choice(pairs)
    return raw.replace(one, other, rng.choice((1, -1)))


def _instead(raw: str, material: Material, rng: Random) -> str:
    """The value gives way to a text that matters, or that alone is left."""
    value = next((value for value in material.values if value and value in raw), "")
    piece = piece_of(material, rng)
    if not value or rng.random() < 0.1:
        return piece
    return raw.replace(value, rng.choice((piece, piece + value, value + piece)), rng.choice((1, -1)))


def _json(raw: str, material: Material, rng: Random) -> str:
    """The JSON of a text in another shape, or as it is in other wrapping."""
    found = edits.first_json(raw)
    if found is not None and rng.random() < 0.25:
        _, start, end = found
        return rng.choice(forms.JSON_WRAPPERS).replace("{}", raw[start:end])
    return edits.json_edit(raw, rng) or raw


def pair_in(value: str, material: Material, rng: Random) -> tuple[str, str]:
    """Two forms of a value that differ in one text or sign, as the label and the answer of one row may."""
    choice = rng.random()
    if material.pairs and choice < 0.45:
        one, other = material.pairs[int(len(material.pairs) * rng.random() ** 2)]
    elif choice < 0.7:
        one, other = rng.choice(ALIKE)
    else:
        one, other = rng.choice(("", "", " ")) + piece_of(material, rng), rng.choice(("", piece_of(material, rng)))
    if rng.random() < 0.5:
        one, other = other, one
    if rng.random() < 0.15:
        other = one
    if rng.random() < 0.25:
        return one, other
    if one and one in value and rng.random() < 0.5:
        return value, value.replace(one, other, rng.choice((1, -1)))
    place = rng.choice((0, len(value), rng.randint(0, len(value))))
    return value[:place] + one + value[place:], value[:place] + other + value[place:]


def _resized(raw: str, material: Material, rng: Random) -> str:
    if not material.numbers:
        return raw
    size = rng.choice(material.numbers) + rng.choice((-2, -1, 0, 0, 1, 1, 2))
    if size < 40 and rng.random() < 0.5:  # a count of words rather than of characters
        words = (raw.split() or ["word"]) * 40
        return " ".join([*words[: max(0, size - 1)], raw.split()[-1] if raw.split() else "word"])
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
    _sign_in, _sign_in, _sign_out, _case, _twice, _hollow, _value, _value, _value_form, _literal, _literal, _literal,
    _resized, _joined, _number, _amount, _amount, _plain, _cut, _piece_out, _piece_out, _block, _alike, _instead, _json,
    _blank, _blank, _renamed, _renamed, _json_value, _json_value, _json_value, _tagged,
)  # fmt: skip
