"""`migrate-agent inspect`: what is in a recipe and what would become of it; writes nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from migrate_tools.errors import RefusedInput
from migrate_tools.mapping.loops import loops_obstacle
from migrate_tools.model import Launch, MultiTurn, Note, Recipe, SourceRef, Translation
from migrate_tools.verl.agent_loops import is_agentic

from migrate_agent.commands.run import Options, make_request
from migrate_agent.console import progress, table
from migrate_agent.engine import Engine
from migrate_agent.ledger import balance
from migrate_agent.nodes.plan import refused, variants
from migrate_agent.report.build import reward_line, run_script
from migrate_agent.request import RunRequest
from migrate_agent.verdict import EXIT_CODES, holds_back, is_refused

QUIET = {"exact", "derived", "automatic", "no_effect"}


def inspect(options: Options, *, as_json: bool) -> int:
    """Prints the findings; returns 2 when every launch would be refused, else 0."""
    from migrate_agent.local_engine import LocalEngine

    request = make_request(options)
    with progress() as say:
        engine = LocalEngine(say, request.sandbox)
        recipe = engine.read(request)
        translations = translate_all(engine, recipe, request)
    ledger = balance(recipe, translations)
    if as_json:
        document = as_document(recipe, translations)
        document["ledger"] = [line.model_dump() for line in ledger]
        print(engine.redact(json.dumps(document, indent=1, ensure_ascii=False)))
    else:
        print(engine.redact("\n".join(page(recipe, translations))))
    return EXIT_CODES["refused"] if all(is_refused(item) for item in translations) else 0


def translate_all(engine: Engine, recipe: Recipe, request: RunRequest) -> tuple[Translation, ...]:
    """Every launch in Relax's terms; one that cannot be expressed comes back refused."""
    found: list[Translation] = []
    for launch, variant in zip(recipe.launches, variants(recipe.launches), strict=True):
        try:
            found.append(engine.translate(recipe, launch, request, variant))
        except RefusedInput as error:
            found.append(refused(launch, request.algo, variant, error.line()))
    return tuple(found)


def as_document(recipe: Recipe, translations: tuple[Translation, ...]) -> dict[str, Any]:
    """The findings as JSON; verl's defaults are left out, the recipe's own settings are in."""
    launches = {launch.name: launch for launch in recipe.launches}
    return {
        "recipe": recipe.model_dump(mode="json", exclude={"launches"}),
        "launches": [
            {
                "read": launches[item.launch].model_dump(mode="json", exclude={"config"}),
                "translation": item.model_dump(mode="json"),
            }
            for item in translations
        ],
    }


def page(recipe: Recipe, translations: tuple[Translation, ...]) -> Iterator[str]:
    """The findings as lines for a person."""
    launches = {launch.name: launch for launch in recipe.launches}
    yield f"{recipe.name}: {len(recipe.launches)} launch{'es' if len(recipe.launches) != 1 else ''} in {recipe.root}"
    for item in translations:
        yield ""
        yield from _launch(launches[item.launch], item)
    if recipe.skipped:
        yield ""
        yield "left out:"
        yield from (f"  {item.file}: {item.reason}" for item in recipe.skipped)
    for note in (*recipe.notes, *recipe.shell_features):
        yield _note(note)
    for secret in recipe.secrets:
        yield f"  ! a {secret.kind} stands in the recipe{_where(secret.source)}; it will not be copied"


def _launch(launch: Launch, item: Translation) -> Iterator[str]:
    line = f":{launch.line}" if launch.line else ""
    yield f"{launch.name} ({launch.script}{line}, {launch.module}, {launch.how})"
    yield f"  verl      {launch.verl.version}: {launch.verl.how}"
    yield f"  reward    {reward_line(launch)}, manager {launch.reward.manager}{_kwargs(launch)}"
    yield f"  data      {_data(launch)}"
    if launch.multi_turn is not None:
        yield from _turns(launch.multi_turn)
    if is_refused(item):
        yield from (f"  refused   {why}" for why in item.refusals)
        return
    counts = Counter(setting.status for setting in item.settings)
    states = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in counts.most_common())
    yield f"  settings  {len(launch.settings)}: {states}"
    if item.batch:
        batch = item.batch
        yield (
            f"  batch     {batch.policy}: {batch.rollout_batch_size} prompts x {batch.n_samples_per_prompt} samples a "
            f"rollout, {batch.global_batch_size} samples an update, {batch.updates_per_rollout} updates a rollout"
        )
    yield f"  writes    {run_script(item)}"
    if item.async_refusal:
        yield f"  async     not possible: {item.async_refusal}"
    if launch.unset:
        yield f"  unset     {', '.join(launch.unset)}"
    if any(holds_back(setting) for setting in item.settings) or item.verdict_cap == "partial":
        yield "  at best   partial"
    rows = [
        [
            f"    {setting.key}",
            str(setting.value),
            setting.status,
            " ".join(setting.relax),
            _reason(setting.reason, setting.source),
        ]
        for setting in item.settings
        if setting.status not in QUIET
    ]
    if rows:
        yield table(["    key", "value", "state", "Relax", "why"], rows)
    for note in (*launch.notes, *item.notes):
        yield _note(note)


_LOOP_FORMS = {True: "becomes Relax's agentic form", False: "becomes a generate function"}


def _turns(turns: MultiTurn) -> Iterator[str]:
    """Tools, simulated users and agent loops, one a line."""
    for tool in turns.tools:
        older = f" of verl {tool.verl_version}" if tool.verl_version else ""
        place = f"({tool.file or 'not found'}{older})"
        yield f"  tool      {tool.name}: {tool.kind.replace('_', ' ')} {tool.class_name} {place}"
    for user in turns.interactions:
        yield f"  user      {user.name}: {user.class_name} ({user.file or 'not found'})"
    for loop in turns.loops:
        form = "not translated, see below" if loops_obstacle(turns) else _LOOP_FORMS[is_agentic(turns)]
        yield f"  loop      {loop.name}: {loop.class_name} ({loop.file or 'not found'}): {form}"
    limits = {"assistant turns": turns.max_assistant_turns, "user turns": turns.max_user_turns}
    shown = ", ".join(f"{count} {name}" for name, count in limits.items() if count is not None) or "no limit"
    yield f"  turns     {shown}; {turns.max_parallel_calls} call(s) a turn, tool calls in the form {turns.format}"
    for note in turns.missing:
        yield _note(note)


def _kwargs(launch: Launch) -> str:
    return f", {launch.reward.kwargs}" if launch.reward.kwargs else ""


def _data(launch: Launch) -> str:
    data = launch.data
    files = [
        f"{item.text} ({item.rows} rows)" if item.rows is not None else item.text for item in (*data.train, *data.val)
    ]
    sources = ", ".join(dict.fromkeys(source.name for source in data.sources)) or "none named"
    return f"{', '.join(files) or 'no file named'}; known from {data.known_from}; sources: {sources}"


def _note(note: Note) -> str:
    return f"  ! {note.text}{_where(note.source)}"


def _reason(text: str, source: SourceRef | None) -> str:
    return f"{text}{_where(source)}"


def _where(source: SourceRef | None) -> str:
    if source is None:
        return ""
    return f" ({source.file}:{source.line})" if source.line else f" ({source.file})"
