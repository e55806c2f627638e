"""What a conversion is told, and what it says about rows that it cannot convert."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

PROMPT_KEY = "prompt"
REWARD_FN_KEY = "data_source"
MEDIA_COLUMNS: tuple[tuple[str, str], ...] = (("images", "image"), ("videos", "video"), ("audios", "audio"))
MEDIA_ALWAYS = False
RAW_PROMPT = False
FLAT_LABEL = False
PROMPT_IN_METADATA = False
TOOLS = ""
TOOLS_BY = ""
ROW_COLUMNS: tuple[str, ...] = ()

BATCH_BYTES = 16 << 20
BATCH_ROWS = 16_384


class ConvertError(Exception):
    """What is wrong and where, in one line, and what to do."""


@dataclass(frozen=True)
class ConvertPlan:
    """What the recipe calls its columns, and how Relax wants them."""

    prompt_key: str = PROMPT_KEY
    reward_fn_key: str = REWARD_FN_KEY
    media: tuple[tuple[str, str], ...] = MEDIA_COLUMNS
    """(column, "image" | "video" | "audio")."""
    media_always: bool = MEDIA_ALWAYS
    """The run script names the media columns, so that every file needs them, empty where it had none."""
    raw_prompt: bool = RAW_PROMPT
    """verl took the content of the first message as it is."""
    flat_label: bool = FLAT_LABEL
    """Labels become text: most reward types built into Relax take nothing else."""
    prompt_in_metadata: bool = PROMPT_IN_METADATA
    """Keep the messages of the prompt as raw_prompt in extra_info too: a simulated user reads the conversation."""
    row_function: bool = True
    """Apply what the recipe's own data set class does to a row, where the script has it."""
    tools: str = TOOLS
    """Schemas of the recipe's tools as JSON text, for the column tools of every row; empty without tools."""
    tools_by: str = TOOLS_BY
    """Key of extra_info that chooses among the tools: a list of names that may be missing (tool_selection), or a struct
    with a field for each (tools_kwargs); empty: every row shows all."""
    row_columns: tuple[str, ...] = ROW_COLUMNS
    """Columns that join the metadata, because the recipe's agent loop reads them."""


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be converted."""

    offset: int
    """Row within its batch."""
    column: str
    reason: str


@dataclass
class Remarks:
    """What a reader of the result should know, each once; counted remarks carry their number of rows."""

    lines: dict[str, None] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def say(self, line: str) -> None:
        """A remark about the whole file."""
        self.lines[line] = None

    def count(self, line: str, rows: int) -> None:
        """A remark about some rows."""
        if rows:
            self.counts[line] += rows

    def texts(self) -> tuple[str, ...]:
        """All remarks, in a fixed order."""
        return (*self.lines, *(f"{line} ({rows:,} rows)" for line, rows in sorted(self.counts.items())))


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_bytes(kind: Any) -> bool:
    """Whether an Arrow type is bytes."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def is_list(kind: Any) -> bool:
    """Whether an Arrow type is a list with offsets."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def free_name(name: str, taken: Any) -> str:
    """`name`, else verl_<name>, whichever is free."""
    while name in taken:
        name = f"verl_{name}"
    return name


def unique_fields(schema: Any, where: str) -> None:
    """Refuse a schema that has a column twice.

    Raises:
        ConvertError: it has.
    """
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise ConvertError(f"{where}: has the column {twice[0]} more than once; rename one of them")
