"""smoke: one real training step where there is a GPU (rung 7)."""

from __future__ import annotations

from migrate_agent.engine import Draft
from migrate_agent.nodes import Context
from migrate_agent.nodes.plan import movable
from migrate_agent.nodes.test import stage_example
from migrate_agent.state import RunState
from migrate_agent.trace import log_checks


def smoke(state: RunState, context: Context) -> RunState:
    """Runs rung 7 on the best draft; the result says why when it was skipped."""
    draft = context.draft(state)
    recipe, kept = movable(context.recipe(state), draft.translations)
    stage_example(draft.example, context.run.stage)
    results = context.engine.smoke(
        recipe, Draft(kept, draft.example), context.request, context.run.stage, context.run.work
    )
    log_checks(context.trace, results)
    return {"smoke": context.run.put_models(results)}
