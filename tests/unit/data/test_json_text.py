"""What a column with JSON text holds."""

from __future__ import annotations

from typing import Any

import pytest
from migrate_tools.data.json_text import decoded


@pytest.mark.parametrize(
    ("value", "held"),
    [('{"a": 1}', {"a": 1}), (" [2]", [2]), ("[1", "[1"), ("7", "7"), ('"x"', '"x"'), (3, 3), (None, None), ([1], [1])],
)
def test_only_lists_and_objects_are_taken_out_of_a_text(value: Any, held: Any) -> None:
    assert decoded(value) == held


def test_a_text_nested_too_deep_stays_a_text() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    assert decoded(deep) == deep
