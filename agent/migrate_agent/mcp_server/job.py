"""One command line of ours in a process of its own: its stderr is the progress, its stdout the JSON answer.

A process keeps stdout of the server clean for the protocol, and ends with the call that started it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

PREFIX = "migrate-agent: "
ERROR = "migrate-agent: error: "
Report = Callable[[str], Awaitable[None]]


@dataclass(frozen=True)
class Done:
    """How a command ended: its exit code, the JSON it printed and its one line of error."""

    code: int
    document: dict[str, Any] | None
    error: str


async def run_command(arguments: Sequence[str], report: Report) -> Done:
    """Runs `migrate-agent ARGUMENTS` and hands every line of progress to `report`; cancelling ends the command."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "migrate_agent.cli",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        text, error = await asyncio.gather(process.stdout.read(), _follow(process.stderr, report))
        code = await process.wait()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            await process.wait()
    return Done(code, _document(text), error)


async def _follow(stream: asyncio.StreamReader, report: Report) -> str:
    error = ""
    while line := await _line(stream):
        text = line.decode("utf-8", "replace").strip()
        if text.startswith(ERROR):
            error = text.removeprefix(ERROR)
        elif text:
            await report(text.removeprefix(PREFIX))
    return error


async def _line(stream: asyncio.StreamReader) -> bytes:
    """The next line; of one that is longer than the reader holds, a part."""
    try:
        return await stream.readline()
    except ValueError:
        return await stream.read(1 << 16)


def _document(text: bytes) -> dict[str, Any] | None:
    try:
        loaded = json.loads(text)
    except ValueError:
        return None
    return loaded if isinstance(loaded, dict) else None
