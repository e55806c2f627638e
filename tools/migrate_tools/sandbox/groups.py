"""Control groups: they hold a job's memory and processes together, and find all of it when it must end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from migrate_tools.sandbox import limits, owner
from migrate_tools.sandbox.api import Limits

CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Group:
    """Control groups of one job; empty where this machine or user has none."""

    folders: tuple[Path, ...] = ()
    memory: Path | None = None

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
def control_group(bound: Limits) -> Iterator[Group]:
    """Groups with the job's memory and process limits, version 2 or 1, where we may make them."""
    group = _make(bound) if os.getuid() == 0 else Group()
    try:
        yield group
    finally:
        group.close()


def control_groups_work() -> bool:
    """Whether jobs of this user get control groups on this machine."""
    with control_group(Limits()) as group:
        return group.memory is not None


def _make(bound: Limits) -> Group:
    name = f"{owner.prefix()}{uuid4().hex[:8]}"
    if (CGROUP / "cgroup.controllers").exists():
        return _version_2(name, bound)
    folders: list[Path] = []
    memory = _version_1("memory", name, {"memory.limit_in_bytes": bound.memory_mb * limits.MIB})
    if memory is not None:
        folders.append(memory)
        with suppress(OSError):
            (memory / "memory.memsw.limit_in_bytes").write_text(str(bound.memory_mb * limits.MIB))
    pids = _version_1("pids", name, {"pids.max": bound.processes + limits.OWN_PROCESSES})
    if pids is not None:
        folders.append(pids)
    return Group(tuple(folders), memory)


def _version_2(name: str, bound: Limits) -> Group:
    parent = CGROUP / "migrate-agent"
    folder = parent / name
    try:
        (CGROUP / "cgroup.subtree_control").write_text("+memory +pids")
        parent.mkdir(exist_ok=True)
        (parent / "cgroup.subtree_control").write_text("+memory +pids")
        folder.mkdir()
        (folder / "memory.max").write_text(str(bound.memory_mb * limits.MIB))
        (folder / "pids.max").write_text(str(bound.processes + limits.OWN_PROCESSES))
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


def sweep() -> int:
    """Ends jobs whose migrate-agent no longer lives and removes their groups; returns how many groups."""
    if os.getuid() != 0:
        return 0
    if (CGROUP / "cgroup.controllers").exists():
        parents = {CGROUP / "migrate-agent"}
    else:
        controllers = ("memory", "pids")
        parents = {CGROUP / name for name in controllers} | {group for group in map(_own_group, controllers) if group}
    strays = [folder for parent in parents for folder in owner.left_behind(parent)]
    if strays:
        Group(tuple(strays)).close()
    return len(strays)
