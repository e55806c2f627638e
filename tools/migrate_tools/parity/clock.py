"""Moves the clock of this process, so that a scorer that depends on the date shows it.

Runs inside the sandbox: standard library only. Durations (monotonic, perf_counter, differences of time.time) stay.
"""

from __future__ import annotations

import datetime
import importlib.machinery
import time
from collections.abc import Callable
from typing import Any


def shift(seconds: float) -> None:
    """Every later question for the time of day gets an answer `seconds` later; call it before foreign code."""
    _shift_time(seconds)
    _shift_dates(datetime.timedelta(seconds=seconds))


def _shift_time(seconds: float) -> None:
    real: Any = {name: getattr(time, name) for name in ("time", "time_ns", "localtime", "gmtime", "strftime", "ctime")}
    module: Any = time
    module.time = lambda: real["time"]() + seconds
    module.time_ns = lambda: real["time_ns"]() + int(seconds * 1e9)
    for name in ("localtime", "gmtime", "ctime"):
        setattr(module, name, lambda at=None, name=name: real[name](module.time() if at is None else at))
    module.strftime = lambda form, at=None: real["strftime"](form, module.localtime() if at is None else at)


def _shift_dates(step: datetime.timedelta) -> None:
    base: Any = datetime.datetime
    plain: Any = datetime.date

    class Meta(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, base)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, base)

    class Moved(base, metaclass=Meta):  # type: ignore[misc]
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return base.now(tz) + step

        @classmethod
        def utcnow(cls) -> Any:
            return base.now(datetime.UTC).replace(tzinfo=None) + step

        @classmethod
        def today(cls) -> Any:
            return base.now() + step

    class DateMeta(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, plain)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, plain)

    class MovedDate(plain, metaclass=DateMeta):  # type: ignore[misc]
        @classmethod
        def today(cls) -> Any:
            return (base.now() + step).date()

    for made, name in ((Moved, "datetime"), (MovedDate, "date")):
        made.__module__, made.__qualname__, made.__name__ = "datetime", name, name
        setattr(datetime, name, made)
    loader: Any = importlib.machinery.ExtensionFileLoader
    loader.create_module = _with_classes(loader.create_module, base, plain)
    loader.exec_module = _with_classes(loader.exec_module, base, plain)


def _with_classes(load: Callable[..., Any], moment: type, day: type) -> Callable[..., Any]:
    """Loads an extension module with the real classes in place: compiled code relies on their memory layout."""

    def loaded(self: Any, subject: Any) -> Any:
        module: Any = datetime
        kept = module.datetime, module.date
        module.datetime, module.date = moment, day
        try:
            return load(self, subject)
        finally:
            module.datetime, module.date = kept

    return loaded
