"""Which release's tool agent loop a verl has: a development tree between two releases may still have the older one."""

from __future__ import annotations

from pathlib import Path

from migrate_tools.model import VerlRef
from migrate_tools.verl.versions import read_small

LOOP_FILE = "verl/experimental/agent_loop/tool_agent_loop.py"
MARKS = (("create_kwargs=", "0.5.0"), ("agent_data=agent_data", "0.6.1"), ("Unknown function", "0.7.1"))
"""Text that a release brought into the loop -> the last release without it."""
NAMED = "0.8.0"
"""The release from which all of these hold."""


def loop_release(verl: VerlRef) -> str:
    """The release that stands for a verl's tool agent loop: its own version, unless its text is of another time.

    Source: tool_agent_loop.py of verl 0.5.0 to 0.9.1, in which every mark appears once and stays.
    """
    text = read_small(Path(verl.root) / LOOP_FILE)
    if not text:
        return verl.version
    older = next((release for mark, release in MARKS if mark not in text), "")
    if older:
        return verl.version if version_pair(verl.version) == version_pair(older) else older
    return verl.version if version_pair(verl.version) >= version_pair(NAMED) else NAMED


def version_pair(text: str) -> tuple[int, int]:
    """The first two numbers of a version; (99, 0) for a text without them."""
    numbers = [part for part in text.split(".")[:2] if part.isdigit()]
    return (int(numbers[0]), int(numbers[1])) if len(numbers) == 2 else (99, 0)
