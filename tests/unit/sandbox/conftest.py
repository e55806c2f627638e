"""The sandbox under test, once by provider, and helpers that look at the machine from outside."""

from __future__ import annotations

import os
import time
from pathlib import Path
from uuid import uuid4

import pytest
from migrate_tools.errors import MachineError
from migrate_tools.sandbox import Sandbox, open_sandbox

PROVIDERS = [pytest.param("docker", marks=pytest.mark.docker), pytest.param("bubblewrap")]


@pytest.fixture(scope="session", params=PROVIDERS)
def box(request: pytest.FixtureRequest) -> Sandbox:
    try:
        return open_sandbox(request.param)
    except MachineError as error:
        if "no Docker engine answers" in error.message and not os.environ.get("CI"):
            pytest.skip(error.message)
        raise


class Marker:
    """A word in a command line by which processes of a job are found on this machine."""

    def __init__(self) -> None:
        self.word = f"marker-{uuid4().hex}"

    def alive(self) -> list[str]:
        found = []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit() or int(folder.name) == os.getpid():
                continue
            try:
                command = (folder / "cmdline").read_bytes()
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if self.word.encode() in command and state != "Z":
                found.append(folder.name)
        return found

    def gone(self, seconds: float = 5) -> bool:
        end = time.monotonic() + seconds
        while self.alive():
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def seen(self, seconds: float = 10) -> bool:
        """Waits until the job itself runs as bash, not only what starts it."""
        end = time.monotonic() + seconds
        while not any(Path(f"/proc/{pid}/comm").read_text() == "bash\n" for pid in self.alive()):
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True


@pytest.fixture
def marker() -> Marker:
    return Marker()
