"""Started by the bubblewrap provider as `python -I -S _launch.py SPEC ALIVE`: becomes bwrap in a child, and sees that
the child ends: with its time, or when ALIVE closes, that is when the provider is gone, however it went.

The child sets limits and the user. As root it first shows the mounts in a private mount namespace, at paths that any
user may walk: bwrap then runs as a user of its own, and could not reach a source below a closed folder such as /root.
All stay in one process group; bwrap's own link to its parent holds only from some way into its start. Standard
library only, and nothing of migrate_tools: the start counts.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any

CLONE_NEWNS = 0x20000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000
END_SECONDS = 5
"""How long the members of a control group may take to end."""


def main() -> None:
    with open(int(sys.argv[1]), "rb") as file:  # noqa: PTH123 (a descriptor)
        spec: dict[str, Any] = json.load(file)
    alive = int(sys.argv[2])
    ended, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake)
    child = os.fork()
    if child == 0:
        os.close(alive)
        become(spec)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):  # the job's own, not ours
        os.dup2(null, fd)
    os._exit(supervise(child, alive, ended, spec))


def supervise(child: int, alive: int, ended: int, spec: dict[str, Any]) -> int:
    """The child's status, 128 + n after signal n; kills it with all that it started when it may not go on."""
    end = time.monotonic() + spec["seconds"]
    poll = select.poll()
    poll.register(alive, select.POLLIN)
    poll.register(ended, select.POLLIN)
    while time.monotonic() < end:
        ready = [fd for fd, _ in poll.poll(max(1, int((end - time.monotonic()) * 1000)))]
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if ended in ready:
            os.read(ended, 64)
        if alive in ready:
            break
    kill(child)
    for folder in spec["folders"]:
        empty(folder)
    os.killpg(0, signal.SIGKILL)
    return 1


def empty(folder: str) -> None:
    """Kills the members of a control group, and removes it."""
    end = time.monotonic() + END_SECONDS
    while time.monotonic() < end:
        try:
            with open(f"{folder}/cgroup.procs") as members:  # noqa: PTH123 (pathlib costs a third of the start)
                for pid in members.read().split():
                    kill(int(pid))
            os.rmdir(folder)  # noqa: PTH106
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.01)
        else:
            return


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return


def become(spec: dict[str, Any]) -> None:
    """Turns this process into bwrap."""
    for folder in spec["folders"]:
        with open(f"{folder}/cgroup.procs", "wb") as group:  # noqa: PTH123
            group.write(str(os.getpid()).encode())
    if spec["stage"]:
        stage(spec["stage"], spec["sources"])
    for name, value in spec["rlimits"].items():
        lower(getattr(resource, name), value)
    if spec["uid"] is not None:
        os.setgroups([])
        os.setresgid(spec["gid"], spec["gid"], spec["gid"])
        os.setresuid(spec["uid"], spec["uid"], spec["uid"])
    os.chdir("/")
    os.umask(0o022)
    handed = {name: str(hand(text)) for name, text in spec["data"].items()}
    os.execve(spec["argv"][0], [handed.get(word, word) for word in spec["argv"]], {})


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


if __name__ == "__main__":
    main()
