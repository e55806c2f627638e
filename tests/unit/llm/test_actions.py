"""The actions of the repair loop in every form in which endpoints give them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from llm_server import called, said
from migrate_agent.llm.actions import Answer, Replace
from migrate_agent.llm.capability import Capability
from migrate_agent.llm.schema_form import holds, strict_schema
from shapes import QUESTION

REPLACE = {"do": "replace", "file": "examples/toy/reward_toy.py", "old": "1", "new": "2", "why": "it was wrong"}
ARGUMENTS = {key: value for key, value in REPLACE.items() if key != "do"}
RIGHT = Answer(action=Replace.model_validate(REPLACE))


@pytest.mark.parametrize(
    "content",
    [
        {"action": REPLACE},
        REPLACE,
        {"name": "replace", "arguments": ARGUMENTS},
        {"name": "replace", "arguments": json.dumps(ARGUMENTS)},
        {"name": "replace", "arguments": REPLACE},
        {"name": "answer", "arguments": {"action": REPLACE}},
    ],
)
def test_an_action_written_as_json_counts(model: Any, content: Any) -> None:
    asker, server = model(said(f"```json\n{json.dumps(content)}\n```"), capability=Capability(mode="text"))
    assert asker.ask(QUESTION, Answer, purpose="t") == RIGHT
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("name", "arguments"), [("replace", ARGUMENTS), ("replace", REPLACE), ("answer", {"action": REPLACE})]
)
def test_an_action_that_is_a_real_tool_call_counts(model: Any, name: str, arguments: Any) -> None:
    asker, _ = model(called((name, json.dumps(arguments))))
    assert asker.ask(QUESTION, Answer, purpose="t") == RIGHT


def test_what_is_wrong_is_told_for_the_action_that_was_meant(model: Any) -> None:
    wrong = {key: value for key, value in REPLACE.items() if key != "why"}
    asker, server = model(said(json.dumps({"action": wrong})), said(json.dumps({"action": REPLACE})))
    assert asker.ask(QUESTION, Answer, purpose="t") == RIGHT
    told = server.requests[1]["messages"][-1]["content"]
    assert told.startswith("the answer of stand-in cannot be used: action.Replace.why: Field required. Answer again")


def test_the_strict_schema_takes_what_the_shape_takes_and_no_more() -> None:
    schema = strict_schema(Answer)
    assert holds(json.dumps({"action": REPLACE}), schema)
    assert not holds(json.dumps({"action": {**REPLACE, "force": True}}), schema)
    assert not holds(json.dumps({"action": {**REPLACE, "do": "run"}}), schema)
    assert not holds(json.dumps(REPLACE), schema)
    text = json.dumps(schema)
    assert "oneOf" not in text
    assert "maxLength" not in text
    assert "pattern" not in text
