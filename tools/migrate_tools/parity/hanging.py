"""Ends a call that uses far more processor time than it should, from inside the worker that made it.

A search makes thousands of calls in one worker; killing the worker for each that never ends costs a new one. The
supervisor's wall limit still stands for what a signal cannot interrupt. Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

OUTCOME = ("hangs",)
"""What the search notes for such a call."""
SOON = 0.001
"""What is left of a time that is over."""


class Hanging(BaseException):
    """The call used up its processor time; no scorer catches it with `except Exception`."""


def install() -> None:
    """Makes the end of the time raise Hanging in the main thread; once in a process."""
    signal.signal(signal.SIGPROF, _raise)


def _raise(*_: Any) -> None:
    raise Hanging


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raises Hanging in the block when it uses more processor time than that; what a block around it has goes on."""
    began = time.process_time()
    before = signal.setitimer(signal.ITIMER_PROF, seconds)[0]
    try:
        yield
    finally:
        left = before - (time.process_time() - began)
        signal.setitimer(signal.ITIMER_PROF, max(left, SOON) if before else 0)
    if before and left <= 0:
        raise Hanging
