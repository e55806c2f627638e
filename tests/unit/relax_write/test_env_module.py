"""The generated environment: calls, limits, errors and cuts as the verl version of the recipe has them."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from migrate_tools.mapping.turns import error_note, obstacle
from migrate_tools.model import AgentLoopSpec, DataSpec, InteractionSpec, Launch, MultiTurn, Note, ToolSpec, VerlRef
from migrate_tools.relax.env_module import checkout_base_env, kept_side, multi_turn_files
from migrate_tools.verl.extract import Extracted
from migrate_tools.verl.loop_release import version_pair
from writer_inputs import make_launch

TOOLS = """
import json

class OpenAIFunctionToolSchema(dict):
    @classmethod
    def model_validate(cls, value):
        return cls(value)

class Shout:
    released = []
    def __init__(self, config, tool_schema):
        self.config, self.tool_schema = config, tool_schema
    async def create(self, instance_id=None, **kwargs):
        return "id-" + str(kwargs.get("create_kwargs", {}).get("key", "")), None
    async def execute(self, instance_id, parameters, **kwargs):
        if parameters["text"] == "boom":
            raise RuntimeError("no")
        text = f"{instance_id} {parameters['text'].upper()}{self.config['end']}"
        return type("R", (), {"text": text, "image": None, "video": None})(), 0.5, {}
    async def release(self, instance_id):
        Shout.released.append(instance_id)

class Parser:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
    async def extract_tool_calls(self, ids):
        calls = [line[5:].split("|", 1) for line in self.tokenizer.decode(ids).splitlines() if line.startswith("CALL ")]
        return "", [type("C", (), {"name": name, "arguments": body})() for name, body in calls]

PARTS = {"tools": {"shout": Shout}, "users": {}, "parser": Parser}
"""
SHOUT = ToolSpec(
    name="shout",
    kind="base_tool",
    class_name="a.Shout",
    file="a.py",
    parameters={"type": "function", "function": {"name": "shout"}},
    config={"end": "!"},
)


def env_module(
    folder: Path,
    version: str,
    monkeypatch: pytest.MonkeyPatch,
    code: str = TOOLS,
    data: DataSpec | None = None,
    project: Path | None = None,
    base_env: str = "",
    environment: dict[str, str] | None = None,
    **limits: Any,
) -> ModuleType:
    """The environment of a launch with one tool, imported."""
    turns = MultiTurn(**{"tools": (SHOUT,), **limits})
    launch: Launch = make_launch().model_copy(
        update={
            "multi_turn": turns,
            "data": data or DataSpec(),
            "verl": VerlRef(version=version, root="/nowhere", how="made up"),
            "environment": environment or {},
        }
    )
    tools = Extracted(code=code, entry="PARTS", is_async=False)
    found = Extracted(code="", entry="x", is_async=False, tools=tools)
    files = multi_turn_files(launch, found, algo="demo", project=project, base_env=base_env)
    for file in files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text)
    monkeypatch.syspath_prepend(str(folder))
    return importlib.import_module("examples.demo.env_demo")


@pytest.fixture(autouse=True)
def forget_modules() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name == "examples" or name.startswith("examples.")]:
        del sys.modules[name]


def talk(module: ModuleType, *texts: str, metadata: dict[str, Any] | None = None) -> tuple[list[Any], dict[str, Any]]:
    """What each step gave ([contents] or "done"), and the metadata afterwards."""
    sample = SimpleNamespace(metadata=metadata if metadata is not None else {})
    env = module.build_env(sample=sample, args=SimpleNamespace())

    async def run() -> list[Any]:
        seen: list[Any] = []
        for text in texts:
            observation, done, _ = await env.step(text)
            seen.append("done" if done else [message["content"] for message in observation["messages"]])
        return seen

    return asyncio.run(run()), sample.metadata["verl_rollout"]


CALL = 'CALL shout|{"text": "hi"}'


def test_calls_run_in_order_up_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = env_module(tmp_path, "0.7.1", monkeypatch, max_parallel_calls=2)
    metadata = {"tools_kwargs": {"shout": {"create_kwargs": {"key": "k"}}}}
    seen, after = talk(module, f'{CALL}\nCALL shout|{{"text": "b"}}\n{CALL}', "no call", metadata=metadata)
    assert seen == [["id-k HI!", "id-k B!"], "done"]
    assert (after["num_turns"], after["tool_rewards"], after["turn_scores"]) == (4, [0.5, 0.5], [])
    assert sys.modules["examples.demo.tools_demo"].Shout.released == ["id-k", "id-k"]


@pytest.mark.parametrize(
    ("version", "unknown", "broken", "failing"),
    [
        ("0.5.0", "done", "done", "done"),
        (
            "0.7.1",
            ["Error when executing tool: 'other'"],
            "Error when executing tool: Expecting",
            "Error when executing tool: no",
        ),
        (
            "0.9.1",
            ["Unknown function 'other'. Available tools: ['shout']"],
            "Invalid JSON in arguments for 'shout': Expecting",
            "Error executing tool 'shout': no",
        ),
    ],
)
def test_errors_as_each_verl_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, unknown: Any, broken: str, failing: str
) -> None:
    module = env_module(tmp_path, version, monkeypatch)
    assert talk(module, "CALL other|{}")[0] == [unknown]
    for call, wanted in (("CALL shout|{broken", broken), ('CALL shout|{"text": "boom"}', failing)):
        (seen,), _ = talk(module, call)
        assert seen == "done" if wanted == "done" else seen[0].startswith(wanted)


def test_an_episode_goes_on_after_a_wrong_name_and_broken_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = env_module(tmp_path, "0.7.1", monkeypatch)
    seen, after = talk(module, "CALL shuot|{}", "CALL shout|{broken", CALL, CALL)
    assert ["Error when executing tool" in step[0] for step in seen] == [True, True, False, False]
    assert after == {"num_turns": 9, "tool_rewards": [0.0, 0.0, 0.5, 0.5], "turn_scores": []}


def test_what_verl_stops_on_ends_the_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = TOOLS.replace(
        "        text = f",
        "        if parameters['text'] == 'none':\n            return None, 0.0, {}\n        text = f",
    )
    module = env_module(tmp_path, "0.7.1", monkeypatch, code)
    seen, after = talk(module, CALL, 'CALL shout|{"text": "none"}')
    assert seen == [["id- HI!"], "done"]
    assert (after["num_turns"], after["tool_rewards"]) == (4, [0.5])


def test_variables_that_tools_read_have_the_values_of_the_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOOL_SERVER", raising=False)
    monkeypatch.setenv("TOOL_PORT", "mine")
    tool = SHOUT.model_copy(update={"traits": ("env:TOOL_SERVER", "env:TOOL_PORT")})
    code = TOOLS.replace("import json", 'import json, os\nSEEN = os.environ["TOOL_SERVER"], os.environ["TOOL_PORT"]')
    env_module(tmp_path, "0.7.1", monkeypatch, code, tools=(tool,), environment={"TOOL_SERVER": "a", "TOOL_PORT": "b"})
    assert sys.modules["examples.demo.tools_demo"].SEEN == ("a", "mine")
    monkeypatch.delenv("TOOL_SERVER")


@pytest.mark.parametrize(
    ("limits", "answered"),
    [
        ({"max_assistant_turns": 3}, 2),
        ({"max_user_turns": 1}, 1),
        ({"max_assistant_turns": 1}, 0),
        ({}, 5),
    ],
)
def test_limits_of_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int], answered: int
) -> None:
    module = env_module(tmp_path, "0.7.1", monkeypatch, **limits)
    sample = SimpleNamespace(metadata={})
    env = module.build_env(sample=sample, args=None)
    done = False
    for _ in range(5):
        if not done:
            _, done, _ = asyncio.run(env.step(CALL))
    assert (env.user_turns, done) == (answered, answered < 5)
    assert sample.metadata["verl_rollout"]["num_turns"] == env.user_turns + env.assistant_turns + 1


def test_max_turns_of_the_configuration_limits_the_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = env_module(tmp_path, "0.7.1", monkeypatch, max_assistant_turns=3)
    env = module.build_env(sample=SimpleNamespace(metadata={}), args=SimpleNamespace(max_turns=2))
    assert [asyncio.run(env.step(CALL))[1] for _ in range(2)] == [False, True]


def test_turns_that_were_cut_or_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = env_module(tmp_path, "0.7.1", monkeypatch)
    sample = SimpleNamespace(metadata={})
    env = module.build_env(sample=sample, args=None)
    asyncio.run(env.step(CALL))
    assert sample.metadata["verl_rollout"]["num_turns"] == 3
    env.unseen()
    assert sample.metadata["verl_rollout"]["num_turns"] == 2
    env.cut_off()
    assert sample.metadata["verl_rollout"]["num_turns"] == 3


@pytest.mark.parametrize(
    ("version", "side", "text"),
    [
        ("0.7.1", "left", "id- AAAAAA...(truncated)"),
        ("0.7.1", "right", "(truncated)...AAAAAAAAA!"),
        ("0.9.1", "left", "(truncated)...AAAAAAAAA!"),
        ("0.9.1", "right", "id- AAAAAA...(truncated)"),
        ("0.9.1", "middle", "id- A...(truncated)...AAAA!"),
    ],
)
def test_long_texts_are_cut_as_each_verl_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, side: str, text: str
) -> None:
    module = env_module(tmp_path, version, monkeypatch, max_tool_response_length=10, truncate_side=side)
    assert talk(module, 'CALL shout|{"text": "' + "a" * 30 + '"}')[0] == [[text]]


def test_rows_may_choose_among_the_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = env_module(tmp_path, "0.9.1", monkeypatch)
    (seen,), _ = talk(module, CALL, metadata={"tool_selection": ["other"]})
    assert seen == ["Unknown function 'shout'. Available tools: []"]


def test_rows_of_an_older_verl_have_all_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = env_module(tmp_path, "0.7.1", monkeypatch)
    assert talk(module, CALL, metadata={"tool_selection": ["other"]})[0] == [["id- HI!"]]


def test_versions_and_sides() -> None:
    assert [version_pair(text) for text in ("0.7.1", "0.10.0.dev0", "unknown")] == [(0, 7), (0, 10), (99, 0)]
    assert kept_side(MultiTurn(truncate_side="left"), (0, 7)) == "head"
    assert kept_side(MultiTurn(truncate_side="left"), (0, 8)) == "tail"
    assert kept_side(MultiTurn(truncate_side="middle"), (0, 8)) == "both"


@pytest.mark.parametrize(
    ("turns", "why"),
    [
        (MultiTurn(tools=(SHOUT,)), ""),
        (MultiTurn(), "multi-turn is on and no tool is named"),
        (MultiTurn(tools=(SHOUT,), manager_class="a.M"), "the agent loop manager a.M replaces verl's whole rollout"),
        (
            MultiTurn(loops=(AgentLoopSpec(name="x", class_name="a.B", obstacle="it uses y"),)),
            "the agent loop x (a.B) is not translated: it uses y",
        ),
        (MultiTurn(missing=(Note(code="c", text="gone"),)), "gone"),
        (
            MultiTurn(tools=(SHOUT.model_copy(update={"kind": "mcp"}),)),
            "the tools of a.Shout are asked from MCP servers when training starts",
        ),
        (
            MultiTurn(tools=(SHOUT.model_copy(update={"parameters": None}),)),
            "the schema of the tool shout is made when its class is",
        ),
        (
            MultiTurn(tools=(ToolSpec(name="f", kind="function", class_name="f", file="a.py"),)),
            "the schema of the function tool f cannot be read",
        ),
    ],
)
def test_what_cannot_be_written_is_named(turns: MultiTurn, why: str) -> None:
    assert obstacle(turns) == why


USERS = """

class Teacher:
    seen, ended = [], []
    def __init__(self, config):
        self.config = config
    async def start_interaction(self, instance_id=None, **kwargs):
        if kwargs.get("truth") == "none":
            raise KeyError("truth")
        return instance_id
    async def generate_response(self, instance_id, messages, **kwargs):
        Teacher.seen.append([dict(message) for message in messages])
        right = messages[-1]["content"] == kwargs["truth"]
        return right, f"{self.config['name']} says {'yes' if right else 'no'}", 1.0 if right else None, {}
    async def finalize_interaction(self, instance_id, **kwargs):
        Teacher.ended.append(instance_id)

PARTS["users"] = {"teacher": Teacher}
"""
ROW = {
    "interaction_kwargs": {"name": "teacher", "truth": "42"},
    "raw_prompt": [{"role": "user", "content": "How many?"}],
}


def user_module(folder: Path, monkeypatch: pytest.MonkeyPatch, **limits: Any) -> ModuleType:
    user = InteractionSpec(name="teacher", class_name="a.Teacher", file="a.py", config={"mood": "good"})
    return env_module(folder, "0.7.1", monkeypatch, code=TOOLS + USERS, interactions=(user,), **limits)


def test_a_simulated_user_answers_what_holds_no_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = user_module(tmp_path, monkeypatch)
    sample = SimpleNamespace(metadata=dict(ROW))
    env = module.build_env(sample=sample, args=None)

    async def run() -> list[Any]:
        seen = [await env.step(text) for text in ("41<|im_end|>", CALL, "42<|im_end|>")]
        await env.finish()
        await env.finish()
        return seen

    seen = asyncio.run(run())
    assert [(item["messages"][0]["role"], item["messages"][0]["content"], done) for item, done, _ in seen] == [
        ("user", "teacher says no", False),
        ("tool", "id- HI!", False),
        ("user", "teacher says yes", True),
    ]
    teacher = sys.modules["examples.demo.tools_demo"].Teacher
    assert [message["content"] for message in teacher.seen[-1]] == [
        "How many?", "41", "teacher says no", CALL, "id- HI!", "42",
    ]  # fmt: skip
    assert teacher.ended == [env.request_id], "once, and only the conversation that began"
    assert sample.metadata["verl_rollout"] == {"num_turns": 7, "tool_rewards": [0.5], "turn_scores": [1.0]}


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"interaction_kwargs": None},
        {"interaction_kwargs": {"name": "nobody"}},
        {"interaction_kwargs": {"name": "teacher", "truth": "none"}},
    ],
)
def test_a_row_without_its_user_ends_after_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: dict[str, Any]
) -> None:
    module = user_module(tmp_path, monkeypatch)
    seen, after = talk(module, "41", metadata=row)
    assert (seen, after["num_turns"]) == (["done"], 2)


def test_limits_end_a_conversation_before_the_user_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = user_module(tmp_path, monkeypatch, max_user_turns=1)
    seen, after = talk(module, "1", "2", metadata=dict(ROW))
    assert (seen, after["num_turns"]) == ([["teacher says no"], "done"], 4)


@pytest.mark.parametrize(
    ("version", "why"), [("0.5.0", "0.5.0"), ("0.6.1", ""), ("0.7.1", ""), ("0.8.0", "0.8.0"), ("0.9.1", "0.9.1")]
)
def test_only_some_agent_loops_ask_users(version: str, why: str) -> None:
    turns = MultiTurn(interactions=(InteractionSpec(name="u", class_name="a.U"),))
    wanted = f"no agent loop of verl {why} asks simulated users: u (a.U) is never asked" if why else ""
    assert obstacle(turns, version) == wanted
    assert obstacle(turns.model_copy(update={"loop_release": version}), "0.1") == wanted


PICTURES = """

class Picture:
    size = (4, 4)
    def crop(self, box):
        return self

async def _shown(self, instance_id, parameters, **kwargs):
    given = kwargs["agent_data"].image_data
    text = f"{len(given or [])} so far, made with {sorted(Shout.made)}"
    return type("R", (), {"text": text, "image": [Picture(), None, Picture()], "video": None})(), None, {}

async def _made(self, instance_id=None, **kwargs):
    Shout.made = kwargs["create_kwargs"]
    return "1", None

Shout.execute, Shout.create = _shown, _made
"""
WITH_IMAGES = DataSpec(multimodal=("images",), tool_images={"shout": {"image": 0, "all": None}})


@pytest.mark.parametrize(("version", "parts"), [("0.7.1", ["image", "text"]), ("0.9.1", ["image", "image", "text"])])
def test_images_of_tools_are_shown_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, parts: list[str]
) -> None:
    module = env_module(tmp_path, version, monkeypatch, code=TOOLS + PICTURES, data=WITH_IMAGES)
    picture = sys.modules["examples.demo.tools_demo"].Picture()
    sample = SimpleNamespace(metadata={}, multimodal_inputs={"images": [picture]})
    env = module.build_env(sample=sample, args=None)

    async def run() -> list[Any]:
        return [(await env.step(CALL))[0] for _ in range(2)]

    first, second = asyncio.run(run())
    assert [part["type"] for part in first["messages"][0]["content"]] == parts
    assert len(first["multi_modal_data"]["image"]) == 2, "an image that is None is left out"
    assert first["obs_str"] == "1 so far, made with ['all', 'image']"
    assert second["obs_str"].startswith("3 so far")
    assert sample.multimodal_inputs == {"images": [picture]}, "shared by the samples of a group"


def test_a_model_that_reads_texts_only_gets_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = env_module(tmp_path, "0.7.1", monkeypatch, code=TOOLS + PICTURES)
    (seen,), _ = talk(module, CALL)
    assert seen == ["0 so far, made with []"]


def test_results_for_gpt_oss_carry_the_name_of_their_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = env_module(tmp_path, "0.7.1", monkeypatch, format="gpt-oss")
    env = module.build_env(sample=SimpleNamespace(metadata={}), args=None)
    observation, _, _ = asyncio.run(env.step(CALL))
    assert observation["messages"] == [{"role": "tool", "name": "shout", "content": "id- HI!"}]
    rollout = (tmp_path / "examples/demo/rollout_demo.py").read_text()
    assert "<|start|>functions.{item['name']} to=assistant<|channel|>commentary<|message|>" in rollout


ENGINE_TOOLS = """
class OpenAIFunctionToolSchema(dict):
    @classmethod
    def model_validate(cls, value):
        return cls(value)

class Count:
    def __init__(self, config, tool_schema):
        self.config, self.uses = config, {}
    async def create(self, instance_id=None, start=0, **kwargs):
        self.uses[instance_id] = start
        return instance_id
    async def execute(self, instance_id, parameters, step=1, **kwargs):
        if "boom" in parameters:
            raise RuntimeError("no")
        self.uses[instance_id] += step
        return f"{self.uses[instance_id]}", 0.5, {}
    async def calc_reward(self, instance_id, **kwargs):
        return float(self.uses[instance_id])
    async def release(self, instance_id, **kwargs):
        del self.uses[instance_id]

class Teacher:
    def __init__(self, config):
        self.config = config
    async def start_interaction(self, instance_id=None, **kwargs):
        return instance_id
    async def generate_response(self, instance_id, messages, **kwargs):
        return "right" in messages[-1]["content"], "go on", 0.25, {}

from migrate_tools.relax.turns.engine_calls import engine_calls, has_call
PARTS = {
    "tools": {"count": Count}, "users": {"teacher": Teacher}, "parser": None,
    "engine_calls": engine_calls, "has_call": has_call,
}
"""
COUNT = ToolSpec(
    name="count",
    kind="base_tool",
    class_name="a.Count",
    file="a.py",
    parameters={"type": "function", "function": {"name": "count"}},
)
TEACHER = InteractionSpec(name="teacher", class_name="a.Teacher", file="a.py")
CALLED = '<tool_call>\n{"name": "count", "arguments": {}}\n</tool_call>'
ENGINE_ROW = {"tools_kwargs": {"count": {"create_kwargs": {"start": 10}, "execute_kwargs": {"step": 2}}}}


def engine_module(folder: Path, monkeypatch: pytest.MonkeyPatch, version: str = "0.6.1", **limits: Any) -> ModuleType:
    return env_module(
        folder, version, monkeypatch, ENGINE_TOOLS,
        **{"tools": (COUNT,), "interactions": (TEACHER,), "runner": "engine", "format": "qwen", **limits},
    )  # fmt: skip


def play(module: ModuleType, row: dict[str, Any], *texts: str) -> tuple[list[Any], dict[str, Any]]:
    sample = SimpleNamespace(metadata=dict(row))
    env = module.build_env(sample=sample, args=None)

    async def run() -> list[Any]:
        seen: list[Any] = []
        for text in texts:
            observation, done, _ = await env.step(text)
            seen.append("done" if done else [message["content"] for message in observation["messages"]])
        await env.finish()
        return seen

    return asyncio.run(run()), sample.metadata["verl_rollout"]


def test_a_tool_of_the_engine_keeps_its_state_and_is_asked_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, told = play(engine_module(tmp_path, monkeypatch), ENGINE_ROW, f"{CALLED}\n{CALLED}", CALLED, "5<|im_end|>")
    assert seen == [["12", "14"], ["16"], "done"]
    assert told["rollout_reward_scores"] == {"count": 16.0, "user_turn_rewards": []}
    assert told["num_turns"] is None


def test_a_user_of_the_engine_is_not_shown_when_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = engine_module(tmp_path, monkeypatch, max_user_turns=2)
    row = {"interaction_kwargs": {"name": "teacher"}}
    assert play(module, row, "1", "right") == (
        [["go on"], "done"],
        {"num_turns": None, "rollout_reward_scores": {"user_turn_rewards": [0.25, 0.25]}, "turns": 2},
    )
    assert play(module, row, "1", "2", "3")[0] == [["go on"], ["go on"], "done"], "the limit of the user's turns"
    assert play(module, {}, "1")[0] == ["done"], "a row without interaction_kwargs has no user"


@pytest.mark.parametrize(
    ("version", "text", "seen"),
    [
        ("0.4.1", CALLED.replace("\n", ""), ["12"]),
        ("0.6.1", CALLED.replace("\n", ""), "done"),
        ("0.4.1", CALLED + "\n<tool_call>\n{broken\n</tool_call>", "done"),
        ("0.6.1", CALLED + "\n<tool_call>\n{broken\n</tool_call>", ["12"]),
        ("0.6.1", CALLED.replace("count", "other"), "done"),
        ("0.6.1", CALLED.replace("{}", "[1]"), "done"),
        ("0.6.1", CALLED.replace("{}", '{"boom": 1}'), "done"),
        ("0.6.1", '<tool_call>\n["text"]\n</tool_call>', "done"),
    ],
)
def test_calls_as_the_parser_of_each_engine_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, text: str, seen: Any
) -> None:
    module = engine_module(tmp_path, monkeypatch, version)
    assert play(module, ENGINE_ROW, text)[0] == [seen]


def test_the_last_answer_of_an_engine_runs_no_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = engine_module(tmp_path, monkeypatch, max_assistant_turns=2)
    assert play(module, ENGINE_ROW, CALLED, CALLED)[0] == [["12"], "done"]


def test_files_that_settings_name_lie_beside_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    (project / "texts").mkdir(parents=True)
    (project / "texts" / "prompts.json").write_text('{"a": 1}')
    (project / "model.bin").write_bytes(b"1")
    config = {"end": "!", "prompts": "texts/prompts.json", "model": "model.bin", "gone": "gone.json", "up": "../x.json"}
    (tmp_path / "x.json").write_text("{}")
    tool = SHOUT.model_copy(update={"config": config})
    module = env_module(tmp_path / "out", "0.7.1", monkeypatch, tools=(tool,), project=project)
    settings = module.CONFIGS["shout"]
    assert Path(settings["prompts"]).read_text() == '{"a": 1}'
    assert Path(settings["prompts"]).parent == tmp_path / "out/examples/demo/files"
    assert (settings["model"], settings["gone"], settings["up"]) == ("model.bin", "gone.json", "../x.json")


@pytest.mark.parametrize(
    ("version", "turns", "said"),
    [
        ("0.4.1", MultiTurn(runner="engine"), "is dropped; an answer without any other ends the episode"),
        ("0.5.0", MultiTurn(), "ends the episode, and rewards of tools are dropped"),
        ("0.7.1", MultiTurn(), "an unknown or failing tool is answered with the error; a call whose JSON is broken"),
    ],
)
def test_what_errors_and_rewards_do_is_said(version: str, turns: MultiTurn, said: str) -> None:
    assert said in error_note(turns, version)


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        (None, False),
        ("import abc\nfrom typing import Any\nclass BaseInteractionEnv(abc.ABC): ...\n", True),
        ("import torch\nclass BaseInteractionEnv: ...\n", False),
        ("from .other import x\nclass BaseInteractionEnv: ...\n", False),
        ("class Other: ...\n", False),
        ("class BaseInteractionEnv(", False),
    ],
)
def test_the_base_class_of_the_checkout_is_taken_where_it_stands_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, taken: bool
) -> None:
    path = tmp_path / "relax" / "examples" / "deepeyes" / "base_env.py"
    path.parent.mkdir(parents=True)
    if text is not None:
        path.write_text(text)
    found = checkout_base_env(tmp_path / "relax")
    assert found == (text if taken else "")
    module = env_module(tmp_path / "out", "0.7.1", monkeypatch, base_env=found)
    written = (tmp_path / "out" / "examples" / "demo" / "base_env.py").read_text()
    assert (written == text) is taken
    env = module.build_env(sample=SimpleNamespace(metadata={}), args=None)
    assert (env.reset(), env.close()) == (({}, {}), None), "nothing is left to the base class"
