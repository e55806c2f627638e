"""The part of Ray that tools use, inside one process: actors are objects whose methods run in threads.

This file is copied into the examples whose tools use Ray for a pool of workers or a shared rate limit. An environment
lives in one process, so the limits hold for that process.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_NAMED: dict[str, Any] = {}
_LOCK = threading.Lock()
THREADS = 64


class Reference:
    """A result to come: awaitable, and accepted by `get`."""

    def __init__(self, future: Future[Any]) -> None:
        self.future = future

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self.future).__await__()


class _Method:
    def __init__(self, function: Callable[..., Any], pool: ThreadPoolExecutor) -> None:
        self._function, self._pool = function, pool

    def remote(self, *args: Any, **kwargs: Any) -> Reference:
        values = [get(item) if isinstance(item, Reference) else item for item in args]
        return Reference(self._pool.submit(_call, self._function, values, kwargs))

    def options(self, **_: Any) -> _Method:
        return self


def _call(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    made = function(*args, **kwargs)
    return asyncio.run(made) if inspect.iscoroutine(made) else made


class _Actor:
    def __init__(self, made: Any, threads: int) -> None:
        self._made, self._pool = made, ThreadPoolExecutor(threads)

    def __getattr__(self, name: str) -> _Method:
        return _Method(getattr(self._made, name), self._pool)


class _Remote:
    """A class or function that was made remote."""

    def __init__(self, target: Any, options: dict[str, Any] | None = None) -> None:
        self._target, self._options = target, options or {}

    def options(self, **options: Any) -> _Remote:
        return _Remote(self._target, {**self._options, **options})

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(self._target, type):
            return Reference(ThreadPoolExecutor(1).submit(_call, self._target, list(args), kwargs))
        name = self._options.get("name")
        with _LOCK:
            if name is not None and name in _NAMED and self._options.get("get_if_exists"):
                return _NAMED[name]
        actor = _Actor(self._target(*args, **kwargs), int(self._options.get("max_concurrency") or THREADS))
        with _LOCK:
            return _NAMED.setdefault(name, actor) if name is not None else actor


def remote(*args: Any, **options: Any) -> Any:
    """As ray.remote: a decorator, with or without options."""
    if len(args) == 1 and not options:
        return _Remote(args[0])
    return lambda target: _Remote(target, options)


def method(**_: Any) -> Callable[[Any], Any]:
    """As ray.method: concurrency groups mean nothing here."""
    return lambda function: function


def get(reference: Any, timeout: float | None = None) -> Any:
    """The value of a reference, or of a list of them."""
    if isinstance(reference, list):
        return [get(item, timeout) for item in reference]
    return reference.future.result(timeout) if isinstance(reference, Reference) else reference


def put(value: Any) -> Any:
    """The value itself."""
    return value


def is_initialized() -> bool:
    """There is nothing to start."""
    return True


def init(*_: Any, **__: Any) -> None:
    """There is nothing to start."""
