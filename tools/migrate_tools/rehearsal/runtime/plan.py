"""What the engine says in a drill: an answer depends on nothing but the conversation so far.

So an episode gets the same answers however often it is stopped, begun anew, or run beside others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from migrate_tools.rehearsal.runtime.tokenizer import Tokenizer


@dataclass(frozen=True)
class Asked:
    """One request: tokens of the prompt, of the whole input, and how many more were asked for."""

    prompt: int
    context: int
    limit: int


@dataclass(frozen=True)
class _Known:
    """A conversation up to a place: the next words are those of `turn` from token `offset` on."""

    context: tuple[int, ...]
    turn: int
    offset: int


@dataclass
class _Conversation:
    turns: list[list[int]]
    known: list[_Known]


@dataclass
class Plan:
    """Answers of the engine, turn by turn; the last one is repeated.

    A prompt that is met for the first time begins a conversation with the `turns` of that moment.
    """

    tokenizer: Tokenizer
    turns: Sequence[str] = ("The answer is 1.",)
    unended: bool = False
    """Answers end in no stop token, so that only a limit ends them."""
    cut: tuple[int, int] | None = None
    """(request counted from 1, tokens): that request is aborted after so many tokens."""
    after_reply: Callable[[int], None] | None = None
    """Called with the number of a request when its answer is made."""
    asked: list[Asked] = field(default_factory=list)
    said: set[tuple[int, ...]] = field(default_factory=set)
    """Token ids of every whole answer, and of every part of one that an abort left."""
    _conversations: dict[tuple[int, ...], _Conversation] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, turns: Sequence[str] | None = None, *, unended: bool = False) -> None:
        """Forget what was asked; conversations that begin from now on have these answers."""
        self.turns = self.turns if turns is None else tuple(turns)
        self.unended, self.cut, self.after_reply = unended, None, None
        self.asked.clear()

    def reply(self, input_ids: Sequence[int], limit: int) -> tuple[list[int], str, str]:
        """Token ids, finish type and kind of the answer, at most `limit` tokens."""
        with self._lock:
            context = tuple(input_ids)
            prompt, at = self._place(context)
            self.asked.append(Asked(len(prompt), len(context), limit))
            number = len(self.asked)
            turns = self._conversations[prompt].turns
            whole = turns[min(at.turn, len(turns) - 1)]
            ids, finish = whole[at.offset :], "stop"
            if self.cut is not None and self.cut[0] == number:
                ids, finish = ids[: self.cut[1]], "abort"
            if len(ids) > limit or (self.unended and len(ids) >= limit):
                ids, finish = ids[:limit], "length"
            self._remember(prompt, context, ids, at, finish)
        if self.after_reply is not None:
            self.after_reply(number)
        return list(ids), finish, "drill"

    def _place(self, context: tuple[int, ...]) -> tuple[tuple[int, ...], _Known]:
        """The conversation that a request belongs to, and where it stands."""
        prompts = [prompt for prompt in self._conversations if context[: len(prompt)] == prompt]
        if not prompts:
            turns = [self._ids(text) for text in self.turns]
            self._conversations[context] = _Conversation(turns, [_Known(context, 0, 0)])
            prompts = [context]
        prompt = max(prompts, key=len)
        known = [item for item in self._conversations[prompt].known if context[: len(item.context)] == item.context]
        return prompt, max(known, key=lambda item: len(item.context))

    def _remember(
        self, prompt: tuple[int, ...], context: tuple[int, ...], ids: list[int], at: _Known, end: str
    ) -> None:
        after = (at.turn, at.offset + len(ids)) if end == "abort" else (at.turn + 1, 0)
        known = self._conversations[prompt].known
        if not (end == "abort" and not ids):
            known[:] = [item for item in known if item.context != (*context, *ids)]
            known.append(_Known((*context, *ids), *after))
        whole = self._conversations[prompt].turns[min(at.turn, len(self._conversations[prompt].turns) - 1)]
        self.said |= {tuple(ids), tuple(whole[: at.offset + len(ids)])}

    def _ids(self, text: str) -> list[int]:
        ids = self.tokenizer.sampled(text)
        return ids if self.unended else [*ids, self.tokenizer.eos_token_id]
