"""Tools that ask services: found in all of their code, answered from a tape, and what is said of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from migrate_tools.model import CheckStatus, DataSpec, Launch, MultiTurn, Recipe, RewardSpec, ToolSpec, VerlRef
from migrate_tools.parity.tool_services import Services, find_services, joined_tapes, named_folders
from migrate_tools.parity.tools import difference, verdict
from migrate_tools.sandbox import empty_folders

HELPER = """\
import requests

def look_up(url, query):
    return requests.post(url, json={"query": query}).json()["title"].strip()
"""
TOOL = """\
from helper import look_up

class Search:
    def __init__(self, config, tool_schema):
        self.config = config

    async def execute(self, instance_id, parameters, **kwargs):
        return look_up(self.config["url"], parameters["query"]), 0.0, {}
"""
PARSER = """\
class ToolParser:
    @classmethod
    def register(cls, name):
        return lambda item: item

@ToolParser.register("hermes")
class Hermes:
    pass
"""
ENV = """\
from tool import Search

class Env:
    def __init__(self, sample):
        self.metadata, self.tool = sample.metadata, Search({"url": "http://search:1/find"}, None)
    def reset(self):
        return {}, {}
    async def step(self, text):
        words, _, _ = await self.tool.execute("1", {"query": text})
        self.metadata["told"] = {"num_turns": 3}
        return {"messages": [{"role": "tool", "content": words}]}, False, {}
    def close(self):
        pass

def build_env(sample, args):
    return Env(sample)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = {"helper.py": HELPER, "tool.py": TOOL, "env.py": ENV}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    parser = tmp_path / "verl_root" / "verl" / "experimental" / "agent_loop" / "tool_parser.py"
    parser.parent.mkdir(parents=True)
    parser.write_text(PARSER)
    return tmp_path


def services(folder: Path) -> Services:
    tool = ToolSpec(name="search", kind="base_tool", class_name="tool.Search", file="tool.py")
    turns = MultiTurn(tools=(tool,))
    launch = Launch(
        name="run",
        script="run.sh",
        module="verl.trainer.main_ppo",
        verl=VerlRef(version="0.7.1", root=str(folder / "verl_root"), how="made up"),
        reward=RewardSpec(kind="custom", path="reward.py", function="compute_score"),
        data=DataSpec(),
        multi_turn=turns,
    )
    recipe = Recipe(name="r", root=str(folder), project_root=str(folder), sha256="0" * 64, launches=(launch,))
    return find_services(recipe, launch, turns)


def test_a_request_in_a_helper_of_the_tool_is_found(folder: Path) -> None:
    found = services(folder)
    assert (found.outside, found.left, found.sure) == (("http",), (), False)
    assert found.tape is not None
    assert [shape["path"] for shape in found.tape["shapes"]] == [["title"]]


def test_a_tool_without_requests_has_no_tape(folder: Path) -> None:
    (folder / "helper.py").write_text("def look_up(url, query):\n    return query\n")
    assert services(folder) == Services()


def test_one_tape_answers_reward_and_tools() -> None:
    joined = joined_tapes({"keys": ["a"], "texts": ["x"]}, None, {"keys": ["b"]})
    assert joined == {"keys": ["a", "b"], "texts": ["x"]}
    assert joined_tapes(None, None) is None


def test_requests_are_answered_and_remembered(folder: Path) -> None:
    job = {
        "environment": {}, "left_to_user": {}, "tape": services(folder).tape, "new_paths": [str(folder)],
        "module": "env", "tools_module": "tool", "told": "told", "args": {}, "images": None, "metadata": [],
        "conversations": [{"row": 0, "family": "valid", "texts": [f"word {number}"]} for number in range(24)],
    }  # fmt: skip
    (folder / "job.json").write_text(json.dumps(job))
    command = (sys.executable, "-m", "migrate_tools.parity.tool_sides", "new", str(folder / "job.json"))
    for _ in range(2):
        subprocess.run(command, check=True, env={"PYTHONPATH": ":".join(sys.path)}, timeout=60)
        records = json.loads((folder / "new.json").read_text())["records"]
        assert [[item[:2] for item in record["requests"]] for record in records] == [
            [["POST", "http://search:1/find"]]
        ] * 24
        answers = [record["turns"][0][0]["text"] for record in records if record["turns"]]
        assert len(set(answers)) > 3, "one answer a request, and some of them errors"


def test_other_requests_are_a_difference() -> None:
    old: dict[str, Any] = {"turns": [], "num_turns": 2, "requests": [["GET", "http://a/x", "1"]]}
    assert difference(old, old) == ""
    new = {**old, "requests": [["GET", "http://a/y", "1"]]}
    assert difference(old, new) == "requests to services ['GET http://a/x'] became ['GET http://a/y']"


EVIDENCE = {"conversations": 9, "answered": 5, "unsteady": 0, "asked": 4}
TAPE = Services(("http",), {"keys": []})


@pytest.mark.parametrize(
    ("found", "changes", "status", "said"),
    [
        (Services(), {}, "passed", "9 conversations give the same observations, rewards and ends"),
        (Services(), {"answered": 0}, "not_checkable", "no conversation got an answer from the old tools"),
        (TAPE, {}, "passed", "plumbing with taped answers, 4 conversations asked services: 9 conversations give"),
        (TAPE, {"unsteady": 2}, "passed", "7 conversations give the same observations, rewards and ends; in 2 more"),
        (TAPE, {"unsteady": 9}, "not_checkable", "the old tools answer differently every time"),
        (Services(("http",), {}, sure=False), {"asked": 0}, "passed", "9 conversations give the same"),
        (TAPE, {"asked": 0}, "not_checkable", "the tools ask services (http), and no conversation came to it"),
        (Services(("http", "process"), {}), {}, "not_checkable", "services (process) that are not here"),
    ],
)
def test_verdicts(found: Services, changes: dict[str, int], status: CheckStatus, said: str) -> None:
    given, words = verdict(found, {**EVIDENCE, **changes})
    assert given == status
    assert said in words


@pytest.mark.parametrize(
    ("config", "folders"),
    [
        ({"db_root_path": "/apps/sets/data/"}, ("/apps/sets/data",)),
        ({"roots": ["/mnt/a/b", {"second": "/mnt/a"}]}, ("/mnt/a", "/mnt/a/b")),
        ({"file": "/mnt/a/b.json", "route": "/v1", "url": "http://host/a/b", "own": "configs/data"}, ()),
        ({"taken": "/usr/lib/x", "up": "/mnt/../etc/x", "mounted": "/data/sets/a", "count": 3}, ()),
    ],
)
def test_folders_that_settings_of_tools_name(config: dict[str, Any], folders: tuple[str, ...]) -> None:
    tool = ToolSpec(name="sql", kind="base_tool", class_name="a.Sql", config=config)
    assert named_folders(MultiTurn(tools=(tool,))) == folders


def test_empty_folders_stand_in_one_inside_another(tmp_path: Path) -> None:
    mounts = empty_folders(["/mnt/a/b", "/mnt/a", "/mnt/ab"], tmp_path)
    assert [mount.target for mount in mounts] == ["/mnt/a", "/mnt/ab"]
    assert [path.name for path in mounts[0].source.iterdir()] == ["b"]
    assert list(mounts[1].source.iterdir()) == []
    assert not any(mount.writable for mount in mounts)


def test_what_stands_in_for_folders_is_said() -> None:
    evidence = {"conversations": 3, "answered": 3, "unsteady": 0, "asked": 0}
    _, summary = verdict(Services(folders=("/mnt/a",)), evidence)
    assert summary.endswith("ends; empty folders in place of /mnt/a")
