"""report: verdict, ledger, migration.json and MIGRATION.md; nothing is installed here."""

from __future__ import annotations

import json
from typing import Any

from migrate_tools.model import CheckResult, Example

from migrate_agent.ledger import balance, other_items, other_lines
from migrate_agent.nodes import Context
from migrate_agent.nodes.plan import movable
from migrate_agent.report.build import Facts, build_report
from migrate_agent.report.markdown import render_markdown
from migrate_agent.report.model import MigrationReport
from migrate_agent.report.schema import validate
from migrate_agent.state import RunState


def report(state: RunState, context: Context) -> RunState:
    """Stores the finished report and the page made from it."""
    recipe, translations = context.recipe(state), context.translations(state)
    checks = context.checks(state)
    if "smoke" in state:
        checks = (*checks, *context.run.models(CheckResult, state["smoke"]))
    example = context.run.model(Example, state["example"]) if "example" in state else None
    items = other_items(movable(recipe, translations)[0], context.rewards(state))
    facts = Facts(
        run_id=context.run.id,
        request=context.request_for(state),
        contract=context.engine.contract_name(context.request),
        recipe=recipe,
        translations=translations,
        ledger=(*balance(recipe, translations), *other_lines(items)),
        items=items,
        example=example,
        checks=checks,
        attempts=state.get("attempts", []),
        first=context.run.model(Example, state["first"]) if "first" in state else None,
        llm=state.get("llm", {}),
        stopped=state.get("stopped", ""),
        suggestions=[context.run.get(digest) for digest in state.get("suggestions", [])],
        answers=state.get("answers", {}),
    )
    document = redacted(build_report(facts).model_dump(mode="json"), context)
    validate(document)
    page = render_markdown(MigrationReport.model_validate(document))
    return {
        "verdict": document["verdict"],
        "result": context.run.put({"json": json.dumps(document, indent=1, ensure_ascii=False) + "\n", "page": page}),
    }


def redacted(value: Any, context: Context) -> Any:
    """The value with credentials removed from every text in it."""
    if isinstance(value, dict):
        return {key: redacted(item, context) for key, item in value.items()}
    if isinstance(value, list):
        return [redacted(item, context) for item in value]
    return context.engine.redact(value) if isinstance(value, str) else value
