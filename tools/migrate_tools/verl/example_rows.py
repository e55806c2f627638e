"""Rows made up from a data contract, for recipes whose files are not at hand. Deterministic."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from migrate_tools.model import MultiTurn
from migrate_tools.verl.known_data import scorer_for
from migrate_tools.verl.usage import ITEM, Usage, ValuePath

COUNT = 8
VALUES: dict[str, tuple[Any, ...]] = {
    "integer": ("18", "3", "70", "540", "0", "-7", "1000", "26"),
    "number": ("18", "3.5", "70", "48", "0.25", "12", "100", "7"),
    "latex": ("\\frac{1}{2}", "42", "x^2+1", "3\\sqrt{2}", "(1,2)", "\\frac{3\\pi}{4}", "0", "-\\frac{7}{3}"),
    "letter": ("A", "B", "C", "D", "B", "A", "D", "C"),
    "text": ("Paris", "the blue whale", "Marie Curie", "1969", "photosynthesis", "Mount Everest", "yes", "no"),
    "targets": tuple(
        {"target": list(item)}
        for item in (
            ("Paris",),
            ("Marie Curie", "Curie"),
            ("1969",),
            ("blue whale", "the blue whale"),
            ("Everest",),
            ("yes",),
            ("Jupiter",),
            ("H2O", "water"),
        )
    ),
    "countdown": tuple(
        {"target": target, "numbers": list(numbers)}
        for target, numbers in (
            (24, (4, 6, 1)),
            (10, (2, 3, 5)),
            (98, (44, 19, 35)),
            (7, (1, 2, 4)),
            (36, (6, 6, 1)),
            (55, (50, 5)),
            (12, (3, 4, 1)),
            (81, (9, 9)),
        )
    ),
    "tests": tuple(
        json.dumps(item)
        for item in (
            {"inputs": ["1 2\n"], "outputs": ["3\n"]},
            {"inputs": ["3 4\n", "10 -4\n", "0 0\n"], "outputs": ["7\n", "6\n", "0\n"]},
            {"inputs": ["1 2\n", "7 8\n"], "outputs": ["0.5\n", "0.875\n"]},
            {"fn_name": "add", "inputs": ["1\n2", "7\n8"], "outputs": ["3", "15"]},
            {"inputs": [["2", "1", "2"]], "outputs": [["2", "1"]]},
            {"inputs": ["a b\n", "c d e\n"], "outputs": ["b a\n", "e d c\n"]},
            {"fn_name": "turned", "inputs": ["[1, 2]", "[3]"], "outputs": ["[2, 1]", "[3]"]},
            {"inputs": [f"{n}\n" for n in range(12)], "outputs": [f"{n * n}\n" for n in range(12)]},
        )
    ),
}
QUESTIONS = (
    "What is 9 times 2?",
    "How many sides has a triangle?",
    "A train travels 140 km in 2 hours. What is its speed in km/h?",
    "What is the capital of France?",
    "Name the largest animal on earth.",
    "Solve for x: 2x + 3 = 7.",
    "Which number is missing: 2, 4, ?, 8",
    "Is zero an even number?",
)
NUMBER_WORDS = ("index", "idx", "id", "step", "count", "num", "level", "turns", "length", "width", "height", "total")
BOX = re.compile(r"(?:^|[^a-z])(?:\w*box(?:es)?|rects?|bounds)(?:$|[^a-z])")
"""Names of boxes on a picture: bbox, gt_box, bounding_boxes, rect; "corrected" is none."""
TURNS = ("is_", "has_")
"""Names of what is true in one row and false in the next."""


def make_rows(
    *,
    sources: Sequence[str],
    truth: Callable[[int, str], Any],
    extra_info: Callable[[int, str], dict[str, Any]] | None,
    prompt_key: str,
    source_key: str,
    as_text: bool,
    images: Sequence[str],
    splits: Sequence[str],
) -> tuple[dict[str, Any], ...]:
    """Rows in verl's layout; `truth(i, source)` and `extra_info(i, split)` give the values of row i."""
    rows = []
    for number in range(COUNT):
        question = QUESTIONS[number % len(QUESTIONS)]
        source = sources[number % len(sources)] if sources else "unknown"
        row: dict[str, Any] = {
            source_key: source,
            prompt_key: question if as_text else [{"role": "user", "content": question}],
            "ability": "made-up",
            "reward_model": {"style": "rule", "ground_truth": truth(number, source)},
        }
        if extra_info is not None:
            row["extra_info"] = extra_info(number, splits[number % len(splits)] if splits else "train")
        row.update({column: [] for column in images})
        rows.append(row)
    return tuple(rows)


def with_turns(rows: Sequence[dict[str, Any]], turns: MultiTurn, prompt_key: str) -> tuple[dict[str, Any], ...]:
    """The rows with what verl wants of rows for tools, simulated users and agent loops.

    These are tools_kwargs, interaction_kwargs, and agent_name where no default loop of the recipe answers. The first
    names are those of verl's own preparation scripts (examples/data_preprocess, 0.4 to 0.7).
    """
    made = []
    loops = [loop.name for loop in turns.loops]
    for row in rows:
        truth = (row.get("reward_model") or {}).get("ground_truth")
        extra = dict(row.get("extra_info") or {})
        if tools := [tool.name for tool in turns.tools if tool.kind == "base_tool"]:
            extra["tools_kwargs"] = {name: {"create_kwargs": {"ground_truth": truth}} for name in tools}
        if turns.interactions:
            prompt = row.get(prompt_key)
            query = prompt[-1].get("content") if isinstance(prompt, list) and prompt else prompt
            extra["interaction_kwargs"] = {
                "name": turns.interactions[0].name, "query": query, "ground_truth": truth,
            }  # fmt: skip
        chosen = {} if turns.default_loop in loops or not loops else {"agent_name": loops[0]}
        made.append({**row, **({"extra_info": extra} if extra else {}), **chosen})
    return tuple(made)


def truth_maker(usage: Usage, example: str, by_source: bool) -> Callable[[int, str], Any]:
    """Ground truths as the reward uses them.

    `example` names the family of a well-known data set, else the scorer that verl has for a row's source decides
    (`by_source`), else what the reward does with the value.
    """

    def make(number: int, source: str) -> Any:
        scorer = scorer_for(source) if by_source else None
        family = VALUES.get(scorer.example if scorer else example)
        value = family[number % len(family)] if family else None
        if value is not None and not (usage.keys() and not usage.is_text()):
            return value
        if isinstance(value, dict) and set(usage.keys()) <= set(value):
            return value
        return build(usage, (), number, "ground_truth", value)

    return make


def extra_info_maker(usage: Usage, keys: Sequence[str]) -> Callable[[int, str], dict[str, Any]]:
    """extra_info dicts that have `keys` and whatever else the reward reads."""
    names = tuple(dict.fromkeys((*keys, *usage.keys())))

    def make(number: int, split: str) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for key in names:
            if key.endswith("kwargs"):
                continue  # arguments of tools, which no scorer reads
            row[key] = split if key == "split" else build(usage, (key,), number, key, None)
        return row

    return make


def build(usage: Usage, path: ValuePath, number: int, name: str, plain: Any, shift: int = 0) -> Any:
    """A value for one path: dict, list or plain, as the facts say; `shift` lets texts of one dict differ."""
    words = usage.at(path)
    keys = usage.keys(path)
    value: Any
    if usage.is_text(path) and "json" not in words:
        return _plain(words | {"string"}, number, name, plain, shift)
    if keys:
        # Every fourth row leaves the optional keys out, so that both readings of the reward are met.
        present = [key for key in keys if number % 4 != 3 or "optional" not in usage.at((*path, key))]
        kept = present or keys
        value = {key: build(usage, (*path, key), number, key, plain, keys.index(key)) for key in kept}
    elif usage.has_items(path) or words & {"list", "loop"}:
        value = _list(usage, path, number, name, plain)
    else:
        return _plain(words, number, name, plain, shift)
    return json.dumps(value) if "json" in words else value


def _list(usage: Usage, path: ValuePath, number: int, name: str, plain: Any) -> list[Any]:
    words = usage.at(path)
    size = next((int(word[7:]) for word in sorted(words) if word.startswith("unpack:")), 0)
    boxed = size == 4 or bool(BOX.search(name.lower()))
    if boxed and not usage.keys((*path, ITEM)):
        left, top = 10.0 + number, 20.0 + number
        return [left, top, left + 100.0, top + 40.0]
    return [build(usage, (*path, ITEM), number + offset, _singular(name), plain) for offset in range(size or 2)]


def _singular(name: str) -> str:
    return name[:-1] if name.endswith("s") else name


def _plain(words: set[str], number: int, name: str, plain: Any, shift: int = 0) -> Any:
    low = name.lower()
    options = [ast.literal_eval(word[6:]) for word in sorted(words) if word.startswith("value:")]
    if "json" in words:
        return json.dumps({"answer": str(number)})
    if low == "ground_truth" and options:
        return (
            options[number % len(options)] if number % 2 == 0 or isinstance(options[0], str) else _like(options, number)
        )
    if words & {"number", "int"} and "string" not in words:
        box = {"x1": 10.0, "y1": 20.0, "x2": 110.0, "y2": 60.0}
        if low in box:
            return box[low]
        # Never zero: counts and totals are divided by.
        return number + 1 if "int" in words or _is_number_word(low) else float(number + 1)
    if "bool" in words or (options and all(isinstance(option, bool) for option in options)):
        return number % 2 == 1  # the value that is not named counts as much
    if options:
        return options[number % len(options)]
    if low == "split":
        return "train"
    if low.startswith(TURNS):
        return number % 2 == 1
    if low.startswith(("need_", "use_")):
        return False
    if _is_number_word(low):
        return number if low in ("index", "idx", "id") else number + 1
    if "question" in low or "problem" in low or "prompt" in low:
        return QUESTIONS[number % len(QUESTIONS)]
    if BOX.search(low):
        return [10.0 + number, 20.0 + number, 110.0 + number, 60.0 + number]
    if plain is not None:
        return plain
    return (
        VALUES["text"][(number + shift) % len(VALUES["text"])]
        if low != "ground_truth"
        else VALUES["integer"][number % COUNT]
    )


def _is_number_word(name: str) -> bool:
    return any(name == word or name.endswith(f"_{word}") or name.startswith(f"{word}_") for word in NUMBER_WORDS)


def _like(options: Sequence[Any], number: int) -> Any:
    """Another value of the same type as those that the code compares with."""
    if isinstance(options[0], bool):
        return not options[0]
    if isinstance(options[0], int | float):
        return type(options[0])(number)
    return options[number % len(options)]
