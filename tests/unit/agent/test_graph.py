"""The graph: sequence of nodes, resume after a kill at every node, repair and rollback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_fakes import ScriptedEngine, launch_value, recipe_value
from migrate_agent.graph import NODES, run_graph
from migrate_agent.nodes import Context
from migrate_agent.request import RunRequest
from migrate_agent.runs import RunFolder, new_run, open_run
from migrate_agent.state import RunState
from migrate_tools.model import CheckResult, Example


class KilledError(Exception):
    """Stands for the death of the process."""


def go(
    run: RunFolder, engine: ScriptedEngine, hook: Callable[[str, float | None], None], *, resume: bool = False
) -> RunState:
    context = Context(run, run.request(), engine, lambda text: None)
    return run_graph(context, hook, resume=resume)


def names_of(run: RunFolder, engine: ScriptedEngine) -> tuple[list[str], RunState]:
    names: list[str] = []
    state = go(run, engine, lambda node, took: names.append(node) if took is None else None)
    return names, state


def test_nodes_run_in_the_documented_order(request_value: RunRequest) -> None:
    names, state = names_of(new_run(request_value), ScriptedEngine())
    assert names == ["inspect", "plan", "draft", "test", "smoke", "report"]
    assert state["verdict"] == "rehearsed"


def test_oracle_is_frozen_before_anything_is_drafted(request_value: RunRequest) -> None:
    engine = ScriptedEngine()
    names_of(new_run(request_value), engine)
    assert engine.calls.index("freeze") < engine.calls.index("render")


def test_a_refused_recipe_is_neither_drafted_nor_checked(request_value: RunRequest) -> None:
    engine = ScriptedEngine(refusals={"run_a": "no counterpart of spin"})
    run = new_run(request_value)
    names, state = names_of(run, engine)
    assert names == ["inspect", "plan", "report"]
    assert state["verdict"] == "refused"
    document = json.loads(run.get(state["result"])["json"])
    assert document["reasons"] == ["run_a: no counterpart of spin"]
    assert document["files"] == []


def test_one_refused_launch_of_two_gives_partial_and_writes_the_other(request_value: RunRequest) -> None:
    engine = ScriptedEngine(
        recipe=recipe_value(launch_value("run_a"), launch_value("run_b")), refusals={"run_b": "no counterpart of sppo"}
    )
    run = new_run(request_value)
    _, state = names_of(run, engine)
    paths = [item.path for item in run.model(Example, state["example"]).files]
    assert state["verdict"] == "partial"
    assert paths == ["examples/toy/reward_toy.py", "examples/toy/run_toy_a.sh"]


def test_repair_drops_a_flag_that_the_contract_lacks_and_says_so(request_value: RunRequest) -> None:
    engine = ScriptedEngine(flags=("--lr", "--new-flag"), failing=("--new-flag",))
    run = new_run(request_value)
    names, state = names_of(run, engine)
    document = json.loads(run.get(state["result"])["json"])
    assert names == ["inspect", "plan", "draft", "test", "repair", "test", "smoke", "report"]
    assert "--new-flag" not in run.model(Example, state["example"]).file("examples/toy/run_toy.sh").text
    assert [(item["rule"], item["outcome"]) for item in document["attempts"]] == [("drop-unknown-flags", "improved")]
    assert {item["status"] for item in document["settings"]} == {"unsupported"}
    assert document["verdict"] == "partial"


def test_a_repair_that_does_not_help_is_rolled_back_and_not_tried_again(request_value: RunRequest) -> None:
    engine = ScriptedEngine(python="import os\nx = 1\n", failing=("x = 1",))
    run = new_run(request_value)
    names, state = names_of(run, engine)
    shipped = run.model(Example, state["example"]).file("examples/toy/reward_toy.py").text
    document = json.loads(run.get(state["result"])["json"])
    assert shipped == "import os\nx = 1\n"
    assert [(item["rule"], item["outcome"]) for item in document["attempts"]] == [
        ("ruff-autofix", "no better, rolled back")
    ]
    assert names.count("test") == 2
    assert state["verdict"] == "partial"


def test_shellcheck_fixes_a_script(request_value: RunRequest) -> None:
    bad = "#!/bin/bash\nx=$(date)\necho $x\n"
    engine = ScriptedEngine(script=bad, failing=("echo $x\n",))
    run = new_run(request_value)
    _, state = names_of(run, engine)
    text = run.model(Example, state["example"]).file("examples/toy/run_toy.sh").text
    assert 'echo "$x"\n' in text
    assert state["verdict"] == "rehearsed"
    assert all(check.status == "passed" for check in run.models(CheckResult, state["checks"]))


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("victim", sorted(set(NODES) - {"gate"}))
def test_a_run_killed_at_any_node_resumes_to_the_same_bytes(
    request_value: RunRequest, victim: str, moment: str
) -> None:
    def engine() -> ScriptedEngine:
        return ScriptedEngine(flags=("--lr", "--new-flag"), failing=("--new-flag",))

    whole = new_run(request_value)
    expected = whole.get(go(whole, engine(), lambda node, took: None)["result"])

    def kill(node: str, took: float | None) -> None:
        if node == victim and (took is None) == (moment == "before"):
            raise KilledError(node)

    run = new_run(request_value)
    with pytest.raises(KilledError):
        go(run, engine(), kill)
    seen: list[str] = []
    state = go(open_run(run.id), engine(), lambda node, took: seen.append(node) if took is None else None, resume=True)
    assert run.get(state["result"]) == expected
    assert seen[0] == victim


def test_resuming_a_finished_run_does_nothing_and_gives_the_same_result(request_value: RunRequest) -> None:
    run = new_run(request_value)
    first = go(run, ScriptedEngine(), lambda node, took: None)
    engine = ScriptedEngine()
    second = go(run, engine, lambda node, took: None, resume=True)
    assert second["result"] == first["result"]
    assert engine.calls == []


def test_a_run_survives_sigkill(request_value: RunRequest, tmp_path: Path) -> None:
    whole = new_run(request_value)
    expected = whole.get(go(whole, ScriptedEngine(), lambda node, took: None)["result"])
    run = new_run(request_value)
    script = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from agent_fakes import ScriptedEngine\n"
        "from migrate_agent.graph import run_graph\n"
        "from migrate_agent.nodes import Context\n"
        "from migrate_agent.runs import open_run\n"
        "run = open_run(sys.argv[2])\n"
        "def hook(node, took):\n"
        "    if node == 'test' and took is not None:\n"
        "        open(sys.argv[3], 'w').close(); time.sleep(60)\n"
        "run_graph(Context(run, run.request(), ScriptedEngine(), print), hook, resume=False)\n"
    )
    flag = tmp_path / "reached"
    child = subprocess.Popen([sys.executable, "-c", script, str(Path(__file__).parent), run.id, str(flag)])
    try:
        deadline = time.monotonic() + 30
        while not flag.exists() and time.monotonic() < deadline and child.poll() is None:
            time.sleep(0.05)
        assert flag.exists()
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    engine = ScriptedEngine()
    state = go(open_run(run.id), engine, lambda node, took: None, resume=True)
    assert run.get(state["result"]) == expected
    assert "read" not in engine.calls
    assert "check" in engine.calls


def test_state_stays_small_json(request_value: RunRequest) -> None:
    big = recipe_value(*(launch_value(f"run_{index}", tuple(f"k{n}" for n in range(200))) for index in range(10)))
    run = new_run(request_value)
    state = go(run, ScriptedEngine(recipe=big), lambda node, took: None)
    assert len(json.dumps(state)) < 6000
