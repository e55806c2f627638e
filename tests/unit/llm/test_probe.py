"""`migrate-agent doctor` finds out what an endpoint can do, and a later run starts from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from llm_server import Answer, Body, called, failed, llm_server, said
from migrate_agent.commands.doctor import _model
from migrate_agent.llm.capability import Capability, recall
from migrate_agent.llm_settings import TAPE, Endpoint, LlmSettings, open_model
from shapes import QUESTION, RIGHT, Edit

NOTE = '{"sentence": "A number.", "sure": true}'


def good(body: Body) -> Answer:
    return called(("read_file", '{"path": "reward.py"}')) if "tools" in body else said(NOTE)


def ignoring(body: Body) -> Answer:
    """Takes every option and obeys none."""
    return said(f"A number, I think.\n{NOTE}" if "JSON Schema" in str(body) else "A number.", usage=None)


def old(body: Body) -> Answer:
    if body.get("response_format", {}).get("type") == "json_schema" or "tools" in body:
        return failed(400, "unknown option")
    return said(NOTE)


@pytest.mark.parametrize(
    ("behaviour", "mode", "usage", "tools"),
    [
        (good, "json_schema", True, True),
        (ignoring, "text", False, False),
        (old, "json_object", True, False),
    ],
)
def test_what_an_endpoint_can_do_is_seen_and_kept(
    behaviour: object, mode: str, usage: bool, tools: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with llm_server(behaviour) as server:  # type: ignore[arg-type]
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("MIGRATE_AGENT_MODEL", "stand-in")
        finding = _model()
        assert len(server.requests) <= 4
        kept = recall(Endpoint(model="stand-in", base_url=server.url))
        assert (kept.mode, kept.usage, kept.tool_calls) == (mode, usage, tools)
        assert finding.state == "ok"
        assert "listed, " in finding.detail
        assert "unknown price" in finding.detail
        asker = open_model(LlmSettings(mode="auto"), tmp_path)
        assert asker is not None
        assert asker.mode == mode
    head = json.loads((tmp_path / TAPE).read_text())
    assert Capability.model_validate(head["capability"]).mode == mode


def test_the_first_question_of_a_run_takes_the_known_form(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with llm_server(old) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("MIGRATE_AGENT_MODEL", "stand-in")
        _model()
        server.requests.clear()
        server.script[:] = [said(RIGHT)]
        asker = open_model(LlmSettings(mode="auto"), tmp_path)
        assert asker is not None
        asker.ask(QUESTION, Edit, purpose="t")
        assert [item["response_format"]["type"] for item in server.requests] == ["json_object"]


def test_an_unlisted_model_and_an_endpoint_that_fails_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with llm_server(good) as server:
        server.models = ["another"]
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("MIGRATE_AGENT_MODEL", "stand-in")
        finding = _model()
        assert (finding.state, finding.needed) == ("missing", False)
        assert "not in its list of models" in finding.detail
    with llm_server(failed(401, "bad key")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        finding = _model()
        assert finding.state == "missing"
        assert "refuses the key" in finding.detail


def test_without_a_model_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-program")
    finding = _model()
    assert finding.state == "optional"
    assert "MIGRATE_AGENT_MODEL is not set" in finding.detail
    monkeypatch.setenv("MIGRATE_AGENT_MODEL", "m")
    monkeypatch.delenv("OPENAI_API_KEY")
    assert _model().state == "missing"
