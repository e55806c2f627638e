"""Changes of a response text: those that many scorers ignore, and those that a careless port treats otherwise.

Runs inside the sandbox too: standard library only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

FILLER = "Let us think about this step by step. "
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
FULLWIDTH = str.maketrans("0123456789", "０１２３４５６７８９")
ARABIC = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")
CLOSERS = ("</answer>", "}", "</think>", "```", "]", ")", "$")

BROKEN = 0.15
"""Share of the edits of JSON that leave none."""

Edit = Callable[[str], str]

PLAIN_EDITS: tuple[Edit, ...] = (
    lambda text: f"{text}\n{text}",
    lambda text: f"  {text}\n\n",
    lambda text: text.replace("\n", "\r\n") + "\r\n",
    lambda text: text.upper(),
    lambda text: text.lower(),
    lambda text: text.swapcase(),
    lambda text: text.replace(" ", "  "),
    lambda text: text.replace(" ", ""),
    lambda text: text.replace("\n", " "),
    lambda text: text.replace(" ", "\u00a0"),
    lambda text: text.translate(FULLWIDTH),
    lambda text: text.translate(ARABIC),
    lambda text: text + ".",
    lambda text: text + " and that is all.",
    lambda text: text + "\n" + FILLER,
    lambda text: FILLER * 12 + text,
    lambda text: text[:-1],
    lambda text: text[1:],
    lambda text: text[: len(text) * 2 // 3],
    lambda text: text.replace("{", "{{", 1).replace("}", "}}", 1),
    lambda text: text.replace("{", "{ ").replace("}", " }"),
    lambda text: text.replace("<", "< ", 1),
    lambda text: text.replace(">", ">\n").replace("</", "\n</"),
    lambda text: text.replace(":", " :"),
    lambda text: text.replace(": ", ":"),
    lambda text: text.replace('"', "'"),
    lambda text: text.replace("\\", "\\\\"),
    lambda text: text.replace("answer", "result"),
    lambda text: "".join(reversed(text)),
    lambda text: text.replace(",", ""),
    lambda text: f"\ufeff{text}\u200b",
)
"""Edits of the whole text."""

VALUE_EDITS: tuple[str, ...] = (
    " {} ", "{}.", "{},", "({})", "[{}]", "{{{}}}", "${}$", "\\({}\\)", "\\[{}\\]", "\\text{{{}}}", "\\mathrm{{{}}}",
    "\\boxed{{{}}}", "\\left({}\\right)", "{}\\%", "{}%", "\\${}", "${}", "{}^\\circ", "{}^{{\\circ}}", "{} degrees",
    "{} units", "{} dollars", "{}\\text{{ cm}}", "{} cm^2", "x={}", "x = {}", "the {}", "a {}", "{}s", "\"{}\"", "'{}'",
    "**{}**", "`{}`", "{}!", "+{}", "-{}", "0{}", "{}0", "{}.0", "{}.00", "{},000", "{} or so", "{}\n", "\t{}", "{}\\!",
    "{}\\,", "\\ {}", "{}\\ ", "{}_2", "1{}", "{}1", "{} {}", "{}, {}", "{};", "not {}", "{} ", " {}", "≈{}",
)  # fmt: skip
"""Forms of the value inside the text; `{}` is the value."""


def plain_edit(text: str, turn: int) -> str:
    """The text under one of the edits of the whole."""
    return PLAIN_EDITS[turn % len(PLAIN_EDITS)](text)


def value_edit(text: str, value: str, turn: int) -> str | None:
    """The text with its last `value` in another form; None where it does not hold the value."""
    place = text.rfind(value) if value else -1
    if place < 0:
        return None
    form = VALUE_EDITS[turn % len(VALUE_EDITS)].replace("{}", value).replace("{{", "{").replace("}}", "}")
    return text[:place] + form + text[place + len(value) :]


def number_edit(text: str, rng: Random) -> str | None:
    """The text with one of its numbers changed a little; None where it has none."""
    found = list(NUMBER.finditer(text))[-40:]
    if not found:
        return None
    match = rng.choice(found)
    value = float(match.group())
    changed = rng.choice((value + 1, value - 1, value + 0.5, -value, value * 10, value / 10, value + 0.001, 0.0, 1e9))
    return text[: match.start()] + shown(changed) + text[match.end() :]


def shown(value: float) -> str:
    """A number as a person writes it."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(round(value, 9))


def json_edit(text: str, rng: Random) -> str | None:
    """The text with its first JSON list or object in another shape, now and then a broken one; None without any."""
    if (found := first_json(text)) is None:
        return None
    value, start, end = found
    made = json.dumps(_reshaped(value, rng), ensure_ascii=False)
    if rng.random() < BROKEN:
        inner = made[1:-1]
        made = made[:1] + rng.choice((f"{inner},", f"x {inner}", inner.replace('"', "", 1), "oops")) + made[-1:]
    return text[:start] + made + text[end:]


def first_json(text: str) -> tuple[Any, int, int] | None:
    """The first JSON list or object in a text, where it starts, and where it ends; None without any."""
    for match in re.finditer(r"[\[{]", text[:4000]):
        try:
            value, end = json.JSONDecoder().raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        return value, match.start(), end
    return None


def _reshaped(value: Any, rng: Random) -> Any:
    """Another value near a parsed one: items repeated, moved, left out or of another type, at any depth."""
    if isinstance(value, (list, dict)) and value and rng.random() < 0.5:
        places: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        copy: Any = value.copy()
        place = rng.choice(places)
        copy[place] = _reshaped(value[place], rng)
        return copy
    if isinstance(value, list):
        moved = [*value, *(shifted(item, step) for item in value[-1:] for step in (1, 2))]
        return rng.choice(([], value[:1], value * 2, value * 3, value[::-1], [value], value[1:], moved, None, {}))
    if isinstance(value, dict):
        key = rng.choice(list(value) or [""])
        rest = {name: item for name, item in value.items() if name != key}
        other = {**rest, f"{key}_": 1}
        return rng.choice((rest, {}, [value], other, {**value, key: None}, {**value, "extra": 1}, [value] * 3))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return rng.choice((value + 1, value - 1, -value, value + 0.5, str(value), None, [value], value * 1000))
    return rng.choice((None, 1, f" {value}", str(value).upper(), "", [value], True))


def shifted(value: Any, step: int) -> Any:
    """A value of the same shape with every number moved."""
    if isinstance(value, list):
        return [shifted(item, step) for item in value]
    if isinstance(value, dict):
        return {key: shifted(item, step) for key, item in value.items()}
    return value + step if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def insert(text: str, piece: str, rng: Random) -> str:
    """The text with a piece put in at the edge of a word."""
    edges = [0, len(text), *(match.start() for match in re.finditer(r"\b", text[:4000]))]
    place = rng.choice(edges)
    return text[:place] + piece + text[place:]


def cut(text: str, rng: Random) -> str:
    """The text with a stretch of words, a line or a closing mark left out."""
    closers = [closer for closer in CLOSERS if closer in text]
    if closers and rng.random() < 0.3:
        head, _, tail = text.rpartition(rng.choice(closers))
        return head + tail
    pieces = re.split(r"(\s+)", text)
    start = rng.randrange(len(pieces))
    return "".join(pieces[:start] + pieces[start + rng.randint(1, 4) :])


def resized(text: str, size: int, front: bool) -> str:
    """The text with filler, or cut, so that it has `size` characters."""
    missing = size - len(text)
    if missing <= 0:
        return text[-size:] if front and size else text[:size]
    filler = (FILLER * (missing // len(FILLER) + 1))[:missing]
    return filler + text if front else text + filler


def joined(texts: Sequence[str], rng: Random) -> str:
    """Two texts one after the other."""
    return rng.choice(("\n", " ", "\n\n", "")).join(rng.sample(list(texts), min(2, len(texts))))
