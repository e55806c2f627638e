"""The values of the flag contract: one flag, one problem, one parsed command line.

Standard library only: the stand-in trainer runs this module inside the sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Version = Literal["latest", "studio", "infra"]
Severity = Literal["error", "warning"]
VERSIONS: tuple[Version, ...] = ("latest", "studio", "infra")
SWITCHES = frozenset(
    {"store_true", "store_false", "boolean_optional", "DeprecatedStoreTrueAction", "DeprecatedStoreConstAction"}
)


class Problem(NamedTuple):
    """Something wrong with a command line: which rule says so, how bad, and one sentence."""

    rule: str
    severity: Severity
    text: str
    flag: str = ""
    section: str = ""
    """Section of the flag rules the check comes from ("4"); empty for the parse itself."""


@dataclass(frozen=True, slots=True)
class FlagInfo:
    """One flag as one Relax version registers it."""

    name: str
    dest: str
    family: Literal["relax", "megatron", "sglang"]
    type: Literal["str", "int", "float", "bool", "json", ""] = "str"
    """Type of one value; "" for a switch."""
    action: str = ""
    nargs: str | int | None = None
    choices: tuple[Any, ...] = ()
    default: Any = None
    const: Any = None
    aliases: tuple[str, ...] = ()
    group: str = ""
    versions: tuple[Version, ...] = VERSIONS
    """Relax versions that have the flag."""
    meaning: str = ""
    note: str = ""

    @property
    def is_switch(self) -> bool:
        """Whether the flag stands alone, without a value."""
        return self.action in SWITCHES

    @property
    def is_list(self) -> bool:
        """Whether the parsed value is a list."""
        return self.action == "append" or self.nargs in ("+", "*") or isinstance(self.nargs, int)


@dataclass(frozen=True)
class Parsed:
    """A parsed command line: a value for every dest of the contract, and what was wrong."""

    values: Mapping[str, Any]
    problems: tuple[Problem, ...]
    given: tuple[str, ...]
    """Flags in the order of the command line, as typed."""
    version: Version = "latest"
    given_dests: frozenset[str] = frozenset()

    def get(self, dest: str, default: Any = None) -> Any:
        """The value of a dest, `default` when the contract has none of that name."""
        return self.values.get(dest, default)

    def is_given(self, dest: str) -> bool:
        """Whether the command line sets this dest itself."""
        return dest in self.given_dests

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that stop the run."""
        return tuple(problem for problem in self.problems if problem.severity == "error")
