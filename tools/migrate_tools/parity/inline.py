"""Processes of a scorer that run in the worker itself, where thousands of calls are made.

A scorer that starts a process for each call, to end it after a while, is many times slower than what it computes. The
search only proposes inputs; both runs of the old side decide, with real processes. Changed versions of the new side run
so where the unchanged one gives the same answers this way. Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import ast
import multiprocessing
import queue
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from migrate_tools.parity import hanging
from migrate_tools.parity.mutation import call_name

RUNS_OTHERS = frozenset(
    ["exec", "system", "popen", "Popen", "run", "fork", "Pool", "Manager", "Pipe", "get_context"]
    + ["ProcessPoolExecutor", "check_output", "set_start_method", "setrlimit", "_exit"]
)
"""Calls of code that may change the process it runs in, or needs more of a process than this."""

SECONDS = 2.0
"""Processor time of one process; one that takes longer still runs for whoever asks, until it is ended."""


def fits(code: str) -> bool:
    """True for a module whose processes only compute something and put it into a queue."""
    names = {call_name(node) for node in ast.walk(ast.parse(code))}
    return "Process" in names and not names & RUNS_OTHERS


class Process:
    """Runs its function when it is started; has ended by then, with the exit code that a process would have."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., Any] | None = None,
        name: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self._target, self._args, self._kwargs = target, args, dict(kwargs or {})
        self.name, self.daemon, self.pid = name or "inline", daemon, None
        self.exitcode: int | None = None
        self._hangs = False

    def start(self) -> None:
        """Runs the function; what it raises ends it alone."""
        self.exitcode = 0
        try:
            with hanging.within(SECONDS):
                if self._target is not None:
                    self._target(*self._args, **self._kwargs)
        except hanging.Hanging:
            self.exitcode, self._hangs = None, True
        except SystemExit as end:
            self.exitcode = end.code if isinstance(end.code, int) else int(end.code is not None)
        except Exception:
            self.exitcode = 1

    def join(self, timeout: float | None = None) -> None:
        """There is nothing to wait for."""

    def is_alive(self) -> bool:
        """Whether it would still run."""
        return self._hangs

    def terminate(self) -> None:
        """Ends one that would still run."""
        if self._hangs:
            self.exitcode, self._hangs = -signal.SIGTERM, False

    kill = close = terminate


class Queue(queue.Queue[Any]):
    """A queue within the process; who asks an empty one is not kept waiting."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """The next item.

        Raises:
            queue.Empty: there is none.
        """
        return super().get(block=False)

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Adds an item.

        Raises:
            queue.Full: there is no room.
        """
        super().put(item, block=False)

    def close(self) -> None:
        """There is nothing to close."""

    join_thread = cancel_join_thread = close


def install() -> None:
    """Puts both in the place of those of multiprocessing; call it in the main thread, before the scorer is loaded."""
    hanging.install()
    module: Any = multiprocessing
    module.Process, module.Queue = Process, Queue
