"""plan: Recipe -> Translations, extracted rewards and the frozen oracle, all before anything is drafted."""

from __future__ import annotations

import re
from typing import Any

from migrate_tools.errors import RefusedInput
from migrate_tools.model import Launch, Recipe, Translated, Translation

from migrate_agent.nodes import Context
from migrate_agent.questions import left_out
from migrate_agent.state import RunState
from migrate_agent.verdict import is_refused


def plan(state: RunState, context: Context) -> RunState:
    """Translates every launch; freezes the old reward's answers for those that are not refused."""
    recipe, request = context.recipe(state), context.request_for(state)
    translations: list[Translation] = []
    rewards: dict[str, dict[str, Any]] = {}
    oracle: dict[str, str] = {}
    for launch, variant in zip(recipe.launches, variants(recipe.launches), strict=True):
        context.progress(f"plan {launch.name}")
        if left_out(launch.name, state.get("answers", {})):
            translations.append(refused(launch, request.algo, variant, "left out by the user's decision"))
            continue
        try:
            translation = context.engine.translate(recipe, launch, request, variant)
            if not is_refused(translation):
                reward = context.engine.extract(recipe, launch)
                frozen = context.engine.freeze(recipe, launch, request, context.run.work)
                if reward is not None:
                    rewards[launch.name] = reward
                if frozen is not None:
                    oracle[launch.name] = context.run.put(frozen)
        except RefusedInput as error:
            translation = refused(launch, request.algo, variant, error.line())
        translations.append(translation)
    named = context.engine.name_hooks(recipe, tuple(t for t in translations if not is_refused(t)), rewards)
    by_launch = {item.launch: item for item in (*translations, *named)}
    return {
        "translations": context.run.put_models(tuple(by_launch[item.launch] for item in translations)),
        "extracted": {name: context.run.put(reward) for name, reward in rewards.items()},
        "oracle": oracle,
        "policy": request.batch_policy,
    }


def refused(launch: Launch, algo: str, variant: str, why: str) -> Translation:
    """A launch that cannot be moved: nothing is written for it, and each of its settings says so."""
    settings = tuple(
        Translated(
            key=item.key,
            value=item.value,
            source=item.source,
            status="unsupported",
            reason="the launch is refused",
            row="launch-refused",
        )
        for item in launch.settings
    )
    return Translation(
        launch=launch.name, algo=algo, variant=variant, verdict_cap="refused", refusals=(why,), settings=settings
    )


def variants(launches: tuple[Launch, ...]) -> list[str]:
    """Suffixes of run_<algo>_<variant>.sh: empty for the only launch, else from the script's name, unique."""
    if len(launches) == 1:
        return [""]
    names: list[str] = []
    for launch in launches:
        base = re.sub(r"[^0-9A-Za-z]+", "_", launch.name.removeprefix("run_")).strip("_") or "launch"
        name, number = base, 2
        while name in names:
            name, number = f"{base}_{number}", number + 1
        names.append(name)
    return names


def movable(recipe: Recipe, translations: tuple[Translation, ...]) -> tuple[Recipe, tuple[Translation, ...]]:
    """The recipe and translations without the refused launches: what is drafted and checked."""
    kept = tuple(item for item in translations if not is_refused(item))
    names = {item.launch for item in kept}
    launches = tuple(launch for launch in recipe.launches if launch.name in names)
    return recipe.model_copy(update={"launches": launches}), kept
