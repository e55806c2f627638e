"""Our model of each reward manager against verl's own class, release by release; a recipe's own class is run itself."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from migrate_tools.model import DataSpec, Launch, MultiTurn, Overlong, Recipe, RewardSpec
from migrate_tools.parity import managers, minitorch, oldjob, real_manager, stubs, told
from migrate_tools.relax.special_tokens import QWEN
from migrate_tools.verl.manager_added import told_keys
from migrate_tools.verl.source import wheel

pytestmark = pytest.mark.usefixtures("undirected")

SCORERS = """
import json

def number(data_source, solution_str, ground_truth, extra_info=None):
    return float(len(solution_str) % 7) - 2.5

def whole(data_source, solution_str, ground_truth, extra_info=None):
    return len(solution_str) % 3

def truth(data_source, solution_str, ground_truth, extra_info=None):
    return ground_truth in solution_str

def pair(data_source, solution_str, ground_truth, extra_info=None):
    return (0.5, "half")

def table(data_source, solution_str, ground_truth, extra_info=None):
    right = ground_truth in solution_str
    return {"score": 1.0 if right else -1.0, "acc": right, "pred": solution_str}

def text(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": float(len(solution_str)), "seen": solution_str, "source": data_source}

def keys(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": 0.0, "keys": json.dumps(extra_info, sort_keys=True, default=str)}

def raises(data_source, solution_str, ground_truth, extra_info=None):
    raise KeyError(solution_str)

def nothing(data_source, solution_str, ground_truth, extra_info=None):
    return None

def changes(data_source, solution_str, ground_truth, extra_info=None):
    (extra_info or {}).update(seen=1)
    return 1.0

async def later(data_source, solution_str, ground_truth, extra_info=None):
    return 0.25

def batch(data_sources, solution_strs, ground_truths, extra_infos):
    return [float(len(text)) for text in solution_strs]

def batch_tables(data_sources, solution_strs, ground_truths, extra_infos):
    return [{"score": len(text), "info": json.dumps(info, sort_keys=True, default=str)}
            for text, info in zip(solution_strs, extra_infos)]
"""
SINGLE = ("number", "whole", "truth", "pair", "table", "text", "keys", "raises", "nothing", "changes")
PRIME = ("number", "whole", "truth", "pair", "raises", "nothing", "table")
BATCH = ("batch", "batch_tables")
RELEASES = {
    "0.3.0.post1": {"naive": SINGLE},
    "0.5.0": {"naive": SINGLE, "dapo": SINGLE, "batch": BATCH, "prime": PRIME},
    "0.6.1": {"naive": SINGLE, "dapo": SINGLE, "batch": BATCH, "prime": PRIME},
    "0.7.1": {"naive": (*SINGLE, "later"), "dapo": (*SINGLE, "later"), "gdpo": SINGLE, "rate_limited": SINGLE},
    "0.9.1": {"naive": (*SINGLE, "later"), "dapo": (*SINGLE, "later"), "gdpo": SINGLE, "rate_limited": SINGLE},
}
DRIVER = """
import json, sys
from migrate_tools.parity import manager_check, managers, supervise, told
from migrate_tools.parity.old_side import prepare
job = json.load(open(sys.argv[1]))
found = {}
for name in job["scorers"]:
    one = {**job, "scorer": {**job["scorer"], "function": name}}
    function, manager, loop = prepare(one)
    score = manager_check.runner(one, function, loop)
    for index, case in enumerate(job["cases"]):
        records = []
        row = job["rows"][case["row"]]
        given = managers.Call(row, case["old"], case["length"], told.read(case["told"]))
        for call in (lambda: managers.score(manager, function, given, loop), lambda: score(row, case)):
            try:
                records.append({"kind": "value", **call()})
            except Exception as error:
                records.append({"kind": "exception", "error": supervise.describe(error)})
        why = manager_check.difference(*records, swallows=job["manager"]["name"] in managers.SWALLOWS)
        found[f"{name} {index}"] = [why, records[1]["kind"], records[1].get("score")]
print(json.dumps(found))
"""
ROWS = [
    {
        "data_source": "demo",
        "prompt": "Q?",
        "reward_model": {"ground_truth": "72"},
        "extra_info": {"index": 3, "n": None},
    },
    {"data_source": "other", "prompt": "Q?", "reward_model": {"ground_truth": "a"}},
]
CASES = [
    {"row": 0, "new": "is it 72?<|im_end|>", "old": "is it 72?", "length": 40, "told": ""},
    {"row": 0, "new": "a<|im_end|>b<|im_end|>", "old": "ab", "length": 24, "told": ""},
    {"row": 0, "new": "no", "old": "no", "length": 31, "told": ""},
    {"row": 1, "new": "", "old": "", "length": 1, "told": ""},
    {"row": 1, "new": "a long answer " * 9, "old": "a long answer " * 9, "length": 38, "told": ""},
]


def launch_for(version: str, manager: str, **spec: Any) -> Launch:
    """A launch of one release under one manager, with an overlong penalty where the manager knows one."""
    verl = wheel(version)
    limits = Overlong(max_resp_len=40, buffer_len=20, penalty_factor=1.0) if manager == "dapo" else None
    base = "reward.reward_kwargs" if "0.9" in version else "reward_model.reward_kwargs"
    return Launch(
        name="run",
        script="run.sh",
        module="verl.trainer.main_ppo",
        config={"trainer.experiment_name": "trial", f"{base}.overlong_buffer_cfg.log": True},
        verl=verl,
        reward=RewardSpec(
            kind="custom", path="scorers.py", function="number", manager=manager, overlong=limits, num_turns=2, **spec
        ),
        data=DataSpec(),
    )


def job_for(launch: Launch, project: Path, scorers: tuple[str, ...]) -> dict[str, Any]:
    """The old side's job, with the class of the manager beside our model of it."""
    recipe = Recipe(name="x", root=str(project), project_root=str(project), sha256="", launches=(launch,))
    made = oldjob.real_manager(recipe, launch)
    keys = told_keys(launch.model_copy(update={"multi_turn": MultiTurn()}))
    cases = [*CASES, {**CASES[0], "told": told.values(keys, (), 3)}]
    return {
        "rows": ROWS,
        "cases": cases,
        "scorers": scorers,
        "scorer": {"file": str(project / "scorers.py")},
        "manager": oldjob.manager_settings(launch),
        "real": {"class": made, "family": QWEN.name, "prompt_key": "prompt"},
        "paths": [],
        "verl_root": launch.verl.root,
        "environment": {},
    }


@pytest.mark.jail  # no jail, but a process with a whole release each
@pytest.mark.parametrize(("version", "manager"), [(v, name) for v, names in RELEASES.items() for name in names])
def test_the_model_is_what_the_class_does(tmp_path: Path, version: str, manager: str) -> None:
    pytest.importorskip("omegaconf")
    (tmp_path / "scorers.py").write_text(SCORERS, encoding="utf-8")
    job = job_for(launch_for(version, manager), tmp_path, RELEASES[version][manager])
    (tmp_path / "job.json").write_text(json.dumps(job), encoding="utf-8")
    command = [sys.executable, "-c", DRIVER, str(tmp_path / "job.json")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert {key: value[0] for key, value in found.items() if value[0]} == {}
    kinds = {key: value[1] for key, value in found.items()}
    if manager in ("naive", "dapo", "gdpo"):
        assert {kinds[f"raises {index}"] for index in range(6)} == {"exception"}
        assert found["whole 2"][1:] == ["value", 2.0 if manager != "dapo" else pytest.approx(2.0 - 11 / 20)]
    if manager in ("prime", "rate_limited"):
        assert {found[f"raises {index}"][2] for index in range(6)} == {0.0}
    assert len(found) == 6 * len(RELEASES[version][manager])


def test_pieces_of_text_decode_to_the_text_with_and_without_special_tokens() -> None:
    tokenizer = real_manager.Tokenizer()
    tokenizer.begin(["<|im_end|>"])
    for text, count in (("a b<|im_end|>c<|im_end|>", 9), ("word " * 50, 7), ("", 3), ("x", 5), ("<|im_end|>", 1)):
        ids = tokenizer.encode(text, count)
        assert len(ids) == count
        assert tokenizer.decode(np.array(ids)) == text
        assert tokenizer.decode(ids, skip_special_tokens=True) == text.replace("<|im_end|>", "")


def test_small_tensors_count_as_torch_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", sys)  # what was there comes back when this ends
    torch = minitorch.module()
    length = torch.tensor([1, 1, 1, 0]).sum()
    assert (type(length).__name__, int(length), length.dtype) == ("Tensor", 3, np.int64)
    share = -(length - 1) / 8 * 0.3
    assert share.dtype == np.float32
    assert float(share) == float(np.float32(-0.25) * np.float32(0.3))
    reward = torch.zeros_like(torch.tensor([[1, 2, 3]]), dtype=torch.float32)
    reward[0, length - 1] = True
    assert reward.tolist() == [[0.0, 0.0, 1.0]]
    for wrong in (None, "1.0", (0.5, "x"), [1.0]):
        with pytest.raises(TypeError, match="can't assign"):
            reward[0, 0] = wrong
    assert torch.cat((torch.tensor([1]), torch.tensor([2, 3])))[-length:].tolist() == [1, 2, 3]
    with pytest.raises(stubs.StandInUsed, match="torch.einsum"):
        torch.einsum("i,i->", reward, reward)
    stubs.used.clear()


OWN = """
import torch
from verl import DataProto
from verl.workers.reward_manager import register


@register("shaped")
class ShapedRewardManager:
    def __init__(self, tokenizer, num_examine, compute_score=None, reward_fn_key="data_source", bonus=0.0):
        self.tokenizer, self.compute_score, self.bonus = tokenizer, compute_score, bonus

    def __call__(self, data: DataProto, return_dict=False):
        reward = torch.zeros_like(data.batch["responses"], dtype=torch.float32)
        width = data.batch["prompts"].shape[-1]
        for i in range(len(data)):
            item = data[i]
            length = item.batch["attention_mask"][width:].sum()
            text = self.tokenizer.decode(item.batch["responses"][:length], skip_special_tokens=True)
            score = self.compute_score(
                data_source=item.non_tensor_batch["data_source"], solution_str=text,
                ground_truth=item.non_tensor_batch["reward_model"]["ground_truth"], extra_info={})
            reward[i, length - 1] = score + self.bonus
        return {"reward_tensor": reward, "reward_extra_info": {"plain": [score]}} if return_dict else reward
"""


def test_a_ground_truth_inside_json_text_stops_the_manager_as_in_verl() -> None:
    call = managers.Call({"data_source": "d", "reward_model": '{"ground_truth": "1"}'}, "1", 1)
    loop = asyncio.new_event_loop()
    with pytest.raises(TypeError, match="string indices"):
        managers.score(managers.Manager("naive"), lambda **_: 1.0, call, loop)
    loop.close()


def test_a_manager_of_the_recipe_is_found_and_run(tmp_path: Path) -> None:
    (tmp_path / "scorers.py").write_text(SCORERS, encoding="utf-8")
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    launch = launch_for("0.6.1", "shaped", manager_kwargs={"bonus": 0.5})
    recipe = Recipe(name="x", root=str(tmp_path), project_root=str(tmp_path), sha256="", launches=(launch,))
    made = oldjob.real_manager(recipe, launch)
    assert made is not None
    assert (made["file"], made["arguments"]) == ("/project/own.py", {"bonus": 0.5})
    assert oldjob.not_checkable(recipe, launch) == ""
    assert "neither one of verl's nor in the files" in oldjob.not_checkable(recipe, launch_for("0.6.1", "elsewhere"))
    script = """
import asyncio, json, sys
from migrate_tools.parity import minitorch, real_manager, stubs
from migrate_tools.parity.managers import Call
stubs.install(sys.argv[1]); minitorch.install()
made = json.loads(sys.argv[2]); made["file"] = sys.argv[3]
real, scorer = real_manager.RealManager(**made), lambda **k: len(k["solution_str"])
runner = real_manager.Runner(real, scorer, asyncio.new_event_loop())
row = {"data_source": "d", "reward_model": {"ground_truth": "1"}}
print(json.dumps(runner.score(Call(row, "four<|x|>", 6), "Q", ["<|x|>"])))
"""
    arguments = [launch.verl.root, json.dumps(made), str(tmp_path / "own.py")]
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True)
    record = json.loads(done.stdout or "{}")
    assert (record.get("score"), record.get("raw_type"), record.get("keys")) == (4.5, "int", {"plain": 4}), done.stderr


@pytest.mark.jail
def test_a_recipe_with_its_own_manager_is_compared_with_that_class(bench: Callable[..., Any]) -> None:
    scorer = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            return 1.0 if str(ground_truth) in solution_str else 0.0
    """
    made = bench(scorer, manager="shaped", manager_kwargs={"bonus": 0.0})
    Path(made.recipe.root, "own.py").write_text(OWN.replace("from verl.workers", "from verl_missing"), encoding="utf-8")
    assert made.check(cases=40).summary.startswith("the old reward does not load: ModuleNotFoundError")


@pytest.mark.jail
@pytest.mark.parametrize(("bonus", "status"), [(0.0, "passed"), (0.25, "failed")])
def test_what_an_own_manager_adds_is_seen(bench: Callable[..., Any], bonus: float, status: str) -> None:
    scorer = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            return 1.0 if str(ground_truth) in solution_str else 0.0
    """
    own = OWN.replace("from verl import DataProto\n", "").replace(": DataProto", "")
    own = own.replace("from verl.workers.reward_manager import register", "register = lambda name: lambda made: made")
    own = own.replace('{"reward_tensor": reward, "reward_extra_info": {"plain": [score]}} if return_dict else ', "")
    made = bench(scorer, manager="shaped", manager_kwargs={"bonus": bonus})
    Path(made.recipe.root, "own.py").write_text(own, encoding="utf-8")
    result = made.check(cases=40)
    assert result.status == status, result.summary
    if status == "failed":
        assert "reward 0.25 became 0.0" in result.summary or "reward 1.25 became 1.0" in result.summary


CHANGED = """
import torch


class NaiveRewardManager:
    def __init__(self, tokenizer, num_examine, compute_score=None, reward_fn_key="data_source"):
        self.tokenizer, self.compute_score = tokenizer, compute_score

    def __call__(self, data, return_dict=False):
        reward = torch.zeros_like(data.batch["responses"], dtype=torch.float32)
        width = data.batch["prompts"].shape[-1]
        for i in range(len(data)):
            item = data[i]
            length = item.batch["attention_mask"][width:].sum()
            text = self.tokenizer.decode(item.batch["responses"][:length], skip_special_tokens=True)
            score = self.compute_score(
                data_source=item.non_tensor_batch["data_source"], solution_str=text,
                ground_truth=item.non_tensor_batch["reward_model"]["ground_truth"],
                extra_info=item.non_tensor_batch.get("extra_info", {}))
            reward[i, length - 1] = (score["score"] if isinstance(score, dict) else score) * FACTOR
        return {"reward_tensor": reward, "reward_extra_info": {"method": ["changed"] * len(data)}}
"""


@pytest.mark.jail
@pytest.mark.parametrize(("factor", "status"), [(1.0, "passed"), (0.5, "failed")])
def test_a_manager_that_a_fork_has_changed_is_run_itself(bench: Callable[..., Any], factor: float, status: str) -> None:
    scorer = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            return 1.0 if str(ground_truth) in solution_str else 0.0
    """
    made = bench(scorer, version="0.6.1")
    file = Path(made.launch.verl.root, "verl/workers/reward_manager/naive.py")
    file.parent.mkdir(parents=True)
    file.write_text(CHANGED.replace("FACTOR", str(factor)), encoding="utf-8")
    result = made.check(cases=40)
    assert result.status == status, result.summary
    assert made.freeze().meta["own_class"] is True
    if status == "passed":
        assert "T07-metric-not-logged" in {item["id"] for item in result.evidence["tolerances"]}
    else:
        assert "reward 0.5 became 1.0" in result.summary


@pytest.mark.jail
def test_a_key_that_a_changed_manager_does_not_log_may_be_logged(bench: Callable[..., Any]) -> None:
    scorer = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            return {"score": 1.0 if str(ground_truth) in solution_str else 0.0, "step": 3}
    """
    made = bench(scorer, version="0.6.1")
    file = Path(made.launch.verl.root, "verl/workers/reward_manager/naive.py")
    file.parent.mkdir(parents=True)
    file.write_text(CHANGED.replace("FACTOR", "1.0"), encoding="utf-8")
    result = made.check(cases=40)
    assert result.status == "passed", result.summary
    assert {"T13-key-logged", "T07-metric-not-logged"} <= {item["id"] for item in result.evidence["tolerances"]}


@pytest.mark.parametrize(
    ("model", "real", "why"),
    [
        ("RewardError: 0 values for 1 rows", "IndexError: list index out of range", ""),
        ("KeyError: 'x'", "KeyError: 'x'", ""),
        ("KeyError: 'x'", "IndexError: 1", "the model raises KeyError, the class IndexError"),
    ],
)
def test_what_fails_in_verl_may_fail_in_another_class(model: str, real: str, why: str) -> None:
    from migrate_tools.parity import manager_check

    records = [{"kind": "exception", "error": model}, {"kind": "exception", "error": real}]
    assert manager_check.difference(*records) == why
