"""Changed rows for the directed search: another right answer, another value of a field, always of the type it had.

Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from migrate_tools.parity import told
from migrate_tools.parity.managers import copied

Path = tuple[str | int, ...]
JSON = "json"
"""A step of a path: what follows is inside a text that is JSON."""
DROP = "\ue000dropped"
"""In the place of a value: the key is not there at all."""
LONGEST = 300
"""Characters of a text that is changed, at most."""
DEEPEST = 5


class RowChange(NamedTuple):
    """One value of a row, replaced."""

    path: Path
    value: Any


class Leaf(NamedTuple):
    """A value of a row that can be changed."""

    path: Path
    value: Any


def leaves(row: Mapping[str, Any], keys: Sequence[str]) -> list[Leaf]:
    """Values inside the ground truth, and those of extra_info and of the rollout that the scorer asks for."""
    found: list[Leaf] = []
    model = row.get("reward_model")
    if isinstance(model, Mapping) and "ground_truth" in model:
        found += _walk(model["ground_truth"], ("reward_model", "ground_truth"), 0)
    for column in ("extra_info", told.COLUMN):
        held = row.get(column)
        if isinstance(held, Mapping):
            for key, value in held.items():
                if key in keys:
                    found += _walk(value, (column, str(key)), 0)
    return found


def split(changes: Sequence[RowChange]) -> tuple[list[RowChange], list[RowChange]]:
    """Changes of the row itself, and changes of what the rollout tells."""
    own = [change for change in changes if change.path[0] != told.COLUMN]
    return own, [change for change in changes if change.path[0] == told.COLUMN]


def told_after(default: Mapping[str, Any], before: str, changes: Sequence[RowChange]) -> str:
    """What the rollout tells with changes of it, as JSON: `before` when there are none."""
    if not changes:
        return before
    made: dict[str, Any] = applied({told.COLUMN: dict(default)}, changes)[told.COLUMN]
    return json.dumps(made)


def _walk(value: Any, path: Path, depth: int) -> Iterator[Leaf]:
    if isinstance(value, (str, bool, int, float)):
        if not isinstance(value, str) or len(value) <= LONGEST:
            yield Leaf(path, value)
        if isinstance(value, str) and value[:1] in ("{", "[") and depth < DEEPEST:
            try:
                inner = json.loads(value)
            except ValueError:
                return
            yield from _walk(inner, (*path, JSON), depth + 1)
    elif depth < DEEPEST and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(item, (*path, str(key)), depth + 1)
    elif depth < DEEPEST and isinstance(value, (list, tuple)):
        if value:
            yield Leaf(path, list(value))
        for place, item in enumerate(list(value)[:6]):
            yield from _walk(item, (*path, place), depth + 1)


def applied(row: Mapping[str, Any], changes: Sequence[RowChange]) -> dict[str, Any]:
    """A copy of the row with the values replaced."""
    touched = {change.path[0] for change in changes}
    made = {key: copied(value) if key in touched else value for key, value in row.items()}
    for change in changes:
        _put(made, change.path, change.value)
    return made


def _put(holder: Any, path: Sequence[str | int], value: Any) -> None:
    step, rest = path[0], path[1:]
    if not rest and isinstance(value, str) and value == DROP:
        del holder[step]
    elif not rest:
        holder[step] = value
    elif rest[0] == JSON and isinstance(holder[step], str):
        inner = json.loads(holder[step])
        if len(rest) == 1:
            inner = value
        else:
            _put(inner, rest[1:], value)
        holder[step] = json.dumps(inner)
    else:
        _put(holder[step], rest, value)


def another(value: Any, numbers: Sequence[float], texts: Callable[[str], str], rng: Random) -> Any:
    """A value of the same type near `value`.

    Args:
        numbers: what a number may become, besides its neighbours.
        texts: another text for a text.
    """
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        near = [value + 1, value - 1, -value, 0, 1, value * 2, *(int(item) for item in numbers if _whole(item))]
        return rng.choice(near) if abs(value) < 2**40 else value - 1
    if isinstance(value, float):
        return float(rng.choice([value + 1, value - 0.5, -value, 0.0, value / 2, *numbers]))
    if isinstance(value, str):
        return texts(value)
    if isinstance(value, list):
        return _items(value, rng)
    return value


def _whole(value: float) -> bool:
    return float(value).is_integer() and abs(value) < 2**31


def _items(values: list[Any], rng: Random) -> Any:
    """A list with other items of the same kind, or one item alone."""
    place = rng.randrange(len(values))
    shorter = values[:place] + values[place + 1 :]
    return rng.choice(
        (values[::-1], [*values, values[place]], shorter or values, [values[place]], values[1:] + values[:1])
    )
