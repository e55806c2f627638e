"""Programs as responses, for scorers whose ground truth is a list of test cases that a program must pass.

A program that looks its answer up is right for any test cases; changed ones are right for some of them, or for none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any

from migrate_tools.data.json_text import decoded
from migrate_tools.parity import forms
from migrate_tools.parity.case import ground_truth
from migrate_tools.parity.pools import Draft

FENCES = (
    "```python\n{}\n```",
    "<think>\nread, look up, print\n</think>\nHere it is:\n```python\n{}\n```\nThat is all.",
    "{}",
    "```python\nraise SystemExit\n```\nNo, this one:\n```python\n{}\n```",
    "```python\n{}",
    "```\n{}\n```",
    "```Python\n{}\n```",
    "```python\n{}\n```\n```python\n```",
)
"""How a response holds a program; the last ones hide it from most scorers."""
ASSIGNED_ROWS, ASSIGNED_NAMES = 4, 6
LINES = "lines = []\nwhile True:\n    try:\n        lines.append(input())\n    except EOFError:\n        break\n"
GUARD = 'if __name__ == "__main__":\n    main()'
ENDLESS = "while True:\n    pass"


@dataclass(frozen=True)
class Tests:
    """Test cases: texts on standard input, or arguments of a function."""

    inputs: list[Any]
    outputs: list[Any]
    function: str = ""


def tests_of(truth: Any) -> Tests | None:
    """The test cases of a ground truth (a dict or JSON text with `inputs` and `outputs`), or None."""
    held = decoded(truth)
    if not isinstance(held, Mapping):
        return None
    inputs, outputs = held.get("inputs"), held.get("outputs")
    if not isinstance(inputs, list) or not isinstance(outputs, list) or not inputs or len(inputs) != len(outputs):
        return None
    return Tests(inputs, outputs, str(held.get("fn_name") or ""))


def programs(tests: Tests) -> list[str]:
    """Right and wrong programs in turn."""
    right, wrong = (_functions if tests.function else _scripts)(tests)
    longest = max(len(right), len(wrong))
    turns = [(right[turn % len(right)], wrong[turn % len(wrong)]) for turn in range(longest)]
    return list(dict.fromkeys(program for turn in turns for program in turn))


def drafts(rows: Sequence[Mapping[str, Any]]) -> Iterator[Draft]:
    """Programs for every row with test cases, the likeliest first; last a program that never ends, once."""
    found = [(row, tests) for row, truth in enumerate(map(ground_truth, rows)) if (tests := tests_of(truth))]
    made = [(row, programs(tests)) for row, tests in found]
    for turn in range(max((len(texts) for _, texts in made), default=0)):
        for offset, (row, texts) in enumerate(made):
            if turn < len(texts):
                fence = FENCES[0] if turn < 4 else FENCES[(turn // 2 + offset) % len(FENCES)]
                yield Draft(row, "programs", fence.replace("{}", texts[turn]))
    if made:
        yield Draft(made[0][0], "programs", FENCES[0].replace("{}", ENDLESS))


def assignments(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[Draft]:
    """Programs that leave the right answer, or another one, under a name that the scorer knows.

    Args:
        names: texts that the scorer looks for.
    """
    truths = [truth for row in rows[:ASSIGNED_ROWS] if isinstance(truth := ground_truth(row), (str, int, float))]
    for name in [name for name in names if name.isidentifier() and not iskeyword(name)][:ASSIGNED_NAMES]:
        for row, truth in enumerate(truths):
            for value in dict.fromkeys((str(truth), repr(truth), forms.wrong_for(str(truth)))):
                yield Draft(row, "programs", f"{name} = {value}")
                yield Draft(row, "programs", FENCES[0].replace("{}", f"{name} = {value}"))


def _scripts(tests: Tests) -> tuple[list[str], list[str]]:
    """Right and wrong programs that read standard input."""
    table = {_text(given): _text(wanted) for given, wanted in zip(tests.inputs, tests.outputs, strict=True)}
    first = next(iter(table))
    read = f"import sys\ntable = {table!r}\nfound = table[sys.stdin.read()]\n"
    stripped = {key.strip(): value.rstrip() for key, value in table.items()}
    by_line = f'{LINES}print({stripped!r}["\\n".join(lines).strip()])'
    main = f"def main():\n    import sys\n    print({stripped!r}[sys.stdin.read().strip()])\n{GUARD}"
    some = read.replace("table[", "table.get(").replace("read()]", 'read(), "")')
    right = [
        f"{read}sys.stdout.write(found)",
        by_line,
        f"{read}print(found.strip())\nsys.exit(0)",
        main,
        f"{read}print(found.rstrip() + '  ')\nprint()",
        f"{read}print('\\n'.join(line + ' ' for line in found.split('\\n')))",
    ]
    wrong = [
        "print(12345)",
        some.replace(repr(table), repr({first: table[first]})) + "sys.stdout.write(found)",
        f"{read}print(found.upper(), 'x')",
        "raise ValueError('no')",
        "def broken(:",
        f"{read}print(' '.join(found.split()))",
        f"{read}print(found.strip() + '.0')",
        f"{read}print(*sorted(found.split()), sep='\\n')",
        "import os\nos._exit(0)",
        "",
    ]
    return right, wrong


def _functions(tests: Tests) -> tuple[list[str], list[str]]:
    """Right and wrong programs that define the wanted function."""
    name = tests.function
    table = {_arguments(given): _value(wanted) for given, wanted in zip(tests.inputs, tests.outputs, strict=True)}
    first = next(iter(table))
    body = f"import json\ntable = {table!r}\ndef look(args):\n    return table[json.dumps(list(args))]\n"
    method = f"{body}class Solution:\n    def {name}(self, *args):\n        return look(args)"
    right = [
        f"{body}def {name}(*args):\n    return look(args)",
        method,
        f"{body}def {name}(*args):\n    found = look(args)\n    return (*found,) if isinstance(found, list) else found",
        f"{body}{name} = lambda *args: [look(args)][0]",
    ]
    wrong = [
        f"def {name}(*args):\n    return 12345",
        f"{body}def {name}(*args):\n    return {{{first!r}: table[{first!r}]}}[json.dumps(list(args))]",
        f"{body}def {name}(*args):\n    print(look(args))",
        f"{body}def {name}(*args):\n    return str(look(args))",
        f"{body}def {name}(*args):\n    return [look(args)]",
        f"{body}def other(*args):\n    return look(args)",
        f"def {name}():\n    return None",
        f"def {name}(*args):\n    raise ValueError('no')",
    ]
    return right, wrong


def _text(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _arguments(given: Any) -> str:
    """Arguments, one JSON text a line, as the JSON text of a list."""
    lines = given.split("\n") if isinstance(given, str) else given
    return json.dumps([_value(line) for line in lines])


def _value(text: Any) -> Any:
    """The value of a JSON text; what is none stays."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return text
