"""What remains of a job when the program that started it is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from migrate_tools.sandbox import Sandbox, groups, open_sandbox, owner

pytestmark = pytest.mark.jail

START = """
import os, signal, sys
from migrate_tools.sandbox import Job, Limits, open_sandbox
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
box = open_sandbox(sys.argv[1])
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        box.run(Job(("bash", "-c", "sleep 300; :", line.strip()), limits=Limits(seconds=300)))
        os._exit(0)
    print(child, flush=True)
"""


class Starter:
    """A process whose children each run one job."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def start(self, word: str) -> int:
        """Starts a job with `word` in its command line; returns the id of the process that waits for it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(word, file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


@contextmanager
def starter(provider: str) -> Iterator[Starter]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(START), provider],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    with process:
        try:
            yield Starter(process)
        finally:
            process.kill()


def test_nothing_is_left_when_we_are_killed_while_the_job_starts(marker) -> None:
    """At the first sign of the job's command line, when bwrap has set up nothing yet, and a little later each time."""
    with starter("bubblewrap") as jobs:
        for round_ in range(12):
            pid = jobs.start(marker.word)
            while not marker.alive():
                time.sleep(0.0005)
            time.sleep(round_ * 0.001)
            os.kill(pid, 9)
            assert marker.gone(), f"round {round_}"


def test_nothing_is_left_when_we_are_killed(box: Sandbox, marker) -> None:
    with starter(box.name) as jobs:
        pid = jobs.start(marker.word)
        assert marker.seen()
        os.kill(pid, 9)
        _wait_for_end(pid)
    if box.name == "docker":
        from migrate_tools.sandbox import docker_engine

        assert docker_engine.remove_strays() >= 1
    assert marker.gone()


def test_a_job_that_nobody_watches_is_found_when_the_sandbox_is_opened(marker, tmp_path: Path) -> None:
    """Its launcher is stopped before we are killed, so that only the next opening can end the job."""
    if not groups.control_groups_work():
        pytest.skip("no control groups here")
    with starter("bubblewrap") as jobs:
        pid = jobs.start(marker.word)
        assert marker.seen()
        launcher = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
        os.kill(launcher, 19)
        os.kill(pid, 9)
        _wait_for_end(pid)
        assert marker.alive()
        open_sandbox("bubblewrap")
        assert marker.gone()
        os.kill(launcher, 9)


def test_folders_of_the_dead_are_removed_and_those_of_the_living_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with subprocess.Popen(["true"]) as process:
        dead = owner.owner(process.pid)
    for name in (f"migrate-agent-{dead}-x", f"{owner.prefix()}y", "migrate-agent-other", "else"):
        (tmp_path / name / "deep").mkdir(parents=True)
    owner.sweep_folders()
    assert {path.name for path in tmp_path.iterdir()} == {f"{owner.prefix()}y", "migrate-agent-other", "else"}


def test_a_process_is_known_by_more_than_its_id() -> None:
    namespace, pid, start = owner.owner().split(".")
    assert not owner.is_gone(owner.owner())
    assert owner.is_gone(f"{namespace}.{pid}.{int(start) + 1}")
    assert not owner.is_gone(f"{int(namespace) + 1}.{pid}.{int(start) + 1}")
    assert not owner.is_gone("host:1:2")


def _wait_for_end(pid: int) -> None:
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.005)
