"""The Docker provider: one container a job, locked down, killed and removed whatever happens."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from migrate_tools.errors import MachineError
from migrate_tools.sandbox import image, layout, limits, owner
from migrate_tools.sandbox.api import Job, Limits, Mount, Outcome
from migrate_tools.sandbox.attach import Attached
from migrate_tools.sandbox.pump import Kept
from migrate_tools.sandbox.staging import staged

NAME = "docker"
LABEL = "migrate-agent.sandbox"
HINT = "start a Docker engine, or use --sandbox bubblewrap"
SOCKET = "unix:///var/run/docker.sock"
ENGINE_SECONDS = 60
"""How long the engine may take for one answer."""
_clients = threading.local()


def client() -> Any:
    """A client of the engine on this machine, one a thread.

    Raises:
        MachineError: no engine answers here.
    """
    found = getattr(_clients, "client", None)
    if found is not None:
        return found
    if not _listens():
        raise MachineError("no Docker engine answers", HINT)
    import docker
    from docker.errors import DockerException

    try:
        found = docker.from_env(timeout=ENGINE_SECONDS)
        found.ping()
    except (DockerException, OSError) as error:
        raise MachineError("no Docker engine answers", HINT) from error
    if not found.api.base_url.startswith("http+docker://"):
        raise MachineError(f"the Docker engine is on another machine ({found.api.base_url})", HINT)
    _clients.client = found
    return found


def _listens() -> bool:
    """Whether we may connect to the engine's socket; the client library leaks one where we may not."""
    kind, _, path = (os.environ.get("DOCKER_HOST") or SOCKET).partition("://")
    if kind != "unix":
        return True
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(ENGINE_SECONDS)
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


@dataclass(frozen=True)
class Docker:
    """Jobs in containers of `image`. `user` is the id of the job's user, `own_site` that the image has libraries."""

    image: str
    user: int
    own_site: bool
    name: str = NAME

    def run(self, job: Job) -> Outcome:
        """See `Sandbox.run`."""
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        started = time.monotonic()
        mounts = [mount for mount in job.mounts if not (self.own_site and layout.is_site(mount))]
        try:
            with staged(mounts, self.user, self.user) as ready, self._container(job, ready) as container:
                return self._run(container, job, started)
        except (DockerException, RequestException) as error:
            raise MachineError(f"the Docker engine failed: {error}", HINT) from error

    def _run(self, container: Any, job: Job, started: float) -> Outcome:
        output = (Kept(job.limits.output_bytes), Kept(job.limits.output_bytes))
        with Attached(container, output) as attached:
            container.start()
            deadline = time.monotonic() + job.limits.seconds
            done = attached.carry(job.stdin, deadline) and _ended(container, deadline)
        if not done:  # with the stream closed: the engine ends no container whose output nobody takes
            _kill(container)
        container.reload()
        state = container.attrs["State"]
        code = int(state["ExitCode"]) if done else None
        return Outcome(
            returncode=code,
            stdout=bytes(output[0].data),
            stderr=bytes(output[1].data),
            timed_out=not done,
            out_of_memory=bool(state["OOMKilled"]) or limits.ended_in_memory_error(code, bytes(output[1].data)),
            truncated=output[0].truncated or output[1].truncated,
            seconds=time.monotonic() - started,
            provider=self.name,
        )

    @contextmanager
    def _container(self, job: Job, mounts: Sequence[Mount]) -> Iterator[Any]:
        from docker.errors import APIError, NotFound

        engine = client()
        name = f"migrate-agent-{uuid4().hex[:16]}"
        try:
            yield engine.containers.create(self.image, limits.clocked(job), name=name, **self._options(job, mounts))
        finally:  # by name: an interrupt may come between the engine's work and its answer
            with suppress(NotFound):
                try:
                    engine.api.remove_container(name, force=True, v=True)
                except APIError as error:
                    if error.status_code != 409:  # "removal is already in progress"
                        raise

    def _options(self, job: Job, mounts: Sequence[Mount]) -> dict[str, Any]:
        from docker.types import LogConfig, Ulimit
        from docker.types import Mount as Bind

        bound = job.limits
        size = f"size={bound.file_mb}m,mode=1777,nosuid,nodev"
        folders = ["/tmp"] if any(mount.target == "/work" for mount in mounts) else ["/tmp", "/work"]
        hard = {"core": 0, "cpu": limits.cpu_seconds(bound), "nofile": limits.OPEN_FILES}
        hard["fsize"] = bound.file_mb * limits.MIB
        return {
            "user": f"{self.user}:{self.user}",
            "environment": {**layout.base_environment(), **job.env},
            "use_config_proxy": False,
            "working_dir": job.cwd,
            "hostname": layout.HOST,
            "stdin_open": True,
            "network_mode": "none",
            "read_only": True,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges:true"],
            "ipc_mode": "private",
            "shm_size": f"{bound.file_mb}m",
            "pids_limit": bound.processes + 1,
            "mem_limit": bound.memory_mb * limits.MIB,
            "memswap_limit": bound.memory_mb * limits.MIB,
            "nano_cpus": min(4, os.cpu_count() or 1) * 1_000_000_000,
            "ulimits": [Ulimit(name=key, soft=value, hard=value) for key, value in hard.items()],
            "tmpfs": dict.fromkeys(folders, f"rw,exec,{size}"),
            "mounts": [Bind(m.target, str(m.source), type="bind", read_only=not m.writable) for m in mounts],
            "log_config": LogConfig(type="none"),
            "labels": {LABEL: owner.owner()},
        }


def _ended(container: Any, deadline: float) -> bool:
    """Waits for the end: a job may close its output and go on."""
    from requests.exceptions import ConnectionError as NoConnection
    from requests.exceptions import ReadTimeout

    try:
        container.wait(timeout=max(0.1, deadline - time.monotonic()))
    except (ReadTimeout, NoConnection):
        return False
    return True


def _kill(container: Any) -> None:
    from docker.errors import APIError

    try:
        container.kill()
    except APIError as error:
        if error.status_code != 409:  # it ended by itself just now
            raise


def remove_strays() -> int:
    """Removes containers of runs on this machine that no longer exist; returns how many."""
    from docker.errors import DockerException

    removed = 0
    for container in client().containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
        if owner.is_gone(container.labels[LABEL]):
            with suppress(DockerException):
                container.remove(force=True, v=True)
                removed += 1
    return removed


@cache
def find() -> Docker:
    """The provider on this machine's engine, its image made when needed.

    Raises:
        MachineError: no engine answers, or the image cannot be made or does not work.
    """
    from docker.errors import DockerException

    engine = client()
    before = {tag for found in engine.images.list(image.REPOSITORY) for tag in found.tags}
    tag = image.ensure(engine)
    labels = engine.images.get(tag).labels or {}
    sandbox = Docker(tag, _user(engine), labels.get(image.SITE_LABEL) == "own")
    with suppress(DockerException):
        remove_strays()
    contained = any(Path(name).exists() for name in ("/.dockerenv", "/run/.containerenv"))
    if tag not in before or contained:  # in a container the engine may know other folders than we do
        _try(sandbox)
    return sandbox


def _user(engine: Any) -> int:
    """An ordinary user; ourselves where we are one, so that results stay ours (in a rootless engine that is 0)."""
    if any("rootless" in option for option in engine.info().get("SecurityOptions") or []):
        return 0
    return image.USER if os.getuid() == 0 else os.getuid()


def _try(sandbox: Docker) -> None:
    job = Job(
        (layout.PYTHON, "-c", "import migrate_tools, pyarrow, pydantic"),
        mounts=layout.python_mounts(),
        env=layout.python_env(),
        limits=Limits(seconds=30),
    )
    outcome = sandbox.run(job)
    if outcome.returncode != 0:
        lines = outcome.stderr.decode("utf-8", "replace").strip().splitlines()
        raise MachineError(f"Python does not run in a container here: {lines[-1] if lines else outcome}", HINT)
