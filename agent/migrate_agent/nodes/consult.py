"""The branch of `repair` that asks a model: one item at a time, one edit to test at a time.

A model never sees a check's code, the frozen inputs or the old answers beyond the evidence of what fails, and what it
writes is tested like any other draft.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from migrate_tools.model import CheckResult, Example, Launch

from migrate_agent.comparison import Comparison
from migrate_agent.llm.attempt import Result, attempt
from migrate_agent.llm.context import View
from migrate_agent.llm.edits import diff, text_of
from migrate_agent.llm.errors import BudgetSpent, EndpointError, LlmError
from migrate_agent.llm.guard import Guard, frozen_texts
from migrate_agent.llm.items import Item, fingerprint, items
from migrate_agent.llm.lookups import References
from migrate_agent.llm.talk import Model
from migrate_agent.nodes import Context
from migrate_agent.state import MODEL, Attempt, Left, RunState

MAX_TESTED = 40
"""Edits of a model that are tested in one run."""
LONGEST_HISTORY = 400


def open_items(state: RunState, context: Context) -> list[Item]:
    """What is left for a model and may still be tried, in order."""
    tested = sum(item["rule"] == MODEL for item in state.get("attempts", []))
    if tested >= MAX_TESTED:
        return []
    left = state.get("left", {})
    found = items(context.recipe(state), context.translations(state), context.checks(state))
    return [item for item in found if not _left(left, item)["closed"]]


def consult(state: RunState, context: Context, model: Model) -> RunState:
    """Asks about one item after the other until there is an edit to test, or nothing left to ask."""
    left = dict(state.get("left", {}))
    suggestions = list(state.get("suggestions", []))
    update: RunState = {}
    if state.get("stopped"):
        return update
    view, guard = _view(state, context), _guard(state, context)
    for item in open_items(state, context):
        known = _left(left, item)
        remaining = context.request.repairs - known["attempts"]
        if remaining <= 0:
            left[item.id] = {**known, "closed": f"{known['attempts']} attempts"}
            continue
        context.progress(f"asking the model: {item.id}")
        try:
            result = attempt(model, item, view, guard, remaining, known["history"], frozenset(known["edits"]))
        except BudgetSpent as error:
            update = {"stopped": error.line(), "out_of_budget": True}
            break
        except EndpointError as error:
            update = {"stopped": error.line(), "out_of_budget": False}
            break
        except LlmError as error:
            left[item.id] = {**known, "closed": f"no usable answer: {error.message}"}
            continue
        context.trace("answer", {"item": item.id, "kind": result.kind, "what": result.what, "refused": result.refused})
        if result.kind == "edit" and result.example is not None:
            left[item.id] = {**known, "edits": [*known["edits"], result.mark]}
            update = _pending(state, context, item, result)
            break
        if result.row is not None:
            suggestions.append(context.run.put({"kind": "row", "item": item.id, **result.row.model_dump(mode="json")}))
        left[item.id] = {**known, "attempts": known["attempts"] + 1, "closed": result.what}
    return {**update, "left": left, "suggestions": suggestions, "llm": _spent(model)}


def judged_item(
    state: RunState, context: Context, comparison: Comparison, judged: Attempt, results: Sequence[CheckResult]
) -> RunState:
    """Closes the item of a tested edit when the same failure came back, or nothing is left to try."""
    name = state.get("current", "")
    left = dict(state.get("left", {}))
    known = left.get(name) or _empty()
    mark = _after(state, context, name, results)
    attempts = known["attempts"] + 1
    repeated = comparison.word != "improved" and mark in known["seen"]
    closed = "the same failure came back" if repeated else ""
    if not closed and attempts >= context.request.repairs:
        closed = f"{attempts} attempts"
    line = f"{judged['what']} -> {comparison.word}{f': {comparison.why}' if comparison.why else ''}"
    left[name] = {
        "attempts": attempts,
        "history": [*known["history"], line[:LONGEST_HISTORY]],
        "edits": known["edits"],
        "seen": [*known["seen"], mark],
        "closed": closed,
    }
    update: RunState = {"left": left}
    if name.startswith("piece:") and comparison.word != "worse":
        left[name]["closed"] = "a check proves it" if comparison.word == "improved" else "no check can judge it"
        if comparison.word != "improved":
            update["suggestions"] = [*state.get("suggestions", []), _proposal(state, context, judged)]
    return update


def _after(state: RunState, context: Context, name: str, results: Sequence[CheckResult]) -> str:
    """What the failure of an item looks like after an edit."""
    found = items(context.recipe(state), context.translations(state), results)
    item = next((item for item in found if item.id == name), None)
    return fingerprint(item, results) if item else "mended"


def _pending(state: RunState, context: Context, item: Item, result: Result) -> RunState:
    assert result.example is not None
    attempts = state.get("attempts", [])
    made: Attempt = {
        "number": len(attempts) + 1,
        "rule": MODEL,
        "check": item.name if item.kind == "check" else f"{item.kind}: {item.name}"[:200],
        "what": context.engine.redact(result.what),
        "outcome": "pending",
        "file": result.file,
    }
    number = state.get("commits", 0)
    message = f"repair {made['number']} ({made['check'][:80]}): a language model\n\n{made['what']}"
    made["commit"] = context.commit(result.example, number, message)
    context.trace("edit", {**made})
    return {
        "example": context.run.put_model(result.example),
        "attempts": [*attempts, made],
        "commits": number + 1,
        "current": item.id,
    }


def _proposal(state: RunState, context: Context, judged: Attempt) -> str:
    """An edit that nothing proves: shown to the user as a difference, not shipped."""
    path = judged.get("file", "")
    best = context.run.model(Example, state["best"]["example"])
    tried = context.run.model(Example, state["example"])
    text = diff(path, text_of(best, path), text_of(tried, path) or "")
    return context.run.put(
        {"kind": "edit", "item": state.get("current", ""), "file": path, "reason": judged["what"], "diff": text}
    )


def _view(state: RunState, context: Context) -> View:
    recipe = context.recipe(state)
    return View(
        algo=context.request.algo,
        relax_contract=context.engine.contract_name(context.request),
        recipe=recipe,
        example=context.draft(state).example,
        checks=context.checks(state),
        sources=_sources(state, context),
        references=References(context.request.relax_version, _verl_root(recipe.launches)),
    )


def _guard(state: RunState, context: Context) -> Guard:
    recipe = context.recipe(state)
    frozen = {name: context.run.get(digest) for name, digest in state.get("oracle", {}).items()}
    cases, rows = context.engine.frozen_inputs(frozen, context.run.work)
    return Guard(
        first=context.run.model(Example, state["first"]),
        sources=tuple(_sources(state, context).values()),
        flags=context.engine.known_flags(context.request),
        old=tuple(sorted({launch.reward.path for launch in recipe.launches if launch.reward.path})),
        frozen=frozen_texts(cases, rows),
    )


def _sources(state: RunState, context: Context) -> dict[str, str]:
    """Launch -> the recipe's own reward and tools as they were extracted (credentials removed)."""
    found: dict[str, str] = {}
    for launch, digest in state.get("extracted", {}).items():
        body = context.run.get(digest)
        tools = body.get("tools") or {}
        found[launch] = "\n\n".join(text for text in (body.get("code"), tools.get("code")) if text)
    return found


def _verl_root(launches: Sequence[Launch]) -> str:
    return launches[0].verl.root if launches else ""


def _left(left: dict[str, Left], item: Item) -> Left:
    return left.get(item.id) or _empty()


def _empty() -> Left:
    return {"attempts": 0, "history": [], "edits": [], "seen": [], "closed": ""}


def _spent(model: Model) -> dict[str, object]:
    """The name of the model and what it cost so far; seconds are measured and stay out."""
    budget = getattr(model, "budget", None)
    facts = budget.facts() if budget is not None else {}
    name = re.sub(r"\s+", " ", str(getattr(model, "model", "scripted")))
    return {"model": name, **{key: facts.get(key) for key in ("calls", "tokens", "usd", "estimated")}}
