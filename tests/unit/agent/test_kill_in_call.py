"""kill -9 while the model is answering: the run goes on, pays nothing twice and ends in the same bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from llm_server import Answer, Body, LlmServer, llm_server, said
from migrate_agent.graph import run_graph
from migrate_agent.llm_settings import LlmSettings, open_model
from migrate_agent.nodes import Context
from migrate_agent.request import RunRequest
from migrate_agent.runs import RunFolder, new_run, open_run
from migrate_agent.state import RunState
from migrate_agent.workspace import Workspace
from test_consult import REWARD, JudgingEngine


def reply(body: Body) -> Answer:
    """Reads the script file first; then mends half, then all."""
    text = json.dumps(body["messages"])
    if "(wrong, 1)" in text.rpartition("<data file")[2]:
        action = {"do": "replace", "file": REWARD, "old": "(wrong, 1)", "new": "(0, 1)", "why": "the rest"}
    elif "Result of read" in text:
        action = {"do": "replace", "file": REWARD, "old": "(wrong, wrong)", "new": "(wrong, 1)", "why": "half"}
    else:
        action = {"do": "read", "file": REWARD}
    return said(json.dumps({"action": action}))


def live(run: RunFolder, *, resume: bool) -> RunState:
    model = open_model(LlmSettings(mode="auto"), run.root)
    assert model is not None
    context = Context(run, run.request(), JudgingEngine(python="x = (wrong, wrong)\n"), lambda text: None, model)
    return run_graph(context, lambda node, took: None, resume=resume)


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_run_killed_in_the_middle_of_a_call_ends_the_same(
    request_value: RunRequest, call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "MIGRATE_AGENT_PRICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MIGRATE_AGENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MIGRATE_AGENT_MODEL", "stand-in")
    with llm_server(reply) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        whole = new_run(request_value)
        done = live(whole, resume=False)
        expected, history = whole.get(done["result"]), Workspace(whole.root).messages()
        asked = len(server.requests)
    assert json.loads(expected["json"])["verdict"] == "rehearsed"

    def hang(body: Body) -> Answer:
        return Answer(wait=60.0)

    run = new_run(request_value)
    with llm_server(*[reply] * (call - 1), hang) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        kill_when(server, call, run.id, tmp_path / "finished")
    with llm_server(reply) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        state = live(open_run(run.id), resume=True)
        assert len(server.requests) == asked - (call - 1)
    assert run.get(state["result"]) == expected
    assert Workspace(run.root).messages() == history


def kill_when(server: LlmServer, call: int, run: str, finished: Path) -> None:
    """Starts the run in a process of its own and kills it once the server holds its call."""
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parents[1]), *sys.path])
    child = subprocess.Popen(
        [sys.executable, str(here / "kill_child.py"), run, str(finished)], env={**os.environ, "PYTHONPATH": paths}
    )
    try:
        deadline = time.monotonic() + 90
        while len(server.requests) < call and time.monotonic() < deadline and child.poll() is None:
            time.sleep(0.05)
        assert len(server.requests) == call
        time.sleep(0.1)
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert not finished.exists()
