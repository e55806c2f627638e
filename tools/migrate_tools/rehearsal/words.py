"""Text of what a job said."""

from __future__ import annotations

from migrate_tools.sandbox import Outcome


def said(outcome: Outcome) -> str:
    """stdout as text; bytes that are not UTF-8 become U+FFFD."""
    return outcome.stdout.decode("utf-8", "replace")


def complaint(outcome: Outcome, limit: int = 2000) -> str:
    """The end of stderr as text, at most `limit` characters."""
    return outcome.stderr.decode("utf-8", "replace")[-limit:]
