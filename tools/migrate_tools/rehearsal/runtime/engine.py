"""A scripted inference engine that speaks SGLang's /generate over HTTP on loopback.

It answers each prompt in turn with replies of different kinds: the label in the usual answer forms, wrong answers,
cut-off text, nothing but the end token, and nonsense.
"""

from __future__ import annotations

import base64
import itertools
import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from migrate_tools.rehearsal.runtime.json_server import JsonHandler
from migrate_tools.rehearsal.runtime.tokenizer import IMAGE, Tokenizer

FORMS = (
    "Let me work it out. The result is \\boxed{{{}}}.",
    "Step by step.\n#### {}",
    "Reasoning first.\nAnswer: {}",
    "<think>Some reasoning.</think>\n<answer>{}</answer>",
    "The answer is {}.",
    "```python\n{}\n```",
    "<think>\nSome reasoning.\n</think>\n\\boxed{{{}}}",
)
KINDS = ("right", "wrong", "right", "truncated", "right", "empty", "garbage")
_GARBAGE = "\\boxed{ \\frac{1}{ <answer> ]]{{ \U0001f600 1e999 NaN ### <think>"


def truths(label: Any) -> list[str]:
    """Answers that a label may stand for, most likely first; never empty."""
    if isinstance(label, dict):
        for key in ("ground_truth", "answer", "target", "solution", "label"):
            if label.get(key) is not None:
                return truths(label[key])
        return [json.dumps(label, default=str)]
    if isinstance(label, (list, tuple)):
        return [str(item) for item in label if item is not None] or [""]
    return ["" if label is None else str(label)]


class Script:
    """What the engine says: for the k-th request of a prompt the k-th kind of reply."""

    def __init__(self, tokenizer: Tokenizer, calls: Sequence[str] = ()) -> None:
        self.tokenizer = tokenizer
        self.calls = tuple(calls)
        """Texts with tool calls; every second answer is one of them."""
        self.said: set[tuple[int, ...]] = set()
        """Token ids of every answer."""
        self.kinds: Counter[str] = Counter()
        self._replies: dict[tuple[int, ...], Iterator[tuple[str, str, str]]] = {}
        self._lock = threading.Lock()
        self._shift = itertools.count()

    def expect(self, prompt_ids: Sequence[int], label: Any) -> None:
        """Announce a prompt and its label."""
        with self._lock:
            self._replies.setdefault(tuple(prompt_ids), _replies(label, next(self._shift), self.calls))

    def reply(self, input_ids: Sequence[int], limit: int) -> tuple[list[int], str, str]:
        """Token ids, finish type and kind of the next reply to a prompt, at most `limit` tokens."""
        with self._lock:
            replies = self._conversation(tuple(input_ids))
            if replies is None:
                replies = self._replies[tuple(input_ids)] = _replies(None, next(self._shift), self.calls)
            kind, text, finish = next(replies)
            self.kinds[kind] += 1
        ids = self.tokenizer.sampled(text)
        if finish == "stop":
            ids.append(self.tokenizer.eos_token_id)
        if len(ids) > limit:
            ids, finish = ids[:limit], "length"
        self.said.add(tuple(ids))
        return ids, finish, kind

    def _conversation(self, ids: tuple[int, ...]) -> Iterator[tuple[str, str, str]] | None:
        """The replies of the longest announced prompt that the request begins with."""
        found = self._replies.get(ids)
        if found is None and self.calls:
            known = [prompt for prompt in self._replies if ids[: len(prompt)] == prompt]
            found = self._replies[max(known, key=len)] if known else None
        return found


def _replies(label: Any, shift: int, calls: Sequence[str] = ()) -> Iterator[tuple[str, str, str]]:
    answers = itertools.cycle(truths(label))
    first = shift % max(len(calls), 1)  # a prompt's first call may be one that ends its episode
    called = itertools.cycle((*calls[first:], *calls[:first]))
    for turn in itertools.count():
        if calls:
            yield "call", f"I will use a tool.\n{next(called)}", "stop"
        kind = KINDS[turn % len(KINDS)]
        form = FORMS[(turn + shift) % len(FORMS)]
        if kind == "right":
            yield kind, form.format(next(answers)), "stop"
        elif kind == "wrong":
            yield kind, form.format("no, certainly not this"), "stop"
        elif kind == "truncated":
            yield kind, "Let me think about it for a long time. First", "length"
        elif kind == "empty":
            yield kind, "", "stop"
        else:
            yield kind, _GARBAGE, "stop"


class Replies(Protocol):
    """Who decides what the engine says."""

    tokenizer: Tokenizer

    def reply(self, input_ids: Sequence[int], limit: int) -> tuple[list[int], str, str]:
        """Token ids, finish type ("stop", "length", "abort") and kind of the answer, at most `limit` tokens."""
        ...


class Engine:
    """The HTTP server; `port` is known once it is made. Use as a context manager."""

    def __init__(self, script: Replies) -> None:
        self.script = script
        self.requests: list[str] = []
        """What was wrong with requests."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> Engine:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply body of one /generate request."""
        params = request.get("sampling_params") or {}
        limit = params.get("max_new_tokens") or 0
        if not request.get("input_ids") or limit < 1:
            self.requests.append("a request without input_ids or with max_new_tokens below 1")
            return _body(self.script.tokenizer, [], "abort", request, params)
        self._pictures(request)
        ids, finish, _ = self.script.reply(request["input_ids"], limit)
        return _body(self.script.tokenizer, ids, finish, request, params)

    def _pictures(self, request: dict[str, Any]) -> None:
        """One image for each placeholder, in a request of a rollout that sends images."""
        if not (getattr(self.script, "calls", ()) and self.script.tokenizer.media):
            return
        wanted = request["input_ids"].count(self.script.tokenizer.encode(IMAGE)[0])
        given = request.get("image_data") or []
        if len(given) != wanted:
            self.requests.append(f"a request with {len(given)} images for {wanted} placeholders")
        for text in given:
            if not base64.b64decode(text).startswith(b"\x89PNG"):
                self.requests.append("an image of a request is no PNG in base64")


def _body(
    tokenizer: Tokenizer, ids: list[int], finish: str, request: dict[str, Any], params: dict[str, Any]
) -> dict[str, Any]:
    text = tokenizer.decode(ids, skip_special_tokens=bool(params.get("skip_special_tokens", True)))
    if not params.get("no_stop_trim"):
        text = text.removesuffix(tokenizer.eos_token)
    meta: dict[str, Any] = {
        "finish_reason": {"type": finish},
        "prompt_tokens": len(request.get("input_ids") or ()),
        "completion_tokens": len(ids),
        "cached_tokens": 0,
        "weight_version": "0",
    }
    body: dict[str, Any] = {"text": text, "meta_info": meta}
    if request.get("return_logprob"):
        meta["output_token_logprobs"] = [(-0.5, number, None) for number in ids]
    else:
        body["output_ids"] = ids
    return body


def _handler(engine: Engine) -> type[BaseHTTPRequestHandler]:
    class Handler(JsonHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, body: Any) -> tuple[int, Any]:
            return (200, engine.answer(body)) if self.path == "/generate" else (404, {"error": "no such path"})

    return Handler
