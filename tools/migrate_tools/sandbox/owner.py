"""Names what belongs to a process, so that a later one knows what was left by one that is gone."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

PREFIX = "migrate-agent-"
_NAME = re.compile(rf"{PREFIX}(\d+\.\d+\.\d+)-")
_OWNER = re.compile(r"(\d+)\.(\d+)\.\d+")


def owner(pid: int | None = None) -> str:
    """Process `pid` (None: this one) as namespace.id.start: a later process with the same id is another."""
    pid = os.getpid() if pid is None else pid
    start = "0"
    with suppress(OSError):
        start = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return f"{_namespace()}.{pid}.{start}"


def prefix() -> str:
    """How the names of files, folders and control groups of this process begin."""
    return f"{PREFIX}{owner()}-"


def is_gone(text: str) -> bool:
    """Whether the process that `owner` named so has ended; False where this cannot be known from here."""
    parts = _OWNER.fullmatch(text)
    return parts is not None and parts[1] == _namespace() and owner(int(parts[2])) != text


def left_behind(folder: Path) -> list[Path]:
    """Entries of `folder` whose names begin with the prefix of a process that is gone."""
    found = []
    with suppress(OSError):
        for entry in folder.iterdir():
            named = _NAME.match(entry.name)
            if named and is_gone(named[1]):
                found.append(entry)
    return found


def sweep_folders() -> None:
    """Removes our temporary folders that processes left which are gone."""
    for folder in left_behind(Path(tempfile.gettempdir())):
        if folder.lstat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)


@cache
def _namespace() -> str:
    """Process ids mean something in one namespace only; it is the same for all that see each other."""
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    return "0"
