"""gate: stops the run for decisions of the user; nothing else happens here, because an interrupt replays its node."""

from __future__ import annotations

from migrate_agent.nodes import Context
from migrate_agent.questions import BATCH_POLICY, checked, left_out, questions
from migrate_agent.state import RunState


def gate(state: RunState, context: Context) -> RunState:
    """The answers that come in when the run goes on."""
    from langgraph.types import interrupt

    asked = questions(context.translations(state), state.get("answers", {}))
    given = interrupt([question.model_dump(mode="json") for question in asked])
    return {"answers": {**state.get("answers", {}), **checked(asked, given)}}


def is_asked(state: RunState, context: Context) -> bool:
    """Whether the user wants to be asked and something is open."""
    return context.request.ask and bool(questions(context.translations(state), state.get("answers", {})))


def changes_plan(state: RunState, context: Context) -> bool:
    """Whether an answer differs from what was planned."""
    answers = state.get("answers", {})
    planned = state["policy"]
    policy = answers.get(BATCH_POLICY, planned)
    kept = [item.launch for item in context.translations(state) if not item.refusals]
    return policy != planned or any(left_out(launch, answers) for launch in kept)
