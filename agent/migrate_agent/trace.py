"""The structured log of a run: one line of JSON for every node, check, edit and question, in `trace.jsonl`.

The same events become OpenTelemetry spans when OTEL_EXPORTER_OTLP_ENDPOINT is set and the extra `otel` is installed.
A log that cannot be written never stops a run.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from migrate_tools.model import CheckResult
from migrate_tools.verl.secrets import redact_value

FILE = "trace.jsonl"
OTLP = "OTEL_EXPORTER_OTLP_ENDPOINT"
LONGEST = 2000
"""Characters of one text in an event; evidence in full lies beside it in the run folder."""


class Spans(Protocol):
    """Where events go beside the file."""

    def event(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Takes one event; "node" events with `seconds` end what those without began."""

    def close(self) -> None:
        """Sends what is left."""


class Trace:
    """Takes events; each is (kind, facts). Secrets are removed here."""

    def __init__(self, path: Path, spans: Spans | None = None) -> None:
        self._path = path
        self._spans = spans

    def __call__(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Writes one event."""
        clean = _short(redact_value(dict(facts)))
        line = json.dumps({"at": round(time.time(), 3), "kind": kind, **clean}, ensure_ascii=False, default=str)
        try:
            with self._path.open("ab") as stream:
                stream.write(line.encode("utf-8", "backslashreplace") + b"\n")
        except OSError:
            pass
        if self._spans is not None:
            self._spans.event(kind, clean)

    def close(self) -> None:
        """Ends the spans."""
        if self._spans is not None:
            self._spans.close()


def open_trace(folder: Path, run: str, say: Callable[[str], None]) -> Trace:
    """The log of one run; says so when spans are asked for and cannot be sent."""
    return Trace(folder / FILE, _spans(run, say))


def log_checks(trace: Callable[[str, dict[str, Any]], None], results: Iterable[CheckResult]) -> None:
    """One event a check."""
    for result in results:
        trace(
            "check",
            {"name": result.name, "rung": result.rung, "status": result.status, "summary": result.summary},
        )


def _spans(run: str, say: Callable[[str], None]) -> Spans | None:
    if not os.environ.get(OTLP):
        return None
    try:
        from migrate_agent.otel import OtelSpans
    except ImportError as error:
        say(f"no spans are sent: {OTLP} is set, but {error.name} is missing; pip install 'migrate-agent[otel]'")
        return None
    return OtelSpans(run)


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[:LONGEST]}…"
    if isinstance(value, dict):
        return {str(key): _short(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_short(item) for item in value]
    return value
