"""Shell words before expansion: literal text, variables with their defaults, and parts known only after a run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

KNOWN_VARIABLES = {"HOME": "$HOME", "USER": "$USER"}


@dataclass(frozen=True)
class Piece:
    """A part of a word. `text` is the literal, the variable's name, or the source of a command substitution."""

    kind: Literal["literal", "variable", "date", "opaque"]
    text: str
    line: int = 0
    default: tuple[Piece, ...] | None = None


@dataclass(frozen=True)
class Word:
    """One word of a command, with the place where its text stands."""

    pieces: tuple[Piece, ...]
    file: str
    line: int

    def known(self) -> str | None:
        """The value when nobody sets a variable from outside; None when only a run can tell."""
        return static(self.pieces)


def static(pieces: Iterable[Piece]) -> str | None:
    """The text of pieces when nobody sets a variable from outside; None when only a run can tell."""
    out = ""
    for piece in pieces:
        if piece.kind == "literal":
            out += piece.text
        elif piece.kind == "variable":
            if piece.text in KNOWN_VARIABLES:
                return None
            inner = static(piece.default or ())
            if inner is None:
                return None
            out += inner
        else:
            return None
    return out


def pattern(pieces: Iterable[Piece], values: Mapping[str, str]) -> str:
    """A regular expression that the expanded text must match; parts known only after a run are groups."""
    out = ""
    for piece in pieces:
        if piece.kind == "literal":
            out += re.escape(piece.text)
        elif piece.kind == "variable":
            if piece.text in values:
                out += re.escape(values[piece.text])
            else:
                out += pattern(piece.default or (), values).replace("(?P<", "(?P<")
        else:
            out += "(.*)"
    return out


def shell_text(pieces: Iterable[Piece], values: Mapping[str, str], recorded: str) -> str | None:
    """The text for a script: variables that a user may set are kept, the rest is what the run gave.

    `values` are the variables that the run itself set (HOME, markers). None when the pieces and the record disagree.
    """
    pieces = tuple(pieces)
    match = re.fullmatch(pattern(pieces, values), recorded, re.DOTALL)
    if not match:
        return None
    groups = iter(match.groups())
    return _render(pieces, groups, values)


def marked_text(pieces: Iterable[Piece], values: Mapping[str, str], recorded: str, marker: str) -> str:
    """The recorded text with `marker` (a format) in the places of variables that nobody sets.

    Only where the variable stands for a whole value, a list item or the start of a path: elsewhere (`name$SUFFIX`) an
    empty one is what the script means.
    """
    pieces = tuple(pieces)
    match = re.fullmatch(pattern(pieces, values), recorded, re.DOTALL)
    if not match:
        return recorded
    groups = iter(match.groups())
    flat = _flat(pieces, values, groups)
    out = ""
    for index, (text, name) in enumerate(flat):
        following = next((text or "$" for text, _ in flat[index + 1 :]), "")
        alone = (not out or out[-1] in "=[,'\" ") and (not following or following[0] in "/,]'\" ")
        out += text if not name else marker.format(name) if alone else ""
    return out


def _flat(pieces: Iterable[Piece], values: Mapping[str, str], groups: Iterator[str]) -> list[tuple[str, str]]:
    """Text and "" of every part, or "" and the name of a variable that is empty."""
    out: list[tuple[str, str]] = []
    for piece in pieces:
        if piece.kind == "literal":
            out.append((piece.text, ""))
        elif piece.kind != "variable":
            out.append((next(groups), ""))
        elif piece.text in values:
            out.append((values[piece.text], ""))
        elif piece.default:
            out += _flat(piece.default, values, groups)
        else:
            out.append(("", piece.text))
    return out


def _render(pieces: Iterable[Piece], groups: Iterable[str], values: Mapping[str, str]) -> str:
    groups = iter(groups)
    out = ""
    for piece in pieces:
        if piece.kind == "literal":
            out += escape(piece.text)
        elif piece.kind == "variable":
            inner = "" if piece.text in values else _render(piece.default or (), groups, values)
            if piece.text in KNOWN_VARIABLES:
                out += f"${piece.text}"
            elif piece.default is None:
                out += f"${{{piece.text}}}"
            else:
                out += f"${{{piece.text}:-{inner}}}"
        elif piece.kind == "date":
            next(groups)
            out += piece.text
        else:
            out += escape(next(groups))
    return out


def escape(text: str) -> str:
    """Literal text inside a shell word: `$` and backquotes stay literal."""
    return re.sub(r"[$`]", r"\\\g<0>", text)


def with_default(pieces: tuple[Piece, ...], default: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """`${x:-default}` where x holds `pieces`: the default when they are empty, kept settable when a variable is."""
    value = static(pieces)
    if value:
        return pieces
    if value is None:
        return pieces if any(p.kind == "literal" and p.text for p in pieces) or _home(pieces) else (_opaque(pieces),)
    variables = [piece for piece in pieces if piece.kind == "variable"]
    if len(variables) == 1:
        return (replace(variables[0], default=default),)
    return default if not variables else (_opaque(pieces),)


def _home(pieces: Iterable[Piece]) -> bool:
    return any(piece.kind == "variable" and piece.text in KNOWN_VARIABLES for piece in pieces)


def _opaque(pieces: tuple[Piece, ...]) -> Piece:
    return Piece("opaque", "", pieces[0].line if pieces else 0)


def split_pieces(pieces: Iterable[Piece], sep: re.Pattern[str] = re.compile(r"\s+")) -> list[list[Piece]]:
    """Word splitting of an unquoted expansion: the pieces of each word; the first and last may be empty."""
    words: list[list[Piece]] = [[]]
    for piece in pieces:
        if piece.kind == "variable" and piece.default and re.search(r"\s", static(piece.default) or ""):
            inner = split_pieces(piece.default, sep)
            words[-1] += inner[0]
            words += inner[1:]
            continue
        if piece.kind != "literal":
            words[-1].append(piece)
            continue
        parts = sep.split(piece.text)
        for index, part in enumerate(parts):
            if index:
                words.append([])
            if part:
                words[-1].append(replace(piece, text=part))
    return words


def literal_pieces(text: str, line: int, quoted: bool) -> list[Piece]:
    """A literal part: continuation lines removed, escapes resolved, one piece a line."""
    out = []
    for chunk in re.split(r"(?<=\n)", text):
        clean = re.sub(r"(?<!\\)((?:\\\\)*)\\\n", r"\1", chunk)
        clean = re.sub(r'\\([$`"\\])', r"\1", clean) if quoted else re.sub(r"\\(.)", r"\1", clean, flags=re.DOTALL)
        if clean:
            out.append(Piece("literal", clean, line))
        line += chunk.count("\n")
    return out


def by_line(text: str, line: int) -> list[Piece]:
    """Quoted text, one piece a line."""
    out = []
    for chunk in re.split(r"(?<=\n)", text):
        if chunk:
            out.append(Piece("literal", chunk, line))
        line += chunk.count("\n")
    return out


def ansi(text: str) -> str:
    """The text of $'...'."""
    return text.replace("\\n", "\n").replace("\\t", "\t").replace("\\'", "'")


def joined(words: list[Word]) -> tuple[Piece, ...]:
    """Several words as one text."""
    out: list[Piece] = []
    for index, word in enumerate(words):
        if index:
            out.append(Piece("literal", " ", word.line))
        out += word.pieces
    return tuple(out)
