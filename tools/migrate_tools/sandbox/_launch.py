"""Started by the bubblewrap provider as `python -I -S _launch.py FD`: sets limits and the user, then becomes bwrap.

As root it first shows the mounts in a private mount namespace, at paths that any user may walk: bwrap then runs
as a user of its own, and could not reach a source below a closed folder such as /root. Standard library only,
and nothing of migrate_tools: the start counts.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
from typing import Any

PR_SET_PDEATHSIG, SIGKILL = 1, 9
CLONE_NEWNS = 0x20000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000


def main() -> None:
    with open(int(sys.argv[1]), "rb") as file:  # noqa: PTH123 (a descriptor)
        spec: dict[str, Any] = json.load(file)
    for path in spec["groups"]:
        with open(path, "wb") as group:  # noqa: PTH123 (pathlib costs a third of the start)
            group.write(str(os.getpid()).encode())
    if spec["stage"]:
        stage(spec["stage"], spec["sources"])
    for name, value in spec["rlimits"].items():
        lower(getattr(resource, name), value)
    if spec["uid"] is not None:
        os.setgroups([])
        os.setresgid(spec["gid"], spec["gid"], spec["gid"])
        os.setresuid(spec["uid"], spec["uid"], spec["uid"])
    die_with(spec["parent"])
    os.chdir("/")
    os.umask(0o022)
    handed = {name: str(hand(text)) for name, text in spec["data"].items()}
    os.execve(spec["argv"][0], [handed.get(word, word) for word in spec["argv"]], {})


def die_with(parent: int) -> None:
    """Ends this process when its parent ends, from now on: bwrap sees to that only some way into its start."""
    if ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(SIGKILL)) != 0 or os.getppid() != parent:
        sys.exit(1)


def hand(text: str) -> int:
    """A descriptor, open across exec, from which bwrap reads a file's content."""
    fd = os.memfd_create("data", 0)
    os.write(fd, text.encode())
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def lower(kind: int, value: int) -> None:
    """Sets a limit, never above the one that already holds."""
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def stage(place: str, sources: list[str]) -> None:
    """Binds source i at `place`/i, in a mount namespace that ends with this process."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name: str, *args: Any) -> None:
        if getattr(libc, name)(*args) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")

    call("unshare", CLONE_NEWNS)
    call("mount", b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None)
    held = [os.open(source, os.O_PATH | os.O_CLOEXEC) for source in sources]  # before `place` may hide one
    call("mount", b"tmpfs", place.encode(), b"tmpfs", ctypes.c_ulong(MS_NOSUID | MS_NODEV), b"mode=0755")
    for i, (source, fd) in enumerate(zip(sources, held, strict=True)):
        target = f"{place}/{i}"
        if os.path.isdir(source):  # noqa: PTH112
            os.mkdir(target, 0o755)  # noqa: PTH102
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
        call("mount", f"/proc/self/fd/{fd}".encode(), target.encode(), None, ctypes.c_ulong(MS_BIND | MS_REC), None)


main()
