"""Structured answers from any endpoint: the best form it takes, always validated here, one round of feedback.

json_schema, then (when it is refused or ignored) json_object, then plain text with the schema in the prompt. What the
endpoint turned out to take is remembered for the rest of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from migrate_agent.llm.answers import Unread, is_plain_json, read_answer
from migrate_agent.llm.budget import Budget
from migrate_agent.llm.capability import Capability
from migrate_agent.llm.errors import (
    CutOffAnswer,
    EndpointError,
    LlmError,
    RefusedAnswer,
    TooLong,
    UnsupportedRequest,
    UnusableAnswer,
)
from migrate_agent.llm.schema_form import holds, schema_text, strict_schema
from migrate_agent.llm.talk import Call, Message, Mode, RawReply, Shape, Wire
from migrate_agent.llm_settings import Note, unnoted

ANSWER_TOKENS = 8192
LEAST_ANSWER_TOKENS = 1024
_PLAINER: dict[Mode, Mode] = {"json_schema": "json_object", "json_object": "text"}


class Asker:
    """The Model over a wire. Every answer that it returns was validated."""

    def __init__(
        self,
        wire: Wire,
        model: str,
        *,
        budget: Budget,
        capability: Capability = Capability(),  # noqa: B008
        note: Note = unnoted,
        answer_tokens: int = ANSWER_TOKENS,
    ) -> None:
        self.model = model
        self.budget = budget
        self._wire = wire
        self._mode: Mode = capability.mode
        self._note = note
        self._answer_tokens = answer_tokens

    @property
    def mode(self) -> Mode:
        """The form of answer that is asked for now."""
        return self._mode

    def ask(self, messages: Sequence[Message], shape: type[Shape], *, purpose: str) -> Shape:
        """One validated answer.

        Raises:
            BudgetSpent: a limit was reached before a call.
            LlmError: the endpoint fails or refuses, or gives no usable answer, also after the error was told.
        """
        before = self.budget.spent.calls
        try:
            answer = self._ask(tuple(messages), shape, purpose)
        except LlmError as error:
            self._noted(purpose, before, error)
            raise
        self._noted(purpose, before, None)
        return answer

    def _ask(self, messages: tuple[Message, ...], shape: type[Shape], purpose: str) -> Shape:
        try:
            reply, sent = self._answered(messages, shape, purpose)
            return self._read(reply, shape, sent)
        except CutOffAnswer:
            messages = (*messages, Message(role="user", content="Answer in fewer words: the last answer was cut off."))
        except UnusableAnswer as why:
            messages = (*messages, *feedback(reply, why.message))
        reply, sent = self._answered(messages, shape, purpose)
        return self._read(reply, shape, sent)

    def _answered(self, messages: tuple[Message, ...], shape: type[Shape], purpose: str) -> tuple[RawReply, Mode]:
        """The reply, and the form it was asked for in."""
        while True:
            mode = self._mode
            try:
                return self._wire.send(self._call(messages, shape, purpose)), mode
            except UnsupportedRequest as error:
                if mode not in _PLAINER:
                    raise EndpointError(error.message, error.hint) from None
                self._mode = _PLAINER[mode]
            except TooLong:
                if self._answer_tokens <= LEAST_ANSWER_TOKENS:
                    raise
                self._answer_tokens = max(LEAST_ANSWER_TOKENS, self._answer_tokens // 4)

    def _call(self, messages: tuple[Message, ...], shape: type[Shape], purpose: str) -> Call:
        schema: dict[str, Any] | None = strict_schema(shape) if self._mode == "json_schema" else None
        if schema is None:
            messages = with_instruction(messages, schema_text(shape))
        return Call(
            model=self.model,
            messages=messages,
            mode=self._mode,
            json_schema=schema,
            max_tokens=self._answer_tokens,
            purpose=purpose,
        )

    def _read(self, reply: RawReply, shape: type[Shape], mode: Mode) -> Shape:
        if reply.finish == "refusal":
            raise RefusedAnswer(f"the model {self.model} declines to answer: {reply.why or 'filtered'}"[:300])
        try:
            answer = read_answer(reply, shape)
        except Unread as why:
            if reply.finish == "length":
                what = f"the answer of {self.model} was cut off at {self._answer_tokens} tokens"
                raise CutOffAnswer(what, "another model may be terser") from None
            self._distrust(reply, mode, strict_schema(shape))
            raise UnusableAnswer(f"the answer of {self.model} cannot be used: {why}") from None
        self._distrust(reply, mode)
        return answer

    def _distrust(self, reply: RawReply, mode: Mode, schema: dict[str, Any] | None = None) -> None:
        """A server that honours a form answers in it; else the form was ignored, and a plainer one says more."""
        if mode not in _PLAINER or reply.tool_calls:
            return
        if not is_plain_json(reply.content):
            self._mode = "text"
        elif mode == "json_schema" and schema is not None and not holds(reply.content, schema):
            self._mode = "json_object"

    def _noted(self, purpose: str, calls_before: int, error: LlmError | None) -> None:
        facts = {"purpose": purpose, "mode": self._mode, "exchanges": self.budget.spent.calls - calls_before}
        if error is not None:
            facts["error"] = type(error).__name__
            facts["why"] = error.message
        self._note("model", {**facts, "spent": self.budget.facts()})


def feedback(reply: RawReply, why: str) -> tuple[Message, ...]:
    """The messages after an answer that could not be used: the answer, and what is wrong with it."""
    said = reply.content.strip() or "\n".join(arguments for _, arguments in reply.tool_calls)
    told = Message(role="user", content=f"{why}. Answer again with one JSON object of the form that was asked for.")
    return (Message(role="assistant", content=said), told) if said else (told,)


def with_instruction(messages: tuple[Message, ...], text: str) -> tuple[Message, ...]:
    """The messages with a text at the end of the last one, or in a further one after an assistant's."""
    last = messages[-1]
    if last.role == "assistant":
        return (*messages, Message(role="user", content=text))
    return (*messages[:-1], last.model_copy(update={"content": f"{last.content}\n\n{text}"}))
