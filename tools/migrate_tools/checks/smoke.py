"""Rung 7: one real training step on a GPU."""

from __future__ import annotations

import os
from pathlib import Path

from migrate_tools.checks.base import CheckContext, finding
from migrate_tools.model import CheckResult


class SmokeCheck:
    """Runs the Relax image where there is a GPU; else says why not."""

    name = "gpu_smoke"
    rung = 7

    def run(self, context: CheckContext) -> tuple[CheckResult, ...]:
        from migrate_tools.rehearsal.gpu import obstacle, run_smoke

        why = obstacle()
        if why or not context.translations:
            with finding(self.name, self.rung) as found:
                found.skip("skipped", why or "there is no launch to run")
            return (found.result(),)
        models = os.environ.get("MODEL_DIR")
        translation = context.translations[0]
        return (
            run_smoke(
                context.example,
                translation,
                tree=context.stage,
                data=context.converted(translation).folder / "data",
                models=Path(models) if models else None,
                place=context.work / "smoke",
            ),
        )
