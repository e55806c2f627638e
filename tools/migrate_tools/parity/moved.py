"""Modules that a recipe copies into another package before a run, inside the sandbox: loaded as if they lay there."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path


class _Beside(importlib.abc.MetaPathFinder):
    """What is nowhere else is looked for beside the module that was moved, under its last name."""

    def __init__(self, package: str, folder: Path) -> None:
        self.package, self.folder = package.partition(".")[0], folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        head, _, leaf = fullname.rpartition(".")
        file = self.folder / f"{leaf}.py"
        if head.partition(".")[0] != self.package or not file.is_file():
            return None
        return importlib.util.spec_from_file_location(fullname, file)


def load(name: str, file: Path) -> types.ModuleType:
    """The file as the module of a dotted name; its parents are those that Python finds.

    Raises:
        ImportError: the file cannot be loaded, or something that it imports is not there.
    """
    package = name.rpartition(".")[0]
    if package:
        sys.meta_path.append(_Beside(package, file.parent))
        try:
            importlib.import_module(package)
        except ImportError:  # a package that nobody has: the module stands alone
            name = name.rpartition(".")[2]
    return load_file(name, file)


def load_file(name: str, file: Path) -> types.ModuleType:
    """The file as a module of this name, which other modules then find.

    Raises:
        ImportError: the file is no Python module.
    """
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(str(file))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
