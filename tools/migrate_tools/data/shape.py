"""The Arrow type that holds Python values of many rows, and what that type cannot hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

INT_RANGE = range(-(1 << 63), 1 << 63)
JSON_KINDS = frozenset({"bool", "int", "float", "str"})
EXACT = 1 << 53
"""Whole numbers beyond are not all floating-point numbers."""


class Shape:
    """What the values of one place look like, over all rows.

    Values that no Arrow type holds together (a number in one row, text in another) are stored as JSON text; keys that
    some rows lack come back as None. `losses` names both, so that another format can be chosen.
    """

    __slots__ = ("dicts", "far", "fields", "items", "kinds", "other", "seen")

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.fields: dict[str, Shape] = {}
        self.items: Shape | None = None
        self.other: Any = None
        """Arrow type of values that JSON does not know."""
        self.seen = 0
        self.dicts = 0
        self.far = False
        """Some whole number is beyond EXACT."""

    def add(self, value: Any) -> None:
        """Take one more value into account."""
        self.seen += 1
        if value is None:
            return
        kind = type(value).__name__
        self.kinds.add(kind)
        if isinstance(value, dict):
            self.dicts += 1
            for key, item in value.items():
                found = self.fields.get(key)
                if found is None:
                    found = self.fields[key] = Shape()
                found.add(item)
        elif isinstance(value, list):
            if self.items is None:
                self.items = Shape()
            for item in value:
                self.items.add(item)
        elif kind not in JSON_KINDS:
            self.other = pa.binary() if kind == "bytes" else pa.array([value]).type
            self.kinds.discard(kind)
            self.kinds.add(str(self.other))
        elif kind == "int" and not -EXACT <= value <= EXACT:
            self.far = True
            if value not in INT_RANGE:
                self.kinds.add("huge")

    @property
    def as_text(self) -> bool:
        """Whether the values can only be kept as JSON text."""
        if self.kinds == {"dict"}:
            return not self.fields
        if self.kinds == {"int", "float"}:
            return self.far
        return len(self.kinds) > 1 or not self.kinds <= {"bool", "int", "float", "str", "list", str(self.other)}

    def type(self) -> Any:
        """The Arrow type of `stored` values."""
        if not self.kinds:
            return pa.null()
        if self.as_text:
            return pa.string()
        if "dict" in self.kinds:
            return pa.struct([(key, item.type()) for key, item in self.fields.items()])
        if "list" in self.kinds:
            return pa.list_(self.items.type() if self.items else pa.null())
        if "float" in self.kinds:
            return pa.float64()
        return {"bool": pa.bool_(), "int": pa.int64(), "str": pa.string()}.get(next(iter(self.kinds)), self.other)

    @property
    def bare(self) -> bool:
        """Whether there is nothing but empty objects."""
        return self.kinds <= {"dict"} and not self.fields

    @property
    def plain(self) -> bool:
        """Whether every value can be stored as it is."""
        below = (*self.fields.values(), *((self.items,) if self.items else ()))
        return not self.as_text and all(item.plain for item in below)

    def stored(self, value: Any) -> Any:
        """A value in the form that `type` holds."""
        if value is None:
            return None
        if self.as_text:
            return json.dumps(value, ensure_ascii=False, default=str)
        if isinstance(value, dict):
            return {key: self.fields[key].stored(item) for key, item in value.items()}
        if isinstance(value, list) and self.items:
            return [self.items.stored(item) for item in value]
        return value

    def losses(self, path: str, *, absent: bool) -> Iterator[str]:
        """What the type cannot hold, by name.

        Args:
            absent: whether a key that some rows lack counts as one.
        """
        if self.as_text:
            found = "empty objects" if self.kinds == {"dict"} else f"{', '.join(sorted(self.kinds))} values"
            yield f"{path} has {found}: kept as JSON text"
            return
        if self.kinds == {"int", "float"}:
            yield f"{path} has whole and decimal numbers: all become decimal"
        lacking = [key for key, item in self.fields.items() if item.seen < self.dicts] if absent else []
        if lacking:
            yield f"{path} lacks {', '.join(lacking)} in some rows: there they come back as None"
        for key, item in self.fields.items():
            yield from item.losses(f"{path}.{key}", absent=absent)
        if self.items:
            yield from self.items.losses(f"{path}[]", absent=absent)


def arrow_values(shape: Shape, values: Iterable[Any]) -> Any:
    """Python values as an Arrow array of the shape's type."""
    plain = shape.plain
    return pa.array([value if plain else shape.stored(value) for value in values], type=shape.type())
