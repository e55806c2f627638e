"""A written reward gives the scorer what verl gives it, and never raises on what a model wrote."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from migrate_tools.model import DataSpec, MultiTurn, Overlong, SourceCount
from migrate_tools.relax.reward_module import execution_mode, render_reward
from writer_inputs import FakeSample, make_extracted, make_launch

ECHO = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    return {"score": 1.0, "seen": [data_source, solution_str, ground_truth, extra_info, kwargs]}
"""


def returning(expression: str) -> str:
    return (
        f"import math\n\n\ndef compute_score(data_source, solution_str, ground_truth, extra_info):\n"
        f"    return {expression}\n"
    )


def test_scorer_sees_what_verl_passes(reward: Any) -> None:
    sample = FakeSample(
        "It is 4.<|im_end|>", ["4"], {"index": 3, "data_source": "sums", "ability": "math", "_timing": 1}
    )
    result = reward(ECHO, launch=make_launch(num_turns=2))(sample)
    extra = {"index": 3, "num_turns": 2, "rollout_reward_scores": {}}
    assert result["seen"] == ["sums", "It is 4.", ["4"], extra, {}]
    assert sample.metadata["data_source"] == "sums"


def test_scorer_sees_what_a_rollout_of_tools_left(reward: Any) -> None:
    launch = make_launch(num_turns=2).model_copy(update={"multi_turn": MultiTurn()})
    said = {"num_turns": 8, "tool_rewards": [0.5], "turn_scores": []}
    function = reward(ECHO, launch=launch)
    found = function(FakeSample("4", ["4"], {"num_turns": None, "index": 3, "verl_rollout": said}))["seen"][3]
    assert found == {"index": 3, "rollout_reward_scores": {}, **said}
    assert function(FakeSample("4", ["4"], {"num_turns": None}))["seen"][3]["num_turns"] == 2


def test_tags_that_are_not_special_stay_and_end_tokens_go(reward: Any) -> None:
    sample = FakeSample("<think>a</think><tool_call>b</tool_call><|im_end|>")
    assert reward(ECHO)(sample)["seen"][1] == "<think>a</think><tool_call>b</tool_call>"


def test_special_tokens_stay_where_verl_kept_them(reward: Any) -> None:
    call = reward(ECHO, launch=make_launch(skip_special_tokens=False, text="prompt_and_response"))
    assert call(FakeSample("4<|im_end|>", prompt="<|im_start|>Q"))["seen"][1] == "<|im_start|>Q4<|im_end|>"


def test_other_family_other_tokens(reward: Any) -> None:
    launch = make_launch(config={"actor_rollout_ref.model.path": "meta-llama/Llama-3.1-8B-Instruct"})
    assert reward(ECHO, launch=launch)(FakeSample("4<|eot_id|><|im_end|>"))["seen"][1] == "4<|im_end|>"


def test_a_source_inside_extra_info_is_not_the_row_source(reward: Any) -> None:
    metadata = {"data_source": "inner", "verl_data_source": "outer", "ability": "own", "verl_ability": None}
    seen = reward(ECHO)(FakeSample("", None, metadata))["seen"]
    assert (seen[0], seen[3]) == ("outer", {"data_source": "inner", "ability": "own"})


def test_what_the_converter_put_beside_extra_info_is_taken_out_again(reward: Any) -> None:
    beside = {"data_source": "a", "ability": "math", "style": "rule"}
    assert reward(ECHO)(FakeSample("", None, {**beside, "level": 2}))["seen"][3] == {"level": 2}
    own = {**beside, "style": "mine", "verl_style": "rule", "agent_name": "own"}
    assert reward(ECHO)(FakeSample("", None, own))["seen"][3] == {"style": "mine", "agent_name": "own"}
    columns = {"reward_model": "struct<ground_truth: string>", "agent_name": "string"}
    call = reward(ECHO, launch=make_launch(data=DataSpec(columns=columns)))
    assert call(FakeSample("", None, own))["seen"][3] == {"style": "mine", "verl_style": "rule"}


def test_a_row_without_extra_info_gives_none_of_its_keys(reward: Any) -> None:
    empty = {"data_source": "a", "ability": "math", "style": "rule", "level": None, "index": None}
    assert reward(ECHO)(FakeSample("", None, empty))["seen"][3] == {}
    assert reward(ECHO)(FakeSample("", None, {**empty, "index": 0}))["seen"][3] == {"level": None, "index": 0}


def test_only_known_source_is_the_default(reward: Any) -> None:
    data = DataSpec(sources=(SourceCount(name="sums", split="train"),))
    assert reward(ECHO, launch=make_launch(data=data))(FakeSample())["seen"][0] == "sums"


def test_only_the_parameters_that_the_scorer_has(reward: Any) -> None:
    code = "def compute_score(ground_truth, solution_str):\n    return float(solution_str == ground_truth)\n"
    assert reward(code)(FakeSample("4", "4")) == {"score": 1.0, "acc": 1.0}


def test_kwargs_from_defaults_and_from_args(reward: Any) -> None:
    call = reward(ECHO, launch=make_launch(kwargs={"lr": 0.1, "names": ["a"]}))
    assert call(FakeSample())["seen"][4] == {"lr": 0.1, "names": ["a"]}
    assert call(FakeSample(), lr=9, demo_lr=0.5)["seen"][4] == {"lr": 0.5, "names": ["a"]}


def test_kwargs_win_over_what_the_manager_passes(reward: Any) -> None:
    call = reward(ECHO, launch=make_launch(kwargs={"data_source": "fixed"}))
    assert call(FakeSample("", None, {"data_source": "row"}))["seen"][0] == "fixed"


@pytest.mark.parametrize(
    ("expression", "score"),
    [("1", 1.0), ("True", 1.0), ("0.25", 0.25), ("(0.5, 'why')", 0.5), ("{'score': True, 'fmt': 1}", 1.0)],
)
def test_every_shape_becomes_a_dict_with_a_float(reward: Any, expression: str, score: float) -> None:
    result = reward(returning(expression))(FakeSample())
    assert type(result["score"]) is float
    assert result["score"] == score


def test_numpy_numbers_become_plain_ones(reward: Any) -> None:
    code = (
        "import numpy\n\n\ndef compute_score(solution_str):\n"
        "    return {'score': numpy.float32(0.5), 'n': numpy.int64(2)}\n"
    )
    result = reward(code)(FakeSample())
    assert (type(result["score"]), type(result["n"]), result["n"]) == (float, int, 2)


def test_nan_is_passed_on(reward: Any) -> None:
    assert math.isnan(reward(returning("math.nan"))(FakeSample())["score"])


@pytest.mark.parametrize("expression", ["None", "1 / 0", "'1.0'", "[]", "{}", "exit(3)", "ground_truth['x']"])
def test_failure_is_the_floor_and_says_why(reward: Any, expression: str) -> None:
    sample = FakeSample(metadata={})
    result = reward(returning(expression))(sample)
    assert result["score"] == 0.0
    assert sample.metadata["reward_error"]


def test_floor_of_a_scorer_with_negative_scores(reward: Any) -> None:
    code = (
        "def compute_score(solution_str):\n    score = 1.0 if int(solution_str) else -1.0\n"
        "    return {'score': score, 'acc': score > 0}\n"
    )
    call = reward(code)
    assert call(FakeSample("no number")) == {"score": -1.0, "acc": 0.0}
    assert call(FakeSample("0")) == {"score": -1.0, "acc": False}


def test_keys_that_a_branch_lacks_are_filled(reward: Any) -> None:
    code = (
        "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
        "    if data_source == 'a':\n        return 0.5\n"
        "    if solution_str == ground_truth:\n        return {'score': 1.0, 'acc': 1, 'fmt': 1, 'why': 'same'}\n"
        "    return {'score': 0.0, 'acc': 0}\n"
    )
    call = reward(code)
    answers = [
        call(FakeSample(text, "4", {"data_source": name})) for name, text in (("a", "4"), ("b", "4"), ("b", "5"))
    ]
    assert [set(item) for item in answers] == [{"score", "acc", "fmt", "why"}] * 3
    assert answers[2] == {"score": 0.0, "acc": 0, "fmt": 0.0, "why": ""}
    assert answers[0]["score"] == 0.5


def test_a_list_is_answered_in_order(reward: Any) -> None:
    code = (
        "import time\n\n\ndef compute_score(solution_str):\n"
        "    time.sleep(0.05 * (3 - int(solution_str)))\n    return int(solution_str)\n"
    )
    assert [item["score"] for item in reward(code)([FakeSample(str(n)) for n in range(4)])] == [0.0, 1.0, 2.0, 3.0]


def test_scorer_cannot_change_the_sample(reward: Any) -> None:
    code = (
        "def compute_score(solution_str, ground_truth, extra_info):\n    ground_truth.pop()\n"
        "    extra_info['a'].clear()\n    return 1\n"
    )
    sample = FakeSample("", ["4"], {"a": [1], "data_source": "s"})
    reward(code)(sample)
    assert (sample.label, sample.metadata["a"]) == (["4"], [1])


@pytest.mark.parametrize(("length", "penalty"), [(20, 0.0), (21, -0.05), (31, -0.55), (40, -1.0), (60, -2.0)], ids=str)
def test_overlong_penalty_of_the_dapo_manager(reward: Any, length: int, penalty: float) -> None:
    launch = make_launch(
        manager="dapo",
        overlong=Overlong(max_resp_len=40, buffer_len=20, penalty_factor=1.0),
        config={"reward.reward_kwargs.overlong_buffer_cfg.log": True},
    )
    result = reward(returning("{'score': 1.0, 'acc': 1.0}"), launch=launch)(FakeSample(response_length=length))
    assert result["score"] == pytest.approx(1.0 + penalty)
    assert (result["acc"], result["overlong_reward"], result["overlong"]) == (1.0, pytest.approx(penalty), penalty < 0)


def test_batch_function_gets_lists_and_its_length_is_checked(reward: Any) -> None:
    code = (
        "def compute_score(data_sources, solution_strs, ground_truths, extra_infos, cut=0):\n"
        "    scores = [float(a == b) for a, b in zip(solution_strs, ground_truths)]\n"
        "    return scores[: len(scores) - cut]\n"
    )
    samples = [FakeSample("4", "4"), FakeSample("5", "4")]
    call = reward(code, launch=make_launch(manager="batch", kwargs={"cut": 0}))
    assert [item["score"] for item in call(samples)] == [1.0, 0.0]
    assert call(samples[0]) == {"score": 1.0, "acc": 1.0}
    assert call([]) == []
    short = call(samples, demo_cut=1)
    assert [item["score"] for item in short] == [0.0, 0.0]
    assert samples[1].metadata["reward_error"] == "the scorer returned 1 values for 2 responses"


@pytest.mark.parametrize("answer", ["1 // (len(b) - 1)", "None if b == '5' else 1.0"])
def test_a_response_that_fails_in_a_batch_takes_no_reward_from_the_others(reward: Any, answer: str) -> None:
    code = (
        "def compute_score(data_sources, solution_strs, ground_truths, extra_infos):\n"
        f"    return [{answer} for b in solution_strs]\n"
    )
    samples = [FakeSample("40", "4"), FakeSample("5", "4"), FakeSample("60", "4")]
    rewards = reward(code, launch=make_launch(manager="batch"))(samples)
    assert [item["score"] for item in rewards] == [1.0, 0.0, 1.0]
    assert ["reward_error" in (item.metadata or {}) for item in samples] == [False, True, False]


def test_prime_manager_passes_by_position(reward: Any) -> None:
    code = "def compute_score(source, completion, reference, extra):\n    return (float(completion == reference), {})\n"
    assert reward(code, launch=make_launch(manager="prime"))(FakeSample("4", "4"))["score"] == 1.0


@pytest.mark.parametrize(
    "code",
    [
        "import asyncio\n\n\nasync def compute_score(solution_str):\n    await asyncio.sleep(0)\n    return 0.5\n",
        "class Judge:\n    async def __call__(self, solution_str):\n        return 0.5\n\n\ncompute_score = Judge()\n",
        "def plain(f):\n    def inner(**kwargs):\n        return f(**kwargs)\n    return inner\n\n\n"
        "@plain\nasync def compute_score(solution_str, **kwargs):\n    return 0.5\n",
    ],
    ids=["coroutine", "callable object", "plain decorator"],
)
@pytest.mark.parametrize("is_async", [True, False])
def test_every_kind_of_async_scorer_is_awaited(reward: Any, code: str, is_async: bool) -> None:
    launch = make_launch(parameters=("solution_str",))
    assert reward(code, launch=launch, is_async=is_async)(FakeSample())["score"] == 0.5


def test_blocking_coroutine_has_a_loop_of_its_own(reward: Any) -> None:
    code = (
        "import threading, time\n\n\nasync def compute_score(solution_str):\n    time.sleep(0.01)\n"
        "    return {'score': 1, 'thread': threading.current_thread().name}\n"
    )
    assert execution_mode(make_launch(), make_extracted(code)) == "loop"
    assert reward(code)(FakeSample())["thread"] == "reward_demo"


SIGNAL = """
import signal


def compute_score(solution_str, ground_truth):
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError()))
    signal.alarm(5)
    try:
        return float(solution_str == ground_truth)
    finally:
        signal.alarm(0)
"""


def test_alarm_signals_work_away_from_the_main_thread(reward: Any) -> None:
    call = reward(SIGNAL)
    samples = [FakeSample("4", "4"), FakeSample("5", "4")]
    assert [item["score"] for item in call(samples)] == [1.0, 0.0]
    assert "reward_error" not in samples[0].metadata


HANGS = """
import signal
import subprocess
import sys


def compute_score(solution_str):
    signal.alarm(0)
    if solution_str == "child":
        subprocess.Popen(["sleep", "3600"])
        return {"score": 1.0, "pid": 0}
    while solution_str == "hang":
        pass
    if solution_str == "die":
        import os
        os._exit(3)
    print("noise")
    return {"score": 1.0, "pid": __import__("os").getpid()}
"""


def test_a_hanging_call_is_killed_and_the_next_one_works(reward: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    call = reward(HANGS)
    call.module._THREADS._max_workers = 1
    first = call(FakeSample("fine"))
    monkeypatch.setattr(call.module, "CALL_SECONDS", 0.5)
    hanging = FakeSample("hang")
    began = time.monotonic()
    assert call(hanging)["score"] == 0.0
    assert time.monotonic() - began < 5
    assert "took longer than 0.5 s" in hanging.metadata["reward_error"]
    assert not Path(f"/proc/{first['pid']}").exists()
    monkeypatch.setattr(call.module, "CALL_SECONDS", 20.0)
    assert call(FakeSample("fine"))["score"] == 1.0


def test_a_worker_that_dies_is_replaced(reward: Any) -> None:
    call = reward(HANGS)
    dead = FakeSample("die")
    assert call(dead)["score"] == 0.0
    assert "worker process died" in dead.metadata["reward_error"]
    assert call(FakeSample("fine"))["score"] == 1.0


GRADES = """
import signal
from enum import Enum


class Grade(Enum):
    GOOD = 1


def compute_score(solution_str):
    signal.alarm(0)
    __builtins__["exit"] = None
    return {"score": 1.0, "grade": Grade.GOOD, "module": __name__}
"""


def test_a_worker_imports_the_module_as_its_parent_does(reward: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a file that is started as a script `__builtins__` is a module, and a class has another name."""
    call = reward(GRADES)
    monkeypatch.setitem(sys.modules, call.module.__name__, call.module)
    sample = FakeSample("x")
    given = call(sample)
    assert "reward_error" not in sample.metadata
    assert given == {"score": 1.0, "grade": call.module.Grade.GOOD, "module": call.module.__name__}


def test_no_process_is_left(reward: Any) -> None:
    call = reward(HANGS)
    assert call(FakeSample("child"))["score"] == 1.0
    groups = [worker.process.pid for worker in call.module._WORKERS]
    call.module._stop_workers()
    for group in groups:
        deadline = time.monotonic() + 5
        while _alive(group) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not _alive(group)


def test_a_busy_worker_ends_with_its_killed_parent(reward: Any, tmp_path: Path) -> None:
    path = reward(HANGS).module.__file__
    script = (
        "import asyncio, importlib.util, sys, threading, time, os, signal\n"
        f"spec = importlib.util.spec_from_file_location('reward', {path!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "worker = module._Worker()\n"
        "print(worker.process.pid, flush=True)\n"
        "worker.connection.send({'solution_str': 'hang'})\n"
        "time.sleep(0.3)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    group = int(done.stdout)
    deadline = time.monotonic() + 15
    while _alive(group) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(group)


def _alive(group: int) -> bool:
    """True when a process of the group still runs (a dead one that nobody has collected does not count)."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            return True
    return False


def test_names_of_the_wrapper_in_the_scorer(reward: Any) -> None:
    code = (
        "from time import time\n\nFLOOR = 7.0\ncopy = [1]\n\n\ndef reward_func(solution_str, FLOOR=FLOOR):\n"
        "    assert time() > 0\n    return FLOOR + len(copy) + (reward_func is None)\n"
    )
    assert reward(code, "reward_func")(FakeSample())["score"] == 8.0


def test_exported_variables_are_defaults(reward: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO_B", "mine")
    monkeypatch.delenv("DEMO_A", raising=False)
    code = (
        "import os\n\nSEEN = os.environ['DEMO_A'] + os.environ['DEMO_B']\n\n\n"
        "def compute_score(solution_str):\n    return {'score': 1, 'seen': SEEN}\n"
    )
    launch = make_launch(environment={"DEMO_A": 'x"y', "DEMO_B": "recipe"})
    try:
        assert reward(code, launch=launch)(FakeSample())["seen"] == 'x"ymine'
    finally:
        os.environ.pop("DEMO_A", None)


def test_lists_are_arrays_for_a_verl_that_reads_with_pandas(reward: Any) -> None:
    launch = make_launch(data=DataSpec(truth="dict"))
    launch = launch.model_copy(update={"verl": launch.verl.model_copy(update={"version": "0.1"})})
    code = (
        "def compute_score(solution_str, ground_truth):\n"
        "    return float(solution_str in ground_truth['target'].tolist())\n"
    )
    assert reward(code, launch=launch)(FakeSample("b", {"target": ["a", "b"]}))["score"] == 1.0


def test_licence_and_origin_stay_and_bytes_repeat() -> None:
    found = make_extracted(ECHO, header="# Copyright 2024 Somebody\n# Licensed under the Apache License")
    first = render_reward(make_launch(), found, algo="demo", config_name="demo_config.yaml")
    assert first.startswith(
        "# Copyright 2024 Somebody\n# Licensed under the Apache License\n#\n# Generated by migrate-agent"
    )
    assert "Origin: reward.py:3." in first
    assert first == render_reward(make_launch(), found, algo="demo", config_name="demo_config.yaml")
