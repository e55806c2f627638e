"""The seam between what is asked and who answers.

`Wire` is one HTTP exchange, or whatever stands in for it (a tape, a script in tests); `Model` is what the nodes see.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeVar

from migrate_tools.model import Frozen
from pydantic import BaseModel

Shape = TypeVar("Shape", bound=BaseModel)
Mode = Literal["json_schema", "json_object", "text"]
Finish = Literal["stop", "length", "refusal", "other"]


class Message(Frozen):
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


class Usage(Frozen):
    """Tokens of one call; `estimated` when the server did not report them."""

    prompt_tokens: int
    completion_tokens: int
    estimated: bool = False


class Call(Frozen):
    """One request."""

    model: str
    messages: tuple[Message, ...]
    mode: Mode
    json_schema: dict[str, Any] | None = None
    """Sent in the mode of that name; in the others it is written into the prompt."""
    max_tokens: int
    temperature: float = 0.0
    purpose: str = ""
    """What the question is for; recorded, never sent."""


class RawReply(Frozen):
    """One answer, unread."""

    content: str
    tool_calls: tuple[tuple[str, str], ...] = ()
    """Name and arguments (JSON text) of each call the server reported as such."""
    finish: Finish = "stop"
    usage: Usage | None = None
    why: str = ""
    """The words of a refusal."""


class Wire(Protocol):
    """Sends one call.

    Raises:
        LlmError: see `migrate_agent.llm.errors`.
    """

    def send(self, call: Call) -> RawReply: ...


class Model(Protocol):
    """Asks one question and returns a validated answer.

    Raises:
        BudgetSpent: a limit was reached before the call.
        LlmError: the endpoint cannot be reached, refuses, or gives no usable answer.
    """

    def ask(self, messages: Sequence[Message], shape: type[Shape], *, purpose: str) -> Shape: ...
