"""verl's own functions on torch alone: its modules are loaded from an unpacked wheel, what they import beside torch and
numpy is replaced by empty stand-ins, and sys.modules is as before afterwards.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import types
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOTS_VARIABLE = "MIGRATE_VERL_ROOTS"
"""Environment variable: folders with an unpacked verl wheel each, separated by colons; then nothing is downloaded."""
VERSIONS = ("0.5.0", "0.6.0", "0.6.1", "0.7.0", "0.8.0", "0.9.1")
PACKAGES = ("verl", "verl.utils", "verl.trainer", "verl.trainer.ppo", "verl.plugin")
"""verl packages whose __init__ is not run."""
STANDINS = ("tensordict", "transformers", "omegaconf", "ray", "packaging")


class _Empty(types.ModuleType):
    """A module in which every name is an empty class."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {})
        setattr(self, name, made)
        return made


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the stand-ins, and verl's packages without their __init__."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        if name in PACKAGES or name == "verl.protocol" or name.startswith(("verl.trainer.config", "verl.workers")):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        if name.split(".")[0] in STANDINS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__name__ in PACKAGES:
            module.__path__ = [str(self.root.joinpath(*module.__name__.split(".")))]
        if module.__name__ == "verl.protocol":
            module.DataProto = DataProto  # type: ignore[attr-defined]
        if module.__name__ == "verl.trainer.config":
            module.AlgoConfig = AlgoConfig  # type: ignore[attr-defined]
        if module.__name__ == "verl.workers.config":
            module.ActorConfig = ActorConfig  # type: ignore[attr-defined]


class DataProto:
    """The little of verl's DataProto that the rollout correction returns."""

    def __init__(self, batch: dict[str, Any]) -> None:
        self.batch = batch

    @classmethod
    def from_dict(cls, tensors: dict[str, Any]) -> DataProto:
        return cls(tensors)


class Config(types.SimpleNamespace):
    """A configuration with attributes and `get`."""

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)


class AlgoConfig(Config):
    """algorithm.*"""


class ActorConfig(Config):
    """actor_rollout_ref.actor.*"""


class Verl:
    """One release: `core` (core_algos), `correction` (rollout_corr_helper or mismatch_helper), `version`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.version = (root / "verl" / "version" / "version").read_text(encoding="utf-8").strip()
        self.modules: dict[str, types.ModuleType] = {}
        with self.active():
            if (root / "verl" / "utils" / "groupwise.py").is_file():
                groupwise = importlib.import_module("verl.utils.groupwise")
                utils = importlib.import_module("verl.utils")
                utils.as_torch_index, utils.group_mean_std = groupwise.as_torch_index, groupwise.group_mean_std
            self.core = importlib.import_module("verl.trainer.ppo.core_algos")
            names = ("rollout_corr_helper", "mismatch_helper")
            found = [name for name in names if (root / "verl" / "trainer" / "ppo" / f"{name}.py").is_file()]
            self.correction = importlib.import_module(f"verl.trainer.ppo.{found[0]}") if found else None

    @contextmanager
    def active(self) -> Iterator[None]:
        """sys.modules with this release's modules, while its functions import lazily."""
        before = {name: module for name, module in sys.modules.items() if _ours(name)}
        for name in before:
            del sys.modules[name]
        sys.modules.update(self.modules)
        finder = _Finder(self.root)
        sys.meta_path.insert(0, finder)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            sys.meta_path.remove(finder)
            self.modules = {name: module for name, module in sys.modules.items() if _ours(name)}
            for name in self.modules:
                del sys.modules[name]
            sys.modules.update(before)


def _ours(name: str) -> bool:
    return name.split(".")[0] in ("verl", *STANDINS)


def roots() -> list[Path]:
    """Folders with an unpacked wheel: as the environment says, else downloaded once into the user's cache."""
    given = os.environ.get(ROOTS_VARIABLE)
    if given:
        return [Path(text) for text in given.split(":")]
    from migrate_tools.verl.source import wheel

    return [Path(wheel(version).root) for version in VERSIONS]
