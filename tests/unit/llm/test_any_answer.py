"""Whatever a server sends is an answer in the right shape or a named error, never anything else."""

from __future__ import annotations

import json
from typing import Any

import hypothesis.strategies as st
from hypothesis import example, given, settings
from migrate_agent.llm.actions import Answer
from migrate_agent.llm.answers import Unread, read_answer
from migrate_agent.llm.reading import raw_reply
from migrate_agent.llm.talk import RawReply

WORDS = st.sampled_from(
    [
        "action",
        "do",
        "name",
        "arguments",
        "parameters",
        "function",
        "replace",
        "read",
        "give_up",
        "file",
        "reason",
        "{}",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS | st.text(max_size=8)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4), max_leaves=12
)
KEYS = st.sampled_from(
    [
        "choices",
        "message",
        "content",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "usage",
        "prompt_tokens",
        "refusal",
    ]
)
BODIES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=20
)


@settings(deadline=None, max_examples=150)
@given(BODIES)
@example({"choices": [{"message": {"tool_calls": [{"function": None}], "function_call": 3}}]})
@example({"choices": [{"message": {"content": [{"text": None}, "x"]}}], "usage": {"prompt_tokens": True}})
@example({"choices": [{"message": {"content": "{", "refusal": {"a": 1}}, "finish_reason": []}]})
def test_any_body_is_a_reply_or_none(body: Any) -> None:
    reply = raw_reply(body)
    assert reply is None or isinstance(reply.content, str)
    whole = raw_reply({"choices": [{"message": body if isinstance(body, dict) else {}}]})
    assert isinstance(whole, RawReply)


@settings(deadline=None, max_examples=150)
@given(VALUES, st.sampled_from(["{}", "```json\n{}\n```", "so: {} .", "<think>{}</think>", "{}{}", "```\n{}"]))
@example({"name": "read", "arguments": "[1]"}, "{}")
@example({"function": {"name": "read", "arguments": None}}, "{}")
def test_any_text_is_an_answer_or_unread(value: Any, around: str) -> None:
    text = around.replace("{}", json.dumps(value))
    replies = [RawReply(content=text), RawReply(content="", tool_calls=(("read", json.dumps(value)),))]
    for reply in replies:
        assert isinstance(answer_or_reason(reply), Answer | str)


def answer_or_reason(reply: RawReply) -> Answer | str:
    try:
        return read_answer(reply, Answer)
    except Unread as why:
        return str(why) or "no reason"
