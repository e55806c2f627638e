"""Time that a worker spent waiting for a processor: a busy machine took it, not the scorer.

Linux counts it for every process (`/proc/PID/schedstat`, second field, nanoseconds). Where it does not, nothing is
known and limits hold as plain wall time. Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from migrate_tools.parity import strays

LOOK_SECONDS = 0.1
"""How often the processes of a worker are looked at."""
MOST = 8.0
"""A limit grows to this many times its length at most, however busy the machine is."""


class Limit:
    """A time limit that leaves out the time in which the worker's processes waited for a processor.

    In each interval the longest wait of any process counts: a scorer that waits for a child is as late as its child.
    Where more of them wait than there are processors, they stand in each other's way, and only a share counts.
    """

    def __init__(self, spared: Collection[int], now: float, seconds: float) -> None:
        self._spared = spared
        self._seen: dict[int, float] = {}
        self._looked = now
        self.begin(now, seconds)

    def begin(self, now: float, seconds: float) -> None:
        """A new item: `seconds` from now."""
        self._began, self._seconds, self._waited = now, seconds, 0.0

    def over(self, now: float) -> bool:
        """True when the item used up its time; looks at the processes at most every LOOK_SECONDS."""
        passed = now - self._began
        if now - self._looked >= LOOK_SECONDS:
            longest = self._longest_wait()
            self._waited += min(longest, now - max(self._looked, self._began))
            self._looked = now
        return passed - self._waited > self._seconds or passed > MOST * self._seconds

    def _longest_wait(self) -> float:
        """The longest that one of the processes waited since the last look, in seconds."""
        now_seen = {pid: wait for pid in strays.descendants() - set(self._spared) if (wait := waited(pid)) is not None}
        grown = [more for pid, wait in now_seen.items() if (more := wait - self._seen.get(pid, 0.0)) > 0]
        self._seen = now_seen
        return max(grown) * min(1.0, _processors() / len(grown)) if grown else 0.0


def _processors() -> int:
    return len(os.sched_getaffinity(0))


def waited(pid: int) -> float | None:
    """Seconds that a process was ready to run and had no processor; None where that is not known."""
    try:
        return int(Path("/proc", str(pid), "schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None
