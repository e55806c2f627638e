"""The body of a chat completion as a RawReply, whatever a compatible server leaves out or writes differently."""

from __future__ import annotations

import json
from typing import Any

from migrate_agent.llm.talk import Finish, RawReply, Usage

_FINISH: dict[str, Finish] = {
    "stop": "stop",
    "tool_calls": "stop",
    "function_call": "stop",
    "eos": "stop",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "refusal",
    "refusal": "refusal",
}


def raw_reply(body: Any) -> RawReply | None:
    """The first choice of a chat completion; None when the body is none."""
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return None
    message = choices[0].get("message")
    if not isinstance(message, dict):
        return None
    refusal = message.get("refusal")
    finish: Finish = "refusal" if refusal else _FINISH.get(str(choices[0].get("finish_reason")), "other")
    return RawReply(
        content=_content(message.get("content")),
        tool_calls=_calls(message),
        finish=finish,
        usage=_usage(body.get("usage")),
        why=str(refusal or ""),
    )


def _content(value: Any) -> str:
    if isinstance(value, list):
        parts = [part.get("text") for part in value if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _calls(message: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    listed = message.get("tool_calls")
    calls = [call.get("function") for call in (listed if isinstance(listed, list) else []) if isinstance(call, dict)]
    calls.append(message.get("function_call"))
    return tuple((str(call.get("name", "")), _arguments(call)) for call in calls if isinstance(call, dict))


def _arguments(call: dict[str, Any]) -> str:
    value = call.get("arguments", "")
    return value if isinstance(value, str) else json.dumps(value)


def _usage(value: Any) -> Usage | None:
    """The reported tokens; None where they are missing or cannot be right."""
    if not isinstance(value, dict):
        return None
    prompt, completion = value.get("prompt_tokens"), value.get("completion_tokens", 0)
    if not isinstance(prompt, int) or not isinstance(completion, int) or prompt <= 0 or completion < 0:
        return None
    return Usage(prompt_tokens=prompt, completion_tokens=completion)
