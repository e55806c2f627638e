"""Limits that bubblewrap does not know: resource limits, control groups, and a watch on memory where there is none."""

from __future__ import annotations

import os
import platform
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from migrate_tools.sandbox.api import Limits

MIB = 1 << 20
CGROUP = Path("/sys/fs/cgroup")
OPEN_FILES = 1024
OWN_PROCESSES = 4
"""What bubblewrap itself needs beside the job."""


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


@dataclass(frozen=True)
class Group:
    """Control groups of one job; empty where this machine or user has none."""

    folders: tuple[Path, ...] = ()
    memory: Path | None = None

    @property
    def files(self) -> list[str]:
        """Files into which a process writes its id to join."""
        return [str(folder / "cgroup.procs") for folder in self.folders]

    def out_of_memory(self) -> bool:
        """Whether the kernel has killed a process of the job for its memory."""
        if self.memory is None:
            return False
        for name in ("memory.events", "memory.oom_control"):
            with suppress(OSError):
                for line in (self.memory / name).read_text().splitlines():
                    if line.startswith("oom_kill ") and int(line.split()[1]) > 0:
                        return True
        return False

    def close(self) -> None:
        """Kills what is left in the groups and removes them."""
        end = time.monotonic() + 3
        left = list(self.folders)
        while left and time.monotonic() < end:
            for folder in list(left):
                with suppress(OSError, ValueError):
                    for pid in (folder / "cgroup.procs").read_text().split():
                        if int(pid) > 0:
                            os.kill(int(pid), signal.SIGKILL)
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    left.remove(folder)
                except OSError:
                    continue
                else:
                    left.remove(folder)
            if left:
                time.sleep(0.01)


@contextmanager
def control_group(limits: Limits) -> Iterator[Group]:
    """Groups with the job's memory and process limits, version 2 or 1, where we may make them."""
    group = _make(limits) if os.getuid() == 0 else Group()
    try:
        yield group
    finally:
        group.close()


def _make(limits: Limits) -> Group:
    name = f"migrate-agent-{uuid4().hex[:12]}"
    if (CGROUP / "cgroup.controllers").exists():
        return _version_2(name, limits)
    folders: list[Path] = []
    memory = _version_1("memory", name, {"memory.limit_in_bytes": limits.memory_mb * MIB})
    if memory is not None:
        folders.append(memory)
        with suppress(OSError):
            (memory / "memory.memsw.limit_in_bytes").write_text(str(limits.memory_mb * MIB))
    pids = _version_1("pids", name, {"pids.max": limits.processes + OWN_PROCESSES})
    if pids is not None:
        folders.append(pids)
    return Group(tuple(folders), memory)


def _version_2(name: str, limits: Limits) -> Group:
    parent = CGROUP / "migrate-agent"
    folder = parent / name
    try:
        (CGROUP / "cgroup.subtree_control").write_text("+memory +pids")
        parent.mkdir(exist_ok=True)
        (parent / "cgroup.subtree_control").write_text("+memory +pids")
        folder.mkdir()
        (folder / "memory.max").write_text(str(limits.memory_mb * MIB))
        (folder / "pids.max").write_text(str(limits.processes + OWN_PROCESSES))
    except OSError:
        with suppress(OSError):
            folder.rmdir()
        return Group()
    with suppress(OSError):
        (folder / "memory.swap.max").write_text("0")
    return Group((folder,), folder)


def _version_1(controller: str, name: str, values: dict[str, int]) -> Path | None:
    for parent in (_own_group(controller), CGROUP / controller):
        if parent is None:
            continue
        folder = parent / name
        try:
            folder.mkdir()
            for key, value in values.items():
                (folder / key).write_text(str(value))
        except OSError:
            with suppress(OSError):
                folder.rmdir()
            continue
        return folder
    return None


def _own_group(controller: str) -> Path | None:
    """The group that we are in, so that the job stays under our own limits too."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            if controller in names.split(","):
                folder = CGROUP / controller / path.lstrip("/")
                return folder if folder.is_dir() else None
    return None


def resident_bytes(pid: int) -> int:
    """Memory of a process and all below it, shared pages counted once a process; 0 when it is gone."""
    total = 0
    waiting = [pid]
    page = os.sysconf("SC_PAGE_SIZE")
    while waiting:
        current = waiting.pop()
        with suppress(OSError, ValueError, IndexError):
            resident, shared = (int(part) for part in Path(f"/proc/{current}/statm").read_text().split()[1:3])
            total += (resident - shared) * page
            for task in Path(f"/proc/{current}/task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
    return total


def ended_in_memory_error(code: int | None, stderr: bytes) -> bool:
    """Whether a Python program gave up for want of memory: RLIMIT_DATA refuses, it does not kill."""
    lines = stderr.rstrip().splitlines()
    return code not in (None, 0) and bool(lines) and lines[-1].startswith(b"MemoryError")
