"""The LangGraph graph: inspect -> plan -> (gate) -> draft -> test -> (repair -> test)* -> smoke -> report.

Checkpoints are written to the run folder before the next node starts, so a run that was killed goes on where
it was; a node that was cut off runs again, which is why every node only adds stored bodies and facts.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from migrate_agent.nodes import Context, Node
from migrate_agent.nodes.draft import draft
from migrate_agent.nodes.gate import changes_plan, gate, is_asked
from migrate_agent.nodes.inspect import inspect
from migrate_agent.nodes.plan import plan
from migrate_agent.nodes.repair import is_pending, repair, wants_repair
from migrate_agent.nodes.report import report
from migrate_agent.nodes.smoke import smoke
from migrate_agent.nodes.test import test
from migrate_agent.questions import Decide, Question, checked
from migrate_agent.state import RunState
from migrate_agent.verdict import is_refused

NODES: dict[str, Node] = {
    "inspect": inspect,
    "plan": plan,
    "gate": gate,
    "draft": draft,
    "test": test,
    "repair": repair,
    "smoke": smoke,
    "report": report,
}
RECURSION_LIMIT = 200
"""Above two steps for each edit that may be tested (see repair and consult)."""
Observer = Callable[[str, float | None], None]
"""Called with (node, None) before a node and (node, seconds) after it."""


def build_graph(context: Context, observer: Observer) -> Any:
    """The uncompiled StateGraph over `context`."""
    from langgraph.graph import END, START, StateGraph

    graph: Any = StateGraph(RunState)
    for name, node in NODES.items():
        graph.add_node(name, _observed(name, node, context, observer))
    graph.add_edge(START, "inspect")
    graph.add_edge("inspect", "plan")
    graph.add_conditional_edges("plan", lambda state: _after_plan(state, context), ["draft", "gate", "report"])
    graph.add_conditional_edges(
        "gate", lambda state: "plan" if changes_plan(state, context) else "draft", ["plan", "draft"]
    )
    graph.add_edge("draft", "test")
    graph.add_conditional_edges(
        "test", lambda state: "repair" if wants_repair(state, context) else "smoke", ["repair", "smoke"]
    )
    graph.add_conditional_edges("repair", lambda state: "test" if is_pending(state) else "smoke", ["test", "smoke"])
    graph.add_edge("smoke", "report")
    graph.add_edge("report", END)
    return graph


def unasked(asked: Sequence[Question]) -> Mapping[str, str]:
    """Answers nothing: the run waits at its gate.

    Raises:
        UsageError: always; it names the first question.
    """
    return checked(asked, {})


def run_graph(context: Context, observer: Observer, *, resume: bool, decide: Decide = unasked) -> RunState:
    """Runs the graph to its end, from the start or from the last checkpoint, and returns the final state.

    Args:
        decide: answers the questions of the gate; what it raises ends the call, and the run waits there.
    """
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.types import Command

    connection = sqlite3.connect(context.run.database, check_same_thread=False)
    try:
        graph = build_graph(context, observer).compile(checkpointer=SqliteSaver(connection))
        config = {"configurable": {"thread_id": context.run.id}, "recursion_limit": RECURSION_LIMIT}
        started = resume and bool(graph.get_state(config).values or graph.get_state(config).next)
        if started and graph.get_state(config).values.get("stopped"):
            graph.update_state(config, {"stopped": "", "out_of_budget": False}, as_node="test")
        final: Any = graph.invoke(None if started else {}, config, durability="sync")
        while waiting := final.get("__interrupt__"):
            asked = [Question.model_validate(item) for item in waiting[0].value]
            final = graph.invoke(Command(resume=dict(decide(asked))), config, durability="sync")
        done: RunState = final
        return done
    finally:
        connection.close()


def _after_plan(state: RunState, context: Context) -> str:
    if all(is_refused(item) for item in context.translations(state)):
        return "report"
    return "gate" if is_asked(state, context) else "draft"


def _observed(name: str, node: Node, context: Context, observer: Observer) -> Callable[[RunState], RunState]:
    def call(state: RunState) -> RunState:
        observer(name, None)
        context.trace("node", {"name": name})
        begin = time.monotonic()
        update = node(state, context)
        took = time.monotonic() - begin
        context.trace("node", {"name": name, "seconds": round(took, 4)})
        observer(name, took)
        return update

    return call
