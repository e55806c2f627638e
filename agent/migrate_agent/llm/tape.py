"""The tape: every exchange as a line of JSON, secrets removed; it answers in place of an endpoint.

The first line tells what a repetition needs to know: the model, its price and what its endpoint can do. Each further
line is one request (by its SHA-256 and in full) with its reply or its error. A run that was cut off and goes on takes
from its tape what was answered; a replay takes everything from it and asks nobody.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from migrate_tools.errors import UsageError
from migrate_tools.model import Frozen
from pydantic import ValidationError

from migrate_agent.llm import errors
from migrate_agent.llm.budget import Budget, Price, usage_of
from migrate_agent.llm.capability import Capability
from migrate_agent.llm.errors import LlmError, TapeMismatch, UnsupportedRequest
from migrate_agent.llm.scan import clean_call, clean_reply
from migrate_agent.llm.talk import Call, RawReply, Usage, Wire

VERSION = 1
_ERRORS = {
    kind.__name__: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, LlmError)
}


class Head(Frozen):
    """The first line."""

    tape: int = VERSION
    model: str
    price: Price | None = None
    capability: Capability = Capability()


class Failure(Frozen):
    """An exchange that ended in an error."""

    kind: str
    message: str
    hint: str = ""


class Exchange(Frozen):
    """One request and what came back: a reply or a failure."""

    number: int
    purpose: str
    sha256: str
    call: Call
    reply: RawReply | None = None
    failure: Failure | None = None
    usage: Usage | None = None
    seconds: float

    def outcome(self) -> RawReply:
        """The reply.

        Raises:
            LlmError: what the exchange ended in.
        """
        if self.reply is not None:
            return self.reply
        assert self.failure is not None
        raise _ERRORS.get(self.failure.kind, LlmError)(self.failure.message, self.failure.hint)


def request_hash(call: Call) -> str:
    """SHA-256 of everything that decides the answer."""
    body = call.model_dump(mode="json", exclude={"purpose"})
    return hashlib.sha256(
        json.dumps(body, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")
    ).hexdigest()


class Tape:
    """A tape on disk, append-only. A last line that a kill cut short is dropped."""

    def __init__(self, path: Path, head: Head) -> None:
        self.path = path
        self.head = head
        self.exchanges: list[Exchange] = []

    @classmethod
    def create(cls, path: Path, head: Head) -> Tape:
        """An empty tape."""
        path.write_text(head.model_dump_json() + "\n", "utf-8")
        return cls(path, head)

    @classmethod
    def load(cls, path: Path) -> Tape:
        """An existing tape.

        Raises:
            UsageError: it is damaged.
        """
        lines = path.read_bytes().split(b"\n")
        whole, rest = lines[:-1], lines[-1]
        try:
            tape = cls(path, Head.model_validate_json(whole[0] if whole else b""))
            tape.exchanges = [Exchange.model_validate_json(line) for line in whole[1:]]
        except ValidationError as error:
            why = str(error).splitlines()[0]
            raise UsageError(f"the tape {path} cannot be read: {why}", "start the run anew") from None
        if rest:
            os.truncate(path, path.stat().st_size - len(rest))
        return tape

    def append(self, exchange: Exchange) -> None:
        """Adds one exchange; it is on disk when this returns."""
        self.exchanges.append(exchange)
        with self.path.open("ab") as stream:
            stream.write(exchange.model_dump_json(exclude_defaults=True).encode("utf-8") + b"\n")
            stream.flush()
            os.fsync(stream.fileno())


class TapedWire:
    """Answers from the tape, asks the live wire for the rest and records it; counts what is spent.

    With a live wire the same request gets the recorded answer again, for nothing; errors other than "not supported"
    are asked anew. Without one every outcome comes in the recorded order and costs what it cost.
    """

    def __init__(self, tape: Tape, budget: Budget, live: Wire | None) -> None:
        self._tape = tape
        self._budget = budget
        self._live = live
        self._known: dict[str, list[Exchange]] = defaultdict(list)
        self._replayed: dict[str, int] = defaultdict(int)
        for exchange in tape.exchanges:
            self._known[exchange.sha256].append(exchange)
            if live is not None:
                budget.add(exchange.usage, exchange.seconds)

    def send(self, call: Call) -> RawReply:
        """The recorded or live answer.

        Raises:
            BudgetSpent: a limit was reached.
            TapeMismatch: nobody can be asked, and the tape does not hold this request.
            LlmError: what the exchange ended in.
        """
        call = clean_call(call)
        key = request_hash(call)
        if self._live is None:
            return self._replay(key, call)
        for exchange in self._known[key]:
            if exchange.reply is not None or (
                exchange.failure and exchange.failure.kind == UnsupportedRequest.__name__
            ):
                return exchange.outcome()
        self._budget.check()
        exchange = self._ask(self._live, key, call)
        self._known[key].append(exchange)
        self._tape.append(exchange)
        self._budget.add(exchange.usage, exchange.seconds)
        return exchange.outcome()

    def _replay(self, key: str, call: Call) -> RawReply:
        known, number = self._known.get(key, []), self._replayed[key]
        if not known or number < len(known):
            self._budget.check()
        if not known:
            raise TapeMismatch(
                f"the tape {self._tape.path} holds no answer to this question ({call.purpose or 'no purpose'}, "
                f"request {key[:12]}); it holds {len(self._tape.exchanges)} others",
                "a replay needs the recipe, the options and the program of the recorded run",
            )
        exchange = known[min(number, len(known) - 1)]
        if number < len(known):
            self._budget.add(exchange.usage, exchange.seconds)
            self._replayed[key] += 1
        return exchange.outcome()

    def _ask(self, live: Wire, key: str, call: Call) -> Exchange:
        began = time.monotonic()
        facts: dict[str, Any] = {}
        try:
            reply = clean_reply(live.send(call))
            facts = {"reply": reply, "usage": usage_of(call, reply)}
        except LlmError as error:
            facts["failure"] = Failure(kind=type(error).__name__, message=error.message, hint=error.hint)
        return Exchange(
            number=len(self._tape.exchanges) + 1,
            purpose=call.purpose,
            sha256=key,
            call=call,
            seconds=round(time.monotonic() - began, 3),
            **facts,
        )
