"""The live wire: OpenAI-compatible chat completions, one JSON answer a call, one layer of retries.

Only chat completions, and no streaming: that is what compatible servers have in common. The SDK is imported when a
wire is opened. Its own retries are off, so that one question is never sent 3 x 3 times.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any

from migrate_agent.llm.errors import EndpointError, TooLong, UnsupportedRequest
from migrate_agent.llm.reading import raw_reply
from migrate_agent.llm.scan import clean, clean_call
from migrate_agent.llm.talk import Call, RawReply
from migrate_agent.llm_settings import Endpoint

TRIES = 4
TRIES_AFTER_SILENCE = 2
"""A server that did not answer in time is often still at work on the question; asking on only makes it slower."""
FIRST_PAUSE = 1.0
MOST_PAUSE = 300.0
"""A server that wants a longer wait is as good as down."""
NO_KEY = "none"
"""Sent to servers that need no key; the SDK does not start without one."""
_FORM = ("response_format", "json_schema", "json_object", "structured", "guided", "grammar", "schema")
_LENGTH = ("context length", "context_length", "context size", "context window", "maximum context", "too many tokens")


class OpenAiWire:
    """Sends calls to one endpoint.

    `seconds_left` bounds every wait: the pause before a retry and the timeout of an exchange.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        seconds_left: Callable[[], float] = lambda: float("inf"),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        import openai

        self._openai = openai
        self._endpoint = endpoint
        self._seconds_left = seconds_left
        self._sleep = sleep
        self._client = openai.OpenAI(
            api_key=endpoint.key or NO_KEY, base_url=endpoint.base_url, max_retries=0, timeout=endpoint.timeout
        )
        self._length_field = "max_tokens"
        self._temperature = True

    def send(self, call: Call) -> RawReply:
        """The answer of the endpoint.

        Raises:
            UnsupportedRequest: it does not take a request of this form.
            TooLong: question and answer do not fit the model's context.
            EndpointError: it cannot be reached or answers with an error, also after retries.
        """
        call = clean_call(call)
        began = time.monotonic()
        for number in range(1, TRIES + 1):
            left = self._seconds_left() - (time.monotonic() - began)
            try:
                return self._once(call, min(self._endpoint.timeout, max(left, 1.0)))
            except self._openai.APIStatusError as error:
                pause = self._judge(error, call, number)
            except self._openai.APITimeoutError:
                why = f"did not answer within {self._endpoint.timeout:g} s (MIGRATE_AGENT_TIMEOUT)"
                pause = self._pause(number, why, most=TRIES_AFTER_SILENCE)
            except self._openai.APIConnectionError as error:
                pause = self._pause(number, f"cannot be reached: {_cause(error)}")
            except self._openai.OpenAIError as error:
                raise self._error(_short(str(error))) from None
            if pause > min(MOST_PAUSE, self._seconds_left() - (time.monotonic() - began)):
                raise self._error(f"wants {pause:.0f} s of waiting, more than the budget of seconds or patience allows")
            self._sleep(pause)
        raise AssertionError("the last try returns or raises")

    def models(self) -> tuple[str, ...] | None:
        """Names the endpoint lists; None when it lists none.

        Raises:
            EndpointError: it cannot be reached, or refuses the key.
        """
        try:
            body = json.loads(self._client.models.with_raw_response.list().text)
            return tuple(str(item["id"]) for item in body["data"])
        except self._openai.APIStatusError as error:
            if error.status_code in (401, 403):
                raise self._error(_status_line(error)) from None
            return None
        except self._openai.APIConnectionError as error:
            raise self._error(f"cannot be reached: {_cause(error)}") from None
        except (ValueError, KeyError, TypeError):
            return None

    def calls_tools(self, model: str) -> bool:
        """Whether a question that wants a tool gets a real call; our own questions never need one."""
        parameters = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
        function = {"name": "read_file", "description": "Reads a file.", "parameters": parameters}
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": "user", "content": "Read the file reward.py with the tool."}],
            "tools": [{"type": "function", "function": function}],
        }
        try:
            reply = raw_reply(json.loads(self._client.chat.completions.with_raw_response.create(**body).text))
        except (self._openai.OpenAIError, ValueError):
            return False
        return reply is not None and bool(reply.tool_calls)

    def _once(self, call: Call, timeout: float) -> RawReply:
        response = self._client.chat.completions.with_raw_response.create(**self._body(call), timeout=timeout)
        try:
            body = json.loads(response.text)
        except ValueError:
            raise self._error("answers something that is no JSON") from None
        problem = body.get("error") if isinstance(body, dict) else None
        if problem:
            raise self._error(_short(str(problem.get("message", problem) if isinstance(problem, dict) else problem)))
        reply = raw_reply(body)
        if reply is None:
            raise self._error("answers JSON that is no chat completion")
        return reply

    def _body(self, call: Call) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": call.model,
            "messages": [{"role": item.role, "content": item.content} for item in call.messages],
            self._length_field: call.max_tokens,
        }
        if self._temperature:
            body["temperature"] = call.temperature
        if call.mode == "json_schema":
            form = {"name": "answer", "strict": True, "schema": call.json_schema}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        elif call.mode == "json_object":
            body["response_format"] = {"type": "json_object"}
        return body

    def _judge(self, error: Any, call: Call, number: int) -> float:
        """Seconds to wait before the next try.

        Raises:
            EndpointError: another try would end the same.
        """
        text, status = str(error).lower(), error.status_code
        if status in (400, 422) and self._adapted(text):
            return 0.0
        if call.mode != "text" and any(word in text for word in _FORM) and status not in (401, 403, 404, 429):
            raise UnsupportedRequest(*self._words(_status_line(error)))
        if status in (400, 413, 422) and any(word in text for word in _LENGTH):
            raise TooLong(*self._words(_status_line(error)))
        if status in (400, 422) and call.mode != "text":
            raise UnsupportedRequest(*self._words(_status_line(error)))
        if status == 429 and "insufficient_quota" not in text:
            return self._pause(number, _status_line(error), _retry_after(error))
        if status in (408, 409) or status >= 500:
            return self._pause(number, _status_line(error), _retry_after(error))
        raise self._error(_status_line(error))

    def _adapted(self, text: str) -> bool:
        """Whether the refused request can be put in a form that newer models take."""
        if "max_completion_tokens" in text and self._length_field == "max_tokens":
            self._length_field = "max_completion_tokens"
            return True
        if "temperature" in text and self._temperature:
            self._temperature = False
            return True
        return False

    def _pause(self, number: int, why: str, asked: float | None = None, most: int = TRIES) -> float:
        if number >= most:
            raise self._error(f"{why} ({number} tries)")
        return asked if asked is not None else FIRST_PAUSE * 2 ** (number - 1) * random.uniform(0.75, 1.25)

    def _error(self, what: str) -> EndpointError:
        return EndpointError(*self._words(what))

    def _words(self, what: str) -> tuple[str, str]:
        place = f"{self._endpoint.place}, model {self._endpoint.model}"
        return clean(f"the model endpoint ({place}) {what}"), "migrate-agent doctor probes it; --llm off does without"


def _status_line(error: Any) -> str:
    reasons = {401: "refuses the key", 403: "forbids this", 404: "does not know this model or address"}
    status = error.status_code
    return f"{reasons.get(status, 'answers with an error')} (HTTP {status}): {_short(_body_text(error))}"


def _body_text(error: Any) -> str:
    body = error.body
    if isinstance(body, dict):
        return str(body.get("message") or body.get("detail") or body)
    return str(body or error)


def _retry_after(error: Any) -> float | None:
    """Seconds that the server asks for: a number or an HTTP date."""
    text = error.response.headers.get("retry-after", "")
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def _cause(error: BaseException) -> str:
    return _short(str(error.__cause__ or error))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 300 else f"{text[:300]}…"
