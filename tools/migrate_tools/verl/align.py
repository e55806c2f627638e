"""Joins what a script gave when it ran with its syntax tree: file, line and text of every word of a command."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from migrate_tools.verl.shellmap import SymbolicCommand
from migrate_tools.verl.symbolic import Piece, Word, pattern, shell_text


@dataclass(frozen=True)
class Placed:
    """Where a word of the command stands, and its text with variables kept (None: only the record is known)."""

    file: str
    line: int | None
    text: str | None
    variables: tuple[str, ...] = ()
    """Variables without a default that nobody sets."""


def best_command(
    recorded: Sequence[str], commands: Sequence[SymbolicCommand], values: dict[str, str], used: set[int]
) -> tuple[int | None, list[Word | None]]:
    """The command of the tree that a recorded one is, and its words one to one where they agree."""
    best: tuple[float, int | None, list[Word | None]] = (0.0, None, [None] * len(recorded))
    for index, command in enumerate(commands):
        words = align(recorded, command.words, values)
        # a word that only shares its key counts little: several commands of a script set the same keys
        score = sum(
            1.0 if word and re.fullmatch(pattern(word.pieces, values), text, re.DOTALL) else 0.25 if word else 0.0
            for word, text in zip(words, recorded, strict=True)
        )
        score -= 0.5 if index in used else 0.0
        if score > best[0]:
            best = (score, index, words)
    return best[1], best[2]


def outer_command(
    parent: Sequence[str],
    recorded: Sequence[str],
    commands: Sequence[SymbolicCommand],
    values: dict[str, str],
    used: set[int],
) -> tuple[int | None, bool]:
    """The command of the tree that started a recorded one through another program, and whether its own words are those
    of the recorded one (`ray job submit -- python3 ...`) or hide in a text (`ssh host '...'`)."""  # fmt: skip
    index, words = best_command(parent, commands, values, used)
    if index is not None and sum(word is not None for word in words) * 2 < len(parent):
        index = None
    return index, tuple(parent[-len(recorded) :]) == tuple(recorded)


def align(recorded: Sequence[str], words: Sequence[Word], values: dict[str, str]) -> list[Word | None]:
    """Match recorded words with those of the tree: in order from both ends, then by the key of what is left."""
    out: list[Word | None] = [None] * len(recorded)
    regexes = [re.compile(pattern(word.pieces, values), re.DOTALL) for word in words]
    taken: set[int] = set()
    i, j = len(recorded) - 1, len(words) - 1
    while i >= 0 and j >= 0 and regexes[j].fullmatch(recorded[i]):
        out[i] = words[j]
        taken.add(j)
        i, j = i - 1, j - 1
    keys: dict[str, list[int]] = {}
    for index, word in enumerate(words):
        key = _key(word)
        if key and index not in taken:
            keys.setdefault(key, []).append(index)
    for place in range(i + 1):
        key = recorded[place].partition("=")[0] if "=" in recorded[place] else recorded[place]
        options = keys.get(key, [])
        match = next((k for k in options if regexes[k].fullmatch(recorded[place])), None)
        if match is None and options:
            match = options[0]
        if match is not None:
            out[place] = words[match]
            options.remove(match)
    return out


def _key(word: Word) -> str:
    """The literal text before the first `=`; the whole word when it is literal and has none."""
    text = ""
    for piece in word.pieces:
        if piece.kind != "literal":
            return ""
        head, sep, _ = piece.text.partition("=")
        text += head
        if sep:
            return text
    return text


def placed(word: Word | None, recorded: str, values: dict[str, str]) -> Placed | None:
    """The place and text of one recorded word."""
    if word is None:
        return None
    text = shell_text(word.pieces, values, recorded)
    return Placed(word.file, word.line, text, tuple(dict.fromkeys(_bare(word.pieces))))


def _bare(pieces: Sequence[Piece]) -> list[str]:
    out = []
    for piece in pieces:
        if piece.kind == "variable" and piece.text not in ("HOME", "USER", "PWD", "PATH", "HOSTNAME", "LOGNAME"):
            if piece.default is None:
                out.append(piece.text)
            else:
                out += _bare(piece.default)
    return out
