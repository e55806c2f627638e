"""The column tools: all tools, or those that a row chooses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from migrate_tools.data.convert import ConvertPlan, convert

TOOLS = json.dumps([{"type": "function", "function": {"name": name}} for name in ("a", "b")])


@pytest.mark.parametrize(
    ("by", "extra", "names"),
    [
        ("", {"tool_selection": ["b"]}, ["a", "b"]),
        ("tool_selection", {"tool_selection": ["b", "gone", "a"]}, ["b", "a"]),
        ("tool_selection", {"tool_selection": None}, ["a", "b"]),
        ("tool_selection", {}, ["a", "b"]),
        ("tools_kwargs", {"tools_kwargs": {"b": {"create_kwargs": {"x": 1}}}}, ["b"]),
        ("tools_kwargs", {}, []),
        ("tools_kwargs", {"tools_kwargs": True}, []),
        ("tool_selection", {"tool_selection": "b"}, ["a", "b"]),
        ("tool_selection", {"tool_selection": [["b"]]}, []),
    ],
)
def test_shown_tools(
    rows: Any, write_rows: Any, tmp_path: Path, by: str, extra: dict[str, Any], names: list[str]
) -> None:
    source = write_rows([{**row, "extra_info": {**row["extra_info"], **extra}} for row in rows])
    done = convert(ConvertPlan(tools=TOOLS, tools_by=by), source, tmp_path / "out.parquet")
    for row in pq.read_table(done.target).to_pylist():
        assert [item["function"]["name"] for item in json.loads(row["tools"])] == names
