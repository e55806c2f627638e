"""The run's workspace as a git repository: a commit for the draft, for each repair, and for each that is rolled back.

Commits are the same whenever the same run is made: author and dates are fixed, and a commit that is already there is
not made again. No hook and no configuration of the user has a say. Where git is missing the run goes on without.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from migrate_tools.model import Example

SECONDS = 60
EPOCH = 946_684_800
"""Date of the first commit; each further one is a second later."""
_WHO = "migrate-agent <migrate-agent>"


class Workspace:
    """The history of one run, in `workspace.git` of its folder."""

    def __init__(self, root: Path) -> None:
        self.repository = root / "workspace.git"

    def record(self, example: Example, number: int, message: str) -> str:
        """Commits an example as commit `number` (from 0); returns its short id, "" without git.

        Later commits are dropped: a node that runs again after a kill replaces what it left.

        Raises:
            OSError, subprocess.SubprocessError: git fails.
        """
        if shutil.which("git") is None:
            return ""
        if not (self.repository / "HEAD").is_file():
            self._git("init", "-q", "--bare", "--template=", "--initial-branch=main", str(self.repository))
        stream = b"".join(_commit(example, number, message))
        commit = self._git(f"--git-dir={self.repository}", "fast-import", "--quiet", "--force", given=stream)
        return commit[:12]

    def messages(self) -> list[str]:
        """First lines of the commits, the oldest first."""
        if not (self.repository / "HEAD").is_file():
            return []
        return self._git(f"--git-dir={self.repository}", "log", "--reverse", "--format=%s", "main").splitlines()

    def _git(self, *words: str, given: bytes = b"") -> str:
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.repository.parent),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        done = subprocess.run(
            ["git", "-c", "gc.auto=0", *words],
            cwd=self.repository.parent, env=environment, input=given, capture_output=True, timeout=SECONDS, check=True,
        )  # fmt: skip
        return done.stdout.decode("utf-8", "replace").strip()


def _commit(example: Example, number: int, message: str) -> Iterator[bytes]:
    """One commit as git's fast-import reads it; it prints the id."""
    yield b"commit refs/heads/main\nmark :1\n"
    yield f"committer {_WHO} {EPOCH + number} +0000\n".encode()
    yield _data(message)
    if number > 0:
        yield f"from refs/steps/{number - 1}^0\n".encode()
    yield b"deleteall\n"
    for item in example.files:
        yield f"M {'100755' if item.executable else '100644'} inline {item.path}\n".encode()
        yield _data(item.text)
    yield f"\nreset refs/steps/{number}\nfrom :1\n\nget-mark :1\n".encode()


def _data(text: str) -> bytes:
    body = text.encode("utf-8", "backslashreplace")
    return b"data %d\n" % len(body) + body + b"\n"
