"""What a model wrote as a validated value: JSON alone, in a block, in a text, or as a call of a tool."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from migrate_agent.llm.talk import RawReply, Shape

NAME_KEYS = ("do", "action", "tool", "kind", "name", "type")
"""Fields by which an answer may say which action it is, as the `name` of a call does."""
MOST_ERRORS = 8
_THOUGHTS = re.compile(r"\A\s*<(think|thinking|reasoning)>.*?</\1>", re.DOTALL)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[ \t]*[\w+-]*[ \t]*\n(.*?)^[ \t]*(?:```|~~~)[ \t]*$", re.DOTALL | re.MULTILINE)


class Unread(Exception):
    """Why an answer is none, in words for the model."""


def read_answer(reply: RawReply, shape: type[Shape]) -> Shape:
    """The answer in the given shape.

    Raises:
        Unread: there is none, there are several, or it does not fit.
    """
    calls = [(name, _loads(arguments)) for name, arguments in reply.tool_calls]
    if len(calls) > 1:
        raise Unread(f"it calls {len(calls)} tools; one action is wanted")
    if calls:
        name, arguments = calls[0]
        return _fitting(_wrapped(_unfolded(name, arguments), shape), shape)
    text = _THOUGHTS.sub("", reply.content).strip()
    if not text:
        raise Unread("it is empty")
    found = distinct(list(_values(text)))
    if not found:
        raise Unread("it holds no JSON object")
    if len(found) > 1:
        fitting = [value for value in found if _fits(value, shape)]
        if len(fitting) != 1:
            raise Unread(f"it holds {len(found)} JSON objects; exactly one is wanted")
        found = fitting
    return _fitting(_wrapped(_readings(found[0]), shape), shape)


def is_plain_json(text: str) -> bool:
    """Whether the whole text is one JSON value, as a server that forces a form gives it."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def distinct(values: list[Any]) -> list[Any]:
    """Without repetitions, in order."""
    kept: list[Any] = []
    for value in values:
        if value not in kept:
            kept.append(value)
    return kept


def _values(text: str) -> Iterator[Any]:
    """JSON objects in a text: the text itself, else fenced blocks, else what stands between the words."""
    whole = _loads(text)
    if isinstance(whole, dict):
        yield whole
        return
    blocks = [value for value in map(_loads, _FENCE.findall(text)) if isinstance(value, dict)]
    yield from blocks or _bare(text)


def _bare(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            yield value
        start = text.find("{", end)


def _readings(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The object itself, and what it says when it is the call of a tool written as text."""
    yield value
    function = value.get("function")
    inner: dict[str, Any] = function if isinstance(function, dict) else value
    arguments = inner.get("arguments", inner.get("parameters"))
    if isinstance(arguments, str):
        arguments = _loads(arguments)
    if isinstance(inner.get("name"), str) and isinstance(arguments, dict):
        yield from _unfolded(inner["name"], arguments)


def _unfolded(name: str, arguments: Any) -> list[dict[str, Any]]:
    if not isinstance(arguments, dict):
        raise Unread(f"the arguments of {name} are no JSON object")
    return [arguments, *({**arguments, key: name} for key in NAME_KEYS if key not in arguments)]


def _wrapped(values: Iterable[dict[str, Any]], shape: type[BaseModel]) -> list[dict[str, Any]]:
    """The values, and each inside the only field of the shape: models leave such an outer object out."""
    values = list(values)
    fields = list(shape.model_fields)
    return [*values, *({fields[0]: value} for value in values)] if len(fields) == 1 else values


def _fitting(values: list[dict[str, Any]], shape: type[Shape]) -> Shape:
    problems: list[list[str]] = []
    for value in values:
        try:
            return shape.model_validate(value)
        except ValidationError as error:
            problems.append(_problems(error))
    raise Unread(_words(min(problems, key=len)))


def _fits(value: Any, shape: type[BaseModel]) -> bool:
    try:
        _fitting(_wrapped(_readings(value), shape), shape)
    except Unread:
        return False
    return True


def _problems(error: ValidationError) -> list[str]:
    """What is wrong, one phrase a field; of the members of a union only the one that was meant."""
    branches: dict[tuple[int | str, ...], list[Any]] = {}
    for item in error.errors(include_url=False, include_input=False):
        branches.setdefault(item["loc"][:2] if len(item["loc"]) > 2 else (), []).append(item)
    meant = [items for items in branches.values() if all(item["type"] != "literal_error" for item in items)]
    chosen = min(meant, key=len) if meant and len(branches) > 1 else [item for few in branches.values() for item in few]
    return [f"{'.'.join(map(str, item['loc'])) or 'answer'}: {item['msg']}" for item in chosen]


def _words(problems: list[str]) -> str:
    more = f" and {len(problems) - MOST_ERRORS} more" if len(problems) > MOST_ERRORS else ""
    return "; ".join(problems[:MOST_ERRORS]) + more


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
