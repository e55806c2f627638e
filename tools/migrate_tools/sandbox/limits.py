"""Limits beside the namespaces: resource limits, a second clock, and a watch on memory."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path

from migrate_tools.sandbox.api import Job, Limits

MIB = 1 << 20
OPEN_FILES = 1024
OWN_PROCESSES = 4
"""What bubblewrap itself needs beside the job."""
LATE_SECONDS = 10
"""How much longer than its time a job can live when we are gone."""


def clocked(job: Job) -> list[str]:
    """The command under a clock inside the sandbox: it ends the job also when nothing outside does."""
    return ["timeout", "--foreground", "-s", "KILL", f"{job.limits.seconds + LATE_SECONDS:.0f}", *job.argv]


def rlimits(limits: Limits, *, counted: bool) -> dict[str, int]:
    """Resource limits by the name that `resource` has for them; `counted`: a control group holds the memory too.

    RLIMIT_DATA counts private writable memory, so that libraries which only reserve address space still work.
    """
    return {
        "RLIMIT_CORE": 0,
        "RLIMIT_CPU": cpu_seconds(limits),
        "RLIMIT_FSIZE": limits.file_mb * MIB,
        "RLIMIT_NOFILE": OPEN_FILES,
        "RLIMIT_DATA": limits.memory_mb * MIB * (2 if counted else 1),
    }


def cpu_seconds(limits: Limits) -> int:
    """Processor seconds of one process; at least 1."""
    return limits.cpu_seconds if limits.cpu_seconds is not None else max(1, round(limits.seconds * 4))


def own_process_limit(limits: Limits) -> int:
    """RLIMIT_NPROC for a job that runs as ourselves, to be set inside its user namespace.

    Kernels from 5.14 count processes by user namespace; older ones count all that the user has.
    """
    release = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2] if part.isdigit())
    if release >= (5, 14):
        return limits.processes + OWN_PROCESSES
    uid = os.getuid()
    mine = 0
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and folder.stat().st_uid == uid:
                mine += len(list((folder / "task").iterdir()))
    return mine + limits.processes + OWN_PROCESSES


def resident_bytes(pid: int) -> int:
    """Memory of all processes below one, shared pages counted once a process; 0 when they are gone."""
    total = 0
    waiting = _children(pid)
    page = os.sysconf("SC_PAGE_SIZE")
    while waiting:
        current = waiting.pop()
        with suppress(OSError, ValueError, IndexError):
            resident, shared = (int(part) for part in Path(f"/proc/{current}/statm").read_text().split()[1:3])
            total += (resident - shared) * page
            waiting += _children(current)
    return total


def proportional_bytes(pid: int) -> int | None:
    """Memory of all processes below one, a page that n of them share counted as 1/n; None when it cannot be read.

    Slower than `resident_bytes`, but right for the copies of a process that has forked many times.
    """
    total = 0
    waiting = _children(pid)
    while waiting:
        current = waiting.pop()
        try:
            lines = Path(f"/proc/{current}/smaps_rollup").read_text().splitlines()
        except PermissionError:
            return None
        except OSError:
            continue
        total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss_Anon:"))
        waiting += _children(current)
    return total


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def ended_in_memory_error(code: int | None, stderr: bytes) -> bool:
    """Whether a Python program gave up for want of memory: RLIMIT_DATA refuses, it does not kill."""
    lines = stderr.rstrip().splitlines()
    return code not in (None, 0) and bool(lines) and lines[-1].startswith(b"MemoryError")
