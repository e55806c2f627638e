"""A model that answers from a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from migrate_agent.llm.errors import LlmError
from migrate_agent.llm.talk import Message
from pydantic import BaseModel

Shape = TypeVar("Shape", bound=BaseModel)
Reply = dict[str, Any] | Exception
Answerer = Callable[[Sequence[Message], str], Reply]


@dataclass
class ScriptedModel:
    """Gives its replies in order, or what `answer` says; keeps the questions."""

    replies: list[Reply] = field(default_factory=list)
    answer: Answerer | None = None
    questions: list[tuple[Message, ...]] = field(default_factory=list)
    purposes: list[str] = field(default_factory=list)
    model: str = "scripted"

    def ask(self, messages: Sequence[Message], shape: type[Shape], *, purpose: str) -> Shape:
        self.questions.append(tuple(messages))
        self.purposes.append(purpose)
        if self.answer is not None:
            reply = self.answer(messages, purpose)
        elif self.replies:
            reply = self.replies.pop(0)
        else:
            raise LlmError("the script has no further answer", "write one")
        if isinstance(reply, Exception):
            raise reply
        return shape.model_validate({"action": reply})

    def text(self, number: int) -> str:
        """All of one question."""
        return "\n".join(message.content for message in self.questions[number])


def replace(file: str, old: str, new: str, why: str = "mends it") -> Reply:
    return {"do": "replace", "file": file, "old": old, "new": new, "why": why}


def write(file: str, text: str, why: str = "mends it") -> Reply:
    return {"do": "write", "file": file, "text": text, "why": why}


def give_up(reason: str = "cannot") -> Reply:
    return {"do": "give_up", "reason": reason}
