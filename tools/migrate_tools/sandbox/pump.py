"""Carries a job's input and output, keeping no more output than its limit."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field

CHUNK = 1 << 16
GRACE = 2.0
"""Seconds that output may still arrive after the job's end."""


@dataclass
class Kept:
    """The first `limit` bytes of a stream."""

    limit: int
    data: bytearray = field(default_factory=bytearray)
    truncated: bool = False

    def add(self, chunk: bytes) -> None:
        """Keeps what fits and notes that something did not."""
        room = self.limit - len(self.data)
        self.data += chunk[:room]
        self.truncated = self.truncated or len(chunk) > room


def pump(
    process: subprocess.Popen[bytes],
    stdin: bytes,
    output: tuple[Kept, Kept],
    deadline: float,
    watch: Callable[[], bool],
    interval: float,
) -> bool:
    """Feeds and reads a process until it ends, `deadline` (monotonic) passes, or `watch` asks for its end.

    `watch` is called every `interval` seconds. Returns False where the process still runs.
    """
    assert process.stdin
    assert process.stdout
    assert process.stderr
    with selectors.DefaultSelector() as chooser:
        for stream, kept in zip((process.stdout, process.stderr), output, strict=True):
            os.set_blocking(stream.fileno(), False)
            chooser.register(stream, selectors.EVENT_READ, kept)
        os.set_blocking(process.stdin.fileno(), False)
        chooser.register(process.stdin, selectors.EVENT_WRITE, None)
        left = memoryview(stdin)
        ended: float | None = None
        next_watch = time.monotonic() + interval
        while chooser.get_map():
            now = time.monotonic()
            if ended is None and process.poll() is not None:
                ended = now
            if ended is not None and now > ended + GRACE:
                break
            if ended is None and now >= deadline:
                return False
            if ended is None and now >= next_watch:
                next_watch = now + interval
                if watch():
                    return False
            for key, _ in chooser.select(max(0.0, min(deadline - now, next_watch - now, 0.1))):
                if key.data is None:
                    left = _feed(key.fd, left)
                    if not left:
                        chooser.unregister(process.stdin)
                        process.stdin.close()
                    continue
                chunk = _read(key.fd)
                if chunk:
                    key.data.add(chunk)
                elif chunk is not None:
                    chooser.unregister(key.fileobj)
    return _wait(process, deadline, watch, interval)


def _wait(process: subprocess.Popen[bytes], deadline: float, watch: Callable[[], bool], interval: float) -> bool:
    """A job may close its output and go on."""
    while True:
        try:
            process.wait(max(0.0, min(interval, deadline - time.monotonic())))
            return True
        except subprocess.TimeoutExpired:
            if time.monotonic() >= deadline or watch():
                return False


def _feed(fd: int, left: memoryview) -> memoryview:
    if not left:
        return left
    try:
        return left[os.write(fd, left[:CHUNK]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:
        return memoryview(b"")


def _read(fd: int) -> bytes | None:
    try:
        return os.read(fd, CHUNK)
    except BlockingIOError:
        return None
