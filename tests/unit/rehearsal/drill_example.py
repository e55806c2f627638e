"""A rendered rollout and environment over one tool, and the drills over them, in this process."""

from __future__ import annotations

import importlib
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from migrate_tools.model import DataSpec, Launch, MultiTurn, RewardSpec, ToolSpec, VerlRef
from migrate_tools.rehearsal.runtime.drills import Drills
from migrate_tools.rehearsal.runtime.engine import Engine
from migrate_tools.rehearsal.runtime.generate import GenerateState, SingletonMeta
from migrate_tools.rehearsal.runtime.hooks import Loop
from migrate_tools.rehearsal.runtime.plan import Plan
from migrate_tools.rehearsal.runtime.sample import Sample
from migrate_tools.rehearsal.stage import STANDIN
from migrate_tools.relax.env_module import multi_turn_files
from migrate_tools.verl.extract import Extracted

TOOLS = """
class OpenAIFunctionToolSchema(dict):
    @classmethod
    def model_validate(cls, value):
        return cls(value)

class Answer:
    def __init__(self, text):
        self.text, self.image, self.video = text, None, None

class Shout:
    def __init__(self, config, tool_schema):
        self.config, self.tool_schema = config, tool_schema
    async def create(self, instance_id=None, **kwargs):
        return "id", None
    async def execute(self, instance_id, parameters, **kwargs):
        return Answer(parameters["text"].upper()), 0.5, {}
    async def release(self, instance_id):
        pass

class Parser:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
    async def extract_tool_calls(self, ids):
        text = self.tokenizer.decode(ids).replace("<|im_end|>", "")
        calls = [line[5:].split("|", 1) for line in text.splitlines() if line.startswith("CALL ")]
        return "", [type("C", (), {"name": name, "arguments": body})() for name, body in calls]

PARTS = {"tools": {"shout": Shout}, "users": {}, "parser": Parser}
"""
CALLS = ('CALL shout|{"text": "first words"}', "CALL other|{}", 'CALL shout|{"text": "second"}')
SHOUT = ToolSpec(name="shout", kind="base_tool", class_name="a.Shout", file="a.py", parameters={"type": "function"})


def write_example(folder: Path, edits: dict[str, list[tuple[str, str]]]) -> None:
    """The rendered files, after text replacements by the start of the file's name."""
    launch = Launch(
        name="run_demo",
        script="run_demo.sh",
        module="verl.trainer.main_ppo",
        verl=VerlRef(version="0.7.1", root="/nowhere", how="made up"),
        reward=RewardSpec(kind="custom", path="reward.py", function="compute_score"),
        data=DataSpec(),
        config={"data.max_response_length": 200},
        multi_turn=MultiTurn(tools=(SHOUT,), max_assistant_turns=3),
    )
    tools = Extracted(code=TOOLS, entry="PARTS", is_async=False)
    for file in multi_turn_files(launch, Extracted(code="", entry="x", is_async=False, tools=tools), algo="demo"):
        text = file.text
        for old, new in edits.get(Path(file.path).name.partition("_")[0], ()):
            assert old in text, old
            text = text.replace(old, new)
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@contextmanager
def standin_relax(folder: Path) -> Iterator[None]:
    """The stand-in Relax and the example in `folder` can be imported while the context lasts."""
    before = list(sys.path)
    sys.path[:0] = [str(STANDIN), str(folder)]
    try:
        yield
    finally:
        sys.path[:] = before
        for name in [name for name in sys.modules if name.partition(".")[0] in ("relax", "examples")]:
            del sys.modules[name]


def rollout_args(**values: Any) -> Namespace:
    """What a rollout reads of the command line."""
    names = (
        "custom_generate_function_path multimodal_keys rollout_max_context_len rollout_top_k rollout_stop "
        "rollout_stop_token_ids rollout_interaction_env_path sglang_router_policy reward_key"
    )
    defaults: dict[str, Any] = dict.fromkeys(names.split())
    return Namespace(
        **{
            **defaults,
            "rollout_temperature": 1.0,
            "rollout_top_p": 1.0,
            "rollout_max_response_len": 200,
            "rollout_skip_special_tokens": False,
            **values,
        }
    )


def run_drills(
    generate: Callable[..., Any],
    samples: list[Sample],
    calls: tuple[str, ...] = CALLS,
    *,
    only: str = "",
    episodes: int = 64,
    **values: Any,
) -> tuple[list[str], dict[str, Any]]:
    """Problems and facts of the drills of a generate function."""
    SingletonMeta._instances.clear()
    args = rollout_args(**values)
    loop = Loop()
    with Engine(Plan(GenerateState(args).tokenizer)) as engine:
        args.sglang_router_ip, args.sglang_router_port = "127.0.0.1", engine.port
        drills = Drills(args, generate, engine, samples, calls)
        drills.episodes = episodes
        return drills.run(loop, only)


def samples(count: int = 4) -> list[Sample]:
    """Samples as the data set loads them."""
    return [
        Sample(prompt=f"<|im_start|>user\nWhat is {n} + {n}?<|im_end|>\n<|im_start|>assistant\n", label=str(2 * n))
        for n in range(count)
    ]


def load_generate(name: str = "examples.demo.rollout_demo") -> Callable[..., Any]:
    """The generate function of the example at hand."""
    generate: Callable[..., Any] = importlib.import_module(name).generate
    return generate
