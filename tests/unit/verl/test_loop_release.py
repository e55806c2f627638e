"""The release of a verl's tool agent loop is read from its text where that is at hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from migrate_tools.model import VerlRef
from migrate_tools.verl.loop_release import LOOP_FILE, loop_release

CREATE = "await tool.create(create_kwargs={})\n"
STATE = "await tool.execute(i, a, agent_data=agent_data)\n"
NAMED = "f\"Unknown function '{name}'.\"\n"


@pytest.mark.parametrize(
    ("version", "text", "release"),
    [
        ("0.8.0.dev", CREATE + STATE, "0.7.1"),
        ("0.8.0.dev", CREATE + STATE + NAMED, "0.8.0.dev"),
        ("0.7.0.dev", CREATE, "0.6.1"),
        ("0.6.0.dev", "class ToolAgentLoop:\n", "0.5.0"),
        ("0.7.0.dev", CREATE + STATE + NAMED, "0.8.0"),
        ("0.7.0", CREATE + STATE, "0.7.0"),
        ("0.10.0.dev", CREATE + STATE + NAMED, "0.10.0.dev"),
        ("0.8.0.dev", "", "0.8.0.dev"),
    ],
)
def test_the_text_of_the_loop_decides(tmp_path: Path, version: str, text: str, release: str) -> None:
    if text:
        path = tmp_path / LOOP_FILE
        path.parent.mkdir(parents=True)
        path.write_text(text)
    assert loop_release(VerlRef(version=version, root=str(tmp_path), how="made up")) == release
