"""Tools, interactions and agent loops are read from files, without importing them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from migrate_tools.model import DataSpec, MultiTurn, VerlRef
from migrate_tools.verl.multi_turn import engine_version, interaction_name, nobody_runs, read_multi_turn, runner

TURNS = "actor_rollout_ref.rollout.multi_turn"
AGENT = "actor_rollout_ref.rollout.agent"
BASE = """\
    class BaseTool:
        async def create(self, instance_id=None, **kwargs):
            return instance_id, ToolResponse()
        async def execute(self, instance_id, parameters, **kwargs):
            return ToolResponse(text="done"), 0.0, {}
    """
TOOLS = """\
    import requests
    from verl.tools.base_tool import BaseTool
    from verl.tools import base_tool as base

    class Counter(BaseTool):
        async def create(self, instance_id=None, **kwargs):
            return "1"
        async def execute(self, instance_id: str, parameters: dict, **kwargs) -> tuple[ToolResponse, float, dict]:
            return f"{parameters}", 0.5, {}

    class Crop(base.BaseTool):
        def get_openai_tool_schema(self):
            return OpenAIFunctionToolSchema.model_validate({"type": "function", "function": {"name": "crop"}})
        async def execute(self, instance_id, parameters, **kwargs):
            if not parameters:
                return ToolResponse(text="nothing"), 0.0, {}
            return ToolResponse(image=[1]), None, None

    class Direct(Counter):
        async def execute(self, instance_id, code, timeout=1, **kwargs):
            return code, None, None
    """
CONFIG = """\
    tools:
      - class_name: recipe.game.tools.Counter
        config: {type: native, limit: 3}
        tool_schema: {type: function, function: {name: count, parameters: {type: object, properties: {}}}}
      - class_name: recipe.game.tools.Crop
        config: {type: native}
      - class_name: tools.Direct
        config: {type: mcp}
      - class_name: recipe.game.nowhere.Lost
        config: {type: native}
      - {config: {type: native}}
    """


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / "game"
    for path, text in {
        tmp_path / "release/verl/tools/base_tool.py": BASE,
        tmp_path / "release/verl/tools/__init__.py": "",
        folder / "tools.py": TOOLS,
        folder / "tools.yaml": CONFIG,
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return folder


def read(recipe: Path, columns: tuple[str, ...] = (), **config: Any) -> MultiTurn | None:
    names = {name.replace("__", "."): value for name, value in config.items()}
    return read_multi_turn(
        names,
        DataSpec(columns=dict.fromkeys(columns, "string")),
        project_root=recipe.parent,
        recipe_root=recipe,
        verl=VerlRef(version="0.7.1", root=str(recipe.parents[1] / "release"), how="made up"),
        resolve=lambda text: recipe / text if (recipe / text).exists() else None,
    )


def turns(recipe: Path, columns: tuple[str, ...] = (), **config: Any) -> MultiTurn:
    found = read(recipe, columns, **{f"{TURNS}.enable": True, **config})
    assert found is not None
    return found


def test_a_single_turn_launch_has_no_such_side(recipe: Path) -> None:
    single = {f"{TURNS}.enable": False, f"{AGENT}.default_agent_loop": "single_turn_agent"}
    assert read(recipe, **single) is None
    assert read(recipe, ("agent_name",), **single) is not None
    assert read(recipe, **{f"{AGENT}.default_agent_loop": "tool_agent"}) is not None


def test_tools_of_every_generation(recipe: Path) -> None:
    found = turns(recipe, **{f"{TURNS}.tool_config_path": "tools.yaml"})
    assert [(tool.name, tool.kind, tool.generation, tool.own_create, tool.parents) for tool in found.tools] == [
        ("count", "base_tool", "text", True, ("BaseTool",)),
        ("crop", "base_tool", "response", False, ("BaseTool",)),
        ("Direct", "mcp", "direct", True, ("Counter", "BaseTool")),
        ("Lost", "base_tool", "unknown", False, ()),
    ]
    count = found.tools[0]
    assert (count.config, count.file, count.source and count.source.line) == (
        {"type": "native", "limit": 3},
        "game/tools.py",
        2,
    )
    assert count.traits == ("http", "import:requests", "import:verl")
    assert found.tools[1].parameters == {"type": "function", "function": {"name": "crop"}}
    assert [note.text for note in found.missing] == [
        "the tool class recipe.game.nowhere.Lost is not in the recipe or in verl",
        "tools.yaml: entry 4 names no class",
    ]


def test_limits_of_old_and_new_keys(recipe: Path) -> None:
    old = turns(recipe, **{f"{TURNS}.max_turns": 4})
    assert (old.max_assistant_turns, old.max_user_turns, old.default_loop) == (4, None, "")
    new = turns(
        recipe,
        **{
            f"{TURNS}.max_assistant_turns": 6,
            f"{TURNS}.max_user_turns": 5,
            f"{TURNS}.max_parallel_calls": 2,
            f"{TURNS}.max_tool_response_length": 1000,
            f"{TURNS}.tool_response_truncate_side": "left",
            f"{TURNS}.format": "gpt-oss",
        },
    )
    assert (new.max_assistant_turns, new.max_user_turns, new.max_parallel_calls) == (6, 5, 2)
    assert (new.max_tool_response_length, new.truncate_side, new.format) == (1000, "left", "gpt-oss")


def test_decorated_functions(recipe: Path) -> None:
    (recipe / "functions.py").write_text(
        dedent(
            """\
            from verl.tools.function_tool import function_tool
            import verl.tools.function_tool as ft
            @function_tool
            def plain(x: int):
                '''Does it.

                Args:
                    x: a number
                '''
            @function_tool("other_name")
            async def named(x: int): ...
            @ft.function_tool(name="third")
            def keyword(x: int): ...
            def helper(): ...
            """
        )
    )
    found = turns(recipe, **{f"{TURNS}.function_tool_path": "functions.py"})
    assert [(tool.name, tool.class_name, tool.kind) for tool in found.tools] == [
        ("other_name", "named", "function"),
        ("plain", "plain", "function"),
        ("third", "keyword", "function"),
    ]
    assert found.tools[1].parameters == {
        "type": "function",
        "function": {
            "name": "plain",
            "description": "Does it.",
            "parameters": {
                "type": "object",
                "properties": {"x": {"type": "integer", "description": "a number"}},
                "required": ["x"],
            },
        },
    }
    assert [note.text for note in found.missing] == [
        f"the function tool {name} has no schema that can be read: it has no docstring, on which verl stops"
        for name in ("other_name", "third")
    ]


def test_a_class_that_is_to_be_copied_into_verl_is_found_by_its_file(recipe: Path) -> None:
    (recipe / "deep").mkdir()
    (recipe / "deep" / "sql_tool.py").write_text(
        "from .base_tool import BaseTool\nclass SqlTool(BaseTool):\n    pass\n"
    )
    (recipe / "sql.yaml").write_text("tools:\n- class_name: verl.tools.sql_tool.SqlTool\n  config: {type: native}\n")
    (tool,) = turns(recipe, **{f"{TURNS}.tool_config_path": "sql.yaml"}).tools
    assert tool.file == "game/deep/sql_tool.py"


def test_interactions_and_their_names(recipe: Path) -> None:
    (recipe / "user.py").write_text("class TeacherInteraction:\n    async def generate_response(self): ...\n")
    (recipe / "user.yaml").write_text(
        "interaction:\n- class_name: recipe.game.user.TeacherInteraction\n  config: {a: 1}\n"
        "- {name: b, class_name: x.Y}\n"
    )
    found = turns(recipe, **{f"{TURNS}.interaction_config_path": "user.yaml"})
    assert [(item.name, item.file, item.config) for item in found.interactions] == [
        ("teacher", "game/user.py", {"a": 1}),
        ("b", None, {}),
    ]
    assert interaction_name("a.b.Interaction") == "interaction"
    assert len(found.missing) == 1


def test_agent_loops_by_file_and_by_decorator(recipe: Path) -> None:
    (recipe / "loops.py").write_text(
        dedent(
            """\
            from verl.experimental.agent_loop.agent_loop import AgentLoopBase, register
            @register("walker")
            class Walker(AgentLoopBase): ...
            class Other(Walker): ...
            """
        )
    )
    (recipe / "agent.yaml").write_text("- name: other\n  _target_: recipe.game.loops.Other\n  depth: 3\n")
    found = turns(recipe, **{f"{AGENT}.agent_loop_config_path": "agent.yaml", f"{AGENT}.default_agent_loop": "walker"})
    assert [(loop.name, loop.class_name, loop.parents, loop.arguments) for loop in found.loops] == [
        ("other", "recipe.game.loops.Other", ("Walker",), {"depth": 3}),
        ("walker", "Walker", (), {}),
    ]
    lost = turns(recipe, **{f"{AGENT}.default_agent_loop": "nobody"})
    assert lost.missing[0].text == "no class of the recipe is registered as the agent loop nobody"


@pytest.mark.parametrize("text", [None, "tools: [", "- 1\n"])
def test_missing_and_broken_files_are_named(recipe: Path, text: str | None) -> None:
    if text is not None:
        (recipe / "bad.yaml").write_text(text)
    found = turns(recipe, **{f"{TURNS}.tool_config_path": "bad.yaml"})
    assert found.tools == ()
    assert len(found.missing) == (0 if text == "- 1\n" else 1)


def test_environments_of_forks_are_named(recipe: Path) -> None:
    found = read(recipe, **{f"{AGENT}.activate_agent": True})
    assert found is not None
    assert "DeepEyes' own registry" in found.missing[0].text
    assert read(recipe, **{f"{AGENT}.activate_agent": False}) is None


@pytest.mark.parametrize(
    ("version", "name", "mode", "form", "wanted"),
    [
        ("0.4.1", "sglang", "sync", "hermes", "engine"),
        ("0.6.1", "sglang", "sync", "hermes", "engine"),
        ("0.6.1", "sglang", "async", "hermes", "agent_loop"),
        ("0.6.1", "vllm", "sync", "hermes", "agent_loop"),
        ("0.7.1", "sglang", "sync", "hermes", "agent_loop"),
        ("0.7.1", "sglang", "async", "qwen", "engine"),
        ("0.9.1", "vllm", "async", "chatml", "engine"),
    ],
)
def test_who_runs_the_turns(version: str, name: str, mode: str, form: str, wanted: str) -> None:
    config = {
        "actor_rollout_ref.rollout.name": name,
        "actor_rollout_ref.rollout.mode": mode,
        f"{TURNS}.format": form,
    }
    assert runner(config, version) == wanted


def test_the_release_of_an_engine() -> None:
    versions = ("0.3.0", "0.4.1", "0.5.0", "0.6.1", "0.7.1", "0.9.1")
    assert [engine_version(text) for text in versions] == ["0.4.1", "0.4.1", "0.5.0", "0.6.1", "0.4.1", "0.4.1"]


@pytest.mark.parametrize(
    ("version", "name", "mode", "said"),
    [
        ("0.4.0", "vllm", "async", "its chat scheduler"),
        ("0.4.1", "sglang", "async", "its chat scheduler"),
        ("0.4.1", "vllm", "sync", "every row is single-turn"),
        ("0.6.1", "vllm", "sync", "every row is single-turn"),
        ("0.6.1", "vllm", "async", ""),
        ("0.6.1", "sglang", "sync", ""),
        ("0.7.1", "vllm", "sync", ""),
    ],
)
def test_where_nobody_runs_the_turns(version: str, name: str, mode: str, said: str) -> None:
    config = {"actor_rollout_ref.rollout.name": name, "actor_rollout_ref.rollout.mode": mode}
    notes = nobody_runs(config, version)
    assert len(notes) == bool(said)
    assert not said or said in notes[0].text
