"""One interface for every rung of the ladder."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from migrate_tools.model import CheckResult, CheckStatus, Example, Launch, Mode, Recipe, Translation
from migrate_tools.packages import install_command, missing_packages
from migrate_tools.sandbox import Sandbox

if TYPE_CHECKING:
    from migrate_tools.parity.frozen import FrozenCases
    from migrate_tools.parity.tool_services import Services
    from migrate_tools.rehearsal.converted import Converted
    from migrate_tools.rehearsal.rehearse import RehearsalRun

MODES: tuple[Mode, ...] = ("sync", "async")
SHOWN = 30
"""Findings listed in the evidence of one result."""


@dataclass(frozen=True)
class CheckContext:
    """What a check may look at. Conversions and rehearsals are run once and shared between the rungs."""

    recipe: Recipe
    translations: tuple[Translation, ...]
    example: Example
    stage: Path
    """Folder with the example's files as they lie below a Relax root."""
    sandbox: Sandbox
    work: Path
    """Folder for the checks' own files."""
    cases: Mapping[str, FrozenCases] | None = None
    """Launch name -> frozen oracle of the parity check."""
    by_rules: Mapping[str, str] = field(default_factory=dict)
    """Path -> text of the example's files as the rules write them, where somebody else may have changed them."""
    relax_version: str = "latest"
    """A Relax version, or the file of a contract that was read from a checkout."""
    _made: dict[tuple[str, ...], Any] = field(default_factory=dict, repr=False, compare=False)

    def launch(self, translation: Translation) -> Launch:
        """The launch that a translation belongs to."""
        return next(item for item in self.recipe.launches if item.name == translation.launch)

    def converted(self, translation: Translation) -> Converted:
        """The launch's rows through the example's converter."""
        from migrate_tools.rehearsal.converted import convert_data

        key = ("data", translation.launch)
        if key not in self._made:
            self._made[key] = convert_data(
                self.example,
                self.launch(translation),
                sandbox=self.sandbox,
                place=self.work / "rehearsal" / translation.launch / "converted",
            )
        made: Converted = self._made[key]
        return made

    def rehearsed(self, translation: Translation, mode: Mode) -> RehearsalRun:
        """The run script of a launch, run in one mode against the stand-in Relax."""
        from migrate_tools.rehearsal.rehearse import local_model, rehearse

        key = ("run", translation.launch, mode)
        if key not in self._made:
            self._made[key] = rehearse(
                self.example,
                translation,
                mode,
                self.converted(translation),
                sandbox=self.sandbox,
                place=self.work / "rehearsal" / translation.launch / mode,
                version=self.relax_version,
                tape=self.tape(translation),
                calls=self.calls(translation),
                folders=self.services(translation).folders,
                model=local_model(self.launch(translation), translation) if self.recipe.launches else None,
            )
        made: RehearsalRun = self._made[key]
        return made

    def tape(self, translation: Translation) -> Mapping[str, Any] | None:
        """Settings of the taped HTTP answers of a launch whose reward, tools or users ask a server."""
        from migrate_tools.parity.tool_services import joined_tapes

        frozen = (self.cases or {}).get(translation.launch)
        tape: Mapping[str, Any] | None = frozen.meta.get("tape") if frozen is not None else None
        return joined_tapes(tape, self.services(translation).tape)

    def services(self, translation: Translation) -> Services:
        """What the tools and users of a launch ask."""
        from migrate_tools.parity.tool_services import Services, find_services

        key = ("services", translation.launch)
        if key not in self._made:
            launch = self.launch(translation) if self.recipe.launches else None
            turns = launch.multi_turn if launch is not None else None
            self._made[key] = find_services(self.recipe, launch, turns) if launch and turns else Services()
        made: Services = self._made[key]
        return made

    def calls(self, translation: Translation) -> tuple[str, ...]:
        """Texts with tool calls for the scripted engine, when the example has tools."""
        from migrate_tools.parity.tool_cases import engine_calls

        turns = self.launch(translation).multi_turn if self.recipe.launches else None
        base = f"examples/{self.example.algo}"
        modules = {f"{base}/{part}_{self.example.algo}.py" for part in ("env", "loops")}
        plays = any(item.path in modules for item in self.example.files)
        return engine_calls(turns) if plays and turns is not None else ()

    def argv(self, translation: Translation, mode: Mode) -> tuple[str, ...]:
        """Arguments of the trainer: as recorded, or from the translation's flags when it was not reached."""
        recorded = self.rehearsed(translation, mode).argv
        if recorded is not None:
            return recorded
        other = "ASYNC" if mode == "sync" else "SYNC"
        words: list[str] = []
        for flag in translation.flags:
            if flag.group != other:
                words += [flag.name] if flag.value is None else [flag.name, *_words(flag.value)]
        return tuple(words)


def _words(value: str) -> list[str]:
    import shlex

    try:
        return shlex.split(value)
    except ValueError:
        return [value]


class Check(Protocol):
    """One rung: its name, its number, and how it looks at an example."""

    @property
    def name(self) -> str: ...

    @property
    def rung(self) -> int: ...

    def run(self, context: CheckContext) -> tuple[CheckResult, ...]:
        """One result, or one for each launch. Never raises on what it finds, only on what the machine lacks."""
        ...


@dataclass
class Finding:
    """A result in the making."""

    name: str
    rung: int
    problems: list[str] = field(default_factory=list)
    evidence: dict[str, Any] = field(default_factory=dict)
    status: CheckStatus | None = None
    summary: str = ""
    seconds: float = 0.0

    def skip(self, status: CheckStatus, why: str) -> None:
        """Say why there is no verdict."""
        self.status, self.summary = status, why

    def result(self) -> CheckResult:
        """The finished result: failed when there is any problem; not checkable when only packages are missing here."""
        evidence = {**self.evidence}
        if self.status is None and (missing := missing_packages(self.problems)):
            self.skip("not_checkable", f"needs {', '.join(missing)}, not installed here: {install_command(missing)}")
        if self.problems:
            evidence["problems"] = self.problems[:SHOWN]
        status = self.status or ("failed" if self.problems else "passed")
        summary = self.problems[0] if self.problems and not self.status else self.summary
        if len(self.problems) > 1 and not self.status:
            summary = f"{summary} (and {len(self.problems) - 1} more)"
        return CheckResult(
            name=self.name,
            rung=self.rung,
            status=status,
            seconds=round(self.seconds, 3),
            summary=summary,
            evidence=evidence,
        )


@contextmanager
def finding(name: str, rung: int) -> Iterator[Finding]:
    """A result in the making whose time is taken."""
    began = time.monotonic()
    made = Finding(name, rung)
    yield made
    made.seconds = time.monotonic() - began
