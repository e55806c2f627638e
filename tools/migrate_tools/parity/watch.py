"""Watches a draft while it runs: an import of verl or of the old scorer, or a look at the oracle, ends the case.

The oracle and verl are not even mounted where a draft runs; this says that it tried. Runs inside the sandbox: standard
library only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from typing import Any

from migrate_tools.parity.guard import ORACLE_NAMES

broken: list[str] = []
"""What the draft of this process tried, in order."""
_forbidden: set[str] = set()
_installed: list[bool] = []


class BrokenRule(PermissionError):
    """The draft did what no draft may do."""


def install(old: Collection[str] = ()) -> None:
    """Starts watching this process (once; an audit hook cannot be taken back).

    Args:
        old: dotted names of the old scorer's modules.
    """
    _forbidden.update(old)
    if not _installed:
        _installed.append(True)
        sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "import":
        name = str(arguments[0])
        if name.partition(".")[0] == "verl" or name in _forbidden:
            _break(f"imports {name}")
    elif event in ("open", "os.rename", "os.remove", "os.chmod", "os.listdir", "os.scandir", "shutil.copyfile"):
        for path in arguments[:2]:
            if isinstance(path, (str, bytes, os.PathLike)):
                text = os.fsdecode(path)
                if any(name in text for name in ORACLE_NAMES[:-1]) or "/oracle" in text:
                    _break(f"{event} of {text}")


def _break(what: str) -> None:
    broken.append(what)
    raise BrokenRule(what)
