"""Runs foreign calls one by one in a worker process that can be killed at any moment.

The parent never runs foreign code: it forks a worker, which announces every item before it starts and reports
it when done. A worker that is silent for longer than the limit, time that it waited for a processor aside, is killed
with its whole process group, the item counts as a timeout, and a fresh worker takes the next one. Runs inside the
sandbox: standard library only.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from migrate_tools.parity import pace, strays

Runner = Callable[[int], dict[str, Any]]
MEMORY_MB = 900
"""Memory of one worker with all that it starts: two runs of the old side share a job."""
WATCH_SECONDS = 0.1
"""How often the memory of a worker is looked at while it is silent."""
JOB_SECONDS = 240.0
"""What a sandbox job may take beside twice the time for its items: loading the scorer, checks, the end."""
SHORT_AFTER = 3
"""After so many timeouts the limit of an item falls to a third."""
MOST_UNREADY = 3
"""After so many workers that ended before they were ready, and none that was, nothing is tried again."""
GIVE_UP_AFTER = 24
"""After so many timeouts the rest is skipped, where the caller says nothing else."""


def run_items(
    items: Sequence[int],
    make_runner: Callable[[], Runner],
    *,
    item_seconds: float,
    total_seconds: float,
    setup_seconds: float = 60.0,
    memory_mb: int = MEMORY_MB,
    most_timeouts: int = GIVE_UP_AFTER,
) -> dict[int, dict[str, Any]]:
    """The record of every item: what the runner returned, or {"kind": "timeout" | "died" | "skipped"}.

    Args:
        make_runner: called once in each fresh worker; may load foreign code. What it raises becomes the record of
            every item, with kind "setup".
        item_seconds: longest time for one item, in seconds.
        total_seconds: items not started by then are skipped; counted from when the first worker is ready.
        setup_seconds: longest time for make_runner.
        memory_mb: a worker whose processes together hold more is killed; the item counts as died.
        most_timeouts: after so many of them the rest is skipped.
    """
    records: dict[int, dict[str, Any]] = {}
    waiting = list(items)
    strays.adopt()
    spared = strays.descendants()
    budget = _Budget(total_seconds)
    timeouts = workers = 0
    while waiting and not budget.over() and timeouts < most_timeouts:
        limit = item_seconds if timeouts < SHORT_AFTER else item_seconds / 3
        current = _one_worker(waiting, make_runner, records, limit, budget, setup_seconds, spared, memory_mb)
        workers += 1
        if workers == MOST_UNREADY and not budget.started and all(item["kind"] == "died" for item in records.values()):
            return {item: {"kind": "setup", "error": "the process ended while it loaded the reward"} for item in items}
        waiting = [item for item in waiting if item not in records]
        if current is not None and records.get(current, {}).get("kind") == "timeout":
            timeouts += 1
        if any(record.get("kind") == "setup" for record in records.values()):
            failure = next(record for record in records.values() if record.get("kind") == "setup")
            records.update({item: failure for item in waiting})
            waiting = []
    records.update({item: {"kind": "skipped"} for item in waiting})
    return records


class _Budget:
    """Wall time for all items together; loading the scorer the first time is not part of it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end: float | None = None

    def start(self) -> None:
        """The first worker is ready (later calls change nothing)."""
        if self._end is None:
            self._end = time.monotonic() + self._seconds

    @property
    def started(self) -> bool:
        """True once a worker was ready."""
        return self._end is not None

    def over(self) -> bool:
        """True when no further item may start."""
        return self._end is not None and time.monotonic() > self._end


def _one_worker(
    items: Sequence[int],
    make_runner: Callable[[], Runner],
    records: dict[int, dict[str, Any]],
    item_seconds: float,
    budget: _Budget,
    setup_seconds: float,
    spared: Collection[int],
    memory_mb: int,
) -> int | None:
    """Runs items in one forked worker until it ends or is killed; the item that ended it, if any."""
    reader, writer = os.pipe()
    os.set_inheritable(writer, False)
    sys.stdout.flush()
    sys.stderr.flush()
    child = strays.fork(spared)
    if child == 0:
        os.close(reader)
        _worker(items, make_runner, writer)
    os.close(writer)
    try:
        within = _MemoryWatch(spared, memory_mb)
        limit = pace.Limit(spared, time.monotonic(), setup_seconds)
        return _watch(child, reader, items, records, item_seconds, budget, limit, within)
    finally:
        os.close(reader)
        _kill_group(child)
        strays.sweep(spared)


def _watch(
    child: int,
    reader: int,
    items: Sequence[int],
    records: dict[int, dict[str, Any]],
    item_seconds: float,
    budget: _Budget,
    limit: pace.Limit,
    memory: _MemoryWatch,
) -> int | None:
    """Reads what the worker says until it ends or must be ended.

    Args:
        limit: runs already, for the loading of the scorer.
    """
    current: int | None = None
    buffer = b""
    gone = False
    while True:
        ready = _readable(reader, 0.05)
        chunk = os.read(reader, 1 << 16) if ready else b""
        for line in (lines := (buffer + chunk).split(b"\n"))[:-1]:
            message = json.loads(line)
            if "start" in message:
                if budget.over():
                    return None
                current = message["start"]
                limit.begin(time.monotonic(), item_seconds)
            elif "ready" in message:
                budget.start()
                limit.begin(time.monotonic(), item_seconds)
            elif "end" in message:
                return None
            else:
                records[message["item"]] = message["record"]
                current = None
        buffer = lines[-1]
        if not chunk and (ready or gone):
            lost = next((item for item in items if item not in records), None) if current is None else current
            if lost is not None:
                records[lost] = {"kind": "died", "error": "the process ended"}
            return current
        gone = not ready and _gone(child)
        if gone:
            continue  # what it said just before its end is still to be read
        now = time.monotonic()
        if not ready and memory.exceeded(now):
            lost = next((item for item in items if item not in records), None) if current is None else current
            if lost is not None:
                records[lost] = {"kind": "died", "error": "it needs too much memory"}
            return current
        if limit.over(now) and not _readable(reader, 0):
            if current is None and items[0] not in records:
                records[items[0]] = {"kind": "setup", "error": "loading the reward did not end"}
                return None
            if current is not None:
                records[current] = {"kind": "timeout"}
            return current
        if current is None and budget.over():
            return None


def _readable(reader: int, seconds: float) -> bool:
    """True when there is something to read, or nothing will come any more; waits so long at most."""
    return bool(select.select([reader], [], [], seconds)[0])


class _MemoryWatch:
    """Looks at the memory of a worker now and then."""

    def __init__(self, spared: Collection[int], memory_mb: int) -> None:
        self._spared, self._most = spared, memory_mb
        self._next = 0.0

    def exceeded(self, now: float) -> bool:
        """True when its processes hold too much; looks at most every WATCH_SECONDS."""
        if now < self._next:
            return False
        self._next = now + WATCH_SECONDS
        return strays.resident(self._spared) > self._most


def _gone(child: int) -> bool:
    """True when the worker has exited (a child of the scorer may still hold the pipe open)."""
    try:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _kill_group(child: int) -> None:
    for kill in (os.killpg, os.kill):
        try:
            kill(child, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    try:
        os.waitpid(child, 0)
    except ChildProcessError:
        return


def _worker(items: Sequence[int], make_runner: Callable[[], Runner], writer: int) -> None:
    """Body of the forked worker; never returns."""
    os.setsid()
    strays.leave_room()
    me = os.getpid()
    silence = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(silence, descriptor)

    def send(message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(writer, data) :]

    try:
        run = make_runner()
    except BaseException as error:
        send({"item": items[0], "record": {"kind": "setup", "error": describe(error)}})
        send({"end": True})
        os._exit(0)
    send({"ready": True})
    for item in items:
        send({"start": item})
        try:
            record = run(item)
        except BaseException as error:
            record = {"kind": "exception", "error": describe(error)}
        end_copies(me)
        send({"item": item, "record": record})
    send({"end": True})
    os._exit(0)


def end_copies(worker: int) -> None:
    """Ends this process when it is a forked copy that a scorer let come back; `worker` is the one that may go on."""
    if os.getpid() != worker:
        os._exit(0)


def describe(error: BaseException) -> str:
    """Class and message of an exception on one line, without object addresses."""
    text = " ".join(str(error)[:2000].split())[:500]
    return f"{type(error).__name__}: {text}".encode("utf-8", "backslashreplace").decode()
