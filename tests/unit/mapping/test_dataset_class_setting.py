"""data.custom_cls: derived when the conversion does all of it, else what is left is named."""

from __future__ import annotations

from typing import Any

import pytest
from migrate_tools.model import DataFile, DataSpec

SETTINGS = {"data.custom_cls.path": "data.py", "data.custom_cls.name": "Rows"}


def spec(**fields: Any) -> DataSpec:
    return DataSpec(
        train=(DataFile(text="a.parquet", rows=64),), known_from="files", custom_class="data.py:Rows", **fields
    )


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"row_code": "x", "row_moved": ("hint over every row",)}, "derived", "hint over every row"),
        (
            {"row_code": "x", "row_moved": ("hint over every row",), "row_left": ("Rows.other is its own",)},
            "approximate",
            "not migrated: Rows.other is its own; done while converting: hint over every row",
        ),
        ({"row_left": ("Rows.other is its own",)}, "approximate", "not migrated: Rows.other is its own"),
        ({}, "no_effect", "changes nothing"),
    ],
    ids=["all", "some", "none", "nothing to do"],
)
def test_dataset_class(make: Any, fields: dict[str, Any], status: str, words: str) -> None:
    done = make(SETTINGS, data=spec(**fields))
    (found,) = (item for item in done.settings if item.key == "data.custom_cls.path")
    assert found.status == status
    assert words in found.reason
    assert any("not migrated" in note.text for note in done.notes) == (status == "approximate")
