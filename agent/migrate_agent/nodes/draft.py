"""draft: Translations -> Example."""

from __future__ import annotations

from migrate_tools.model import Example, Translation

from migrate_agent.nodes import Context
from migrate_agent.nodes.plan import movable
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
    example = context.engine.render(recipe, kept, extracted, context.request)
    files = tuple(item.model_copy(update={"text": context.engine.redact(item.text)}) for item in example.files)
    return example.model_copy(update={"files": files})
