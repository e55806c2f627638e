"""test: the ladder over the staged example; keeps the best state and rolls back a repair that does not help."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from migrate_tools.model import CheckResult, Example

from migrate_agent.comparison import Comparison, compare
from migrate_agent.engine import Draft
from migrate_agent.nodes import Context
from migrate_agent.nodes.plan import movable
from migrate_agent.state import MODEL, Attempt, RunState
from migrate_agent.trace import log_checks

PARITY_RUNG = 3


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
    before = context.run.models(CheckResult, best["checks"])
    comparison = compare(before, results)
    if attempts[-1]["rule"] == MODEL and comparison.word == "improved" and mends_parity(before, results):
        comparison = second_look(state, context, comparison)
    improved = comparison.word == "improved"
    why = f": {comparison.why}" if comparison.word == "worse" else ""
    outcome = "improved" if improved else f"{comparison.word}, rolled back{why}"
    judged: Attempt = {**attempts[-1], "outcome": outcome}
    context.trace("judged", {**judged})
    kept = current if improved else best
    update: RunState = {
        "example": kept["example"],
        "translations": kept["translations"],
        "checks": kept["checks"],
        "best": kept,
        "attempts": [*attempts[:-1], judged],
    }
    if not improved:
        update["commits"] = _rolled_back(state, context, best, judged)
    if judged["rule"] != MODEL:
        return {**update, **_new_first(state, context, kept)}
    from migrate_agent.nodes.consult import judged_item

    return {**update, **judged_item(state, context, comparison, judged, results)}


def mends_parity(before: Sequence[CheckResult], after: Sequence[CheckResult]) -> bool:
    """Whether the old and the new reward agree now and did not."""
    agree = {item.name for item in after if item.rung == PARITY_RUNG and item.status == "passed"}
    return any(item.name in agree and item.status != "passed" for item in before)


def second_look(state: RunState, context: Context, comparison: Comparison) -> Comparison:
    """What a model mended is compared once more, on cases of which it has seen none."""
    recipe, kept = movable(context.recipe(state), context.translations(state))
    draft = Draft(kept, context.draft(state).example)
    results = context.engine.second_look(recipe, draft, context.request, context.run.stage, context.run.work)
    log_checks(context.trace, results)
    failed = next((item for item in results if item.status == "failed"), None)
    if failed is None:
        return comparison
    return Comparison("worse", f"it agrees on the frozen cases, but not on others: {failed.name}")


def _rolled_back(state: RunState, context: Context, best: dict[str, str], judged: Attempt) -> int:
    """Commits the best state again; returns how many commits there are."""
    number = state.get("commits", 0)
    message = f"roll back repair {judged['number']} ({judged['check']}): {judged['outcome']}"
    context.commit(context.run.model(Example, best["example"]), number, message)
    return number + 1


def _new_first(state: RunState, context: Context, kept: dict[str, str]) -> RunState:
    """What rules made before any model is the engine's work too."""
    example = context.run.model(Example, kept["example"])
    return {} if any(item.origin == "llm" for item in example.files) else {"first": kept["example"]}


def run_checks(state: RunState, context: Context) -> tuple[CheckResult, ...]:
    """Stages the draft and runs the ladder on it."""
    recipe, kept = movable(context.recipe(state), context.translations(state))
    first = context.run.model(Example, state["first"]) if state.get("first") else None
    draft = Draft(kept, context.draft(state).example, first)
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
