"""One row of the mapping tables: a verl setting under all its spellings, and what Relax makes of it."""

from __future__ import annotations

import re
from typing import Any, Literal, get_args

from pydantic import Field

from migrate_tools.model import Frozen, Risk, Status

NumberUnit = Literal[
    "prompts", "samples", "tokens", "sequences", "steps", "epochs",
    "ratio", "gpus", "layers", "seconds", "size", "count",
]  # fmt: skip
"""size: bytes or elements of memory; count: a number of other things (LoRA rank, workers, a seed)."""
Unit = Literal[NumberUnit, "text", "bool", "none"]
NUMBER_UNITS: frozenset[str] = frozenset(get_args(NumberUnit))
DROPS: frozenset[Status] = frozenset({"automatic", "no_effect", "unsupported"})
"""What a setting becomes when no flag of its own stands for it: such a row says why."""
_ONE_RANGE = r"(?:fork|recipe|\d[.\w]*(?:-(?:\d[.\w]*)?)?|-\d[.\w]*)"
RANGE = re.compile(rf"{_ONE_RANGE}(?:, {_ONE_RANGE})*\Z")


class ValueRule(Frozen):
    """What the row says when the value is one of `match` (compared as lower-case text, null as "null")."""

    match: tuple[str, ...]
    status: Status
    reason: str
    risk: Risk = "none"


class Evidence(Frozen):
    """Where the row's facts come from. What is left out is filled in from data (`mapping/evidence.py`).

    verl: `file:line@version` of what reads the setting; else the line that declares each key.
    relax: source file at a commit, or a section of the Relax contract; else where each flag is declared.
    """

    verl: str = ""
    relax: str = ""


class Row(Frozen):
    """One row: a verl setting under all its spellings, and what Relax makes of it."""

    id: str
    keys: tuple[str, ...] = Field(min_length=1)
    unit: Unit
    status: Status
    reason: str
    relax: tuple[str, ...] = ()
    transform: str = ""
    combiner: str = ""
    emit: Literal["always", "recipe"] = "recipe"
    """always: verl's default is written out too, because it changes training."""
    group: Literal["", "CKPT", "ROLLOUT", "EVAL", "PERF", "ALGO", "OPTIMIZER", "SGLANG", "LOG", "MISC"] = ""
    risk: Risk = "none"
    values: tuple[ValueRule, ...] = ()
    evidence: Evidence = Evidence()
    versions: str = ""
    """verl versions that the row's meaning holds for ("0.3-0.6", "0.7-", "fork"); empty: all that have the keys."""
    moved: dict[str, str] = {}
    """Former key -> the key that took its place in a later verl; patterns stand for whole branches."""
    history: str = ""
    """What changed in verl under the same key: defaults, meanings."""
    file: str = ""
    """Table that holds the row; filled in on load."""

    @property
    def exact(self) -> tuple[str, ...]:
        """Keys without a pattern."""
        return tuple(key for key in self.keys if "*" not in key)

    def judge(self, value: Any) -> tuple[Status, str, Risk]:
        """Status, reason and risk for one value."""
        text = "null" if value is None else str(value).strip().strip("'\"").lower()
        for rule in self.values:
            if text in rule.match:
                return rule.status, rule.reason, rule.risk
        return self.status, self.reason, self.risk


def key_pattern(key: str) -> re.Pattern[str]:
    """`**` stands for any number of parts, `*` for (a piece of) one."""
    parts = re.split(r"(\*\*|\*)", key)
    text = "".join({"**": ".+", "*": "[^.]+"}.get(part, re.escape(part)) for part in parts)
    return re.compile(text + r"\Z")
