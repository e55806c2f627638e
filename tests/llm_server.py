"""A stand-in for an OpenAI-compatible server: it does what its script says, once a request, and keeps the requests."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]


@dataclass
class Answer:
    """One HTTP answer; `close`: the connection ends before it."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    wait: float = 0.0
    close: bool = False


Behaviour = Answer | Callable[[Body], Answer]


@dataclass
class LlmServer:
    """Where it listens, and what it was asked. The last behaviour of the script repeats."""

    script: list[Behaviour] = field(default_factory=list)
    models: list[str] | None = field(default_factory=lambda: ["stand-in"])
    requests: list[Body] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    url: str = ""

    def next(self, body: Body) -> Answer:
        """What this request gets."""
        behaviour = self.script[min(len(self.requests), len(self.script)) - 1]
        return behaviour if isinstance(behaviour, Answer) else behaviour(body)


def said(
    content: str | None,
    *,
    finish: str | None = "stop",
    usage: Any = "plain",
    message: Body | None = None,
    **options: Any,
) -> Answer:
    """A chat completion with this content."""
    body: Body = {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "stand-in",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": {"role": "assistant", "content": content, **(message or {})},
            }
        ],
    }
    if usage == "plain":
        body["usage"] = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    elif usage is not None:
        body["usage"] = usage
    return Answer(body=body, **options)


def failed(status: int, message: str, **options: Any) -> Answer:
    """An error in OpenAI's form."""
    return Answer(status=status, body={"error": {"message": message, "type": "error", "code": None}}, **options)


def called(*calls: tuple[str, Any]) -> Answer:
    """A completion that calls tools."""
    tools = [
        {"id": f"t{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(calls)
    ]
    return said(None, finish="tool_calls", message={"tool_calls": tools})


@contextmanager
def llm_server(*script: Behaviour) -> Iterator[LlmServer]:
    """A server on a free port of 127.0.0.1 for the length of a test."""
    state = LlmServer(list(script))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            state.keys.append(self.headers.get("Authorization", ""))
            if state.models is None:
                self._send(failed(404, "no such address"))
            else:
                self._send(Answer(body={"object": "list", "data": [{"id": name} for name in state.models]}))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.requests.append(body)
            state.keys.append(self.headers.get("Authorization", ""))
            self._send(state.next(body))

        def _send(self, answer: Answer) -> None:
            time.sleep(answer.wait)
            if answer.close:
                self.close_connection = True
                return
            text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            kind = "text/html" if isinstance(answer.body, str) else "application/json"
            self.send_response(answer.status)
            for name, value in {"Content-Type": kind, **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that went away is what some tests are about."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
