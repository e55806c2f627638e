"""Third-party packages that a recipe's code imports and this machine may lack: named, never guessed around."""

from __future__ import annotations

import re
from collections.abc import Sequence

PIP_NAMES = {
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
_MISSING = re.compile(r"ModuleNotFoundError: No module named '(\w+)[\w.]*'")
_OURS = frozenset({"examples", "migrate_tools", "relax", "scripts", "verl"})
"""A missing module of these is a fault of the example, not of the machine."""


def install_command(modules: Sequence[str]) -> str:
    """The pip command for these import names."""
    return "pip install " + " ".join(PIP_NAMES.get(name, name.replace("_", "-")) for name in modules)


def missing_packages(problems: Sequence[str]) -> tuple[str, ...]:
    """Import names of the packages that this machine lacks, when that is all that the problems say; else empty."""
    names: dict[str, None] = {}
    for problem in problems:
        found = _MISSING.search(problem)
        if found is None or found[1] in _OURS:
            return ()
        names[found[1]] = None
    return tuple(names)
