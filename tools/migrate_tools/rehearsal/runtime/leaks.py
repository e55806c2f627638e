"""What a process holds open: tasks of its event loop, files, sockets, child processes."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path

SETTLE_SECONDS = 2.0
"""Connections and processes that are ending get so long."""
_TEXT = {
    "task": "tasks of the event loop",
    "file": "open files",
    "socket": "open sockets",
    "child": "child processes",
}


def held() -> Counter[str]:
    """Counts by kind, taken on the event loop; the calling task is left out."""
    counts: Counter[str] = Counter(task=len(asyncio.all_tasks()) - 1, file=0, socket=0, child=0)
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:
            continue  # the folder's own descriptor, closed by now
        counts["socket" if target.startswith("socket:") else "file"] += 1
    counts["child"] = _children()
    return counts


def _children() -> int:
    own, found = os.getpid(), 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        found += int(fields[1]) == own and fields[0] != "Z"
    return found


async def growth(before: Counter[str]) -> list[str]:
    """What there is more of than before, after a short time to settle."""
    waited = 0.0
    while True:
        more = {kind: count - before[kind] for kind, count in held().items() if count > before[kind]}
        if not more or waited >= SETTLE_SECONDS:
            return [f"{count} more {_TEXT[kind]}" for kind, count in sorted(more.items())]
        await asyncio.sleep(0.05)
        waited += 0.05
