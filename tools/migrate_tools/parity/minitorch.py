"""A small stand-in for torch on numpy: what reward managers do with tensors, in torch's number types.

Enough to run a reward manager class (verl's own or a recipe's) without torch: shapes, masks, sums, float32 arithmetic,
assignment of scores. Anything else is not there, and its first use raises `stubs.StandInUsed` with its name. Runs
inside the sandbox: standard library and numpy.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import types
from typing import Any

import numpy as np

from migrate_tools.parity import stubs


class Tensor(np.ndarray):
    """An array with the method names of a tensor; an integer tensor divided gives float32, as in torch."""

    device = "cpu"

    def size(self, dim: int | None = None) -> Any:  # type: ignore[override]
        """The shape, or one of its numbers."""
        return tuple(self.shape) if dim is None else self.shape[dim]

    def sum(self, dim: Any = None, axis: Any = None, **_: Any) -> Any:  # type: ignore[override]
        """Sum over all or one dimension, as a tensor."""
        return tensor(np.sum(np.asarray(self), axis=dim if dim is not None else axis))

    def mean(self, dim: Any = None, axis: Any = None, **_: Any) -> Any:  # type: ignore[override]
        """Mean in the tensor's own float type."""
        return tensor(np.mean(np.asarray(self), axis=dim if dim is not None else axis, dtype=self.dtype))

    def std(self, dim: Any = None, **_: Any) -> Any:  # type: ignore[override]
        """Unbiased standard deviation."""
        return tensor(np.std(np.asarray(self), axis=dim, ddof=1, dtype=self.dtype))

    def _as(self, kind: Any) -> Any:
        return self.astype(kind)

    def long(self) -> Any:
        """As int64."""
        return self._as(np.int64)

    def int(self) -> Any:
        """As int32."""
        return self._as(np.int32)

    def float(self) -> Any:
        """As float32."""
        return self._as(np.float32)

    def bool(self) -> Any:
        """As bool."""
        return self._as(np.bool_)

    def to(self, target: Any = None, **_: Any) -> Any:
        """In another number type; devices change nothing."""
        return self._as(target) if isinstance(target, type) else self

    def cpu(self) -> Any:
        """Itself."""
        return self

    detach = contiguous = cpu

    def clone(self) -> Any:
        """A copy."""
        return self.copy()

    def numpy(self) -> Any:
        """A plain array."""
        return np.asarray(self)

    def numel(self) -> Any:
        """Number of elements."""
        return int(np.asarray(self).size)

    def view(self, *shape: Any) -> Any:  # type: ignore[override]
        """In another shape (or, as numpy means it, as another type)."""
        return super().view(*shape) if shape and isinstance(shape[0], type) else self.reshape(*shape)

    def new_tensor(self, data: Any) -> Any:
        """Data in this tensor's number type."""
        return tensor(data, dtype=self.dtype.type)

    def dim(self) -> Any:
        """Number of dimensions."""
        return self.ndim

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return tensor(found) if isinstance(found, np.generic) else found

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(value, (bool, int, float, np.ndarray, np.number, np.bool_)):
            raise TypeError(f"can't assign a {type(value).__name__} to a torch.FloatTensor")
        super().__setitem__(key, value)

    def __truediv__(self, other: Any) -> Any:
        return _floating(self) / np.asarray(other) if isinstance(other, np.ndarray) else _divided(self, other)

    def __radd__(self, other: Any) -> Any:
        if not isinstance(other, (bool, int, float, np.ndarray, np.generic)):
            raise TypeError(f"unsupported operand types for +: {type(other).__name__} and Tensor")
        return super().__radd__(other)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _missing(f"Tensor.{name}")


def _floating(value: Tensor) -> Any:
    return value if np.issubdtype(value.dtype, np.floating) else value.astype(np.float32)


def _divided(value: Tensor, other: Any) -> Any:
    return tensor(np.true_divide(np.asarray(_floating(value)), np.float32(other), dtype=_floating(value).dtype))


def _missing(name: str) -> None:
    stubs.used.append(f"torch.{name}")
    raise stubs.StandInUsed(f"torch.{name}")


def tensor(data: Any, dtype: Any = None, **_: Any) -> Tensor:
    """A tensor of numbers: Python floats become float32, Python integers int64."""
    array = np.asarray(data, dtype=dtype)
    if dtype is None and array.dtype == np.float64 and not isinstance(data, (np.ndarray, np.generic)):
        array = array.astype(np.float32)
    if array.dtype == object or array.dtype.kind in "US":
        raise TypeError(f"a tensor cannot hold a {type(data).__name__}")
    return array.view(Tensor)


def _shape(sizes: tuple[Any, ...]) -> Any:
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes


def module() -> types.ModuleType:
    """The stand-in module, in the place of torch in sys.modules; names that it lacks are stand-ins as well."""
    made: Any = stubs.stand_in("torch")
    made.Tensor = made.FloatTensor = made.LongTensor = Tensor
    for name in ("float32", "float64", "int64", "int32", "float16"):
        setattr(made, name, getattr(np, name))
    made.float, made.double, made.long, made.int, made.bool = np.float32, np.float64, np.int64, np.int32, np.bool_
    made.bfloat16, made.dtype = np.float32, type
    made.tensor = made.as_tensor = made.from_numpy = tensor
    made.zeros = lambda *sizes, dtype=np.float32, **_: np.zeros(_shape(sizes), dtype).view(Tensor)
    made.ones = lambda *sizes, dtype=np.float32, **_: np.ones(_shape(sizes), dtype).view(Tensor)
    made.full = lambda size, value, dtype=np.float32, **_: np.full(size, value, dtype).view(Tensor)
    made.zeros_like = lambda other, dtype=None, **_: np.zeros(other.shape, dtype or other.dtype).view(Tensor)
    made.ones_like = lambda other, dtype=None, **_: np.ones(other.shape, dtype or other.dtype).view(Tensor)
    made.full_like = lambda other, value, dtype=None, **_: np.full(other.shape, value, dtype or other.dtype).view(
        Tensor
    )
    made.arange = lambda *bounds, dtype=np.int64, **_: np.arange(*bounds, dtype=dtype).view(Tensor)
    made.cat = made.concat = lambda parts, dim=0, **_: np.concatenate([*parts], axis=dim).view(Tensor)
    made.stack = lambda parts, dim=0, **_: np.stack([np.asarray(part) for part in parts], axis=dim).view(Tensor)
    made.clamp = lambda value, min=None, max=None: tensor(np.clip(np.asarray(value), min, max))
    made.is_tensor = lambda value: isinstance(value, Tensor)
    made.no_grad = stubs.StandIn("torch.no_grad")
    made.nn = stubs.StandIn("torch.nn")
    return made  # type: ignore[no-any-return]


def install() -> None:
    """Makes `import torch` give the stand-in in this process, and lets the managers' own imports through.

    What they import for other ends than the reward (ray, a protocol of tensors, process tables) is a stand-in too.
    """
    if vars(sys.modules.get("torch", object)).get("is_stand_in"):
        return
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        del sys.modules[name]
    made: Any = module()
    made.is_stand_in = True
    made.__path__ = []
    made.__spec__ = importlib.machinery.ModuleSpec("torch", None, is_package=True)
    stubs.stand_in("verl.protocol")
    stubs.bare_package("verl.experimental.reward_loop")
    if importlib.util.find_spec("psutil") is None:
        sys.modules["psutil"] = types.ModuleType("psutil")  # its one use, ending processes, is allowed to fail
