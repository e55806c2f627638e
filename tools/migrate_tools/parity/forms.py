"""Ways to write an answer: wrappers round a value, equal and near forms of a value, values hidden in a ground truth."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

WRAPPERS: tuple[str, ...] = (
    "{a}",
    "#### {a}",
    "The answer is {a}.",
    "So we get \\boxed{{{a}}}",
    "$\\boxed{{{a}}}$.",
    "<answer>{a}</answer>",
    "<think>Let me see.</think><answer>{a}</answer>",
    "<think>\nstep one\nstep two\n</think>\n<answer>\n{a}\n</answer>",
    "<think>reasoning</think>\nThe result: \\boxed{{{a}}}",
    "<think>\nreasoning\n</think>\n\n#### {a}",
    "Reasoning...\nAnswer: {a}",
    "Step 1.\n\nAnswer: ${a}$",
    "Final answer: {a}\n",
    "**Answer:** {a}",
    "The final answer is \\( {a} \\)",
    "<answer>\\boxed{{{a}}}</answer>",
    "<answer>Answer: {a}</answer>",
    "Answer: \\boxed{{{a}}}",
    '{{"answer": "{a}"}}',
    '```json\n{{"answer": "{a}"}}\n```',
    "```\n{a}\n```",
    "```python\n{a}\n```",
    '```python\nanswer = "{a}"\nprint(answer)\n```',
    "\\boxed {a}",
    "\\fbox{{{a}}}",
    "\\boxed{{\\text{{{a}}}}}",
    "{a} is what we get, so #### {a}",
    "First #### {w} then #### {a}",
    "First #### {a} then #### {w}",
    "\\boxed{{{w}}} no wait, \\boxed{{{a}}}",
    "\\boxed{{{a}}} no wait, \\boxed{{{w}}}",
    "<answer>{w}</answer> I mean <answer>{a}</answer>",
    "<answer>{a}</answer> I mean <answer>{w}</answer>",
    "Answer: {w}\nAnswer: {a}",
    "Answer: {a}\nAnswer: {w}",
    "<think>{a}</think>",
    "<think>{w}</think><answer>{a}</answer>",
    "<answer>{a}",
    "{a}</answer>",
    "#### {a} and more text",
    "####{a}",
    "#### ${a}",
    "#### {a}.",
    "#### {a}\n\n",
    "  \n#### {a}  ",
    "\\boxed{{{a}",
    "\\boxed{{ {a} }}",
    "answer: {a}",
    "ANSWER: {a}",
    "</think>{a}",
    "<|channel|>final<|message|>{a}",
)
"""`{a}` is the value, `{w}` a wrong one."""

JSON_WRAPPERS = (
    "<think>looking</think>\n<answer>{}</answer>",
    "<think>looking</think>\n```json\n{}\n```",
    "{}",
    "<think>looking</think>{}",
)
AMOUNT = re.compile(r"([$€£¥#~]?)\s?(-?\d[\d,]*(?:\.\d+)?)\s?([%€£¥°]?)")
PLAIN = (str, int, float, list, tuple)
BOX = ("x1", "y1", "x2", "y2")
"""Names of the corners of a box on a screen."""

EDGES: tuple[str, ...] = (
    "",
    " ",
    "\n\n\t ",
    "no idea",
    "####",
    "#### ",
    "\\boxed{}",
    "\\boxed",
    "<answer></answer>",
    "<think></think>",
    "Answer:",
    "{}",
    "[]",
    "null",
    "nan",
    "inf",
    "-",
    "$",
    "}{",
    "((((",
    "\\frac{1}{0}",
    "1/0",
    "1e400",
    "１２３",
    "四十二",
    "#### ٤٢",
    "<answer>é—“quoted”</answer>",
    "a\x00b",
    "\u200b#### 42\u200b",
    "\ufeff\\boxed{42}",
)


def wrap(wrapper: str, answer: str, wrong: str) -> str:
    """One response text."""
    return wrapper.format(a=answer, w=wrong)


def leaves(truth: Any, limit: int = 12) -> list[str]:
    """Answer-like texts inside a ground truth: itself, items of lists, values of dicts, of JSON in a string too."""
    found: dict[str, None] = {}
    for value in _walk(truth, 0):
        text = value if isinstance(value, str) else _plain_number(value)
        if text is not None and len(text) <= 2000:
            found.setdefault(text)
    return list(found)[:limit]


def _walk(value: Any, depth: int) -> Iterator[Any]:
    if depth > 4:
        return
    if isinstance(value, Mapping):
        if all(isinstance(value.get(name), (int, float)) for name in BOX):
            yield from _box([value[name] for name in BOX])
        for item in value.values():
            yield from _walk(item, depth + 1)
    elif isinstance(value, (list, tuple)):
        if value and all(isinstance(item, (int, float)) for item in value):
            yield from _box(list(value))
        for item in value:
            yield from _walk(item, depth + 1)
    elif isinstance(value, str):
        yield value
        if value[:1] in "[{":
            try:
                yield from _walk(json.loads(value), depth + 1)
            except (json.JSONDecodeError, RecursionError):
                return
        match = re.search(r"####\s*(\S+)\s*$", value) or re.search(r"\\boxed\{([^{}]*)\}", value)
        if match:
            yield match.group(1)
    elif value is not None:
        yield value


def _box(numbers: list[float]) -> Iterator[str]:
    """A list of numbers as JSON, and its middle when it can be a box (left, top, right, bottom)."""
    yield json.dumps(numbers)
    if len(numbers) == 4:
        yield json.dumps(middle(numbers))


def middle(box: Sequence[float]) -> list[float]:
    """The middle of a box (left, top, right, bottom)."""
    return [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2]


def _plain_number(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value) if isinstance(value, (int, float)) else None


def variants(value: str) -> list[str]:
    """Forms that many scorers treat as equal to `value`, and near misses, the equal ones first."""
    forms = [f" {value} ", f"${value}$", f"{value}.", f"{value}%", value.upper(), value.lower(), f"\\text{{{value}}}"]
    number = re.fullmatch(r"-?[\d,]*\.?\d+", value.strip())
    if number:
        digits = value.strip().replace(",", "")
        amount = float(digits)
        forms.insert(0, f"{digits}0")
        whole = amount.is_integer()
        forms += [
            digits,
            f"{digits}.0" if "." not in digits else digits.rstrip("0"),
            f"{amount:,.0f}" if whole else digits,
        ]
        forms += [
            f"+{digits}",
            f"0{digits}",
            f"{digits}.00",
            f"\\${digits}",
            f"{digits} dollars",
            f"{digits}\\%",
            f"x={digits}",
        ]
        forms += [
            f"\\frac{{{digits}}}{{1}}",
            f"{amount:e}",
            f"{digits}^\\circ",
            f"{digits},000",
            f"-{digits}",
            f"{digits}1",
        ]
    fraction = re.fullmatch(r"\\d?frac\{(-?\d+)\}\{(\d+)\}", value.strip())
    if fraction:
        top, bottom = fraction.groups()
        forms += [f"{top}/{bottom}", f"\\dfrac{{{top}}}{{{bottom}}}", f"\\tfrac{{{top}}}{{{bottom}}}"]
        forms += [f"\\frac{top}{bottom}", str(int(top) / max(int(bottom), 1)), f"\\frac{{{top} }}{{ {bottom}}}"]
    if amount_of := _amount(value):
        before, figure, after = amount_of
        spaced = " ".join(part for part in amount_of if part)
        forms[:0] = [spaced, figure, f"{before}{figure}{'0' if '.' in figure else '.0'}{after}", f"{figure}{after}"]
    if not number:
        forms += [
            f"the {value}",
            f'"{value}"',
            value.replace(" ", "  "),
            value.replace(" ", ""),
            f"({value})",
            f"{value}s",
        ]
    return [form for form in dict.fromkeys(forms) if form != value]


def _amount(value: str) -> tuple[str, str, str] | None:
    """Sign before a number, the number, sign after it, where there is one: "$5", "12%", "3 €"."""
    found = AMOUNT.fullmatch(value.strip())
    return (found[1], found[2], found[3]) if found and (found[1] or found[3]) else None


def wrong_for(value: str) -> str:
    """A value of the same kind that is not equal."""
    if amount := _amount(value):
        return f"{amount[0]}{wrong_for(amount[1])}{amount[2]}"
    stripped = value.strip().replace(",", "")
    if re.fullmatch(r"-?\d+", stripped):
        return str(int(stripped) + 1) if len(stripped) < 18 else stripped + "7"
    if re.fullmatch(r"-?\d*\.\d+", stripped):
        return f"{float(stripped) + 0.25:g}"
    if re.fullmatch(r"[A-Ja-j]", stripped):
        return "B" if stripped.upper() != "B" else "C"
    return "9" if len(stripped) < 3 else f"not {stripped[:40]}"


def json_answers(keys: Sequence[str], values: Iterable[str]) -> list[str]:
    """JSON objects and lists that use the names a scorer asks for, with values and middles of number lists."""
    answers: list[str] = []
    names = [key for key in keys if re.fullmatch(r"[A-Za-z_][\w ]{0,30}", key)][:6]
    for value in list(values)[:4]:
        parsed = _parsed(value)
        options = [parsed]
        if isinstance(parsed, list) and len(parsed) == 4:
            options.insert(0, [(parsed[0] + parsed[2]) / 2, (parsed[1] + parsed[3]) / 2])
        for option in options:
            pairs = [({name: option}, {name: _moved(option)}) for name in names]
            answers += [json.dumps([one]) for one, _ in pairs] + [json.dumps(one) for one, _ in pairs]
            answers += [json.dumps([one, other]) for one, other in pairs]
            answers += [json.dumps([other, one]) for one, other in pairs] + [json.dumps([other]) for _, other in pairs]
            if len(names) > 1:
                answers += [json.dumps(dict.fromkeys(names, option))]
    return list(dict.fromkeys(answers))


def mirrored(truth: Any, keys: Sequence[str], compared: Mapping[str, Sequence[Any]] | None = None) -> list[str]:
    """JSON objects with the values of a structured ground truth under its own names and those that a scorer asks for.

    First the whole, then one part left out or changed at a time: points at and just over the edges of a box, other
    numbers and texts.

    Args:
        compared: for names of an answer, what the scorer compares their values with.
    """
    if isinstance(truth, str):
        try:
            truth = json.loads(truth)
        except (json.JSONDecodeError, RecursionError):
            return []
    if not isinstance(truth, Mapping) or not truth:
        return []
    box = next((list(map(float, value)) for value in _boxes(truth)), None)
    names = [key for key in keys if re.fullmatch(r"[A-Za-z_]\w{0,20}", key)][:10]
    whole: dict[str, Any] = {key: value for key, value in truth.items() if isinstance(value, PLAIN)}
    said = {name: list(values) for name, values in (compared or {}).items() if name not in whole and values}
    whole |= {name: values[0] for name, values in said.items()}
    for name in names:
        if name not in whole and box is not None:
            whole[name] = middle(box)
    made: list[Any] = [whole, [whole], {key: value for key, value in truth.items() if isinstance(value, PLAIN)}]
    made += [{**whole, name: value} for name, values in said.items() for value in values[1:]]
    for place in _edge_points(box) if box else ():
        made.append({name: place if value == middle(box or []) else value for name, value in whole.items()})
    for name, value in whole.items():
        made.append({key: item for key, item in whole.items() if key != name})
        if isinstance(value, str):
            made += [{**whole, name: form} for form in (value.upper(), f" {value} ", wrong_for(value))]
        else:
            made.append({**whole, name: _moved(value)})
    made += [[{**whole, names[0]: None}, whole] if names else [whole, whole], {name: truth for name in names[:1]}]
    return list(dict.fromkeys(json.dumps(item, ensure_ascii=False, default=str) for item in made))


def _boxes(truth: Mapping[str, Any]) -> Iterator[Sequence[float]]:
    if all(isinstance(truth.get(name), (int, float)) for name in BOX):
        yield [truth[name] for name in BOX]
    for value in truth.values():
        if isinstance(value, (list, tuple)) and len(value) == 4 and all(isinstance(x, (int, float)) for x in value):
            yield value


def _edge_points(box: Sequence[float]) -> list[list[float]]:
    left, top, right, bottom = box
    across, down = middle(box)
    return [
        [left, top], [right, bottom], [left - 1, down], [right + 1, down], [across, top - 1], [across, bottom + 1],
        [right, down], [across, bottom], [left - 60, down], [across, bottom + 150],
    ]  # fmt: skip


def _moved(value: Any) -> Any:
    """A value of the same shape that is far away."""
    if isinstance(value, list):
        return [_moved(item) for item in value]
    return value + 777 if isinstance(value, (int, float)) else wrong_for(str(value))


def _parsed(value: str) -> Any:
    try:
        parsed = json.loads(value)
    except (json.JSONDecodeError, RecursionError):
        return value
    if isinstance(parsed, list) and all(isinstance(item, (int, float)) for item in parsed):
        return parsed
    return value if isinstance(parsed, (dict, list)) else parsed
