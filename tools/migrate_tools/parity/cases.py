"""The inputs of the parity check: response texts for rows, in families, the same on every run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from migrate_tools.model import RewardSpec
from migrate_tools.parity import forms, patterns, texts
from migrate_tools.parity.case import Case, answers_of, make_case
from migrate_tools.parity.mine import Mined

SHARES = {
    "hand": 22,
    "truth": 28,
    "edge": 8,
    "forms": 14,
    "literal": 12,
    "tags": 24,
    "json": 10,
    "regex": 10,
    "length": 10,
    "special": 6,
}
"""Share of the case budget in percent, each at least a few."""
FILLER = "Let us think about this step by step. "


@dataclass(frozen=True)
class _Draft:
    row: int
    family: str
    raw: str
    length: int | None = None
    ended: bool = True


def make_cases(
    rows: Sequence[Mapping[str, Any]],
    spec: RewardSpec,
    mined: Mined,
    *,
    prompt_key: str,
    family: texts.Family,
    budget: int,
    logged: Sequence[tuple[int, str]] = (),
) -> list[Case]:
    """About `budget` cases over all families, without repeats, in a fixed order.

    Args:
        family: markers of the model's tokenizer.
        logged: real responses (row, text) that go in as they are.
    """
    answers = [answers_of(row) for row in rows]
    pools: dict[str, list[_Draft]] = {
        "hand": list(_hand(answers)),
        "truth": list(_truths(answers)),
        "edge": list(_edges(len(rows), answers)),
        "forms": list(_forms(answers)),
        "literal": list(_literals(answers, mined)),
        "tags": list(_tags(answers, mined)),
        "json": list(_objects(answers, mined)),
        "regex": list(_regexes(answers, mined)),
        "length": list(_lengths(answers, mined, spec)),
        "special": list(_special(answers, family)),
        "logged": [_Draft(row, "logged", text) for row, text in logged],
    }
    total = sum(SHARES.values())
    drafts: list[_Draft] = list(pools["logged"])
    spare = 0
    for name, share in SHARES.items():
        wanted = max(8, budget * share // total) + spare
        chosen = pools[name][:wanted] if name in ("edge", "json", "tags") else _spread(pools[name], wanted)
        spare = wanted - len(chosen)
        drafts += chosen
    if spare:
        drafts += _spread(pools["truth"], budget * SHARES["truth"] // total + spare)
    return _finished(drafts, rows, spec, prompt_key, family)


def _finished(
    drafts: Sequence[_Draft], rows: Sequence[Mapping[str, Any]], spec: RewardSpec, prompt_key: str, family: texts.Family
) -> list[Case]:
    seen: set[tuple[int, str, int, bool]] = set()
    cases = []
    for number, draft in enumerate(drafts):
        ended = draft.ended and not (draft.family in ("hand", "truth") and number % 17 == 16)
        length = draft.length or max(1, len(draft.raw) // 4) + ended
        if (key := (draft.row, draft.raw, length, ended)) in seen:
            continue
        seen.add(key)
        prompt = rows[draft.row].get(prompt_key)
        cases.append(make_case(draft.row, draft.family, draft.raw, prompt, spec, family, length=length, ended=ended))
    return cases


def _spread(pool: Sequence[_Draft], count: int) -> list[_Draft]:
    """`count` items evenly over the pool."""
    if len(pool) <= count:
        return list(pool)
    return [pool[position * len(pool) // count] for position in range(count)]


def _few(answers: Sequence[list[str]], count: int) -> list[int]:
    return (
        [position * len(answers) // count for position in range(count)]
        if len(answers) > count
        else [*range(len(answers))]
    )


def _hand(answers: Sequence[list[str]]) -> Iterator[_Draft]:
    for row in _few(answers, 4):
        value = answers[row][0]
        wrong = forms.wrong_for(value)
        for wrapper in forms.WRAPPERS:
            yield _Draft(row, "hand", forms.wrap(wrapper, value, wrong))
            yield _Draft(row, "hand", forms.wrap(wrapper, wrong, value))


def _truths(answers: Sequence[list[str]]) -> Iterator[_Draft]:
    for turn, wrapper in enumerate(forms.WRAPPERS):
        for row, values in enumerate(answers):
            value = values[turn % len(values)]
            yield _Draft(
                row, "truth", (FILLER if turn % 2 else "") + forms.wrap(wrapper, value, forms.wrong_for(value))
            )


def _edges(rows: int, answers: Sequence[list[str]]) -> Iterator[_Draft]:
    for number, text in enumerate(forms.EDGES[:12]):
        yield _Draft(number % rows, "edge", text)
    for row in _few(answers, 2):
        yield _Draft(row, "edge", FILLER * 500 + answers[row][0])
        yield _Draft(row, "edge", f"{answers[row][0]}\r\n", ended=False)
    for number, text in enumerate(forms.EDGES[12:]):
        yield _Draft(number % rows, "edge", text)
    for row in _few(answers, 2):
        value = answers[row][0]
        for wrapper in forms.WRAPPERS[1:8]:
            text = forms.wrap(wrapper, value, forms.wrong_for(value))
            yield _Draft(row, "edge", text.replace("\n", "\r\n") + "\r\n")
            yield _Draft(row, "edge", text, ended=False)
            yield _Draft(row, "edge", f"{text}\n{text}")
            yield _Draft(row, "edge", FILLER * 500 + text)


def _forms(answers: Sequence[list[str]]) -> Iterator[_Draft]:
    for row in _few(answers, 8):
        value = answers[row][-1]
        for number, form in enumerate(forms.variants(value)):
            for step in (1, 3, 5, 10, 0):
                wrapper = forms.WRAPPERS[step + (number + row) % 2]
                yield _Draft(row, "forms", forms.wrap(wrapper, form, forms.wrong_for(value)))


def _literals(answers: Sequence[list[str]], mined: Mined) -> Iterator[_Draft]:
    for turn, literal in enumerate(mined.literals):
        row = turn % len(answers)
        value = answers[row][turn // len(answers) % len(answers[row])]
        closing = literal.replace("<", "</", 1) if literal.startswith("<") and "/" not in literal else literal
        for text in (
            f"{literal}{value}",
            f"{literal} {value} {closing}",
            f"{FILLER}{value}{literal}",
            f"{value}\n{literal}\n{value}",
        ):
            yield _Draft(row, "literal", text)
    joined = "".join(mined.literals[:12])
    for row in _few(answers, 3):
        yield _Draft(row, "literal", joined)


def _tags(answers: Sequence[list[str]], mined: Mined) -> Iterator[_Draft]:
    """Blocks of the scorer's own tags in every order, one to three of them, the value in the last one.

    Each is also written as a model does whose prompt has opened the first tag already.
    """
    orders = [order for size in (2, 1, 3) for order in itertools.permutations(mined.tags, size)]
    for turn, order in enumerate(orders):
        for row in (turn % len(answers), (turn + 1) % len(answers)):
            for content in (*answers[row][:2], forms.wrong_for(answers[row][0])):
                filled = [*(["first this, then that"] * (len(order) - 1)), content]
                text = "\n".join(f"<{tag}>{part}</{tag}>" for tag, part in zip(order, filled, strict=True))
                yield _Draft(row, "tags", text)
                yield _Draft(row, "tags", text.removeprefix(f"<{order[0]}>"))


def _objects(answers: Sequence[list[str]], mined: Mined) -> Iterator[_Draft]:
    """JSON with the names that the scorer asks for, the likeliest forms first."""
    for row in _few(answers, 3):
        for number, text in enumerate(forms.json_answers(mined.keys, answers[row])):
            yield _Draft(row, "json", forms.JSON_WRAPPERS[number % len(forms.JSON_WRAPPERS)].replace("{}", text))


def _regexes(answers: Sequence[list[str]], mined: Mined) -> Iterator[_Draft]:
    for turn, pattern in enumerate(mined.patterns):
        for row in _few(answers, 4):
            value = answers[row][turn % len(answers[row])]
            for branch in range(3):
                text = patterns.filled(pattern, value if branch != 1 else forms.wrong_for(value), branch)
                if text is not None:
                    yield _Draft(row, "regex", text)
                    yield _Draft(row, "regex", f"{FILLER}{text}\nDone, {value}.")
        row = turn % len(answers)
        for text in patterns.drawn(pattern, 4):
            yield _Draft(row, "regex", text)


def _lengths(answers: Sequence[list[str]], mined: Mined, spec: RewardSpec) -> Iterator[_Draft]:
    wrappers = (forms.WRAPPERS[1], forms.WRAPPERS[3], forms.WRAPPERS[5], forms.WRAPPERS[10])
    if spec.overlong is not None:
        limit, buffer = spec.overlong.max_resp_len, spec.overlong.buffer_len
        edges = {
            1,
            limit - buffer,
            limit,
            limit - buffer // 2,
            limit - buffer - 1,
            limit - buffer + 1,
            limit - 1,
            limit + 1,
        }
        for number, length in enumerate(sorted(edge for edge in edges if edge > 0)):
            for wrapper in (*wrappers, "nothing"):
                row = number % len(answers)
                text = forms.wrap(wrapper, answers[row][0], forms.wrong_for(answers[row][0]))
                yield _Draft(row, "length", text, length=length)
    for number, size in enumerate(mined.numbers):
        row = number % len(answers)
        value = answers[row][0]
        for turn, delta in enumerate((-1, 0, 1, 2, 40)):
            text = forms.wrap(wrappers[(number + turn) % len(wrappers)], value, forms.wrong_for(value))
            plain = forms.wrap(wrappers[0], value, "")
            for start in (text, plain, plain[1:]):  # where the wrapper begins, and one before
                yield _Draft(row, "length", text + ("\n" + "x " * size)[: max(size + delta - len(start), 0)])
            yield _Draft(row, "length", plain + ("\n" + "x " * size)[: max(size + delta - len(plain), 0)])
            yield _Draft(row, "length", (FILLER * (size // 30 + 1))[: max(size + delta - len(text), 0)] + text)


def _special(answers: Sequence[list[str]], family: texts.Family) -> Iterator[_Draft]:
    for row in _few(answers, 3):
        value = answers[row][0]
        for number, wrapper in enumerate(forms.WRAPPERS[1:11]):
            text = forms.wrap(wrapper, value, forms.wrong_for(value))
            token = family.tokens[number % len(family.tokens)]
            yield _Draft(row, "special", f"{text}{token}")
            yield _Draft(row, "special", f"{token}{text}\n{token}more")
            yield _Draft(row, "special", text.replace(value, f"{value[:1]}{token}{value[1:]}", 1))
