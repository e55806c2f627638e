"""Third-party packages that a recipe's code imports and this machine may lack: named, never guessed around."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib import metadata

from packaging.requirements import Requirement

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


def requirements(modules: Iterable[str]) -> frozenset[str]:
    """Import names of installed packages and of everything they require, at any depth, optional extras aside."""
    names = {_pip_name(name.partition(".")[0]): None for name in modules}
    waiting = list(names)
    while waiting:
        try:
            wanted = [Requirement(text) for text in metadata.requires(waiting.pop()) or ()]
        except metadata.PackageNotFoundError:
            continue
        for item in wanted:
            name = item.name.lower().replace("_", "-")
            if name not in names and (item.marker is None or item.marker.evaluate({"extra": ""})):
                names[name] = None
                waiting.append(name)
    imports = {pip: name for name, pip in PIP_NAMES.items()}
    return frozenset(imports.get(name, name.replace("-", "_")) for name in names)


def _pip_name(module: str) -> str:
    return PIP_NAMES.get(module, module.lower().replace("_", "-"))


def missing_packages(problems: Sequence[str]) -> tuple[str, ...]:
    """Import names of the packages that this machine lacks, when that is all that the problems say; else empty."""
    names: dict[str, None] = {}
    for problem in problems:
        found = _MISSING.search(problem)
        if found is None or found[1] in _OURS:
            return ()
        names[found[1]] = None
    return tuple(names)
