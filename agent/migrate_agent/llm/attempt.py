"""One attempt at one item: a few look-ups, then an edit that the guard lets through, a suggested row, or giving up."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from migrate_tools.model import Example, Frozen

from migrate_agent.llm.actions import Action, Answer, GiveUp, Replace, SuggestRow, Write
from migrate_agent.llm.context import View, question, system_message
from migrate_agent.llm.edits import BadEdit, diff, new_text, text_of, with_file
from migrate_agent.llm.guard import Guard
from migrate_agent.llm.items import Item, short_hash
from migrate_agent.llm.talk import Message, Model
from migrate_agent.prompting import ResultPrompt, quoted

LOOKUPS = 6
REFUSALS = 2
"""Edits that may be refused before an attempt ends."""


class Row(Frozen):
    """A mapping row that a model proposes; for the user to judge."""

    key: str
    status: str
    relax: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Result:
    """How an attempt ended."""

    kind: Literal["edit", "row", "gave_up", "refused"]
    what: str
    """One sentence: what was changed, or why not."""
    example: Example | None = None
    file: str = ""
    diff: str = ""
    row: Row | None = None
    mark: str = ""
    """Hash of the edit: the same edit is not tested twice."""
    refused: tuple[str, ...] = ()
    """Why edits were not tried."""


def attempt(
    model: Model,
    item: Item,
    view: View,
    guard: Guard,
    attempts_left: int,
    history: Sequence[str],
    tried: Collection[str] = (),
) -> Result:
    """Asks until there is something to test or nothing to hope for.

    Args:
        tried: marks of the edits that were tested for this item before.

    Raises:
        BudgetSpent: a limit was reached.
        LlmError: the model gives no usable answer.
    """
    talk = [system_message(view, LOOKUPS), question(item, view, attempts_left, history)]
    lookups, refusals, refused = LOOKUPS, 0, list[str]()
    while True:
        action = model.ask(tuple(talk), Answer, purpose=f"{item.id} #{attempts_left}").action
        if isinstance(action, GiveUp):
            return Result("gave_up", _line(action.reason), refused=tuple(refused))
        if isinstance(action, SuggestRow):
            return _row(action, item, refused)
        if isinstance(action, Replace | Write):
            done = _edit(action, item, view, guard, tried)
            if isinstance(done, Result):
                return replace(done, refused=tuple(refused))
            refused += done
            refusals += 1
            if refusals == REFUSALS:
                return Result("refused", f"no edit was let through: {_line(done[0])}", refused=tuple(refused))
            talk += _told(action, "This edit was not tried", "\n".join(done), lookups)
            continue
        if lookups <= 0:
            return Result("refused", "only looked things up", refused=tuple(refused))
        lookups -= 1
        talk += _told(action, f"Result of {action.do}", view.references.answer(action, view.example), lookups)


def _edit(action: Replace | Write, item: Item, view: View, guard: Guard, tried: Collection[str]) -> Result | list[str]:
    """The tested edit, or the lines that say why it may not be."""
    if item.kind == "setting":
        return ["a setting is answered with suggest_row or give_up; nothing may be edited for it"]
    try:
        after = new_text(action, view.example)
    except BadEdit as error:
        return [str(error)]
    problems = guard.problems(action.file, after)
    if problems:
        return problems
    mark = short_hash(f"{action.file}\n{after}")
    if mark in tried:
        return ["the same edit was tested before and did not help"]
    before = text_of(view.example, action.file)
    example = with_file(view.example, action.file, after)
    what = f"{action.file}: {_line(action.why)}"
    return Result("edit", what, example, action.file, diff(action.file, before, after), mark=mark)


def _row(action: SuggestRow, item: Item, refused: Sequence[str]) -> Result:
    key = item.name if item.kind == "setting" else _line(action.key)
    row = Row(
        key=key,
        status=action.status,
        relax=tuple(_line(name) for name in action.relax),
        reason=_line(action.reason),
    )
    return Result("row", f"proposes a row for {key}", row=row, refused=tuple(refused))


def _told(action: Action, what: str, result: str, lookups: int) -> list[Message]:
    prompt = ResultPrompt(what=what, result=quoted("result", result), lookups_left=lookups)
    said: Any = {"action": action.model_dump(mode="json")}
    return [
        Message(role="assistant", content=Answer.model_validate(said).model_dump_json()),
        Message(role="user", content=prompt.text()),
    ]


def _line(text: str, limit: int = 300) -> str:
    return " ".join(text.split())[:limit]
