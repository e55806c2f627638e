"""Carries input and output of a container over the engine's attach stream, in bounded memory."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from migrate_tools.sandbox.pump import CHUNK, Kept

HEADER = struct.Struct(">BxxxL")
"""Stream number (1 stdout, 2 stderr) and length of what follows: the engine's multiplexed stream."""


class Attached:
    """The attach stream of a container that has not started yet."""

    def __init__(self, container: Any, output: tuple[Kept, Kept]) -> None:
        params = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        self._handle = container.client.api.attach_socket(container.id, params=params)
        self._socket: socket.socket = getattr(self._handle, "_sock", self._handle)
        self._output = output
        self._head = bytearray()
        self._left = 0
        self._target = output[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for closable in (getattr(self._handle, "_response", None), self._handle, self._socket):
            with suppress(OSError, ValueError, AttributeError):
                closable.close()  # type: ignore[union-attr]

    def carry(self, stdin: bytes, deadline: float) -> bool:
        """Feeds `stdin` and keeps the output until it ends; False when `deadline` (monotonic) comes first."""
        self._socket.setblocking(False)
        left = memoryview(stdin)
        if not left:
            self._end_input()
        with selectors.DefaultSelector() as chooser:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if left else 0)
            chooser.register(self._socket, events)
            while True:
                now = time.monotonic()
                if now >= deadline:
                    return False
                for _, ready in chooser.select(deadline - now):
                    if ready & selectors.EVENT_WRITE:
                        left = self._send(left)
                        if not left:
                            self._end_input()
                            chooser.modify(self._socket, selectors.EVENT_READ)
                    if ready & selectors.EVENT_READ and not self._receive():
                        return True

    def _send(self, left: memoryview) -> memoryview:
        try:
            return left[self._socket.send(left[:CHUNK]) :]
        except BlockingIOError:
            return left
        except OSError:  # the job reads no more
            return memoryview(b"")

    def _end_input(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def _receive(self) -> bool:
        try:
            data = memoryview(self._socket.recv(CHUNK))
        except BlockingIOError:
            return True
        except OSError:
            return False
        ended = not data
        while data:
            if self._left:
                part, data = data[: self._left], data[self._left :]
                self._left -= len(part)
                self._target.add(bytes(part))
                continue
            missing = HEADER.size - len(self._head)
            self._head += data[:missing]
            data = data[missing:]
            if len(self._head) == HEADER.size:
                stream, self._left = HEADER.unpack(self._head)
                self._target = self._output[1 if stream == 2 else 0]
                self._head.clear()
        return not ended
