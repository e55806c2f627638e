"""What the recipe's data set class does to a row, done once while converting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from migrate_tools.data.sources import Part, python_part

RowFunction = Callable[[dict[str, Any]], dict[str, Any]]
ROW_FUNCTION: RowFunction | None = None
"""Takes a row and returns it as verl would have seen it."""


def mapped(part: Part, function: RowFunction | None) -> Part:
    """The source with the function applied to every row; a row on which it raises is bad."""
    if function is None:
        return part

    def raw() -> Iterator[tuple[int, Any, str]]:
        number = 0
        for chunk in part.read():
            for row in chunk.batch.to_pylist():
                try:
                    yield number, function(row), ""
                except Exception as error:
                    yield number, row, f"the recipe's own row function raised {type(error).__name__}: {error}"
                number += 1

    made = python_part(part.path, raw, group=-1)
    return replace(made, size=part.size, files=part.files, losses=[*part.losses, *made.losses])
