"""An agent loop of a recipe's own over verl's base and as the example's generate function, sound and faulty."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from migrate_tools.model import DataSpec, Launch, MultiTurn, RewardSpec, VerlRef
from migrate_tools.parity.loop_sides import NewAgent, agent_record, messages_of
from migrate_tools.parity.own_loops import conversations, difference, judged, model_type, nested, verl_row
from migrate_tools.rehearsal.stage import STANDIN
from migrate_tools.relax.loop_module import lengths, loop_files
from migrate_tools.relax.metadata_names import ROLLOUT_METADATA
from migrate_tools.verl.agent_loops import extract_loops
from migrate_tools.verl.multi_turn import read_multi_turn

RECIPE = Path(__file__).parents[2] / "recipes" / "own_loop"
TOOLS = Path(__file__).parents[3] / "tools"
VERL = {
    "verl/experimental/agent_loop/agent_loop.py": """
import asyncio
from abc import ABC
from typing import Any, Optional

import ray
import torch
from pydantic import BaseModel
from tensordict import TensorDict

from verl.protocol import DataProto
from verl.workers.rollout.replica import TokenOutput


def first_user(config):
    return config.get("greeting", "")


class AgentLoopMetrics(BaseModel):
    tool_calls: float = 0.0


class AgentLoopOutput(BaseModel):
    prompt_ids: list[int]
    response_ids: list[int]
    response_mask: list[int]
    routed_experts: Optional[Any] = None
    reward_score: Optional[float] = None
    num_turns: int = 0
    metrics: AgentLoopMetrics
    extra_fields: dict[str, Any] = {}


class DictConfigWrap:
    def __init__(self, config):
        self.config = config


class AgentLoopBase(ABC):
    def __init__(self, trainer_config: "DataProto", server_manager, tokenizer, processor, dataset_cls, data_config):
        self.config = trainer_config.config
        self.rollout_config = self.config.actor_rollout_ref.rollout
        self.server_manager, self.tokenizer = server_manager, tokenizer
        self.greeting = first_user(self.config)
        one, two = (self._ids([{"role": "user", "content": ""}] * count, False) for count in (1, 2))
        self.system_prompt = one[: len(one) - (len(two) - len(one))]

    def _ids(self, messages, prompt):
        return self.tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=prompt)

    async def apply_chat_template(self, messages, remove_system_prompt=False) -> torch.Tensor:
        ids = self._ids(messages, True)
        return ids[len(self.system_prompt) :] if remove_system_prompt else ids


_agent_loop_registry: dict[str, dict] = {}


def register(name):
    return lambda item: item


@ray.remote(num_cpus=1)
class AgentLoopWorker:
    tables: TensorDict = torch.zeros(3)

    def make(self):
        return hydra.utils.instantiate(
            config=1, trainer_config=2, server_manager=3, tokenizer=4, processor=5, dataset_cls=6, data_config=7
        )
""",
    "verl/experimental/agent_loop/single_turn_agent_loop.py": """
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopWorker


class SingleTurnAgentLoop(AgentLoopBase):
    worker: AgentLoopWorker
""",
    "verl/workers/rollout/replica.py": """
import ray
from pydantic import BaseModel


class TokenOutput(BaseModel):
    token_ids: list[int]
    log_probs: list[float] | None = None


class Replica(ray.Actor):
    pass
""",
}
ROWS = [
    {
        "prompt": [{"role": "user", "content": f"What is {number} + {number}?"}],
        "data_source": "sums",
        "hint": "It is even.",
        "reward_model": {"style": "rule", "ground_truth": str(2 * number)},
        "extra_info": {"index": number},
    }
    for number in range(2)
]


def talks() -> list[dict[str, Any]]:
    return list(conversations(MultiTurn(), [row["reward_model"]["ground_truth"] for row in ROWS]))


def play(folder: Path, side: str, *edits: tuple[str, str]) -> list[dict[str, Any]]:
    """The records of one side, in a process of its own."""
    turns = read_multi_turn(
        {
            "actor_rollout_ref.rollout.agent.agent_loop_config_path": "agent.yaml",
            "actor_rollout_ref.rollout.agent.default_agent_loop": "second_look",
        },
        DataSpec(),
        project_root=RECIPE,
        recipe_root=RECIPE,
        verl=VerlRef(version="0.7.1", root="/nowhere", how="made up"),
        resolve=lambda text: RECIPE / text,
    )
    assert turns is not None
    launch = Launch(
        name="run_loop",
        script="run_loop.sh",
        module="verl.trainer.main_ppo",
        verl=VerlRef(version="0.7.1", root="/nowhere", how="made up"),
        reward=RewardSpec(kind="custom", path="reward.py", function="compute_score"),
        data=DataSpec(),
        config={"data.max_response_length": 200, "data.max_prompt_length": 200},
        multi_turn=turns,
    )
    loops = extract_loops(turns, project_root=RECIPE, recipe_root=RECIPE, verl=launch.verl)
    for file in loop_files(launch, loops, algo="demo", scripts=launch.script):
        text = file.text
        for old, new in edits:
            text = text.replace(old, new)
        path = folder / "stage" / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name, text in VERL.items():
        path = folder / "verl" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    limits = lengths(launch)
    columns = {name: row[name] for row in ROWS for name in ("data_source", "hint")}
    job = {
        "old": {
            "verl_root": str(folder / "verl"),
            "paths": [str(RECIPE)],
            "aliases": {},
            "loops": [{"name": "second_look", "class_name": "loop.SecondLookLoop", "file": str(RECIPE / "loop.py")}],
            "arguments": {"second_look": {"rounds": 1}},
            "default_loop": "second_look",
            "config": nested(launch.config, limits),
            "model_type": model_type("Qwen/Qwen3-8B"),
            "response_length": limits["response_length"],
            "rows": [verl_row(row, launch.data) for row in ROWS],
            "is_agent": False,
        },
        "new": {
            "paths": [str(folder / "stage"), str(STANDIN)],
            "module": "examples.demo.rollout_demo",
            "response_length": limits["response_length"],
            "told": ROLLOUT_METADATA,
            "rows": [
                {
                    "prompt": row["prompt"],
                    "label": row["reward_model"]["ground_truth"],
                    "extra_info": {**row["extra_info"], **columns, "raw_prompt": row["prompt"]},
                }
                for row in ROWS
            ],
        },
        "tape": None,
        "environment": {},
        "left_to_user": {},
        "conversations": talks(),
    }
    (folder / "job.json").write_text(json.dumps(job))
    command = [sys.executable, "-m", "migrate_tools.parity.loop_sides", side, str(folder / "job.json")]
    environment = {**os.environ, "PYTHONPATH": str(TOOLS)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads((folder / f"{side}.json").read_text())
    assert "error" not in answer, answer
    records: list[dict[str, Any]] = answer["records"]
    return records


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return play(tmp_path_factory.mktemp("old"), "old")


def test_the_loop_and_the_example_give_the_same(tmp_path: Path, old: list[dict[str, Any]]) -> None:
    status, summary, evidence = judged(talks(), old, old, play(tmp_path, "new"))
    assert (status, evidence["problems"]) == ("passed", [])
    assert (evidence["ended"], evidence["with_observations"], evidence["most_requests"]) == (8, 6, 2)
    assert summary.startswith("8 conversations of the recipe's loop over verl's base give the same requests")


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (("ids, mask = ids[:limit], mask[:limit]", "ids, mask = ids[1:], mask[1:]"), "response differ at "),
        (("mask = ids[:limit], mask[:limit]", "mask = ids[:limit], [1] * len(ids[:limit])"), "mask differ at "),
        (('"num_turns": output.num_turns', '"num_turns": 2'), "told "),
        (('"rounds": 1', '"rounds": 2'), "2 requests became 3"),
        (("Look again.", "Look once more."), "requests differ at 1"),
        (("**given,", "**given, 'min_p': 0.1,"), "requests differ at 0"),
    ],
)
def test_each_fault_is_found(tmp_path: Path, old: list[dict[str, Any]], edit: tuple[str, str], found: str) -> None:
    new = play(tmp_path, "new", edit)
    problems = [why for left, right in zip(old, new, strict=True) if (why := difference(left, right))]
    assert problems
    assert problems[0].startswith(found)


RECORD = {"requests": [], "prompt": ["a"], "response": ["b"], "mask": [1], "told": {"num_turns": 2}, "reward": None}


@pytest.mark.parametrize(
    ("old", "again", "new", "status", "words"),
    [
        (
            {"raised": "KeyError: x"},
            {"raised": "KeyError: x"},
            RECORD,
            "not_checkable",
            "over verl's own base it raises KeyError: x",
        ),
        (RECORD, {**RECORD, "mask": [0]}, {**RECORD, "mask": [5]}, "not_checkable", "they differ from run to run"),
        (RECORD, RECORD, {"raised": "ValueError: y"}, "failed", "the example raises ValueError: y"),
        (
            {**RECORD, "asked": ["GET"]},
            {**RECORD, "asked": ["GET"]},
            {**RECORD, "asked": ["GET"]},
            "passed",
            "plumbing",
        ),
    ],
)
def test_what_cannot_be_compared_is_said(old: Any, again: Any, new: Any, status: str, words: str) -> None:
    found, summary, _ = judged([{"family": "right"}], [old], [again], [new])
    assert found == status
    assert words in summary


@pytest.mark.parametrize(
    ("path", "kind"), [("Qwen/Qwen3-8B", "qwen3"), ("/m/Qwen2.5-7B-Instruct", "qwen2"), ("meta-llama/Llama-3", None)]
)
def test_the_kind_of_a_model(path: str, kind: str | None) -> None:
    assert model_type(path) == kind


def test_a_row_as_verl_gives_it_to_a_loop() -> None:
    row = verl_row({**ROWS[1], "extra_info": {"index": 7, "tools_kwargs": {"look": {}}}}, DataSpec())
    assert row["raw_prompt"] == ROWS[1]["prompt"]
    assert (row["index"], row["tools_kwargs"], row["interaction_kwargs"]) == (7, {"look": {}}, {})
    assert "prompt" not in row


AGENT = """
import json, os, urllib.request

given = json.load(open(os.environ["RELAX_INPUT_JSON"]))
messages = given["messages"]
tools = [{"type": "function", "function": {"name": "look"}}]
for told in ("found", None):
    body = json.dumps({"messages": messages, "tools": tools}).encode()
    headers = {"Authorization": "Bearer " + os.environ["RELAX_SESSION_ID"]}
    url = os.environ["RELAX_BASE_URL"].rstrip("/") + "/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as reply:
        messages.append(json.loads(reply.read())["choices"][0]["message"])
    if told:
        messages.append({"role": "tool", "content": told})
json.dump({"metadata": {"verl_rollout": {"num_turns": 4}}}, open(os.environ["RELAX_OUTPUT_JSON"], "w"))
"""


def test_an_agent_is_compared_by_what_the_model_reads(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    row = {"prompt": [{"role": "user", "content": "1 + 1?"}], "label": "2", "extra_info": {}}
    command = f"{sys.executable} agent.py"
    job = {"command": command, "folder": str(tmp_path), "told": ROLLOUT_METADATA, "rows": [row]}
    new = asyncio.run(NewAgent(job).play({"row": 0, "texts": ["I look.", "It is 2."]}))
    first = [["tool schema", "[{'type': 'function', 'function': {'name': 'look'}}]"], ["user", "1 + 1?"]]
    assert new["requests"] == [first, [*first, ["assistant", "I look."], ["tool", "found"]]]
    assert (new["mask"], new["told"], new["reward"]) == ([1, 0], {"num_turns": 4}, None)
    # what verl's loop sends of the same conversation, in the stand-in's template, with the answer still open
    said = ["<|im_start|>user\n1 + 1?<|im_end|>\n", "I look.<|im_end|>", "<|im_start|>tool\nfound<|im_end|>\n"]
    schema = f"<|im_start|>tool schema\n{first[0][1]}<|im_end|>\n"
    open_answer = "<|im_start|>assistant\n"
    texts = [schema + said[0] + open_answer, schema + said[0] + open_answer + said[1] + said[2] + open_answer]
    old = agent_record([messages_of(text) for text in texts], {"num_turns": 4}, None)
    assert difference(old, new) == ""
    assert difference(agent_record([messages_of(texts[0])], {"num_turns": 4}, None), new) == "1 requests became 2"


def test_an_agent_that_fails_is_one_that_raises(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT.replace('{"role": "tool", "content": told}', '{"role": "me"}'))
    row = {"prompt": [{"role": "user", "content": "1 + 1?"}], "label": "2", "extra_info": {}}
    job = {"command": f"{sys.executable} agent.py", "folder": str(tmp_path), "told": ROLLOUT_METADATA, "rows": [row]}
    new = asyncio.run(NewAgent(job).play({"row": 0, "texts": ["I look."]}))
    assert "a message has the role 'me'" in new["raised"]
