"""The events of a run as OpenTelemetry spans: one for the run, one a node; the rest are events of the node's span."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from migrate_tools import __version__
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter


class OtelSpans:
    """Sends spans over OTLP/HTTP, or to the exporter that is given."""

    def __init__(self, run: str, exporter: SpanExporter | None = None) -> None:
        resource = Resource.create({"service.name": "migrate-agent", "service.version": __version__})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("migrate_agent", __version__)
        self._root = self._tracer.start_span("run", attributes={"run.id": run})
        self._node: trace.Span | None = None

    def event(self, kind: str, facts: Mapping[str, Any]) -> None:
        """A node begins or ends its span; everything else is an event of the node's span."""
        if kind == "node" and "seconds" not in facts:
            context = trace.set_span_in_context(self._root)
            self._node = self._tracer.start_span(str(facts.get("name")), context=context)
        elif kind == "node":
            self._end_node()
        else:
            (self._node or self._root).add_event(kind, _attributes(facts))

    def close(self) -> None:
        """Ends what is open and sends the rest."""
        self._end_node()
        self._root.end()
        self._provider.shutdown()

    def _end_node(self) -> None:
        if self._node is not None:
            self._node.end()
            self._node = None


def _attributes(facts: Mapping[str, Any], prefix: str = "") -> dict[str, str | bool | int | float]:
    found: dict[str, str | bool | int | float] = {}
    for key, value in facts.items():
        if isinstance(value, Mapping):
            found |= _attributes(value, f"{prefix}{key}.")
        elif isinstance(value, str | bool | int | float):
            found[f"{prefix}{key}"] = value
        elif value is not None:
            found[f"{prefix}{key}"] = str(value)
    return found
