"""Rung 3: the old and the new reward agree."""

from __future__ import annotations

from pathlib import Path

from migrate_tools.checks.base import CheckContext, finding
from migrate_tools.model import CheckResult, Translation


class ParityCheck:
    """Differential testing against the frozen oracle, one result a launch."""

    name = "parity"
    rung = 3

    def run(self, context: CheckContext) -> tuple[CheckResult, ...]:
        from migrate_tools.parity.compare import run_parity

        results: list[CheckResult] = []
        done: dict[tuple[Path, str], CheckResult] = {}
        for translation in context.translations:
            launch = context.launch(translation)
            frozen = (context.cases or {}).get(launch.name)
            if frozen is not None:
                key = (frozen.folder, _hook(translation))
                results.append(_shared(done[key], launch.name) if key in done else run_parity(context, launch, frozen))
                done.setdefault(key, results[-1])
                continue
            with finding(f"{self.name}:{launch.name}", self.rung) as found:
                found.skip("not_checkable", "the old reward's answers were not recorded for this launch")
            results.append(found.result())
        return tuple(results)


def _hook(translation: Translation) -> str:
    """The reward function that the script names."""
    return next((flag.value or "" for flag in translation.flags if flag.name == "--custom-rm-path"), "")


def _shared(result: CheckResult, launch: str) -> CheckResult:
    """The result of a launch with the same reward function, rows and cases."""
    first = result.name.partition(":")[2]
    summary = f"same reward, rows and cases as {first}: {result.summary}"
    return result.model_copy(update={"name": f"parity:{launch}", "seconds": 0.0, "summary": summary})
