"""Every way in which a compatible server answers otherwise than asked, through the real SDK."""

from __future__ import annotations

import json
from typing import Any

import pytest
from llm_server import Answer, Body, called, failed, said
from migrate_agent.llm.capability import Capability
from migrate_agent.llm.errors import CutOffAnswer, EndpointError, LlmError, RefusedAnswer, TooLong, UnusableAnswer
from migrate_agent.llm.talk import Message
from shapes import EDIT, QUESTION, RIGHT, Edit


def form(request: Body) -> str:
    return str(request.get("response_format", {}).get("type", "text"))


def test_the_schema_is_sent_strict_and_the_answer_validated(model: Any) -> None:
    asker, server = model(said(RIGHT))
    assert asker.ask(QUESTION, Edit, purpose="t") == EDIT
    (request,) = server.requests
    sent = request["response_format"]["json_schema"]
    assert sent["strict"] is True
    assert sent["schema"]["required"] == ["action", "path", "line"]
    assert sent["schema"]["additionalProperties"] is False
    assert [item["role"] for item in request["messages"]] == ["system", "user"]
    assert "stream" not in request
    assert "tools" not in request


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_without_json_schema_is_asked_for_a_json_object_and_that_is_remembered(
    model: Any, status: int
) -> None:
    def only_objects(body: Body) -> Answer:
        return failed(status, "unknown field") if form(body) == "json_schema" else said(RIGHT)

    asker, server = model(only_objects)
    assert asker.ask(QUESTION, Edit, purpose="t") == EDIT
    asker.ask((*QUESTION, Message(role="user", content="And now?")), Edit, purpose="t")
    assert [form(item) for item in server.requests] == ["json_schema", "json_object", "json_object"]
    assert "JSON Schema" in server.requests[1]["messages"][-1]["content"]


def test_a_server_without_any_form_is_asked_in_plain_text(model: Any) -> None:
    def plain(body: Body) -> Answer:
        if "response_format" in body:
            return failed(500, 'response_format must be "text"')
        return said(f"Sure:\n```json\n{RIGHT}\n```\nDone.")

    asker, server = model(plain)
    assert asker.ask(QUESTION, Edit, purpose="t") == EDIT
    assert [form(item) for item in server.requests] == ["json_schema", "json_object", "text"]
    assert asker.mode == "text"


def test_a_form_that_is_silently_ignored_is_seen(model: Any) -> None:
    asker, server = model(said("I would edit a.py."), said(RIGHT))
    assert asker.ask(QUESTION, Edit, purpose="t") == EDIT
    assert [form(item) for item in server.requests] == ["json_schema", "text"]
    assert "JSON Schema" in server.requests[1]["messages"][-1]["content"]


def test_json_of_another_form_steps_down_and_tells_the_schema(model: Any) -> None:
    asker, server = model(said('{"file": "a.py"}'), said(RIGHT))
    assert asker.ask(QUESTION, Edit, purpose="t") == EDIT
    assert [form(item) for item in server.requests] == ["json_schema", "json_object"]
    told = server.requests[1]["messages"]
    assert told[-2] == {"role": "assistant", "content": '{"file": "a.py"}'}
    assert "action: Field required" in told[-1]["content"]
    assert "JSON Schema" in told[-1]["content"]


def test_a_wrong_value_in_the_right_form_is_told_and_keeps_the_form(model: Any) -> None:
    asker, server = model(said(RIGHT.replace("a.py", "/etc/passwd")), said(RIGHT))
    assert asker.ask(QUESTION, Edit, purpose="t") == EDIT
    assert [form(item) for item in server.requests] == ["json_schema", "json_schema"]
    assert "the path is absolute" in server.requests[1]["messages"][-1]["content"]


def test_only_one_round_of_feedback(model: Any) -> None:
    asker, server = model(said('{"action": "edit"'))
    with pytest.raises(UnusableAnswer, match="cannot be used: it holds no JSON object"):
        asker.ask(QUESTION, Edit, purpose="t")
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "content",
    [
        f"```json\n{RIGHT}\n```",
        f"```\n{RIGHT}\n```",
        f"Here it is: {RIGHT} as you wished.",
        f"<think>perhaps {{not this}}?</think>\n{RIGHT}",
        f"```python\nx = {{1: 2}}\n```\n```json\n{RIGHT}\n```",
        f"{RIGHT}\n{RIGHT}",
        '```json\n{"name": "edit", "arguments": {"path": "a.py", "line": 3}}\n```',
        '{"name": "edit", "arguments": "{\\"path\\": \\"a.py\\", \\"line\\": 3}"}',
        '{"name": "answer", "arguments": {"action": "edit", "path": "a.py", "line": 3}}',
        '{"name": "edit", "parameters": {"path": "a.py", "line": 3}}',
        '{"type": "function", "function": {"name": "edit", "arguments": {"path": "a.py", "line": 3}}}',
        f'{{"example": 1}} or better {RIGHT}',
    ],
)
def test_one_json_block_counts_whatever_stands_around_it(model: Any, content: str) -> None:
    asker, server = model(said(content), capability=Capability(mode="text"))
    assert asker.ask(QUESTION, Edit, purpose="t") == EDIT
    assert len(server.requests) == 1


def test_two_different_actions_are_none(model: Any) -> None:
    other = RIGHT.replace("a.py", "b.py")
    asker, server = model(said(f"{RIGHT}\n{other}"), said(RIGHT), capability=Capability(mode="text"))
    assert asker.ask(QUESTION, Edit, purpose="t") == EDIT
    assert "2 JSON objects" in server.requests[1]["messages"][-1]["content"]


@pytest.mark.parametrize("arguments", ['{"path": "a.py", "line": 3}', {"path": "a.py", "line": 3}])
def test_real_tool_calls_count_as_the_action(model: Any, arguments: Any) -> None:
    asker, _ = model(called(("edit", arguments)))
    assert asker.ask(QUESTION, Edit, purpose="t") == EDIT


def test_the_old_function_call_counts_too(model: Any) -> None:
    asker, _ = model(said(None, message={"function_call": {"name": "edit", "arguments": RIGHT}}))
    assert asker.ask(QUESTION, Edit, purpose="t") == EDIT


def test_two_tool_calls_are_told(model: Any) -> None:
    asker, server = model(called(("edit", RIGHT), ("edit", RIGHT)), said(RIGHT))
    assert asker.ask(QUESTION, Edit, purpose="t") == EDIT
    assert "calls 2 tools" in server.requests[1]["messages"][-1]["content"]


def test_broken_arguments_are_told(model: Any) -> None:
    asker, _ = model(called(("edit", '{"path": "a.py"')), said(RIGHT))
    assert asker.ask(QUESTION, Edit, purpose="t") == EDIT


@pytest.mark.parametrize("content", ["", None, "  \n"])
def test_an_empty_answer_is_asked_again_without_an_empty_message(model: Any, content: str | None) -> None:
    asker, server = model(said(content), said(RIGHT))
    assert asker.ask(QUESTION, Edit, purpose="t") == EDIT
    assert all(item["content"].strip() for item in server.requests[1]["messages"])


def test_an_answer_that_stays_empty_is_named(model: Any) -> None:
    asker, _ = model(said(""))
    with pytest.raises(UnusableAnswer, match="it is empty"):
        asker.ask(QUESTION, Edit, purpose="t")


@pytest.mark.parametrize(
    "answer",
    [
        said(None, message={"refusal": "I cannot help with that."}),
        said("", finish="content_filter"),
    ],
)
def test_a_refusal_is_named_and_not_asked_again(model: Any, answer: Answer) -> None:
    asker, server = model(answer)
    with pytest.raises(RefusedAnswer, match="declines to answer"):
        asker.ask(QUESTION, Edit, purpose="t")
    assert len(server.requests) == 1


def test_a_cut_off_answer_is_asked_again_shorter_then_named(model: Any) -> None:
    asker, server = model(said('{"action": "edit", "pa', finish="length"))
    with pytest.raises(CutOffAnswer, match="cut off at 8192 tokens"):
        asker.ask(QUESTION, Edit, purpose="t")
    assert len(server.requests) == 2
    assert "cut off" in server.requests[1]["messages"][-1]["content"]


def test_a_whole_answer_with_the_finish_length_is_taken(model: Any) -> None:
    asker, _ = model(said(RIGHT, finish="length"))
    assert asker.ask(QUESTION, Edit, purpose="t") == EDIT


def test_content_in_parts_is_joined(model: Any) -> None:
    parts = [{"type": "text", "text": RIGHT[:10]}, {"type": "text", "text": RIGHT[10:]}]
    asker, _ = model(said(None, message={"content": parts}))
    assert asker.ask(QUESTION, Edit, purpose="t") == EDIT


def test_newer_models_get_their_names_of_options(model: Any) -> None:
    def picky(body: Body) -> Answer:
        if "max_tokens" in body:
            return failed(400, "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")
        if "temperature" in body:
            return failed(400, "'temperature' does not support 0.0 with this model.")
        return said(RIGHT)

    asker, server = model(picky)
    assert asker.ask(QUESTION, Edit, purpose="t") == EDIT
    assert server.requests[-1]["max_completion_tokens"] == 8192
    assert form(server.requests[-1]) == "json_schema"
    assert asker.budget.spent.calls == 1


def test_a_small_context_gets_shorter_answers_asked_for(model: Any) -> None:
    def small(body: Body) -> Answer:
        if body["max_tokens"] > 2048:
            return failed(400, "This model's maximum context length is 4096 tokens.")
        return said(RIGHT)

    asker, server = model(small)
    assert asker.ask(QUESTION, Edit, purpose="t") == EDIT
    assert [item["max_tokens"] for item in server.requests] == [8192, 2048]


def test_a_question_that_does_not_fit_is_named(model: Any) -> None:
    asker, _ = model(failed(400, "This model's maximum context length is 512 tokens."))
    with pytest.raises(TooLong, match="maximum context length"):
        asker.ask(QUESTION, Edit, purpose="t")


@pytest.mark.parametrize(
    ("answer", "said_so"),
    [
        (Answer(body="<html>login</html>"), "no JSON"),
        (Answer(body={"object": "list"}), "no chat completion"),
        (Answer(body={"choices": []}), "no chat completion"),
        (Answer(body={"choices": [{"message": None}]}), "no chat completion"),
        (Answer(body={"error": {"message": "model is loading"}}), "model is loading"),
        (failed(401, "Incorrect API key provided"), "refuses the key"),
        (failed(404, "The model does not exist"), "does not know this model"),
        (failed(429, "insufficient_quota: check your plan"), "insufficient_quota"),
    ],
)
def test_what_is_no_answer_is_one_named_line(model: Any, answer: Answer, said_so: str) -> None:
    asker, server = model(answer)
    with pytest.raises(EndpointError, match=said_so) as caught:
        asker.ask(QUESTION, Edit, purpose="t")
    assert len(server.requests) == 1
    assert "\n" not in caught.value.line()
    assert "127.0.0.1" in caught.value.message
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": "many"}])
def test_missing_usage_is_estimated_and_marked(model: Any, usage: Any) -> None:
    asker, _ = model(said(RIGHT, usage=usage))
    asker.ask(QUESTION, Edit, purpose="t")
    facts = asker.budget.facts()
    assert facts["estimated"] is True
    assert 100 < facts["tokens"] < 400
    assert "about" in asker.budget.line()


def test_reported_usage_is_counted(model: Any) -> None:
    asker, _ = model(said(RIGHT))
    asker.ask(QUESTION, Edit, purpose="t")
    assert asker.budget.facts() | {"seconds": 0} == {
        "calls": 1,
        "tokens": 120,
        "seconds": 0,
        "usd": None,
        "estimated": False,
    }
    assert "unknown price: tokens only" in asker.budget.line()


def test_every_error_is_an_llm_error() -> None:
    assert all(
        issubclass(kind, LlmError) for kind in (RefusedAnswer, CutOffAnswer, UnusableAnswer, EndpointError, TooLong)
    )


def test_nesting_too_deep_to_read_is_no_answer(model: Any) -> None:
    asker, _ = model(said("[" * 5000 + '{"a":' * 5000), said(json.dumps({"a": {"b": 1}})))
    with pytest.raises(UnusableAnswer):
        asker.ask(QUESTION, Edit, purpose="t")
