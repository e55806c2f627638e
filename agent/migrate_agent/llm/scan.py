"""Nothing that looks like a credential leaves the machine: every message passes here just before it is sent."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from migrate_tools.verl.secrets import REMOVED, redact

from migrate_agent.llm.talk import Call, RawReply

_CREDENTIAL_NAME = re.compile(r"key|token|secret|passw|credential|auth", re.IGNORECASE)
SHORTEST = 12
"""A shorter value of a variable is a word as likely as a credential."""


def clean(text: str, environment: Mapping[str, str] | None = None) -> str:
    """The text without credentials: what has their form, and the values of this machine's own variables."""
    values = os.environ if environment is None else environment
    for name, value in values.items():
        if len(value) >= SHORTEST and _CREDENTIAL_NAME.search(name) and value in text and _opaque(value):
            text = text.replace(value, REMOVED)
    return redact(text)


def clean_call(call: Call) -> Call:
    """The call with every message cleaned."""
    messages = tuple(item.model_copy(update={"content": clean(item.content)}) for item in call.messages)
    return call.model_copy(update={"messages": messages})


def clean_reply(reply: RawReply) -> RawReply:
    """The reply as it may be recorded and used."""
    calls = tuple((name, clean(arguments)) for name, arguments in reply.tool_calls)
    return reply.model_copy(update={"content": clean(reply.content), "tool_calls": calls, "why": clean(reply.why)})


def _opaque(value: str) -> bool:
    """Whether it could be a credential: no path, no sentence, not one letter repeated."""
    return not value.startswith(("/", ".", "~")) and not re.search(r"\s", value) and len(set(value)) > 4
