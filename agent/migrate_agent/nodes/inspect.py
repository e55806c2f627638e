"""inspect: recipe folder -> Recipe."""

from __future__ import annotations

from migrate_agent.nodes import Context
from migrate_agent.state import RunState


def inspect(state: RunState, context: Context) -> RunState:
    """Reads the recipe and stores it."""
    recipe = context.engine.read(context.request)
    return {"recipe": context.run.put_model(recipe)}
