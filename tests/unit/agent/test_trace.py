"""The structured log: every node, check, edit and question; no secret; spans only when they are asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_fakes import ScriptedEngine
from migrate_agent.graph import run_graph
from migrate_agent.nodes import Context
from migrate_agent.request import RunRequest
from migrate_agent.runs import new_run
from migrate_agent.trace import FILE, OTLP, Trace, open_trace


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / FILE).read_text().splitlines()]


def test_a_run_leaves_every_node_check_and_edit(request_value: RunRequest) -> None:
    run = new_run(request_value)
    engine = ScriptedEngine(flags=("--lr", "--new-flag"), failing=("--new-flag",))
    trace = open_trace(run.root, run.id, lambda text: None)
    run_graph(Context(run, run.request(), engine, print, trace=trace), lambda node, took: None, resume=False)
    seen = events(run.root)
    nodes = [item["name"] for item in seen if item["kind"] == "node" and "seconds" in item]
    assert nodes == ["inspect", "plan", "draft", "test", "repair", "test", "smoke", "report"]
    checks = [(item["name"], item["status"]) for item in seen if item["kind"] == "check"]
    assert checks[:3] == [("syntax", "passed"), ("contract", "failed"), ("parity", "passed")]
    assert checks[-1] == ("gpu_smoke", "skipped")
    assert [item["rule"] for item in seen if item["kind"] == "edit"] == ["drop-unknown-flags"]
    assert [item["outcome"] for item in seen if item["kind"] == "judged"] == ["improved"]
    assert all(isinstance(item["at"], float) for item in seen)


def test_no_secret_and_no_endless_text(tmp_path: Path) -> None:
    trace = Trace(tmp_path / FILE)
    trace("model", {"why": "Bearer abcdefghijklmnopqrstuvwx", "all": ["x" * 9000], "odd": "\ud800", "at_all": {1, 2}})
    (event,) = events(tmp_path)
    assert "abcdefghij" not in json.dumps(event)
    assert len(event["all"][0]) == 2001


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    Trace(tmp_path / "absent" / FILE)("node", {"name": "x"})


def test_nothing_of_opentelemetry_is_imported_unless_configured(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from migrate_agent.trace import open_trace\n"
        "open_trace(Path(sys.argv[1]), 'r', print)('node', {'name': 'x'})\n"
        "print([n for n in sys.modules if n.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_package_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OTLP, "http://127.0.0.1:4318")
    monkeypatch.delitem(sys.modules, "migrate_agent.otel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    said: list[str] = []
    open_trace(tmp_path, "r", said.append)("node", {"name": "x"})
    (line,) = said
    assert "pip install 'migrate-agent[otel]'" in line
    assert len(events(tmp_path)) == 1


def test_events_become_spans(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    from migrate_agent.otel import OtelSpans
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    trace = Trace(tmp_path / FILE, OtelSpans("r1", exporter))
    trace("node", {"name": "test"})
    trace("check", {"name": "parity", "rung": 3, "status": "passed"})
    trace("model", {"purpose": "repair", "spent": {"calls": 1, "usd": None}})
    trace("node", {"name": "test", "seconds": 0.5})
    trace("verdict", {"verdict": "rehearsed"})
    trace.close()
    node, root = exporter.get_finished_spans()
    assert (node.name, root.name) == ("test", "run")
    assert node.parent is not None
    assert node.parent.span_id == root.context.span_id
    assert [item.name for item in node.events] == ["check", "model"]
    assert dict(node.events[1].attributes) == {"purpose": "repair", "spent.calls": 1}
    assert [item.name for item in root.events] == ["verdict"]
    assert root.attributes["run.id"] == "r1"
