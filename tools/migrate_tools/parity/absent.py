"""Packages that are not installed and that a scorer imports inside functions only: whether a call asked for one.

A scorer may swallow the failed import, or meet it in a process of its own: the answer would be a score that verl, where
the package is there, never gives. Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import json
import os
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from migrate_tools.parity import children

VARIABLE = "PARITY_ABSENT"


class _Finder(importlib.abc.MetaPathFinder):
    """Last in sys.meta_path: notes in a file what nobody could import, so that it is known after a child's end too."""

    def __init__(self, names: Collection[str], mark: Path) -> None:
        self.names, self.mark = frozenset(names), mark

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        root = name.partition(".")[0]
        if root in self.names:
            with contextlib.suppress(OSError), self.mark.open("a", encoding="utf-8") as file:
                file.write(f"{root}\n")
        return None


class Watch:
    """What the calls of this process, and of those that it starts, asked for."""

    def __init__(self, names: Collection[str]) -> None:
        """Watches from now on; call it before foreign code is loaded."""
        self._mark = Path(tempfile.gettempdir(), f"absent-{os.getpid()}")
        self._names = names
        if names:
            sys.meta_path.append(_Finder(names, self._mark))
            children.pass_on(VARIABLE, json.dumps([sorted(names), str(self._mark)]))

    def begin(self) -> None:
        """A new call."""
        if self._names:
            self._mark.unlink(missing_ok=True)

    def asked(self) -> str:
        """The package that the call asked for first, or empty."""
        if not self._names or not self._mark.exists():
            return ""
        return self._mark.read_text(encoding="utf-8").partition("\n")[0]


def watch_on(passed: str) -> None:
    """In a process that a scorer started: watches for its parent, from what `pass_on` handed over."""
    names, mark = json.loads(passed)
    sys.meta_path.append(_Finder(names, Path(mark)))
