"""The values that go into a sandbox and come out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Limits:
    """What a job may use. Everything beyond is refused, or ends the job."""

    seconds: float = 60
    """Wall clock; the whole job is killed then."""
    cpu_seconds: int | None = None
    """Processor time of each process; None: as `seconds` allows."""
    memory_mb: int = 2048
    """MiB of the whole job, its temporary folders included where the kernel counts them."""
    processes: int = 128
    """Processes and threads at the same time."""
    output_bytes: int = 8 << 20
    """Bytes kept of stdout, and as many of stderr; more is read and thrown away."""
    file_mb: int = 256
    """MiB of one file, and of the temporary folders."""


@dataclass(frozen=True)
class Mount:
    """A file or folder of this machine and the absolute path at which the job sees it."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Job:
    """One command in a sandbox. `env` is its whole environment, save a few harmless defaults (PATH, HOME, LANG)."""

    argv: tuple[str, ...]
    mounts: tuple[Mount, ...] = ()
    cwd: str = "/work"
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    limits: Limits = Limits()


@dataclass(frozen=True)
class Outcome:
    """What became of a job."""

    returncode: int | None
    """Exit status; 128 + n after signal n; None when the time ran out."""
    stdout: bytes
    stderr: bytes
    timed_out: bool
    out_of_memory: bool
    truncated: bool
    """Some output was thrown away."""
    seconds: float
    provider: str


class Sandbox(Protocol):
    """A provider. `run` may be called from several threads at once."""

    @property
    def name(self) -> str:
        """docker or bubblewrap."""

    def run(self, job: Job) -> Outcome:
        """Runs the job to its end, or to its limits; nothing of it is left afterwards.

        Raises:
            MachineError: a mount does not exist, or the provider itself fails.
        """
