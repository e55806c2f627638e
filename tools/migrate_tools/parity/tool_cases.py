"""Scripted conversations for tools: what a model might write, made from the tools' schemas and the rows."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from migrate_tools.model import MultiTurn

END = "<|im_end|>"
LONG = 20_000
"""Characters of the long argument."""
EXAMPLES: dict[str, tuple[Any, ...]] = {
    "string": ("alpha", "7", "zwölf 北京", "", "a\nb"),
    "integer": (3, 0, -1),
    "number": (1.5, 0.0, -2.0),
    "boolean": (True, False),
    "array": ([1, 2], [], ["x"]),
    "object": ({"key": "value"}, {}),
}
BOXES: tuple[list[Any], ...] = (
    [0, 0, 100, 100], [10.5, 20.25, 300, 200], [-5, -5, 5000, 5000], [30, 30, 35, 36], [200, 10, 100, 90],
    [5, 5, 5, 80],
    [0, 0, 1, 250], ["1", "2", "90", "80"], [1, 2, 3], [10, 10, 90, 90, 5], [330, 250, 336, 252],
)  # fmt: skip
"""Boxes in, across and outside an image, small, turned round, flat, thin, as text, and of a wrong length."""
MANY = 12
"""Turns of the longest conversation; where the recipe's limit is higher, it is not reached."""
LONGEST_TRUTH = 2000
UNSURE = "I do not know."
"""An answer that is nowhere right."""
ANSWERS = (
    "#### {}",
    "Let me think. The answer is {}.",
    "\\boxed{{{}}}",
    "<think>Some steps.</think>\n<answer>{}</answer>",
    'final_answer: "{}"',
    "generated_note:\n{}",
)
"""Forms of an answer that simulated users of the field look for."""
QUOTED = re.compile(r"(?<!\w)(['\"`])([^'\"`\n]{1,24})\1(?!\w)")
WRONG: tuple[Any, ...] = ("text", 12, None, [1, [2]], {"a": {"b": 1}}, True)


def hermes(name: Any, arguments: Any) -> str:
    """A call in the form of Hermes and Qwen."""
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False) + "\n</tool_call>"


def harmony(name: Any, arguments: Any) -> str:
    """A call in the form of gpt-oss."""
    body = json.dumps(arguments, ensure_ascii=False)
    head = "<|start|>assistant<|channel|>commentary to=functions."
    return f"{head}{name} <|constrain|>json<|message|>{body}<|call|>"


def qwen3_coder(name: Any, arguments: Any) -> str:
    """A call in the form of Qwen3-Coder."""
    items = arguments.items() if isinstance(arguments, dict) else ()
    lines = [f"<parameter={key}>\n{_plain(value)}\n</parameter>" for key, value in items]
    return "\n".join(["<tool_call>", f"<function={name}>", *lines, "</function>", "</tool_call>"])


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


WRITERS: dict[str, Callable[[Any, Any], str]] = {"hermes": hermes, "gpt-oss": harmony, "qwen3_coder": qwen3_coder}
BROKEN = {
    "hermes": ('<tool_call>\n{"name": "x", "arguments": {\n</tool_call>', "<tool_call>[]</tool_call>", "<tool_call>{}"),
    "gpt-oss": ("<|start|>assistant<|channel|>commentary to=functions.x <|constrain|>json<|message|>{<|call|>",),
    "qwen3_coder": ("<tool_call>\n<function=x\n</function>\n</tool_call>", "<tool_call>\n<function=x>\n<parameter=a"),
}


def conversations(turns: MultiTurn, metadata: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Conversations as {"row": number of the row, "family": ..., "texts": [what the model writes, turn by turn]}.

    Raises:
        KeyError: nobody knows how a call is written in the form `turns.format`.
    """
    form = call_form(turns)
    write = WRITERS[form]
    found: list[dict[str, Any]] = []
    tools = turns.tools

    def add(family: str, *texts: str, row: int = 0) -> None:
        found.append({"row": row, "family": family, "texts": [text + END for text in texts]})

    add("no call", "The answer is 5.")
    add("empty", "")
    for text in BROKEN[form]:
        add("broken", text)
        if tools:
            add("broken", f"{text}\n{write(tools[0].name, _arguments(tools[0].parameters))}")
    add("unknown name", write("no_such_tool", {"a": 1}), "done")
    for value in (None, "text", [1], 3) if tools else ():
        add("arguments are no object", write(tools[0].name, value), "done")
    for tool in tools:
        for family, arguments in _variants(tool.parameters):
            add(family, f"Let me use it.\n{write(tool.name, arguments)}", "done")
    names = list(itertools.islice(itertools.cycle(tools), turns.max_parallel_calls + 2))
    for count in range(2, len(names) + 1):
        calls = [write(tool.name, _arguments(tool.parameters, number)) for number, tool in enumerate(names[:count])]
        add("several calls", "\n".join(calls), "done")
    many = min(max(turns.max_assistant_turns or 0, turns.max_user_turns or 0, 3) + 2, MANY)
    if tools:
        calls = [write(tool.name, _arguments(tool.parameters)) for tool in tools]
        add("many turns", *itertools.islice(itertools.cycle(calls), many))
    if turns.interactions:
        _with_user(add, turns, metadata, many)
    for number, row in enumerate(metadata):
        for tool in turns.tools:
            for arguments in _row_arguments(tool.parameters, row, tool.name):
                add("row", write(tool.name, arguments), "done", row=number)
    return found


def call_form(turns: MultiTurn) -> str:
    """How calls are written: SGLang's parser for Qwen reads the form of Hermes."""
    return "hermes" if turns.runner == "engine" else turns.format


def _with_user(add: Callable[..., None], turns: MultiTurn, metadata: Sequence[dict[str, Any]], many: int) -> None:
    """Conversations with a simulated user: answers in the usual forms, right and wrong, early and late."""
    for row, known in enumerate(metadata or [{}]):
        truths = _truths(known)
        for text in (UNSURE, f"{END} {END}", "<think>long</think> #### 0", "x" * LONG):
            add("user: wrong answers", *[text] * many, row=row)
        for truth in truths:
            for number, form in enumerate(ANSWERS):
                add("user: right answer", form.format(truth), "#### 1", row=row)
                if not number:
                    add("user: right at last", "#### -1", *["I am not sure."] * (many - 3), form.format(truth), row=row)
                    add("user: right, then wrong", form.format(truth), "#### -1", form.format(truth), row=row)
    if turns.tools:
        call = WRITERS[call_form(turns)](turns.tools[0].name, _arguments(turns.tools[0].parameters))
        add("user and tools", call, "#### 1", call, "#### 2")


def _truths(row: dict[str, Any]) -> list[str]:
    """Texts and numbers that the row tells its user."""
    own = row.get("interaction_kwargs") or {}
    values = [value for key, value in own.items() if key != "name" and isinstance(value, str | int | float)]
    return list(dict.fromkeys(str(value)[:LONGEST_TRUTH] for value in values if not isinstance(value, bool)))[:4]


def engine_calls(turns: MultiTurn) -> tuple[str, ...]:
    """What a rehearsal's engine says between its answers.

    Each tool called rightly, an unknown one, a broken call, two at once; without tools an answer that a simulated user
    does not take.
    """
    write = WRITERS.get(call_form(turns))
    if not turns.tools:
        return (UNSURE,) if turns.interactions else ()
    if write is None:
        return ()
    right = [write(tool.name, _arguments(tool.parameters)) for tool in turns.tools]
    return (
        *right,
        write("no_such_tool", {"a": 1}),
        BROKEN[call_form(turns)][0] + "\n" + right[0],
        "\n".join(right * 2),
    )


def _properties(schema: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    parameters = (schema or {}).get("function", {}).get("parameters") or {}
    properties = parameters.get("properties") or {}
    return {str(name): value if isinstance(value, dict) else {} for name, value in properties.items()}


def example(schema: dict[str, Any], number: int = 0) -> Any:
    """A value that a parameter's schema allows."""
    if schema.get("enum"):
        return schema["enum"][number % len(schema["enum"])]
    kind = schema.get("type", "string")
    if kind == "array":
        length = schema.get("minItems", 2)
        return [example(schema.get("items") or {"type": "integer"}, index) for index in range(length)]
    values = EXAMPLES.get(str(kind), EXAMPLES["string"])
    if kind == "string":
        values = (*named_values(str(schema.get("description") or "")), *values)
    return values[number % len(values)]


def named_values(description: str) -> tuple[str, ...]:
    """The values that a description spells out in quotes, where it names several ("one of 'up' or 'down'")."""
    found = tuple(dict.fromkeys(match[2] for match in QUOTED.finditer(description)))
    return found if len(found) > 1 else ()


def _arguments(schema: dict[str, Any] | None, number: int = 0) -> dict[str, Any]:
    return {name: example(value, number) for name, value in _properties(schema).items()}


def _variants(schema: dict[str, Any] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Valid arguments, then missing, extra, wrong-typed and very long ones."""
    valid = _arguments(schema)
    for number in range(max(len(values) for values in EXAMPLES.values())):
        yield "valid", _arguments(schema, number)
    yield "no arguments", {}
    yield "extra argument", {**valid, "surplus": 1}
    for name, value in _properties(schema).items():
        if value.get("type") == "array" and value.get("minItems", 4) == 4:
            for box in BOXES:
                yield "box", {**valid, name: box}
        yield "missing argument", {key: item for key, item in valid.items() if key != name}
        for wrong in WRONG:
            yield "wrong type", {**valid, name: wrong}
        if value.get("type", "string") == "string":
            yield "long", {**valid, name: "long " * (LONG // 5)}


def _row_arguments(schema: dict[str, Any] | None, row: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Arguments with the texts and numbers that the row's tools_kwargs hold, so that right answers occur."""
    own = ((row.get("tools_kwargs") or {}).get(name) or {}).get("create_kwargs") or {}
    values = [value for value in own.values() if isinstance(value, str | int | float) and not isinstance(value, bool)]
    for value in values[:4]:
        arguments = _arguments(schema)
        for parameter, kind in _properties(schema).items():
            if kind.get("type", "string") == "string":
                yield {**arguments, parameter: str(value)}
