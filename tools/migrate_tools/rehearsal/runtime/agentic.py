"""Relax's agentic form: one process of the agent for every sample, against a chat server (contract, section 10)."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from migrate_tools.parity.tool_cases import example, hermes
from migrate_tools.rehearsal.runtime.engine import FORMS, truths
from migrate_tools.rehearsal.runtime.json_server import JsonHandler
from migrate_tools.rehearsal.runtime.sample import Sample, SampleStatus
from migrate_tools.rehearsal.runtime.tokenizer import Tokenizer

PROMPTS_AT_MOST = 1
"""Prompts of one rehearsed rollout: every sample is a process, which imports its framework anew."""
PROCESSES = 2
"""At a time."""
SECONDS = 150.0
"""Of one process."""
ROLES = ("system", "user", "assistant", "tool")
OUTPUT_KEYS = frozenset({"metadata", "reward"})


@dataclass
class Session:
    """What the server keeps of one agent: its history, which may only grow, and the tokens of it."""

    answers: Iterator[tuple[str, str]]
    history: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    prompt: int = 0
    mask: list[int] = field(default_factory=list)
    finish: str = "stop"
    requests: int = 0
    calls: int = 0
    """Answers in which the model called a tool."""
    asked: list[tuple[list[dict[str, Any]], list[Any]]] = field(default_factory=list)
    """Messages (role and content) and tools of every request."""


class ChatServer:
    """A chat server on loopback that keeps one session for each bearer key."""

    def __init__(self, tokenizer: Tokenizer, context: int | None) -> None:
        self.tokenizer, self.context = tokenizer, context
        self.sessions: dict[str, Session] = {}
        self.problems: list[str] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1/"

    def __enter__(self) -> ChatServer:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def problem(self, text: str) -> None:
        """Note what is wrong, once."""
        with self._lock:
            if text not in self.problems and len(self.problems) < 20:
                self.problems.append(text)

    def answer(self, key: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and body of the reply to one request."""
        session = self.sessions.get(key)
        if session is None:
            self.problem("a request without the session's key")
            return 404, _error("session_discarded", "unknown session")
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            self.problem("a request without messages")
            return 400, _error("invalid_request_error", "no messages")
        for text in message_problems(messages):
            self.problem(text)
        plain = [{"role": item.get("role"), "content": item.get("content")} for item in messages]
        if plain[: len(session.history)] != session.history:
            self.problem("the history is not append-only: an earlier message was changed or left out")
        elif session.history and len(plain) == len(session.history):
            self.problem("a request adds no message to the history")
        tools = body.get("tools") or []
        session.asked.append((plain, tools))
        self._take(session, plain, tools)
        if self.context is not None and len(session.tokens) >= self.context:
            return 400, _error("context_length_exceeded", "no room for an answer")
        return 200, self._say(session, plain, tools, body)

    def _take(self, session: Session, plain: list[dict[str, Any]], tools: list[Any]) -> None:
        whole = self.tokenizer.encode(self.tokenizer.apply_chat_template(plain, tools=tools))
        if not session.requests:
            session.tokens, session.prompt = whole, len(whole)
        else:
            new = plain[len(session.history) :]
            ids = self.tokenizer.encode("\n" + self.tokenizer.apply_chat_template(new)) if new else []
            session.tokens += ids
            session.mask += [0] * len(ids)
        session.requests += 1

    def _say(self, session: Session, plain: list[Any], tools: list[Any], body: dict[str, Any]) -> dict[str, Any]:
        kind, text = next(session.answers)
        if kind == "call" and tools:
            function = tools[session.requests % len(tools)]["function"]
            properties = (function.get("parameters") or {}).get("properties") or {}
            arguments = {key: example(schema) for key, schema in properties.items()}
            text = "I will use a tool.\n" + hermes(function["name"], arguments)
            session.calls += 1
        ids = [*self.tokenizer.sampled(text), self.tokenizer.eos_token_id]
        limit = body.get("max_completion_tokens") or body.get("max_tokens")
        session.finish = "length" if kind == "cut" or (limit and len(ids) > limit) else "stop"
        ids = ids[: limit or None] if session.finish == "stop" or limit else ids[:-1]
        text = self.tokenizer.decode(ids).removesuffix(self.tokenizer.eos_token)
        session.tokens += ids
        session.mask += [1] * len(ids)
        session.history = [*plain, {"role": "assistant", "content": text}]
        usage = {"prompt_tokens": len(session.tokens) - len(ids), "completion_tokens": len(ids)}
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": session.finish}
        return {"id": "1", "object": "chat.completion", "model": "model", "choices": [choice], "usage": usage}


def message_problems(messages: Sequence[Any]) -> Iterator[str]:
    """What Relax's server refuses, or what breaks training: roles and contents."""
    for item in messages:
        role = item.get("role") if isinstance(item, dict) else None
        if role not in ROLES:
            yield f"a message has the role {role!r}"
        elif not item.get("content") and not (role == "assistant" and item.get("tool_calls")):
            yield f"a {role} message has no content"


def _answers(label: Any, shift: int) -> Iterator[tuple[str, str]]:
    truth = itertools.cycle(truths(label))
    yield "call", "There are no tools, so I answer."
    for turn in itertools.count(shift):
        form = FORMS[turn % len(FORMS)]
        wrong = form.format("no, certainly not this")
        yield (("right", form.format(next(truth))), ("wrong", wrong), ("cut", "First"))[turn % 3]


def _error(code: str, text: str) -> dict[str, Any]:
    return {"error": {"message": text, "type": "invalid_request_error", "param": None, "code": code}}


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(JsonHandler):
        def answer(self, body: Any) -> tuple[int, Any]:
            key = str(self.headers.get("Authorization", "")).removeprefix("Bearer ")
            if self.path.rstrip("/").endswith("/chat/completions"):
                return server.answer(key, body)
            return 404, _error("not_found", "no such path")

    return Handler


class Agents:
    """Plays samples with the command of --agent-command."""

    def __init__(
        self,
        args: Namespace,
        server: ChatServer,
        answers: Callable[[Any, int], Iterator[tuple[str, str]]] | None = None,
    ) -> None:
        """`answers` makes those of a session (kind and text) of the sample's label and number; None: all kinds."""
        self.args, self.server, self.answers = args, server, answers or _answers
        self.began = time.monotonic()
        self.done = 0
        self._slots = asyncio.Semaphore(PROCESSES)
        self._number = itertools.count()

    async def generate(
        self, args: Namespace, sample: Sample, sampling_params: dict[str, Any], evaluation: bool = False
    ) -> Sample:
        """Run one process and make a sample of its session."""
        number = next(self._number)
        key = f"session-{number}"
        session = self.server.sessions[key] = Session(self.answers(sample.label, number))
        async with self._slots:
            with tempfile.TemporaryDirectory(prefix="agent-") as folder:
                told = await self._run(Path(folder), key, sample, "eval" if evaluation else "train")
        self.done += 1
        if not session.requests:
            self.server.problem("the agent asked nothing of the model")
        tokenizer, length = self.server.tokenizer, len(session.mask)
        sample.tokens = list(session.tokens[: session.prompt + length])
        sample.rollout_tokens = list(sample.tokens)
        sample.response_length, sample.loss_mask = length, list(session.mask)
        sample.rollout_log_probs = [-0.5 * mask for mask in session.mask]
        sample.response = tokenizer.decode(sample.tokens[session.prompt :])
        sample.status = SampleStatus.TRUNCATED if session.finish == "length" else SampleStatus.COMPLETED
        sample.metadata = {**sample.metadata, **(told.get("metadata") or {})}
        sample.reward = told.get("reward")
        return sample

    def facts(self) -> dict[str, Any]:
        """Sessions, requests and speed."""
        seconds = time.monotonic() - self.began
        return {
            "sessions": self.done,
            "requests": sum(session.requests for session in self.server.sessions.values()),
            "sessions_with_calls": sum(session.calls > 0 for session in self.server.sessions.values()),
            "sessions_with_observations": sum(0 in session.mask for session in self.server.sessions.values()),
            "sessions_per_second": round(self.done / max(seconds, 1e-6), 2),
        }

    async def _run(self, folder: Path, key: str, sample: Sample, mode: str) -> dict[str, Any]:
        given, output = folder / "input.json", folder / "output.json"
        given.write_text(json.dumps({"messages": sample.prompt, "metadata": sample.metadata}, default=str), "utf-8")
        environment = {
            **os.environ,
            **dict(item.split("=", 1) for item in self.args.agent_env or ()),
            "RELAX_INPUT_JSON": str(given),
            "RELAX_OUTPUT_JSON": str(output),
            "RELAX_SESSION_IO_DIR": str(folder),
            "RELAX_BASE_URL": self.server.url,
            "RELAX_SESSION_ID": key,
            "RELAX_ROLLOUT_MODE": mode,
            "RELAX_GROUP_ID": str(sample.group_index),
        }
        process = await asyncio.create_subprocess_exec(
            "/bin/bash", "-c", self.args.agent_command, cwd=self.args.agent_cwd, env=environment,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            _, said = await asyncio.wait_for(process.communicate(), SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
            self.server.problem(f"the agent was not done after {SECONDS:.0f} s")
            return {}
        if process.returncode:
            last = (said.decode("utf-8", "replace").strip().splitlines() or ["nothing"])[-1]
            self.server.problem(f"the agent ended with status {process.returncode}: {last[:300]}")
            return {}
        return self._read(output)

    def _read(self, output: Path) -> dict[str, Any]:
        """The output of an agent with one linear history: nothing, or an object with metadata and a reward."""
        text = output.read_text("utf-8") if output.is_file() else ""
        if not text.strip():
            return {}
        try:
            told = json.loads(text)
        except ValueError as error:
            self.server.problem(f"the output of the agent is not JSON: {error}")
            return {}
        for problem in output_problems(told):
            self.server.problem(problem)
        return told if isinstance(told, dict) and not any(output_problems(told)) else {}


@contextmanager
def agents(args: Namespace, tokenizer: Tokenizer) -> Iterator[Agents | None]:
    """The player of samples in the agentic form, with its server; None in any other."""
    if not args.use_agentic_rollout:
        yield None
        return
    with ChatServer(tokenizer, args.rollout_max_context_len) as server:
        yield Agents(args, server)


def output_problems(told: Any) -> Iterator[str]:
    """What Relax refuses or ignores of an agent's output."""
    if not isinstance(told, dict):
        yield f"the output of the agent is {type(told).__name__}, not an object"
        return
    if unknown := set(told) - OUTPUT_KEYS:
        yield f"Relax ignores {', '.join(sorted(unknown))} in the output of the agent"
    if not isinstance(told.get("metadata", {}), dict):
        yield "the metadata in the output of the agent is no object"
    if not isinstance(told.get("reward"), int | float | dict | None):
        yield "the reward in the output of the agent is no number and no object"
