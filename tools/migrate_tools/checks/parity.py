"""Rung 3: the old and the new reward agree."""

from __future__ import annotations

from migrate_tools.checks.base import CheckContext, finding
from migrate_tools.model import CheckResult


class ParityCheck:
    """Differential testing against the frozen oracle, one result a launch."""

    name = "parity"
    rung = 3

    def run(self, context: CheckContext) -> tuple[CheckResult, ...]:
        from migrate_tools.parity.compare import run_parity

        results: list[CheckResult] = []
        for translation in context.translations:
            launch = context.launch(translation)
            frozen = (context.cases or {}).get(launch.name)
            if frozen is not None:
                results.append(run_parity(context, launch, frozen))
                continue
            with finding(f"{self.name}:{launch.name}", self.rung) as found:
                found.skip("not_checkable", "the old reward's answers were not recorded for this launch")
            results.append(found.result())
        return tuple(results)
