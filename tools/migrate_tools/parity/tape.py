"""Taped answers: what a server would have said, derived from the request alone.

The same request always gets the same answer, on both sides and on every run, so that the requests sent and the reading
of the answers can be compared without the server. Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

ERROR_SHARE = 12
"""One request in so many is answered with an error."""
STATIC = (
    "\\boxed{True}",
    "\\boxed{False}",
    "I think so. \\boxed{True}",
    "Yes",
    "No",
    "yes, the answer is correct",
    "[[A]]",
    "[[B]]",
    "Score: 7",
    "Final score: 0.5",
    "1",
    "0",
    "0.8",
    "<score>3</score>",
    "<answer>True</answer>",
    '{"score": 1, "reason": "fine"}',
    '```json\n{"score": 0.25}\n```',
    "",
    "no verdict",
)


class Answer(NamedTuple):
    """One HTTP answer."""

    status: int
    body: bytes


class Tape:
    """Gives answers and remembers the requests of the current case."""

    def __init__(self, settings: dict[str, Any]) -> None:
        literals: Sequence[str] = settings.get("literals", ())
        self._keys: Sequence[str] = settings.get("keys", ())
        spliced = [form.format(text) for text in literals for form in ("{}", "\\boxed{{{}}}", "Verdict: {}")]
        self._texts = [*STATIC, *spliced]
        self._seen: list[list[str]] = []

    def begin(self) -> None:
        """A new case: forget the requests of the last one."""
        self._seen = []

    def seen(self) -> list[list[str]]:
        """Method, address and body hash of every different request since `begin`, sorted."""
        return sorted([list(item) for item in {tuple(request) for request in self._seen}])

    def answer(self, method: str, url: str, body: bytes) -> Answer:
        """The answer to one request."""
        digest = hashlib.sha256(b"\0".join((method.upper().encode(), url.encode(), body))).digest()
        self._seen.append([method.upper(), url, hashlib.sha256(body).hexdigest()[:16]])
        number = int.from_bytes(digest[:4], "big")
        if number % ERROR_SHARE == 0:
            return Answer(500, b'{"error": "taped failure"}')
        text = self._texts[number // ERROR_SHARE % len(self._texts)]
        return Answer(200, json.dumps(self._content(text, number)).encode())

    def _content(self, text: str, number: int) -> dict[str, Any]:
        """A body that reads as a chat completion, a completion, and a plain result."""
        score = (number >> 8) % 11 / 10
        plain = {key: score for key in self._keys if key.isidentifier()}
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "text": text, "finish_reason": "stop", "logprobs": None}
        return {
            **plain,
            "score": score,
            "scores": [score],
            "reward": score,
            "rewards": [score],
            "result": text,
            "text": text,
            "id": "taped",
            "object": "chat.completion",
            "created": 0,
            "model": "taped",
            "choices": [choice],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
