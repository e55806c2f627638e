"""How Relax finds and calls hooks (Relax recipe contract, sections 1, 2 and 7)."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import multiprocessing
import threading
import time
from collections.abc import Callable, Coroutine
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from migrate_tools.rehearsal.runtime.taped import install_tape

SAMPLE_SECONDS = 30.0
"""Relax itself has no limit; a reward that takes longer counts as hanging here."""
CALL_SECONDS = 3.0
"""Where a reward stops its scorer itself, it does so after this long at most: many made-up answers may hang it."""
LAG_LIMIT = 5.0
T = TypeVar("T")


class HookError(Exception):
    """A hook raised, hung, or returned what Relax cannot use."""


def load_function(path: str) -> Callable[..., Any]:
    """The function of a dotted path, split at its last dot.

    Raises:
        ImportError, AttributeError: as Relax would raise them.
    """
    module, _, name = path.rpartition(".")
    loaded = importlib.import_module(module)
    function: Callable[..., Any] = getattr(loaded, name)
    if isinstance(limit := getattr(loaded, "CALL_SECONDS", None), float):
        loaded.CALL_SECONDS = min(limit, CALL_SECONDS)  # type: ignore[attr-defined]
    return function


def is_async(function: Callable[..., Any]) -> bool:
    """Whether Relax awaits the function on its event loop (decorated functions and callable objects included)."""
    function = inspect.unwrap(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


class Loop:
    """The event loop of the rollout process: it runs in a background thread, never in the main one."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.lag = 0.0
        """Longest time in seconds for which the loop was blocked."""
        self._thread = threading.Thread(target=self._run, daemon=True, name="rollout-loop")
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.create_task(self._watch())
        self.loop.run_forever()

    async def _watch(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.05)
            self.lag = max(self.lag, time.monotonic() - before - 0.05)

    def run(self, coroutine: Coroutine[Any, Any, T], seconds: float) -> T:
        """The result of a coroutine run on the loop.

        Raises:
            HookError: it took longer than `seconds`.
        """
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result(seconds)
        except TimeoutError as error:
            if future.done():
                raise
            future.cancel()
            raise HookError(f"not finished after {seconds:.0f} s; is a hook blocking the event loop?") from error


class Worker:
    """A reward worker process: a plain function is called in its main thread, on pickled arguments."""

    def __init__(self, path: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, far = context.Pipe()
        self._process = context.Process(target=_serve, args=(path, far), daemon=True)
        self._process.start()
        far.close()

    def call(self, *arguments: Any) -> Any:
        """The function's result.

        Raises:
            HookError: arguments or result cannot be pickled, the function raised, hung or killed its process.
        """
        try:
            self._pipe.send(arguments)
        except Exception as error:
            raise HookError(f"arguments cannot be sent to a worker: {describe(error)}") from error
        if not self._pipe.poll(SAMPLE_SECONDS):
            self.close()
            raise HookError(f"no result after {SAMPLE_SECONDS:.0f} s")
        try:
            ok, value = self._pipe.recv()
        except EOFError as error:
            raise HookError("the worker process ended") from error
        if not ok:
            raise HookError(value)
        return value

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


def _serve(path: str, pipe: Connection) -> None:
    install_tape()
    try:
        function = load_function(path)
    except Exception as error:
        function = None
        failure = describe(error)
    while True:
        try:
            arguments = pipe.recv()
        except EOFError:
            return
        if function is None:
            pipe.send((False, failure))
            continue
        try:
            value = function(*arguments)
            if inspect.isawaitable(value):
                raise TypeError("a plain function returned an awaitable; Relax refuses that")
            answer = (True, value)
        except Exception as error:
            answer = (False, describe(error))
        try:
            pipe.send(answer)
        except Exception as error:
            pipe.send((False, f"the result cannot be sent back: {describe(error)}"))


def describe(error: BaseException) -> str:
    """Class and message of an exception on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"


class RewardHook:
    """The function of --custom-rm-path, called the way Relax calls it."""

    def __init__(self, path: str, loop: Loop) -> None:
        self.path, self.loop = path, loop
        self.is_async = is_async(load_function(path))
        self._function = load_function(path)
        self._worker = None if self.is_async else Worker(path)
        self._turn = threading.Lock()

    async def __call__(self, args: Any, target: Any) -> Any:
        """Reward of a sample, or rewards of a list of samples.

        Raises:
            HookError: the function raised, hung, or its data cannot cross a process border.
        """
        if self._worker is not None:
            return await asyncio.to_thread(self._call_worker, args, target)
        try:
            return await asyncio.wait_for(self._function(args, target), SAMPLE_SECONDS)
        except TimeoutError as error:
            raise HookError(f"no result after {SAMPLE_SECONDS:.0f} s") from error
        except HookError:
            raise
        except Exception as error:
            raise HookError(describe(error)) from error

    def _call_worker(self, args: Any, target: Any) -> Any:
        assert self._worker is not None
        with self._turn:
            return self._worker.call(args, target)

    def close(self) -> None:
        """End the worker process, if there is one."""
        if self._worker is not None:
            self._worker.close()
