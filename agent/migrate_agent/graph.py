"""The LangGraph graph: inspect -> plan -> draft -> test -> (repair -> test)* -> smoke -> report.

Checkpoints are written to the run folder before the next node starts, so a run that was killed goes on where
it was; a node that was cut off runs again, which is why every node only adds stored bodies and facts.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import Any

from migrate_agent.nodes import Context, Node
from migrate_agent.nodes.draft import draft
from migrate_agent.nodes.inspect import inspect
from migrate_agent.nodes.plan import plan
from migrate_agent.nodes.repair import is_pending, repair, wants_repair
from migrate_agent.nodes.report import report
from migrate_agent.nodes.smoke import smoke
from migrate_agent.nodes.test import test
from migrate_agent.state import RunState
from migrate_agent.verdict import is_refused

NODES: dict[str, Node] = {
    "inspect": inspect,
    "plan": plan,
    "draft": draft,
    "test": test,
    "repair": repair,
    "smoke": smoke,
    "report": report,
}
RECURSION_LIMIT = 40
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
    graph.add_conditional_edges("plan", lambda state: _after_plan(state, context), ["draft", "report"])
    graph.add_edge("draft", "test")
    graph.add_conditional_edges(
        "test", lambda state: "repair" if wants_repair(state, context) else "smoke", ["repair", "smoke"]
    )
    graph.add_conditional_edges("repair", lambda state: "test" if is_pending(state) else "smoke", ["test", "smoke"])
    graph.add_edge("smoke", "report")
    graph.add_edge("report", END)
    return graph


def run_graph(context: Context, observer: Observer, *, resume: bool) -> RunState:
    """Runs the graph to its end, from the start or from the last checkpoint, and returns the final state."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    connection = sqlite3.connect(context.run.database, check_same_thread=False)
    try:
        graph = build_graph(context, observer).compile(checkpointer=SqliteSaver(connection))
        config = {"configurable": {"thread_id": context.run.id}, "recursion_limit": RECURSION_LIMIT}
        started = resume and bool(graph.get_state(config).values or graph.get_state(config).next)
        final: RunState = graph.invoke(None if started else {}, config, durability="sync")
        return final
    finally:
        connection.close()


def _after_plan(state: RunState, context: Context) -> str:
    return "report" if all(is_refused(item) for item in context.translations(state)) else "draft"


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
