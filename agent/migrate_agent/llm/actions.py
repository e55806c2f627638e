"""What a model may answer: one action a call, checked by shape here and by meaning in `edits` and `guard`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

LONGEST_TEXT = 60_000
"""Characters of one text in an answer."""

File = Annotated[str, Field(min_length=1, max_length=200, description="path relative to the Relax root")]
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
Short = Annotated[str, Field(max_length=2_000)]


class Action(BaseModel):
    """Base: nothing beside the declared fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Replace(Action):
    """Puts `new` in the place of the only occurrence of `old` in a file of the example."""

    do: Literal["replace"]
    file: File
    old: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
    new: Text
    why: Short


class Write(Action):
    """Writes a whole file of the example."""

    do: Literal["write"]
    file: File
    text: Text
    why: Short


class Read(Action):
    """Looks at a file of the example."""

    do: Literal["read"]
    file: File


class LookupFlag(Action):
    """Asks for the Relax flags whose names are near a text."""

    do: Literal["lookup_flag"]
    name: Short


class LookupRow(Action):
    """Asks for the mapping rows of a verl key."""

    do: Literal["lookup_row"]
    key: Short


class SearchVerl(Action):
    """Searches the recipe's verl source for a text."""

    do: Literal["search_verl"]
    text: Annotated[str, Field(min_length=3, max_length=200)]


class SuggestRow(Action):
    """Proposes a row of the mapping tables. It is shown to the user and changes nothing."""

    do: Literal["suggest_row"]
    key: Short
    status: Literal["exact", "derived", "approximate", "automatic", "no_effect", "unsupported"]
    relax: Annotated[tuple[Short, ...], Field(max_length=8)]
    reason: Short


class GiveUp(Action):
    """Says that the item cannot be done, and why."""

    do: Literal["give_up"]
    reason: Short


Edit = Replace | Write
Lookup = Read | LookupFlag | LookupRow | SearchVerl
Step = Replace | Write | Read | LookupFlag | LookupRow | SearchVerl | SuggestRow | GiveUp


class Answer(Action):
    """One step of a model on the item that it was given."""

    action: Step
