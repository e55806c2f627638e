"""Hands replacements on to the Python processes that a scorer starts, through a sitecustomize module.

Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = str(Path(__file__).parent / "taped")
"""Folder of the sitecustomize module."""


def pass_on(name: str, value: str) -> None:
    """Sets a variable that the sitecustomize of every later child reads, and puts that on the child's path."""
    os.environ[name] = value
    if FOLDER not in sys.path:
        sys.path.append(FOLDER)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != FOLDER]
    os.environ["PYTHONPATH"] = os.pathsep.join([FOLDER, *paths])
