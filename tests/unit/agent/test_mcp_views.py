"""What the tools give of a command's JSON, from a scripted run."""

from __future__ import annotations

import json

from agent_fakes import ScriptedEngine, launch_value, recipe_value
from migrate_agent.commands.inspect import as_document, translate_all
from migrate_agent.graph import run_graph
from migrate_agent.mcp_server.views import MOST, plan_view, recipe_view, report_view
from migrate_agent.nodes import Context
from migrate_agent.request import RunRequest
from migrate_agent.runs import new_run


def test_inspect_names_launches_rewards_and_places(request_value: RunRequest) -> None:
    recipe = recipe_value(launch_value("run_a"), launch_value("run_b"))
    document = as_document(recipe, translate_all(ScriptedEngine(recipe=recipe), recipe, request_value))
    view = recipe_view(json.loads(json.dumps(document)))
    assert [item["launch"] for item in view["launches"]] == ["run_a", "run_b"]
    assert view["launches"][0]["script"] == "run_a.sh:3"
    assert view["launches"][0]["reward"]["function"] == "compute_score"
    assert view["launches"][0]["verl"] == "0.9.1: pinned"


def test_plan_counts_what_is_plain_and_shows_the_rest(request_value: RunRequest) -> None:
    keys = ("data.train_batch_size", *(f"trainer.x{number}" for number in range(MOST + 5)))
    recipe = recipe_value(launch_value("run_a", keys), launch_value("run_b"))
    engine = ScriptedEngine(
        recipe=recipe, statuses={key: "unknown" for key in keys[1:]}, refusals={"run_b": "no counterpart"}
    )
    view = plan_view(json.loads(json.dumps(as_document(recipe, translate_all(engine, recipe, request_value)))))
    first, second = view["launches"]
    assert first["states"] == {"exact": 1, "unknown": MOST + 5}
    assert first["settings_to_look_at"][0]["key"] == "trainer.x0"
    assert first["settings_to_look_at"][0]["where"] == "run_a.sh:5"
    assert first["settings_to_look_at"][-1] == "and 5 more"
    assert first["flags"] == ["--lr 1"]
    assert second == {"launch": "run_b", "refused": ["no counterpart"]}


def test_a_report_keeps_verdict_checks_and_what_is_left(request_value: RunRequest) -> None:
    run = new_run(request_value)
    engine = ScriptedEngine(failing=("x = 1",), statuses={"trainer.foo": "unknown"})
    state = run_graph(Context(run, run.request(), engine, print), lambda node, took: None, resume=False)
    view = report_view(json.loads(run.get(state["result"])["json"]))
    assert view["verdict"] == "partial"
    assert view["run_id"] == run.id
    assert {"rung": 0, "name": "syntax", "status": "failed", "summary": ""} in view["checks"]
    assert view["settings"] == {"exact": 1, "unknown": 1}
    assert "examples/toy/run_toy.sh" in view["files"]
