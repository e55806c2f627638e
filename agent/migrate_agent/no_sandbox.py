"""Stands in where no sandbox works: nothing foreign is run, reading falls back to syntax trees."""

from __future__ import annotations

from migrate_tools.errors import MachineError
from migrate_tools.model import CheckResult
from migrate_tools.sandbox import Job, Outcome

UNCHECKED = {2: "import", 3: "parity", 5: "data", 6: "rehearsal"}
WITHOUT_EXECUTION = frozenset({0})


class NoSandbox:
    """A Sandbox whose jobs never start."""

    name = "none"

    def __init__(self, why: MachineError) -> None:
        self.why = why

    def run(self, job: Job) -> Outcome:
        """The outcome of a job that was not started."""
        return Outcome(
            returncode=None,
            stdout=b"",
            stderr=b"no sandbox works on this machine",
            timed_out=False,
            out_of_memory=False,
            truncated=False,
            seconds=0.0,
            provider=self.name,
        )

    def unchecked(self, rungs: frozenset[int]) -> tuple[CheckResult, ...]:
        """What could not be looked at."""
        return tuple(
            CheckResult(name=name, rung=rung, status="not_checkable", summary="no sandbox works on this machine")
            for rung, name in UNCHECKED.items()
            if rung in rungs
        )
