"""What the configured endpoint can do: a few short questions, whose findings later runs start from."""

from __future__ import annotations

import time
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from migrate_agent.llm.answers import Unread, is_plain_json, read_answer
from migrate_agent.llm.capability import Capability
from migrate_agent.llm.client import OpenAiWire
from migrate_agent.llm.errors import LlmError, UnsupportedRequest
from migrate_agent.llm.schema_form import schema_text, strict_schema
from migrate_agent.llm.talk import Call, Message, Mode, RawReply
from migrate_agent.llm_settings import Endpoint

TOKENS = 1000
"""Enough for models that think before they answer."""
QUESTION = "In one short sentence: what does a reward function in reinforcement learning return?"
"""Its natural answer is no JSON, so that JSON shows that the form is forced."""


class Note(BaseModel):
    """One sentence and how sure you are."""

    model_config = ConfigDict(extra="forbid")
    sentence: str
    sure: bool


@dataclass(frozen=True)
class Probed:
    """What was found out, in words and as a value; without a value nothing was."""

    listed: bool | None
    capability: Capability | None
    words: str


def probe(endpoint: Endpoint, wire: OpenAiWire) -> Probed:
    """Asks the endpoint at most four short questions."""
    try:
        names = wire.models()
        listed = None if names is None else endpoint.model in names
        began = time.monotonic()
        mode, reply = _best_mode(endpoint, wire)
        seconds = round(time.monotonic() - began, 2)
        tools = wire.calls_tools(endpoint.model)
    except LlmError as error:
        return Probed(None, None, error.line())
    found = Capability(mode=mode, usage=reply.usage is not None, tool_calls=tools, seconds=seconds)
    return Probed(listed, found, _words(found, listed))


def _best_mode(endpoint: Endpoint, wire: OpenAiWire) -> tuple[Mode, RawReply]:
    """The first form of answer that holds, and the reply to it."""
    for mode in ("json_schema", "json_object"):
        try:
            reply = wire.send(_call(endpoint, mode))
        except UnsupportedRequest:
            continue
        if is_plain_json(reply.content) and _fits(reply):
            return mode, reply
    return "text", wire.send(_call(endpoint, "text"))


def _call(endpoint: Endpoint, mode: Mode) -> Call:
    forced = mode == "json_schema"
    question = QUESTION if forced else f"{QUESTION}\n\n{schema_text(Note)}"
    return Call(
        model=endpoint.model,
        messages=(Message(role="user", content=question),),
        mode=mode,
        json_schema=strict_schema(Note) if forced else None,
        max_tokens=TOKENS,
    )


def _fits(reply: RawReply) -> bool:
    try:
        read_answer(reply, Note)
    except Unread:
        return False
    return True


def _words(found: Capability, listed: bool | None) -> str:
    forms = {
        "json_schema": "holds a JSON schema",
        "json_object": "holds JSON, no schema",
        "text": "holds no form; answers are read from text",
    }
    return ", ".join(
        (
            {True: "listed", False: "not in its list of models", None: "the server lists no models"}[listed],
            forms[found.mode],
            "reports usage" if found.usage else "reports no usage: tokens are estimated",
            "calls tools" if found.tool_calls else "calls no tools (not needed)",
            f"{found.seconds:g} s for a short question",
        )
    )
