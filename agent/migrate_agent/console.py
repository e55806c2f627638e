"""Progress on stderr: a live line on a terminal, plain lines elsewhere, nothing when asked to be quiet."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status


class Progress:
    """Tells what is going on; never writes to stdout."""

    def __init__(self, status: Status | None = None) -> None:
        self._status = status

    def __call__(self, text: str) -> None:
        """Shows what is being done now."""
        text = text.rstrip("\r")
        if self._status is not None:
            self._status.update(text)
        else:
            print(f"migrate-agent: {text}", file=sys.stderr, flush=True)


@contextmanager
def progress() -> Iterator[Progress]:
    """A Progress for the length of one command."""
    if not sys.stderr.isatty():
        yield Progress()
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield Progress(status)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Aligned plain-text columns, the same on a terminal and in a pipe; empty text for no rows."""
    if not rows:
        return ""
    widths = [max(len(row[index]) for row in [head, *rows]) for index in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *rows]]
    return "\n".join(line.rstrip() for line in lines)
