"""Stand-ins that let a scorer import verl without torch, ray or a GPU.

`verl` and `verl.utils` become empty packages over the verl source, so that their heavy `__init__` files never run;
big frameworks that are not installed, or that the reward itself does not need, can be imported and named, but the first
real use raises StandInUsed, which no `except Exception` swallows. Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

HEAVY = frozenset(
    {"torch", "ray", "tensordict", "transformers", "vllm", "sglang", "megatron", "peft", "accelerate", "deepspeed"}
    | {
        "datasets",
        "PIL",
        "qwen_vl_utils",
        "flash_attn",
        "torchdata",
        "torchvision",
        "codetiming",
        "wandb",
        "mlflow",
        "swanlab",
        "liger_kernel",
    }
)
PACKAGES = ("verl", "verl.utils", "verl.workers", "verl.trainer", "verl.tools", "verl.experimental")
_roots: list[str] = []
CLIENTS = frozenset({"aiohttp", "httpx", "litellm", "openai", "requests"})
"""HTTP clients: replaced by taped ones where the scorer uses them, else stand-ins for an import beside it."""
used: list[str] = []
"""Names of the stand-ins that foreign code really used."""
loading: list[str] = []
"""Not empty while the file of a scorer is loaded: then calls give stand-ins too (decorators with arguments)."""


class StandInUsed(BaseException):
    """Foreign code used a package that is not installed here and cannot be replaced."""


class StandIn:
    """A name of a missing package: may be passed round, subclassed and used as a decorator, not called for a result."""

    _name: str

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self._name}.{name}")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __getitem__(self, key: Any) -> StandIn:
        return self

    def __or__(self, other: Any) -> StandIn:
        return self

    __ror__ = __or__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and len(args) == 1 and isinstance(args[0], (types.FunctionType, type)):
            return args[0]  # @ray.remote, @torch.no_grad()
        if (not args and self._name.endswith("no_grad")) or self._name.endswith((".register", ".remote")):
            return StandIn(self._name)
        if loading:
            return _Made(self._name)
        return _refuse(self)


def _refuse(self: StandIn, *_: Any) -> Any:
    used.append(self._name)
    raise StandInUsed(self._name)


class _Made(StandIn):
    """What a stand-in gave while a module was loaded: a decorator, or a value that no case may look at."""

    __hash__ = None  # type: ignore[assignment]


_OPERATORS = (
    "bool", "eq", "ne", "lt", "le", "gt", "ge", "len", "iter", "next", "contains", "int", "float", "index", "str",
    "format", "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "mod", "neg", "abs",
    "enter", "exit", "await", "aiter",
)  # fmt: skip
for _operator in _OPERATORS:
    setattr(_Made, f"__{_operator}__", _refuse)


class _StandInModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")


class _HeavyFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Last in sys.meta_path: serves what nobody else could import."""

    served = HEAVY | CLIENTS

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        root, _, part = name.partition(".")
        if root not in self.served or part and not isinstance(sys.modules.get(root), _StandInModule):
            return None  # a package that is really there lacks this part, and may well know it
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _StandInModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        return


class _Preferred(_HeavyFinder):
    """First in sys.meta_path: serves what a file imports beside the reward: frameworks, which may load for a minute,
    and packages that are not installed."""

    def __init__(self, names: Collection[str], own: Sequence[str]) -> None:
        self.names, self.own = frozenset(names), tuple(own)
        self.served = self.served | self.names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        root = name.partition(".")[0]
        if root not in self.names or (root == name and self._is_own(name)):
            return None
        return super().find_spec(name, path, target)

    def _is_own(self, name: str) -> bool:
        """True for a module of the recipe that happens to have such a name."""
        spec = importlib.machinery.PathFinder.find_spec(name)
        places = [*(spec.submodule_search_locations or ()), spec.origin or ""] if spec is not None else []
        return any(place.startswith(self.own) for place in places)


_preferred: list[_Preferred] = []


class _VerlPackage(types.ModuleType):
    """A verl package without its __init__: submodules import for real, other names are stand-ins."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        if importlib.util.find_spec(f"{self.__name__}.{name}") is not None:
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")


def install(verl_root: str | None) -> None:
    """Makes `import verl...` read from `verl_root` and big frameworks importable; call once, before foreign code."""
    sys.meta_path.append(_HeavyFinder())
    if verl_root is None:
        return
    sys.path.append(verl_root)
    _roots.append(verl_root)
    for name in PACKAGES:
        bare_package(name)
    stand_in("verl.utils.metric")


def prefer(names: Collection[str], own: Sequence[str]) -> None:
    """Makes stand-ins of packages even where they are installed; call it before foreign code.

    Args:
        own: folders of the recipe and of verl, whose modules are always real.
    """
    if names and not _preferred:
        _preferred.append(_Preferred(names, own))
        sys.meta_path.insert(0, _preferred[0])


def give_real() -> bool:
    """Takes `prefer` back and forgets what was imported under it; False when there is nothing to take back."""
    if not _preferred:
        return False
    finder = _preferred.pop()
    sys.meta_path.remove(finder)
    for name, module in list(sys.modules.items()):
        stands_in = isinstance(module, _StandInModule) and name.partition(".")[0] in finder.names
        if stands_in or str(getattr(module, "__file__", None) or "").startswith(finder.own):
            del sys.modules[name]
    used.clear()
    return True


def bare_package(name: str) -> None:
    """Makes a package of verl importable without its `__init__`; nothing where this verl has none of that name."""
    folder = Path(_roots[-1] if _roots else "/nonexistent", *name.split("."))
    if not folder.is_dir():
        return
    package = _VerlPackage(name)
    package.__path__ = [str(folder)]
    package.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    sys.modules[name] = package
    parent, _, leaf = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], leaf, package)


def stand_in(name: str) -> types.ModuleType:
    """Makes a module whose names may be imported and passed round, not used."""
    made = _StandInModule(name)
    sys.modules[name] = made
    return made


def alias_package(name: str, folders: Sequence[str]) -> None:
    """Makes `import name` a namespace over `folders` (how scripts of a recipe checkout import `recipe.x`)."""
    package = types.ModuleType(name)
    package.__path__ = list(folders)
    package.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    sys.modules[name] = package
