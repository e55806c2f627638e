"""The strict parse of a Relax command line.

Words are split between flags as argparse does it; nothing is guessed, abbreviated or ignored.
Standard library only: the stand-in trainer runs this module inside the sandbox.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from migrate_tools.relax.flag_model import FlagInfo, Parsed, Problem, Severity

if TYPE_CHECKING:
    from migrate_tools.relax.contract import FlagContract


class StrictParser:
    """One strict parse."""

    def __init__(self, contract: FlagContract) -> None:
        self.contract = contract
        self.problems: list[Problem] = []
        self.given: list[str] = []
        self.values = {info.dest: info.default for info in reversed(list(contract.flags.values()))}
        self.seen: dict[str, str] = {}

    def parse(self, argv: Sequence[str]) -> Parsed:
        position = 0
        while position < len(argv):
            word = argv[position]
            position += 1
            if not _is_flag(word):
                self._problem("parse.stray-word", f"{word!r} belongs to no flag", word)
                continue
            name, separator, attached = word.partition("=")
            hit = self.contract.names.get(name)
            words, position = self._words(argv, position, hit, attached if separator else None)
            self.given.append(name)
            if hit is None:
                self._unknown(name)
            else:
                self._store(name, *hit, words, attached=bool(separator))
        return Parsed(
            values=self.values,
            problems=tuple(self.problems),
            given=tuple(self.given),
            version=self.contract.version,
            given_dests=frozenset(self.seen),
        )

    def _words(
        self, argv: Sequence[str], position: int, hit: tuple[FlagInfo, bool] | None, attached: str | None
    ) -> tuple[list[str], int]:
        """The value words of a flag and the position after them (words of an unknown flag are skipped)."""
        if attached is not None:
            return [attached], position
        limit = _max_words(hit[0]) if hit else len(argv)
        end = position
        while end < len(argv) and end - position < limit and not _is_flag(argv[end]):
            end += 1
        return list(argv[position:end]), end

    def _unknown(self, name: str) -> None:
        where = self.contract.elsewhere.get(name)
        if where:
            text = f"{name} does not exist in this version (only in {where})"
        else:
            near = self.contract.nearest(name)
            text = f"{name} is not a flag of Relax" + (f"; did you mean {near}?" if near else "")
        self._problem("parse.unknown-flag", text, name)

    def _store(self, name: str, info: FlagInfo, negated: bool, words: list[str], *, attached: bool) -> None:
        if info.action == "DeprecatedAction":
            self._problem("parse.removed-flag", f"{name} is no longer accepted", name)
            return
        if info.action.startswith("Deprecated"):
            self._problem("parse.deprecated-flag", f"{name} is deprecated; it sets {info.dest}", name, "warning")
        if info.dest in self.seen and info.action != "append":
            self._problem("parse.duplicate", f"{name} sets {info.dest} again, {self.seen[info.dest]} came first", name)
        self.seen.setdefault(info.dest, name)
        if info.is_switch:
            if attached:
                self._problem("parse.surplus-value", f"{name} is a switch and takes no value", name)
            self.values[info.dest] = not (negated or info.action == "store_false")
            return
        if not self._count_ok(name, info, words):
            return
        try:
            values = [self._convert(name, info, word) for word in words]
        except ValueError:
            return  # reported; the default stays, so that the rules see a value of the right type
        if info.action == "append":
            old = self.values[info.dest] if name in self.given[:-1] else None
            self.values[info.dest] = [*(old or ()), values if info.nargs else values[0]]
        elif info.is_list:
            self.values[info.dest] = values
        else:
            self.values[info.dest] = values[0] if values else info.const

    def _count_ok(self, name: str, info: FlagInfo, words: list[str]) -> bool:
        least = info.nargs if isinstance(info.nargs, int) else 0 if info.nargs in ("*", "?") else 1
        if len(words) < least:
            need = f"needs {least} values, got {len(words)}" if least > 1 else "needs a value"
            self._problem("parse.missing-value", f"{name} {need}", name)
            return False
        return True

    def _convert(self, name: str, info: FlagInfo, word: str) -> Any:
        try:
            value = _CONVERTERS[info.type](word)
        except ValueError:
            self._problem("parse.bad-type", f"{name} {word!r} is not valid {info.type}", name)
            raise
        if info.type == "float" and value != value:
            self._problem("parse.bad-type", f"{name} is not a number", name)
        if info.choices and value not in info.choices:
            known = ", ".join(map(str, info.choices))
            self._problem("parse.bad-choice", f"{name} {word!r} is not one of {known}", name)
        return value

    def _problem(self, rule: str, text: str, flag: str, severity: Severity = "error") -> None:
        self.problems.append(Problem(rule, severity, text, flag))


_CONVERTERS: Mapping[str, Callable[[str], Any]] = {
    "": str,
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "json": json.loads,
}


def _max_words(info: FlagInfo) -> int:
    if info.is_switch or info.action == "DeprecatedAction":
        return 0
    if isinstance(info.nargs, int):
        return info.nargs
    return 10**9 if info.nargs in ("+", "*") else 1


def _is_flag(word: str) -> bool:
    """Whether argparse would take the word for a flag: it starts with a dash and is neither number nor text."""
    if not word.startswith("-") or word == "-" or " " in word.partition("=")[0]:
        return False
    try:
        float(word)
    except ValueError:
        return True
    return word.lstrip("-")[:1].isalpha()  # "-inf" and "-nan" are floats, yet argparse reads them as flags
