"""Ends what a scorer leaves behind: processes that outlive their worker, fork storms, children in other sessions.

Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time
from collections.abc import Collection
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
ROUNDS = 200
PAUSE = 0.005
RESERVED = 32
"""Processes (and threads) that workers leave to the supervising ones."""
FORK_SECONDS = 60.0


def adopt() -> None:
    """Makes orphans below this process its children, so that they can be found and ended."""
    try:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        return


def leave_room() -> None:
    """Lowers this process's limit of processes, so that a storm below it leaves some to those above."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft != resource.RLIM_INFINITY and soft > 2 * RESERVED:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft - RESERVED, hard))


def descendants() -> set[int]:
    """Processes below this one, at any depth; zombies included."""
    above: dict[int, int] = {}
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        try:
            above[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
    found, edge = set[int](), {os.getpid()}
    while edge:
        edge = {pid for pid, parent in above.items() if parent in edge} - found
        found |= edge
    return found


def resident(spared: Collection[int]) -> float:
    """Memory in MiB of the processes below this one that are not `spared`; a page that n share counts 1/n in each."""
    kilobytes = 0
    for pid in descendants() - set(spared):
        try:
            lines = Path("/proc", str(pid), "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss_Anon:"))
    return kilobytes / 1024


def sweep(spared: Collection[int]) -> int:
    """Kills and reaps every process below this one that is not `spared`; how many it met.

    All are stopped before any is killed: a stopped process keeps its place, so that a storm at its limit stands still.
    """
    stopped: set[int] = set()
    for _ in range(ROUNDS):
        fresh = descendants() - set(spared) - stopped
        if not fresh:
            break
        _signal(fresh, signal.SIGSTOP)
        stopped |= fresh
    met = set(stopped)
    for _ in range(ROUNDS):
        strays = descendants() - set(spared)
        if not strays:
            break
        met |= strays
        _signal(strays, signal.SIGKILL)
        for pid in strays:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue
        time.sleep(PAUSE)
    return len(met)


def _signal(processes: Collection[int], kind: signal.Signals) -> None:
    for pid in processes:
        try:
            os.kill(pid, kind)
        except (ProcessLookupError, PermissionError):
            continue


def fork(spared: Collection[int]) -> int:
    """os.fork, tried again for a while when a storm has used up the number of processes.

    Raises:
        BlockingIOError: it did not become possible.
    """
    end = time.monotonic() + FORK_SECONDS
    while True:
        try:
            return os.fork()
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            sweep(spared)
            time.sleep(0.05)
