"""repair: the next rule that knows a failing check, then a model, if there is one; else the best state goes on."""

from __future__ import annotations

import hashlib
import json

from migrate_tools.model import CheckResult

from migrate_agent.engine import Draft
from migrate_agent.nodes import Context
from migrate_agent.nodes.draft import rendered
from migrate_agent.repair_rules import RULES, Repaired
from migrate_agent.state import MODEL, Attempt, RunState

MAX_ATTEMPTS = 6
"""Of the rules together."""


def repair(state: RunState, context: Context) -> RunState:
    """Makes one new draft, or none. A rule is tried once on a failure; what no rule mends is asked of a model."""
    draft = context.draft(state)
    tried = list(state.get("tried", []))
    flags = context.engine.known_flags(context.request)
    by_rule = sum(item["rule"] != MODEL for item in state.get("attempts", []))
    for check in context.checks(state):
        if check.status != "failed" or by_rule >= MAX_ATTEMPTS:
            continue
        for rule in RULES:
            mark = signature(rule.name, check)
            if mark in tried:
                continue
            tried.append(mark)
            repaired = rule.apply(check, draft, flags)
            if repaired is not None and repaired.draft != draft:
                return _pending(state, context, tried, rule.name, check, repaired)
    if context.model is None:
        return {"tried": tried}
    from migrate_agent.nodes.consult import consult

    return {"tried": tried, **consult(state, context, context.model)}


def signature(rule: str, check: CheckResult) -> str:
    """A rule on a failure: the same text for the same failure."""
    body = json.dumps(check.evidence, sort_keys=True, default=str)
    return f"{rule}:{check.name}:{hashlib.sha256(body.encode()).hexdigest()[:12]}"


def wants_repair(state: RunState, context: Context) -> bool:
    """Whether something failed and a rule may try, or a model has something left to do."""
    failed = any(check.status == "failed" for check in context.checks(state))
    if failed and sum(item["rule"] != MODEL for item in state.get("attempts", [])) < MAX_ATTEMPTS:
        return True
    if context.model is None or state.get("stopped"):
        return False
    from migrate_agent.nodes.consult import open_items

    return bool(open_items(state, context))


def is_pending(state: RunState) -> bool:
    """Whether `repair` made a draft that has to be tested."""
    attempts = state.get("attempts", [])
    return bool(attempts) and attempts[-1]["outcome"] == "pending"


def _pending(
    state: RunState, context: Context, tried: list[str], rule: str, check: CheckResult, repaired: Repaired
) -> RunState:
    attempts = state.get("attempts", [])
    attempt: Attempt = {
        "number": len(attempts) + 1,
        "rule": rule,
        "check": check.name,
        "what": repaired.what,
        "outcome": "pending",
    }
    draft = repaired.draft
    if draft.translations != context.translations(state):
        draft = Draft(draft.translations, rendered(state, context, draft.translations))
    number = state.get("commits", 0)
    message = f"repair {attempt['number']} ({check.name}): {rule}\n\n{repaired.what}"
    attempt["commit"] = context.commit(draft.example, number, message)
    context.trace("edit", {**attempt})
    return {
        "commits": number + 1,
        "example": context.run.put_model(draft.example),
        "translations": context.run.put_models(draft.translations),
        "attempts": [*attempts, attempt],
        "tried": tried,
    }
