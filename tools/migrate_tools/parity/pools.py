"""Where the inputs come from: one function a family, each a long row of response texts, the likeliest first."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from migrate_tools.model import RewardSpec
from migrate_tools.parity import edits, forms, patterns, texts
from migrate_tools.parity.answer_shapes import TEXT
from migrate_tools.parity.edits import FILLER
from migrate_tools.parity.mine import TAG, Mined
from migrate_tools.parity.variants import Variant, texts_for

MOST_REPEATS = 60
"""Repeats of a counted text, at most; larger numbers are lengths."""
VALUE = "42"
"""What patterns are filled with to see where they want the value."""
OWN_WRAPPERS, LONGEST_WRAPPER = 4, 200
"""Wrappers that are made of patterns, and their characters, at most."""
OPENING = "first this, then that"
"""What stands in blocks before the one with the value."""
Answers = Sequence[list[str]]
"""Right answers of every row."""


@dataclass(frozen=True)
class Draft:
    """A response for a row."""

    row: int
    family: str
    raw: str
    length: int | None = None
    """Tokens; estimated when None."""
    ended: bool = True
    """The model wrote its end token."""


@functools.lru_cache(maxsize=8)
def own_wrappers(mined: Mined) -> tuple[str, ...]:
    """Wrappers as the scorer's patterns ask for them, where the usual ones have none that it finds."""
    made: dict[str, None] = {}
    for turn in (0, 2):
        for pattern in mined.sought:
            text = patterns.filled(pattern, VALUE, turn) or ""
            if text.count(VALUE) == 1 and text != VALUE and len(text) <= LONGEST_WRAPPER:
                made.setdefault(text.replace("{", "{{").replace("}", "}}").replace(VALUE, "{a}"))
    known = [forms.wrap(wrapper, VALUE, "") for wrapper in forms.WRAPPERS]
    new = [wrapper for wrapper in made if not any(forms.wrap(wrapper, VALUE, "") in text for text in known)]
    return tuple(new[:OWN_WRAPPERS])


def _mixed(own: Sequence[str], usual: Sequence[str]) -> list[str]:
    """The scorer's own wrappers after every second usual one."""
    turns = itertools.cycle(own)
    pairs = [usual[place : place + 2] for place in range(0, len(usual), 2)]
    return [wrapper for pair in pairs for wrapper in (*pair, next(turns))] if own else list(usual)


def few(answers: Answers, count: int) -> list[int]:
    return (
        [position * len(answers) // count for position in range(count)]
        if len(answers) > count
        else [*range(len(answers))]
    )


def hand(answers: Answers) -> Iterator[Draft]:
    for row in few(answers, 4):
        value = answers[row][0]
        wrong = forms.wrong_for(value)
        for wrapper in forms.WRAPPERS:
            yield Draft(row, "hand", forms.wrap(wrapper, value, wrong))
            yield Draft(row, "hand", forms.wrap(wrapper, wrong, value))


def truths(answers: Answers, mined: Mined) -> Iterator[Draft]:
    for turn, wrapper in enumerate([*own_wrappers(mined), *forms.WRAPPERS]):
        for row, values in enumerate(answers):
            value = values[turn % len(values)]
            yield Draft(row, "truth", (FILLER if turn % 2 else "") + forms.wrap(wrapper, value, forms.wrong_for(value)))


def edges(rows: int, answers: Answers) -> Iterator[Draft]:
    for number, text in enumerate(forms.EDGES[:12]):
        yield Draft(number % rows, "edge", text)
    for row in few(answers, 2):
        yield Draft(row, "edge", FILLER * 500 + answers[row][0])
        yield Draft(row, "edge", f"{answers[row][0]}\r\n", ended=False)
    for number, text in enumerate(forms.EDGES[12:]):
        yield Draft(number % rows, "edge", text)
    for row in few(answers, 2):
        value = answers[row][0]
        for wrapper in forms.WRAPPERS[1:8]:
            text = forms.wrap(wrapper, value, forms.wrong_for(value))
            yield Draft(row, "edge", text.replace("\n", "\r\n") + "\r\n")
            yield Draft(row, "edge", text, ended=False)
            yield Draft(row, "edge", f"{text}\n{text}")
            yield Draft(row, "edge", FILLER * 500 + text)


def cross(answers: Answers, mined: Mined) -> Iterator[Draft]:
    """Equal and near forms of the value in every wrapper, in an order that mixes both."""
    wrappers = _mixed(own_wrappers(mined), forms.WRAPPERS)
    for row in few(answers, 6):
        value = answers[row][-1]
        shapes = [value, *forms.variants(value)]
        size = len(shapes) * len(wrappers)
        stride = next((prime for prime in (37, 41, 43) if size % prime), 1)
        for step in range(size):
            shape, wrapper = divmod(step * stride % size, len(wrappers))
            text = forms.wrap(wrappers[wrapper], shapes[shape], forms.wrong_for(value))
            yield Draft(row, "cross", text)


def metamorphic(answers: Answers, mined: Mined) -> Iterator[Draft]:
    """Responses under edits of the whole text and of the value inside."""
    tags = [f"<{tag}>{{a}}</{tag}>" for tag in mined.tags]
    usual = [*tags, *(forms.WRAPPERS[number] for number in (1, 3, 5, 7, 9, 10, 2, 0))]
    wrappers = _mixed(own_wrappers(mined), usual)
    for turn in range(max(len(edits.PLAIN_EDITS), len(edits.VALUE_EDITS))):
        for offset, row in enumerate(few(answers, 5)):
            value = answers[row][turn % len(answers[row])]
            text = forms.wrap(wrappers[(turn + offset) % len(wrappers)], value, forms.wrong_for(value))
            yield Draft(row, "edits", edits.plain_edit(text, turn))
            changed = edits.value_edit(text, value, turn)
            if changed is not None:
                yield Draft(row, "edits", changed)


def made_rows(variants: Sequence[Variant], first: int, answers: Answers, mined: Mined) -> dict[str, list[Draft]]:
    """For rows that were made: equal and different answers (pairs), right and wrong ones (fields).

    Args:
        first: number of the first made row.
    """
    tags = [f"<{tag}>{{a}}</{tag}>" for tag in mined.tags]
    usual = [*(forms.WRAPPERS[number] for number in (1, 3, 5, 10, 8, 0, 7)), *tags]
    wrappers = _mixed(own_wrappers(mined), usual)
    pools: dict[str, list[Draft]] = {"pairs": [], "fields": []}
    for turn in range(24):
        for offset, variant in enumerate(variants):
            choices = texts_for(variant, answers[variant.base])
            if turn < max(len(choices), 6):
                value = choices[turn % len(choices)]
                wrapper = wrappers[(turn + offset) % len(wrappers)]
                text = forms.wrap(wrapper, value, forms.wrong_for(value))
                pools[variant.family].append(Draft(first + offset, variant.family, text))
    return pools


def drawn(answers: Answers, mined: Mined, count: int) -> list[Draft]:
    """What hypothesis draws from the scorer's literals, patterns and tags and from forms of the answers."""
    made = patterns.compositions([*mined.literals], mined.patterns, mined.tags, answers, count)
    return [Draft(row, "drawn", text) for row, text in made]


def literals(answers: Answers, mined: Mined) -> Iterator[Draft]:
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
            yield Draft(row, "literal", text)
    joined = "".join(mined.literals[:12])
    for row in few(answers, 3):
        yield Draft(row, "literal", joined)


def tags(answers: Answers, mined: Mined) -> Iterator[Draft]:
    """Blocks of the scorer's own tags in every order, one to three of them: every order once before any comes again.

    The value is in the last one, or an answer in each. Each is also written as a model does whose prompt has opened the
    first tag already. Before them, blocks followed by as many of a text that the scorer counts as it asks for, and one
    more.
    """
    yield from _repeats(answers, mined)
    orders = [order for size in (2, 1, 3) for order in itertools.permutations(mined.tags, size)]
    for turn in range(6):
        for number, order in enumerate(orders):
            row = (number + turn) % len(answers)
            values = answers[row]
            last = forms.wrong_for(values[0]) if turn % 3 == 2 else values[turn // 3 % len(values)]
            before = [values[place % len(values)] if turn % 3 == 0 else OPENING for place in range(len(order) - 1)]
            filled = zip(order, [*before, last], strict=True)
            text = "\n".join(f"<{tag}>{part}</{tag}>" for tag, part in filled)
            yield Draft(row, "tags", text.removeprefix(f"<{order[0]}>") if turn == 1 else text)


def _repeats(answers: Answers, mined: Mined) -> Iterator[Draft]:
    few_times = [number for number in mined.numbers if number <= MOST_REPEATS][:2]
    for turn, (literal, number) in enumerate(itertools.product(mined.counted[:4], few_times)):
        row = turn % len(answers)
        tag = TAG.search(literal)
        block = f"<{tag[1]}>{answers[row][0]}</{tag[1]}>" if tag else forms.WRAPPERS[3].format(a=answers[row][0])
        for times in (number + 1, number):
            yield Draft(row, "tags", f"{block}\n{literal * (times - block.count(literal))}")


def objects(answers: Answers, truths: Sequence[Any], mined: Mined) -> Iterator[Draft]:
    """JSON with the values of a structured ground truth, and with the names that the scorer asks for."""
    structured = [row for row, truth in enumerate(truths) if isinstance(truth, (dict, str))]
    rows = structured[:: max(1, len(structured) // 8)][:8]
    own = [shape for shape in mined.shapes if shape.root == TEXT and len(shape.path) == 1]
    compared = {str(shape.path[0]): shape.values for shape in own}
    mirrored = [[(row, text) for text in forms.mirrored(truths[row], mined.keys, compared)] for row in rows]
    named = [[(row, text) for text in forms.json_answers(mined.keys, answers[row])] for row in few(answers, 3)]
    turns = itertools.zip_longest(*mirrored), itertools.zip_longest(*named)
    for number, item in enumerate(item for turn in turns for several in turn for item in several if item is not None):
        row, text = item
        yield Draft(row, "json", forms.JSON_WRAPPERS[number % len(forms.JSON_WRAPPERS)].replace("{}", text))


def regexes(answers: Answers, mined: Mined) -> Iterator[Draft]:
    for turn, pattern in enumerate(mined.patterns):
        for row in few(answers, 4):
            value = answers[row][turn % len(answers[row])]
            for branch in range(3):
                text = patterns.filled(pattern, value if branch != 1 else forms.wrong_for(value), branch)
                if text is not None:
                    yield Draft(row, "regex", text)
                    yield Draft(row, "regex", f"{FILLER}{text}\nDone, {value}.")
        row = turn % len(answers)
        for text in patterns.drawn(pattern, 4):
            yield Draft(row, "regex", text)


def lengths(answers: Answers, mined: Mined, spec: RewardSpec) -> Iterator[Draft]:
    own = own_wrappers(mined)
    wrappers = (*own[:2], forms.WRAPPERS[1], forms.WRAPPERS[3], forms.WRAPPERS[5], forms.WRAPPERS[10])
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
                yield Draft(row, "length", text, length=length)
    for number, size in enumerate(mined.numbers):
        row = number % len(answers)
        value = answers[row][0]
        for turn, delta in enumerate((-1, 0, 1, 2, 40)):
            text = forms.wrap(wrappers[(number + turn) % len(wrappers)], value, forms.wrong_for(value))
            plain = forms.wrap(wrappers[0], value, "")
            for start in (text, plain, plain[1:]):  # where the wrapper begins, and one before
                yield Draft(row, "length", text + ("\n" + "x " * size)[: max(size + delta - len(start), 0)])
            yield Draft(row, "length", plain + ("\n" + "x " * size)[: max(size + delta - len(plain), 0)])
            for end in dict.fromkeys((text, plain)):
                yield Draft(row, "length", (FILLER * (size // 30 + 1))[: max(size + delta - len(end), 0)] + end)


def special(answers: Answers, family: texts.Family, mined: Mined) -> Iterator[Draft]:
    wrappers = _mixed(own_wrappers(mined), forms.WRAPPERS[1:11])
    for row in few(answers, 3):
        value = answers[row][0]
        for number, wrapper in enumerate(wrappers):
            text = forms.wrap(wrapper, value, forms.wrong_for(value))
            token = family.tokens[number % len(family.tokens)]
            yield Draft(row, "special", f"{text}{token}")
            yield Draft(row, "special", f"{token}{text}\n{token}more")
            yield Draft(row, "special", text.replace(value, f"{value[:1]}{token}{value[1:]}", 1))
