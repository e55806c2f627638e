"""Rung 4: old tools and new environment give the same observations."""

from __future__ import annotations

import time

import yaml

from migrate_tools.checks.base import CheckContext, finding
from migrate_tools.mapping.turns import MAX_TURNS
from migrate_tools.model import CheckResult, Translation
from migrate_tools.relax.render import config_names

SINGLE_TURN = "single-turn: there are no tools to compare"


class ToolsCheck:
    """Scripted conversations through verl's tools and through the example's environment, launch by launch."""

    name = "tools"
    rung = 4

    def run(self, context: CheckContext) -> tuple[CheckResult, ...]:
        from migrate_tools.parity.tools import compare_tools

        base = f"examples/{context.example.algo}"
        written = {item.path for item in context.example.files}
        if f"{base}/loops_{context.example.algo}.py" in written:
            return self._loops(context)
        if f"{base}/env_{context.example.algo}.py" not in written:
            with finding(self.name, self.rung) as found:
                found.skip("skipped", SINGLE_TURN)
            return (found.result(),)
        results: list[CheckResult] = []
        for translation in context.translations:
            began = time.monotonic()
            data = context.converted(translation)
            first = next((item.output for item in data.sources if item.split == "train"), None)
            rows = data.folder / "data" / context.example.algo / first if data.ok and first else None
            launch = context.launch(translation)
            made = compare_tools(
                context,
                launch,
                name=f"{self.name}:{translation.launch}",
                rows=rows,
                max_turns=_max_turns(context, translation),
                services=context.services(translation),
            )
            results.append(made.model_copy(update={"seconds": round(time.monotonic() - began, 3)}))
        return tuple(results)

    def _loops(self, context: CheckContext) -> tuple[CheckResult, ...]:
        """Loops of the recipe's own, launch by launch."""
        from migrate_tools.parity.own_loops import compare_loops

        results: list[CheckResult] = []
        for translation in context.translations:
            began = time.monotonic()
            made = compare_loops(
                context,
                context.launch(translation),
                name=f"{self.name}:{translation.launch}",
                data=context.converted(translation),
                services=context.services(translation),
            )
            results.append(made.model_copy(update={"seconds": round(time.monotonic() - began, 3)}))
        return tuple(results)


def _max_turns(context: CheckContext, translation: Translation) -> int | None:
    """The limit of answers that the launch's configuration file has now; None where there is none."""
    name = config_names(context.translations).get(translation.launch, "")
    path = f"examples/{context.example.algo}/{name}"
    text = next((item.text for item in context.example.files if item.path == path), "")
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError:  # rung 0 says so
        return None
    value = config.get(MAX_TURNS) if isinstance(config, dict) else None
    return value if isinstance(value, int) else None
