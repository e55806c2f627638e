"""test: the ladder over the staged example; keeps the best state and rolls back a repair that does not help."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from migrate_tools.model import CheckResult, Example

from migrate_agent.engine import Draft
from migrate_agent.nodes import Context
from migrate_agent.nodes.plan import movable
from migrate_agent.state import Attempt, RunState
from migrate_agent.trace import log_checks

Score = tuple[int, int]


def test(state: RunState, context: Context) -> RunState:
    """Runs rungs 0 to 6 and judges the last repair, if there was one."""
    results = run_checks(state, context)
    current = {
        "example": state["example"],
        "translations": state["translations"],
        "checks": context.run.put_models(results),
    }
    best, attempts = state.get("best"), state.get("attempts", [])
    if best is None or not attempts or attempts[-1]["outcome"] != "pending":
        return {"checks": current["checks"], "best": current}
    improved = score(results) < score(context.run.models(CheckResult, best["checks"]))
    outcome = "improved" if improved else "no better, rolled back"
    judged: list[Attempt] = [*attempts[:-1], {**attempts[-1], "outcome": outcome}]
    context.trace("judged", {**judged[-1]})
    kept = current if improved else best
    return {
        "example": kept["example"],
        "translations": kept["translations"],
        "checks": kept["checks"],
        "best": kept,
        "attempts": judged,
    }


def run_checks(state: RunState, context: Context) -> tuple[CheckResult, ...]:
    """Stages the draft and runs the ladder on it."""
    recipe, kept = movable(context.recipe(state), context.translations(state))
    draft = Draft(kept, context.draft(state).example)
    stage_example(draft.example, context.run.stage)
    frozen = {name: context.run.get(digest) for name, digest in state["oracle"].items()}
    results = context.engine.check(recipe, draft, frozen, context.request, context.run.stage, context.run.work)
    log_checks(context.trace, results)
    return results


def stage_example(example: Example, stage: Path) -> None:
    """Writes the example into an empty workspace."""
    shutil.rmtree(stage, ignore_errors=True)
    for item in example.files:
        target = stage / item.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(item.text, "utf-8")
        target.chmod(0o755 if item.executable else 0o644)


def score(results: Sequence[CheckResult]) -> Score:
    """Lower is better: failed rungs, then the number of findings that they list."""
    failed = [result for result in results if result.status == "failed"]
    return len(failed), sum(_findings(result.evidence) for result in failed)


def _findings(value: Any) -> int:
    if isinstance(value, dict):
        return sum(_findings(item) for item in value.values())
    if isinstance(value, list | tuple):
        return len(value)
    return 0
