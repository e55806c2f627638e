"""Further rows for parity: own rows with hard right answers, and with fields missing or of another type."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from migrate_tools.data.json_text import decoded
from migrate_tools.parity import forms, hard_answers
from migrate_tools.parity.case import ANSWER_KEYS, answers_of, ground_truth

DROP = object()
TWINS, LONGEST_PIECE = 32, 20
"""Rows with a text of the scorer in their answer, at most; characters of such a text, at most."""
TRUTHS: tuple[Any, ...] = (
    None, "", " ", 7, 0, -3, 0.5, True, "７", "  42 ", "42\r\n", "a\x00b", ["42"], ["42", "x = 7"], [], [3, 4],
    [0.5], {"target": "42"}, {"target": ["42", "43"]}, {"answer": 7}, {}, b"42", '["42"]',
    '{"answer": "42"}', "x" * 3000,
)  # fmt: skip
"""Ground truths of every type that parquet can hold."""
VALUES: tuple[Any, ...] = (DROP, None, "", "text", 3, 0.25, True, ["a", "b"], [], [1, 2], {"a": 1}, b"raw", "4", "１")
"""Values for a key of extra_info."""


@dataclass(frozen=True)
class Variant:
    """A made row: which own row it comes from, and what was changed."""

    base: int
    row: dict[str, Any]
    family: str
    """pairs (another right answer) or fields (a field of another type, or none)."""
    hard: hard_answers.Hard | None = None
    strict: bool = False
    """Keep the row apart from others in its own file: a key that is missing would come back as null."""


def variants(
    rows: Sequence[Mapping[str, Any]], keys: Sequence[str], count: int, literals: Sequence[str] = ()
) -> list[Variant]:
    """About `count` further rows, half of each family; none for rows that have no answer to replace.

    Args:
        keys: names that the scorer asks for in extra_info.
        literals: texts that the scorer looks for; besides `count`, some rows have one of them in their right answer.
    """
    bases = _bases(rows)
    return [
        *_golds(rows, bases, count // 2),
        *_fields(rows, bases, keys, count - count // 2),
        *_twins(rows, bases, literals),
    ]


def _bases(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """One row of every data source, the first ones."""
    first: dict[str, int] = {}
    for number, row in enumerate(rows):
        first.setdefault(str(row.get("data_source")), number)
    return list(first.values())[:6]


def _golds(rows: Sequence[Mapping[str, Any]], bases: Sequence[int], count: int) -> Iterator[Variant]:
    share = max(2, count // max(1, len(bases)))
    for base in bases:
        same_source = [row for row in rows if row.get("data_source") == rows[base].get("data_source")][:12]
        kinds = [hard_answers.kind_of(answers_of(row)[-1]) for row in same_source]
        for hard in hard_answers.suiting(kinds, share):
            row = with_truth(rows[base], hard.gold)
            if row is not None:
                yield Variant(base, row, "pairs", hard)


def _twins(rows: Sequence[Mapping[str, Any]], bases: Sequence[int], literals: Sequence[str]) -> Iterator[Variant]:
    """Rows whose right answer holds a text that the scorer looks for, beside answers without it or with it elsewhere.

    What a scorer takes out of both sides, or writes in another way, shows only where the two sides differ in it.
    """
    pieces = [piece for piece in literals if piece.strip() and len(piece) <= LONGEST_PIECE][:TWINS]
    for number, piece in enumerate(pieces):
        base = bases[number % len(bases)] if bases else 0
        plain = answers_of(rows[base])[-1] if bases else ""
        forms_of = [f"{plain}{piece}", f"{piece}{plain}", f"{plain}{piece}{plain}", f"{plain} {piece}"]
        gold = forms_of[number % len(forms_of)]
        row = with_truth(rows[base], gold) if plain and len(plain) <= LONGEST_PIECE * 3 else None
        if row is not None:
            others = tuple(form for form in (plain, *forms_of) if form != gold)
            yield Variant(base, row, "pairs", hard_answers.Hard("other", gold, others, (forms.wrong_for(plain),)))


def with_truth(row: Mapping[str, Any], gold: str) -> dict[str, Any] | None:
    """The row with another right answer of the same shape, in extra_info too; None where that cannot be done."""
    truth = ground_truth(row)
    changed = _replaced(truth, gold)
    if changed is None:
        return None
    made = deepcopy(dict(row))
    made["reward_model"]["ground_truth"] = changed
    extra = made.get("extra_info")
    if isinstance(extra, dict) and isinstance(truth, str):
        for key in ANSWER_KEYS:
            if extra.get(key) == truth:
                extra[key] = gold
    return made


def _replaced(truth: Any, gold: str) -> Any:
    if isinstance(truth, str):
        if truth[:1] in "[{" and hard_answers.kind_of(truth) == "other":
            held = decoded(truth)
            inner = None if isinstance(held, str) else _replaced(held, gold)
            return None if inner is None else json.dumps(inner)
        head, mark, _ = truth.rpartition("####")
        if mark:
            return f"{head}{mark} {gold}"
        return gold if len(truth) <= 200 else None
    if isinstance(truth, bool):
        return None
    if isinstance(truth, (int, float)):
        return _as_number(gold, truth)
    if isinstance(truth, list) and truth and isinstance(truth[0], str):
        return [gold]
    if isinstance(truth, Mapping):
        for key, value in truth.items():
            inner = _replaced(value, gold)
            if inner is not None:
                return {**truth, key: inner}
    return None


def _as_number(gold: str, like: float) -> Any:
    try:
        value = float(gold.replace(",", ""))
    except ValueError:
        return None
    return type(like)(value) if abs(value) < 1e15 else None


def _fields(
    rows: Sequence[Mapping[str, Any]], bases: Sequence[int], keys: Sequence[str], count: int
) -> Iterator[Variant]:
    """Changed fields in turn: of the ground truth, of extra_info's keys, and of extra_info as a whole."""
    made = [
        variant
        for base in bases[:3]
        for variant in (*_whole_extra(rows[base], base), *_extra(rows[base], base, keys), *_truths(rows[base], base))
    ]
    truths = [(variant, ground_truth(variant.row)) for variant in made if variant.base == bases[0]]
    first = [variant for variant, truth in truths if truth == ""][:1]
    first += [variant for variant, truth in truths if _is_number(truth)][:1]
    first += [variant for variant, truth in truths if truth is None and variant.row.get("reward_model")][:1]
    first += [variant for base in bases[:2] for variant in _shaped(rows[base], base)][: count // 4]
    if len(made) > count > 0:
        made = [made[position * len(made) // count] for position in range(count)]
        first = [variant for variant in first if variant not in made]
        made = [*first, *made[: count - len(first)]]
    yield from made if count > 0 else ()


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _truths(row: Mapping[str, Any], base: int) -> Iterator[Variant]:
    if isinstance(row.get("reward_model"), Mapping):
        yield from _shaped(row, base)
        for truth in TRUTHS:
            yield _with(row, base, truth)


def _shaped(row: Mapping[str, Any], base: int) -> Iterator[Variant]:
    """The row's own ground truth in another shape: a text for a list, a list for a text, parts left out."""
    old = ground_truth(row)
    shaped: list[Any] = []
    if isinstance(old, Mapping):
        shaped = [{**old, name: value[0]} for name, value in old.items() if isinstance(value, list) and value]
        shaped += [{**old, name: [value]} for name, value in old.items() if isinstance(value, str)]
        shaped += [{key: value for key, value in old.items() if key != name} for name in old]
        shaped += [{**old, name: None} for name in old] + [{**old, name: str(old[name])} for name in old]
        shaped += [json.dumps(old, default=str)]
    elif isinstance(old, list):
        shaped = [old[0] if old else None, old[:1], [*old, *old], None, [str(item) for item in old]]
    elif isinstance(old, (int, float)):
        shaped = [str(old), float(old), -old]
    for truth in shaped if isinstance(row.get("reward_model"), Mapping) else ():
        yield _with(row, base, truth)


def _with(row: Mapping[str, Any], base: int, truth: Any) -> Variant:
    made = deepcopy(dict(row))
    made["reward_model"]["ground_truth"] = truth
    return Variant(base, made, "fields", strict=True)


def _extra(row: Mapping[str, Any], base: int, keys: Sequence[str]) -> Iterator[Variant]:
    extra = row.get("extra_info")
    as_text = isinstance(extra, str)
    if isinstance(extra, str):  # JSON text, as some recipes store it
        extra = decoded(extra)
    present = list(extra) if isinstance(extra, Mapping) else []
    asked = [key for key in keys if key not in ("ground_truth", "data_source", "reward_model", "extra_info")]
    for key in [*(key for key in present if key in keys), *(key for key in asked if key not in present)][:8]:
        for value in VALUES:
            changed = {**(extra if isinstance(extra, Mapping) else {}), key: value}
            if value is DROP:
                del changed[key]
            if as_text and isinstance(value, bytes):
                continue  # JSON has no bytes
            whole: Any = json.dumps(changed) if as_text else changed
            made = {**deepcopy(dict(row)), "extra_info": whole if changed else None}
            yield Variant(base, made, "fields", strict=True)


def _whole_extra(row: Mapping[str, Any], base: int) -> Iterator[Variant]:
    plain = deepcopy(dict(row))
    yield Variant(base, {**plain, "extra_info": None}, "fields", strict=True)
    yield Variant(base, {key: value for key, value in plain.items() if key != "extra_info"}, "fields", strict=True)


def texts_for(variant: Variant, own_answers: Sequence[str]) -> list[str]:
    """Answers to try on a made row: equal and different ones of a hard answer, else right ones of either row."""
    if variant.hard is not None:
        return [variant.hard.gold, *variant.hard.equal, *variant.hard.different]
    made = answers_of(variant.row)
    return list(dict.fromkeys([*made[:2], *own_answers[:1], "", forms.wrong_for(made[0])]))
