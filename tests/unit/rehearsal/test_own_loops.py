"""Agent loops of a recipe's own, from the recipe to a rollout that passes the drills."""

from __future__ import annotations

import ast
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from drill_example import load_generate, run_drills, samples, standin_relax
from migrate_tools.mapping.turns import obstacle
from migrate_tools.model import AgentLoopSpec, DataSpec, Launch, MultiTurn, RewardSpec, VerlRef
from migrate_tools.rehearsal.runtime import leaks
from migrate_tools.rehearsal.runtime.agentic import Agents, ChatServer
from migrate_tools.rehearsal.runtime.hooks import Loop
from migrate_tools.rehearsal.runtime.sample import Sample
from migrate_tools.rehearsal.runtime.tokenizer import Tokenizer
from migrate_tools.relax.loop_module import loop_files
from migrate_tools.relax.reward_module import row_columns
from migrate_tools.verl.agent_loops import extract_loops, is_agentic, used_settings
from migrate_tools.verl.multi_turn import read_multi_turn

RECIPES = Path(__file__).parents[2] / "recipes"
AGENT = "actor_rollout_ref.rollout.agent"


def read(folder: Path, loop: str, **config: object) -> MultiTurn:
    turns = read_multi_turn(
        {f"{AGENT}.agent_loop_config_path": "agent.yaml", f"{AGENT}.default_agent_loop": loop, **config},
        DataSpec(),
        project_root=folder,
        recipe_root=folder,
        verl=VerlRef(version="0.7.1", root="/nowhere", how="made up"),
        resolve=lambda text: folder / text,
    )
    assert turns is not None
    return turns


def make_launch(turns: MultiTurn, **config: object) -> Launch:
    return Launch(
        name="run_loop",
        script="run_loop.sh",
        module="verl.trainer.main_ppo",
        verl=VerlRef(version="0.7.1", root="/nowhere", how="made up"),
        reward=RewardSpec(kind="custom", path="reward.py", function="compute_score"),
        data=DataSpec(),
        config={"data.max_response_length": 200, "data.max_prompt_length": 200, **config},
        multi_turn=turns,
    )


@pytest.fixture(autouse=True)
def settle_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "SETTLE_SECONDS", 0.3)


def test_a_loop_of_the_recipe_is_read_with_what_it_takes_of_a_row() -> None:
    turns = read(RECIPES / "own_loop", "second_look")
    (loop,) = turns.loops
    assert (loop.name, loop.fields, loop.arguments, loop.obstacle) == ("second_look", ("hint",), {"rounds": 1}, "")
    assert (obstacle(turns), is_agentic(turns)) == ("", False)
    assert row_columns(make_launch(turns)) == ("hint",)


def test_the_loop_becomes_a_rollout_that_passes_the_drills(tmp_path: Path) -> None:
    folder = RECIPES / "own_loop"
    turns = read(folder, "second_look")
    launch = make_launch(turns)
    loops = extract_loops(turns, project_root=folder, recipe_root=folder, verl=launch.verl)
    assert "verl" not in {name.split(".")[0] for name in _imported(loops.code)}
    for file in loop_files(launch, loops, algo="demo", scripts=launch.script):
        path = tmp_path / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text)
    given = samples()
    for number, sample in enumerate(given):
        content = f"What is {number} + {number}?"
        sample.metadata = {"raw_prompt": [{"role": "user", "content": content}], "hint": "It is even.", "index": number}
    with standin_relax(tmp_path):
        generate = load_generate()
        problems, facts = run_drills(generate, given, ())
        assert problems == []
        assert facts["episodes"] == 64
        module = sys.modules["examples.demo.rollout_demo"]
        row = module.row_of(given[1].metadata, "2")
    assert row["extra_info"] == {"index": 1}
    assert (row["hint"], row["reward_model"]["ground_truth"]) == ("It is even.", "2")
    assert row["raw_prompt"][0]["content"] == "What is 1 + 1?"


def test_a_loop_gets_the_settings_that_it_names() -> None:
    rollout = "actor_rollout_ref.rollout"
    config = {
        f"{rollout}.temperature": 0.5,
        f"{rollout}.n": 8,
        f"{rollout}.agent.num_workers": 8,
        f"{rollout}.multi_turn.max_user_turns": None,
        "data.train_files": "/somewhere",
        "trainer.nnodes": 2,
    }
    code = "a.temperature\nb.agent.get('mine', {})\nc.multi_turn.max_user_turns\n"
    assert used_settings(config, code) == {
        "actor_rollout_ref": {
            "rollout": {"temperature": 0.5, "agent": {}, "multi_turn": {"max_user_turns": None}},
            "model": {},
        },
        "data": {},
    }
    assert used_settings({f"{AGENT}.mine.depth": 3}, code)["actor_rollout_ref"]["rollout"]["agent"] == {
        "mine": {"depth": 3}
    }


def _imported(code: str) -> list[str]:
    from migrate_tools.verl.traits import imported_modules

    return list(imported_modules(ast.parse(code)))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("from verl.tools.utils.tool_registry import x\n", "it uses verl.tools.utils.tool_registry, which has no"),
        ("", ""),
    ],
)
def test_what_of_verl_has_no_counterpart_is_named(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "agent.yaml").write_text("- name: x\n  _target_: mine.X\n")
    base = "from verl.experimental.agent_loop.agent_loop import AgentLoopBase\n"
    (tmp_path / "mine.py").write_text(f"{base}{text}class X(AgentLoopBase):\n    async def run(self, p): pass\n")
    assert read(tmp_path, "x").loops[0].obstacle.startswith(why)
    assert bool(why) == bool(obstacle(read(tmp_path, "x")))


@pytest.mark.parametrize(
    ("base", "why"),
    [
        (
            "from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop as Base",
            "tool agent loop from within",
        ),
        ("Base = object", "it is not derived from verl's AgentLoopBase"),
    ],
)
def test_other_bases_are_named(tmp_path: Path, base: str, why: str) -> None:
    (tmp_path / "agent.yaml").write_text("- name: x\n  _target_: mine.X\n")
    name = "ToolAgentLoop" if "ToolAgentLoop" in base else "Base"
    (tmp_path / "mine.py").write_text(f"{base}\nclass X({name}):\n    async def run(self, p): pass\n")
    assert why in read(tmp_path, "x").loops[0].obstacle


def test_what_else_keeps_a_loop_from_being_written() -> None:
    loop = AgentLoopSpec(name="x", class_name="a.X", file="a.py")
    assert "tool agent loop beside" in obstacle(MultiTurn(loops=(loop,), default_loop="tool_agent"))
    graph = loop.model_copy(update={"traits": ("import:langgraph",)})
    assert "which a chat server does not take" in obstacle(MultiTurn(loops=(graph,), format="gpt-oss"))
    made = loop.model_copy(update={"arguments": {"client": {"_target_": "b.C"}}})
    assert "objects of its configuration file" in obstacle(MultiTurn(loops=(made,)))


def test_a_graph_of_the_recipe_becomes_an_agent_of_its_own_process(tmp_path: Path) -> None:
    folder = RECIPES / "graph_loop"
    limit = {"actor_rollout_ref.rollout.multi_turn.max_assistant_turns": 3}
    turns = read(folder, "graph", **limit)
    assert (obstacle(turns), is_agentic(turns)) == ("", True)
    launch = make_launch(turns, **limit)
    loops = extract_loops(turns, project_root=folder, recipe_root=folder, verl=launch.verl)
    for file in loop_files(launch, loops, algo="demo", scripts=launch.script):
        path = tmp_path / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text)
    place = tmp_path / "examples" / "demo"
    assert (place / "run_agent_demo.sh").read_text().endswith("exec python3 agent_demo.py\n")
    args = Namespace(agent_command=f"{sys.executable} agent_demo.py", agent_cwd=str(place), agent_env=[])
    sample = Sample(prompt=[{"role": "user", "content": "Twice 3?"}], label="6", metadata={"index": 1})
    with ChatServer(Tokenizer(), None) as server:
        made = Loop().run(Agents(args, server).generate(args, sample, {}), 100)
    assert server.problems == []
    # prompt, call, result, answer
    assert made.metadata["verl_rollout"]["num_turns"] == 4
    assert "<|im_start|>tool\n6<|im_end|>" in made.response
    assert sum(made.loss_mask or ()) < made.response_length
