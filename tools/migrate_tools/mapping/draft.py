"""What the areas write into while a launch is translated: flags, outcomes of settings, decisions, notes."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from migrate_tools.mapping.facts import Facts
from migrate_tools.model import BatchPlan, Decision, Flag, GpuPlan, Hook, Note, Risk, Status
from migrate_tools.relax.contract import FlagContract

Group = Literal["CKPT", "ROLLOUT", "EVAL", "PERF", "ALGO", "OPTIMIZER", "SGLANG", "LOG", "MISC", "SYNC", "ASYNC"]


def shell(text: str) -> str:
    """Text as one shell word; plain words stay bare."""
    return shlex.quote(text)


@dataclass(frozen=True)
class Outcome:
    """What an area decided about one setting."""

    status: Status
    relax: tuple[str, ...] = ()
    reason: str = ""
    risk: Risk = "none"


@dataclass
class Draft:
    """The translation in the making. Areas read `facts` and write everything else."""

    facts: Facts
    contract: FlagContract
    algo: str
    variant: str = ""
    flags: dict[tuple[str, str], Flag] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    guide: list[Note] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    caps: list[str] = field(default_factory=list)
    async_refusals: list[str] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)
    batch: BatchPlan | None = None
    gpus: GpuPlan | None = None
    estimator: str = ""
    """Relax's advantage estimator, once chosen."""

    def flag(self, name: str, value: str | float | None, group: Group, comment: str = "") -> bool:
        """Add a flag; numbers are written out, text must be shell-ready, None makes a switch.

        Returns False, with a note, when the Relax version at hand has no such flag.
        """
        if name not in self.contract.flags:
            self.note("flag-missing", f"this Relax version has no {name}; it is left out")
            return False
        text = None if value is None else str(value)
        key = (name, group if group in ("SYNC", "ASYNC") else "")
        if key in self.flags and self.flags[key].value != text:
            raise ValueError(f"{name} is written twice: {self.flags[key].value!r} and {text!r}")
        self.flags[key] = Flag(name=name, value=text, group=group, comment=comment)
        return True

    def hook(self, name: str, function: str, group: Group, comment: str = "", **constants: Any) -> bool:
        """Name a function of the hook library in a flag; `constants` are the recipe's numbers in it.

        Returns False, with a note, when the Relax version at hand has no such flag.
        """
        path = f"examples.{self.algo}.hooks_{self.algo}.{function}"
        if not self.flag(name, path, group, comment):
            return False
        self.hooks.append(Hook(flag=name, function=function, constants=constants))
        return True

    def has(self, name: str) -> bool:
        """Whether the flag is written, in any mode."""
        return any(key[0] == name for key in self.flags)

    def say(
        self,
        keys: str | Iterable[str],
        status: Status,
        relax: str | Iterable[str] = (),
        reason: str = "",
        risk: Risk = "none",
    ) -> None:
        """Record what became of settings; keys that the recipe does not set are ignored later."""
        names = (keys,) if isinstance(keys, str) else tuple(keys)
        flags = (relax,) if isinstance(relax, str) else tuple(relax)
        for name in names:
            self.outcomes[name] = Outcome(status, flags, reason, risk)

    def decide(self, question: str, choice: str, why: str, switch: str = "") -> None:
        """Record a choice between readings."""
        self.decisions.append(Decision(question=question, choice=choice, why=why, switch=switch))

    def note(self, code: str, text: str, key: str = "") -> None:
        """Record something a reviewer should know; `key` names the setting it belongs to."""
        setting = self.facts.settings.get(key)
        item = Note(code=code, text=text, source=setting.source if setting else None)
        if item not in self.notes:
            self.notes.append(item)

    def differs(self, code: str, text: str) -> None:
        """Record a difference between the seed guide and this Relax."""
        self.guide.append(Note(code=code, text=text))

    def refuse(self, text: str) -> None:
        """Relax cannot express this launch at all."""
        if text not in self.refusals:
            self.refusals.append(text)

    def cap(self, code: str, text: str) -> None:
        """The launch can at best become `partial`, and why."""
        self.caps.append(text)
        self.note(code, text)
