"""Ends a call that uses far more processor time than it should, from inside the worker that made it.

A search makes thousands of calls in one worker; killing the worker for each that never ends costs a new one. The
supervisor's wall limit still stands for what a signal cannot interrupt. Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

OUTCOME = ("hangs",)
"""What the search notes for such a call."""


class Hanging(BaseException):
    """The call used up its processor time; no scorer catches it with `except Exception`."""


def install() -> None:
    """Makes the end of the time raise Hanging in the main thread; once in a process."""
    signal.signal(signal.SIGPROF, _raise)


def _raise(*_: Any) -> None:
    raise Hanging


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raises Hanging in the block when it uses more processor time than that."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
