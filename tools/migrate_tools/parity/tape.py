"""Taped answers: what a server would have said, derived from the request alone.

The same request always gets the same answer, on both sides and on every run, so that the requests sent and the reading
of the answers can be compared without the server. Requests are noted in a file, because a scorer may send them from
processes of its own. Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

LOG = "PARITY_TAPE_LOG"
"""Environment variable with the path of the log, for processes that a scorer starts."""
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


def _fresh_log() -> str:
    descriptor, path = tempfile.mkstemp(prefix="parity-tape-", suffix=".jsonl")
    os.close(descriptor)
    return path


class Tape:
    """Gives answers and remembers the requests of the current case."""

    def __init__(self, settings: dict[str, Any]) -> None:
        literals: Sequence[str] = settings.get("literals", ())
        self._keys: Sequence[str] = settings.get("keys", ())
        spliced = [form.format(text) for text in literals for form in ("{}", "\\boxed{{{}}}", "Verdict: {}")]
        self._texts = [*STATIC, *spliced]
        self._log = Path(os.environ.get(LOG) or _fresh_log())
        self._start = 0

    @property
    def log(self) -> Path:
        """The file that every process of this scorer notes its requests in."""
        return self._log

    def begin(self) -> None:
        """A new case: forget the requests of the last one."""
        self._start = self._log.stat().st_size if self._log.is_file() else 0

    def seen(self) -> list[list[str]]:
        """Method, address and body hash of every different request since `begin`, sorted."""
        if not self._log.is_file():
            return []
        with self._log.open("rb") as file:
            file.seek(self._start)
            lines = file.read().decode().splitlines()
        return sorted([list(item) for item in {tuple(json.loads(line)) for line in lines}])

    def _note(self, request: list[str]) -> None:
        """One line in one write: writers of other processes do not mix."""
        descriptor = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(descriptor, json.dumps(request).encode() + b"\n")
        finally:
            os.close(descriptor)

    def answer(self, method: str, url: str, body: bytes) -> Answer:
        """The answer to one request."""
        digest = hashlib.sha256(b"\0".join((method.upper().encode(), url.encode(), body))).digest()
        self._note([method.upper(), url, hashlib.sha256(body).hexdigest()[:16]])
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
