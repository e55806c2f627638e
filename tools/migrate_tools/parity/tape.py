"""Taped answers: what a server would have said, derived from the request alone.

The same request always gets the same answer, on both sides and on every run, so that the requests sent and the reading
of the answers can be compared without the server. Requests are noted in a file, because a scorer may send them from
processes of its own. Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import contextlib
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
BARE_SHARE = 13
"""One answer in so many lacks what the scorer looks for in it."""
NAMED_TEXTS = frozenset(
    {"id", "name", "model", "message", "text", "content", "output", "response", "generated_text", "reason", "status"}
)
"""Keys whose values are texts where the scorer does not tell."""
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
        shapes: Sequence[dict[str, Any]] = settings.get("shapes", ())
        self._shapes = [shape for shape in shapes if shape["root"] == "body"]
        inner = [shape for shape in shapes if shape["root"] == "text"]
        written = [json.dumps(_shaped({}, inner, number, "so")) for number in range(0, 5 << 8, 1 << 8) if inner]
        fenced = [f"```json\n{text}\n```" for text in written]
        own = [*settings.get("texts", ()), *written, *fenced]
        self._texts = [*STATIC, *spliced, *own * max(1, (len(STATIC) + len(spliced)) // max(1, len(own)))]
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
        """Method, address, hash of the body and of who asks (where it says so) of every request since `begin`, once."""
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

    def answer(self, method: str, url: str, body: bytes, who: str = "") -> Answer:
        """The answer to one request; `who` asks (`credentials.credentials`) is compared and changes no answer."""
        digest = hashlib.sha256(b"\0".join((method.upper().encode(), url.encode(), _unseeded(body)))).digest()
        self._note([method.upper(), url, hashlib.sha256(body).hexdigest()[:16], *([who] if who else [])])
        number = int.from_bytes(digest[:4], "big")
        asks = bool(body) or "?" in url  # what says nothing of the case (GET /models) asks how the server is set up
        if asks and number % ERROR_SHARE == 0:
            return Answer(500, b'{"error": "taped failure"}')
        text = self._texts[number // ERROR_SHARE % len(self._texts)]
        content = self._content(text, number)
        if not asks or number // ERROR_SHARE % BARE_SHARE:
            content = _shaped(content, self._shapes, number if asks else 5 << 8, text if asks else "taped")
        return Answer(200, json.dumps(content).encode())

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


def _unseeded(body: bytes) -> bytes:
    """The request without the seed of its sampling: two sides may draw it at another time, no answer depends on it."""
    if b'"seed"' not in body:
        return body
    with contextlib.suppress(ValueError):
        fields = json.loads(body)
        if isinstance(fields, dict):
            return json.dumps({key: value for key, value in fields.items() if key != "seed"}, sort_keys=True).encode()
    return body


def _shaped(body: Any, shapes: Sequence[dict[str, Any]], number: int, text: str) -> Any:
    """The body with a value at the end of every path; one that has a fitting value already stays as it is."""
    for turn, shape in enumerate(shapes):
        body = _put(body, shape["path"], shape, number + (turn << 8), text)
    return body


def _put(there: Any, path: Sequence[str | int], shape: dict[str, Any], number: int, text: str) -> Any:
    if not path:
        return there if _fits(there, shape) else _leaf(shape, number, text)
    key, *rest = path
    shape = {**shape, "last": key if isinstance(key, str) else shape.get("last", "")}
    if isinstance(key, str):
        fields = there if isinstance(there, dict) else {}
        return {**fields, key: _put(fields.get(key), rest, shape, number, text)}
    items = [*there] if isinstance(there, list) else []
    items += [None] * (key + 1 - len(items))
    items[key] = _put(items[key], rest, shape, number, text)
    return items


def _fits(value: Any, shape: dict[str, Any]) -> bool:
    if value is None or shape["values"] or shape["kind"] == "truth":
        return False
    return not shape["kind"] or isinstance(value, str) == (shape["kind"] == "text")


def _leaf(shape: dict[str, Any], number: int, text: str) -> Any:
    turn = number >> 8
    values = shape["values"]
    if values and turn % 4:
        return values[turn % len(values)]
    kind = shape["kind"] or ("text" if shape["last"] in NAMED_TEXTS else "number")
    if kind == "truth" and shape["last"] not in NAMED_TEXTS:
        return turn % 2 == 1
    return turn % 11 / 10 if kind == "number" else text
