"""The agentic form: an agent's process against the stand-in chat server, sound and faulty."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from migrate_tools.rehearsal.runtime.agentic import Agents, ChatServer, message_problems, output_problems
from migrate_tools.rehearsal.runtime.convert import sample_problems
from migrate_tools.rehearsal.runtime.hooks import Loop
from migrate_tools.rehearsal.runtime.sample import Sample, SampleStatus
from migrate_tools.rehearsal.runtime.tokenizer import Tokenizer

AGENT = """
import json, os, urllib.request

def ask(messages):
    body = json.dumps({"messages": messages, "tools": TOOLS}).encode()
    headers = {"Authorization": "Bearer " + os.environ["RELAX_SESSION_ID"]}
    url = os.environ["RELAX_BASE_URL"].rstrip("/") + "/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as reply:
        return json.loads(reply.read())["choices"][0]["message"]

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"properties": {"word": {"type": "string"}}}}}]
given = json.load(open(os.environ["RELAX_INPUT_JSON"]))
messages = given["messages"]
messages.append(ask(messages))
messages.append({"role": "tool", "content": "found it"})
messages.append(ask(messages))
told = {"metadata": {"verl_rollout": {"num_turns": len(messages)}}}
json.dump(told, open(os.environ["RELAX_OUTPUT_JSON"], "w"))
"""


def play(folder: Path, *edits: tuple[str, str], context: int | None = None) -> tuple[Sample, list[str]]:
    """The sample that one process makes, and what was wrong."""
    text = AGENT
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    (folder / "agent.py").write_text(text)
    args = Namespace(agent_command=f"{sys.executable} agent.py", agent_cwd=str(folder), agent_env=["MINE=1"])
    sample = Sample(prompt=[{"role": "user", "content": "What is 1 + 1?"}], label="2", metadata={"index": 3})
    with ChatServer(Tokenizer(), context) as server:
        agents = Agents(args, server)
        made = Loop().run(agents.generate(args, sample, {}), 60)
        assert agents.facts()["sessions"] == 1
    return made, server.problems


def test_a_session_becomes_a_sample(tmp_path: Path) -> None:
    sample, problems = play(tmp_path)
    assert problems == []
    assert list(sample_problems(sample, logprobs=True)) == []
    assert sample.status is SampleStatus.COMPLETED
    assert sample.metadata == {"index": 3, "verl_rollout": {"num_turns": 4}}
    assert '<tool_call>\n{"name": "look", "arguments": {"word": "alpha"}}' in sample.response
    assert "\\boxed{2}" in sample.response
    # the tool's words were seen, and are not trained on
    mask = sample.loss_mask or []
    assert 0 < sum(mask) < len(mask)
    assert "found it" in sample.response


FIRST = "messages.append(ask(messages))\nmessages.append({"
TOOL = 'messages.append({"role": "tool", "content": "found it"})\n'
ASK = "messages.append(ask(messages))"
GROWS = "the history is not append-only"


@pytest.mark.parametrize(
    ("edits", "found"),
    [
        ([(FIRST, "ask(messages)\nmessages.append({")], GROWS),
        ([(TOOL, 'messages[0]["content"] += "!"\n')], GROWS),
        ([(TOOL, "")], "a request adds no message"),
        ([('"role": "tool"', '"role": "function"')], "a message has the role 'function'"),
        ([('"found it"', '""')], "a tool message has no content"),
        ([('"Bearer " + ', '"Bearer x" + ')], "a request without the session's key"),
        ([("told = ", "raise SystemExit(3)\ntold = ")], "the agent ended with status 3"),
        ([("json.dump(told, ", "json.dump([told], ")], "the output of the agent is list, not an object"),
        ([('told = {"metadata"', 'told = {"score": 1, "metadata"')], "Relax ignores score in the output of the agent"),
        ([(ASK, "messages.append({'role': 'assistant', 'content': 'x'})")], "the agent asked nothing of the model"),
    ],
)
def test_a_faulty_agent_is_caught(tmp_path: Path, edits: list[tuple[str, str]], found: str) -> None:
    _, problems = play(tmp_path, *edits)
    assert any(found in text for text in problems), problems


def test_a_context_without_room_is_an_error_of_the_server(tmp_path: Path) -> None:
    _, problems = play(tmp_path, context=5)
    assert any("HTTP Error 400" in text for text in problems)


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ({}, None),
        ({"metadata": {"a": 1}, "reward": 0.5}, None),
        ({"metadata": []}, "the metadata in the output of the agent is no object"),
        ({"reward": "1"}, "the reward in the output of the agent is no number and no object"),
    ],
)
def test_outputs(told: Any, problem: str | None) -> None:
    assert list(output_problems(told)) == ([problem] if problem else [])


def test_an_assistant_with_tool_calls_needs_no_content() -> None:
    assert list(message_problems([{"role": "assistant", "content": "", "tool_calls": [{}]}])) == []
