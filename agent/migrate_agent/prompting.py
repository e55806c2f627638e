"""Prompts are Markdown files in prompts/, filled from typed values; a variable without a value is an error.

Text that somebody else wrote goes in as `Quoted` only: between two marks made from the text itself, so that no text
can hold the mark that ends it. Everything else is a number, or a word of our own.
"""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Any, ClassVar

from migrate_tools.resources import resource_dir
from pydantic import AfterValidator, BaseModel, ConfigDict

_WORD = re.compile(r"[A-Za-z0-9_.,:/ ()+-]{0,200}")


class Quoted(str):
    """Text of others, between its marks; made by `quoted` alone."""


def quoted(label: str, text: str, limit: int = 0) -> Quoted:
    """A text as data. The marks depend on the text, which therefore cannot hold them.

    Args:
        label: our own word for what it is.
        limit: characters that are kept; 0 for all.
    """
    text = text if not limit or len(text) <= limit else f"{text[:limit]}\n[cut off after {limit} characters]"
    salt = 0
    while (mark := hashlib.sha256(f"{salt}{text}".encode("utf-8", "surrogatepass")).hexdigest()[:16]) in text:
        salt += 1
    return Quoted(f"<data {word(label)} {mark}>\n{text}\n</data {mark}>")


def word(text: str) -> str:
    """The text itself when it is a plain word of ours.

    Raises:
        ValueError: it holds anything that could be read as more than a name.
    """
    if not _WORD.fullmatch(text):
        raise ValueError(f"not a plain word: {text[:40]!r}")
    return text


def _is_quoted(value: Any) -> Any:
    if not isinstance(value, Quoted):
        raise ValueError("text of others goes through quoted()")
    return value


Word = Annotated[str, AfterValidator(word)]
Data = Annotated[Any, AfterValidator(_is_quoted)]


class Prompt(BaseModel):
    """Base of the values of one prompt; the fields are the variables of `prompts/<name>.md`."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)
    name: ClassVar[str] = ""

    def text(self) -> str:
        """The filled prompt."""
        return render_prompt(self.name, **{key: getattr(self, key) for key in type(self).model_fields})


class SystemPrompt(Prompt):
    """The rules that hold for every question."""

    name: ClassVar[str] = "system"
    relax_contract: Word
    algo: Word
    files: Word
    lookups: int


class CheckPrompt(Prompt):
    """A failing check."""

    name: ClassVar[str] = "check"
    rung: int
    check: Data
    attempts_left: int
    evidence: Data
    context: tuple[Data, ...]
    history: Data


class PiecePrompt(Prompt):
    """A piece that the engine did not write."""

    name: ClassVar[str] = "piece"
    piece: Data
    attempts_left: int
    context: tuple[Data, ...]
    history: Data


class SettingPrompt(Prompt):
    """A setting that stands in no table."""

    name: ClassVar[str] = "setting"
    setting: Data
    context: tuple[Data, ...]
    history: Data


class ResultPrompt(Prompt):
    """What a look-up found, or why an edit was not tried."""

    name: ClassVar[str] = "result"
    what: Word
    result: Data
    lookups_left: int


PROMPTS: tuple[type[Prompt], ...] = (SystemPrompt, CheckPrompt, PiecePrompt, SettingPrompt, ResultPrompt)


def render_prompt(name: str, **values: object) -> str:
    """The prompt `prompts/<name>.md` with its variables filled in.

    Raises:
        FileNotFoundError: there is no such prompt.
        jinja2.UndefinedError: a variable has no value.
    """
    import jinja2

    text = (resource_dir("prompts") / f"{name}.md").read_text("utf-8")
    template = jinja2.Template(text, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return str(template.render(**values))
