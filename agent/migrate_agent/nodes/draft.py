"""draft: Translations -> Example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from migrate_tools.model import Example, Recipe, Translation

from migrate_agent.engine import Engine
from migrate_agent.nodes import Context
from migrate_agent.nodes.plan import movable
from migrate_agent.request import RunRequest
from migrate_agent.state import RunState


def draft(state: RunState, context: Context) -> RunState:
    """Renders the files for every launch that is not refused."""
    example = rendered(state, context, context.translations(state))
    context.commit(example, 0, f"draft of {example.algo}")
    digest = context.run.put_model(example)
    return {"example": digest, "first": digest, "attempts": [], "tried": [], "commits": 1}


def rendered(state: RunState, context: Context, translations: tuple[Translation, ...]) -> Example:
    """The example for these translations, without any credential that the recipe carried."""
    recipe, kept = movable(context.recipe(state), translations)
    extracted = {name: context.run.get(digest) for name, digest in state["extracted"].items()}
    return written(context.engine, recipe, kept, extracted, context.request)


def written(
    engine: Engine,
    recipe: Recipe,
    translations: tuple[Translation, ...],
    extracted: Mapping[str, dict[str, Any]],
    request: RunRequest,
) -> Example:
    """The example as the rules write it, credentials blotted out."""
    example = engine.render(recipe, translations, extracted, request)
    files = tuple(item.model_copy(update={"text": engine.redact(item.text)}) for item in example.files)
    return example.model_copy(update={"files": files})
