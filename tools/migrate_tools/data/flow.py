"""Working ahead in threads, and saying how far one is."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Say = Callable[[str], None]
BAR = 20


class Meter:
    """Says how far a conversion is, now and then: rows, rows a second, time left.

    Its lines end in a carriage return: on a terminal each takes the place of the one before.
    """

    def __init__(self, name: str, total: int | None, say: Say) -> None:
        self.name, self.total, self.say = name, total, say
        self.seconds = 0.5 if sys.stderr.isatty() else 10.0
        self.rows = 0
        self.started = self.said = time.monotonic()

    def add(self, rows: int) -> None:
        """Count rows."""
        self.rows += rows
        now = time.monotonic()
        if now - self.said >= self.seconds:
            self.said = now
            self.say(self.line(now - self.started) + "\r")

    def line(self, seconds: float) -> str:
        """The state after some seconds."""
        speed = self.rows / max(seconds, 1e-9)
        if not self.total:
            return f"{self.name}: {self.rows:,} rows, {speed:,.0f} rows/s"
        left = max(0.0, (self.total - self.rows) / max(speed, 1e-9))
        done = min(BAR, BAR * self.rows // self.total)
        bar = f"[{'#' * done}{'.' * (BAR - done)}]"
        return f"{self.name}: {bar} {self.rows:,} of {self.total:,} rows, {speed:,.0f} rows/s, {left:,.0f} s left"


def prefetch(items: Iterable[Any], depth: int = 1) -> Iterator[Any]:
    """The same items, made ahead in a thread of its own."""
    ready: queue.Queue[tuple[bool, Any]] = queue.Queue(maxsize=depth)
    stop = threading.Event()
    end = object()

    def put(entry: tuple[bool, Any]) -> bool:
        while not stop.is_set():
            try:
                ready.put(entry, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not put((True, item)):
                    return
            put((True, end))
        except BaseException as error:
            put((False, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while True:
            fine, item = ready.get()
            if not fine:
                raise item
            if item is end:
                return
            yield item
    finally:
        stop.set()
        thread.join()
