"""Scripted conversations, and what counts as a difference between two records of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from migrate_tools.model import InteractionSpec, MultiTurn, ToolSpec
from migrate_tools.parity.tool_cases import END, conversations, engine_calls, example, hermes, qwen3_coder
from migrate_tools.parity.tools import difference, limit_problem, recipe_packages, schema_difference

SCHEMA = {
    "type": "function",
    "function": {
        "name": "count",
        "parameters": {
            "type": "object",
            "properties": {
                "word": {"type": "string"},
                "times": {"type": "integer"},
                "mode": {"type": "string", "enum": ["up", "down"]},
                "box": {"type": "array", "items": {"type": "number"}, "minItems": 4},
            },
            "required": ["word"],
        },
    },
}
TURNS = MultiTurn(
    tools=(ToolSpec(name="count", kind="base_tool", class_name="a.B", file="a.py", parameters=SCHEMA),),
    max_parallel_calls=1,
    max_assistant_turns=3,
)


def arguments_of(text: str) -> Any:
    return json.loads(text.split("<tool_call>\n")[1].split("\n</tool_call>")[0])["arguments"]


def test_every_kind_of_call_occurs() -> None:
    rows = [{"tools_kwargs": {"count": {"create_kwargs": {"truth": 42, "flag": True}}}}, {}]
    talks = conversations(TURNS, rows)
    families = {talk["family"] for talk in talks}
    assert families == {
        "no call", "empty", "broken", "unknown name", "arguments are no object", "valid", "no arguments",
        "extra argument", "box", "missing argument", "wrong type", "long", "several calls", "many turns", "row",
    }  # fmt: skip
    assert all(text.endswith(END) for talk in talks for text in talk["texts"])
    assert max(len(talk["texts"]) for talk in talks) == 5, "two turns more than the limit"
    rows_seen = [arguments_of(talk["texts"][0]) for talk in talks if talk["family"] == "row"]
    assert [item["word"] for item in rows_seen if item["word"] == "42"] == ["42"]
    missing = [arguments_of(talk["texts"][0]) for talk in talks if talk["family"] == "missing argument"]
    assert [sorted({"word", "times", "mode", "box"} - set(item)) for item in missing] == [
        ["word"],
        ["times"],
        ["mode"],
        ["box"],
    ]
    assert talks == conversations(TURNS, rows), "the same conversations every time"


def test_values_fit_the_schema() -> None:
    properties = SCHEMA["function"]["parameters"]["properties"]  # type: ignore[index]
    assert [example(properties["mode"], number) for number in range(3)] == ["up", "down", "up"]
    assert len(example(properties["box"])) == 4
    assert all(isinstance(value, float) for value in example(properties["box"]))


def test_values_that_a_description_names_come_first() -> None:
    operand = {"type": "string", "description": "'+' or '-' or the like"}
    assert [example(operand, number) for number in range(3)] == ["+", "-", "alpha"]
    assert example({"type": "string", "description": "the model's answer, as in 'x'"}) == "alpha"
    assert example({"type": "string", "description": "it's one word, the user's"}) == "alpha"
    assert example({"type": "integer", "description": "'1' or '2'"}) == 3


def test_forms_of_a_call() -> None:
    assert hermes("f", {"a": "ü"}) == '<tool_call>\n{"name": "f", "arguments": {"a": "ü"}}\n</tool_call>'
    assert qwen3_coder("f", {"a": "x", "b": 2}).splitlines()[1:4] == ["<function=f>", "<parameter=a>", "x"]
    with pytest.raises(KeyError):
        conversations(TURNS.model_copy(update={"format": "nobody"}), [])
    assert engine_calls(TURNS.model_copy(update={"format": "nobody"})) == ()
    assert len(engine_calls(TURNS)) == 4


def test_a_simulated_user_alone_is_asked_back_in_the_rehearsal() -> None:
    user = InteractionSpec(name="teacher", class_name="a.TeacherInteraction")
    assert engine_calls(MultiTurn(interactions=(user,))) == ("I do not know.",)
    assert engine_calls(MultiTurn(interactions=(user,), format="nobody")) == ("I do not know.",)
    assert engine_calls(MultiTurn()) == ()


def record(*turns: list[tuple[str, float | None]], num_turns: int = 4, images: int = 0) -> dict[str, Any]:
    """A record of the old side."""
    made = [[{"text": text, "images": [images] * images, "reward": reward} for text, reward in turn] for turn in turns]
    return {"turns": made, "num_turns": num_turns}


def answered(*turns: list[str], rewards: list[float], num_turns: int = 4, role: str = "tool") -> dict[str, Any]:
    """A record of the new side; the rewards are those of the last turn."""
    made: list[list[dict[str, Any]]] = [[{"role": role, "text": text, "images": []} for text in turn] for turn in turns]
    for turn in made:
        turn[-1]["rewards"] = []
    if made:
        made[-1][-1]["rewards"] = rewards
    return {"turns": made, "num_turns": num_turns}


OLD = record([("a", 0.5), ("b", None)])


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (OLD, answered(["a", "b"], rewards=[0.5]), ""),
        (OLD, answered(["a", "c"], rewards=[0.5]), "turn 1: ['a', 'b'] became ['a', 'c']"),
        (OLD, answered(["a"], rewards=[0.5]), "turn 1: ['a', 'b'] became ['a']"),
        (OLD, answered(["a", "b"], rewards=[]), "turn 1: tool rewards [0.5] became []"),
        (OLD, answered(["a", "b"], rewards=[0.5], num_turns=5), "num_turns 4 became 5"),
        (OLD, answered(["a", "b"], rewards=[0.5], role="user"), "turn 1: the role is user"),
        (OLD, answered(rewards=[]), "1 answered turns became 0"),
        (record([("a", None)], images=1), answered(["a"], rewards=[]), "turn 1: the images differ"),
        (OLD, {"raised": "KeyError: 1"}, "the environment raises KeyError: 1"),
        ({"raised": "KeyError: 1"}, answered(rewards=[]), ""),
        ({"raised": "X: 1"}, answered(["a"], rewards=[]), "verl raises X: 1 and the environment does not"),
        ({**OLD, "raised": "X: 1"}, answered(["a", "b"], rewards=[0.5], num_turns=9), ""),
        ({**OLD, "raised": "X: 1"}, answered(["a", "c"], rewards=[0.5]), "turn 1: ['a', 'b'] became ['a', 'c']"),
    ],
)
def test_differences(old: dict[str, Any], new: dict[str, Any], why: str) -> None:
    assert difference(old, new) == why


def test_max_turns_of_the_configuration_is_that_of_the_recipe() -> None:
    assert limit_problem(TURNS, 3) == limit_problem(TURNS, None) == ""
    assert limit_problem(TURNS, 4) == "max_turns of the configuration is 4, and verl's max_assistant_turns 3"
    assert limit_problem(MultiTurn(), 4) == "max_turns of the configuration is 4, and verl's max_assistant_turns None"


def test_a_recipe_folder_is_a_package_of_recipe_whatever_module_it_holds(tmp_path: Path) -> None:
    root = tmp_path / "retool"
    root.mkdir()
    (root / "retool.py").write_text("")
    usual = {"recipe": ["/project/recipe", "/project"]}
    assert recipe_packages(tmp_path, root) == {**usual, "recipe.retool": ["/project/retool"]}
    assert recipe_packages(root, root) == {**usual, "recipe.retool": ["/project"]}
    (root / "__init__.py").write_text("")
    assert recipe_packages(tmp_path, root) == usual


def test_the_rows_show_the_tools_as_verl_does() -> None:
    shown = [{"type": "function", "function": {"name": "a"}}]
    assert schema_difference(shown, [{"tools": json.dumps(shown)}, {"tools": shown}]) == ""
    other = [{"function": {"name": "a"}, "type": "function"}]
    assert schema_difference(shown, [{"tools": shown}, {"tools": other}]).startswith("row 1 shows the tools otherwise")
    assert schema_difference(shown, [{}]).startswith("row 0 shows")
    assert schema_difference([], [{}]) == ""


def test_a_row_shows_the_tools_that_it_chooses() -> None:
    shown = [{"type": "function", "function": {"name": name}} for name in ("a", "b")]
    kwargs = {"extra_info": {"tools_kwargs": {"b": {"create_kwargs": {}}, "a": None}}, "tools": shown[1:]}
    assert schema_difference(shown, [kwargs], "tools_kwargs") == ""
    assert schema_difference(shown, [{"tools": shown}], "tools_kwargs").startswith("row 0 shows")
    chosen = {"extra_info": {"tool_selection": ["b", "a", "gone"]}, "tools": shown[::-1]}
    assert schema_difference(shown, [chosen, {"tools": shown}], "tool_selection") == ""
