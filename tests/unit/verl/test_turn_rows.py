"""Made-up rows of a launch with tools or a simulated user have what verl wants of such rows."""

from __future__ import annotations

from migrate_tools.model import AgentLoopSpec, InteractionSpec, MultiTurn, ToolSpec
from migrate_tools.verl.example_rows import with_turns

ROW = {
    "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "What is 1 + 1?"}],
    "reward_model": {"ground_truth": "2"},
}
COUNT = ToolSpec(name="count", kind="base_tool", class_name="a.Count")
PLAIN = ToolSpec(name="plain", kind="function", class_name="plain")


def test_arguments_of_tools_and_users() -> None:
    user = InteractionSpec(name="teacher", class_name="a.TeacherInteraction")
    (row,) = with_turns(
        [{**ROW, "extra_info": {"index": 3}}], MultiTurn(tools=(COUNT, PLAIN), interactions=(user,)), "prompt"
    )
    assert row["extra_info"] == {
        "index": 3,
        "tools_kwargs": {"count": {"create_kwargs": {"ground_truth": "2"}}},
        "interaction_kwargs": {"name": "teacher", "query": "What is 1 + 1?", "ground_truth": "2"},
    }


def test_functions_and_loops_take_nothing_of_a_row() -> None:
    assert with_turns([ROW], MultiTurn(tools=(PLAIN,)), "prompt") == (ROW,)


def test_rows_name_the_loop_where_no_default_does() -> None:
    loop = AgentLoopSpec(name="graph", class_name="a.Graph", file="a.py")
    (row,) = with_turns([ROW], MultiTurn(loops=(loop,), default_loop="single_turn_agent"), "prompt")
    assert row["agent_name"] == "graph"
    assert with_turns([ROW], MultiTurn(loops=(loop,), default_loop="graph"), "prompt") == (ROW,)
