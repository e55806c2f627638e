"""Which function is the reward, from every generation of keys, and what the manager of that verl adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from migrate_tools.errors import RefusedInput
from migrate_tools.model import Note, Overlong, RewardSpec, Setting, SourceRef, VerlRef
from migrate_tools.verl.reward_reader import read_reward
from test_extract_closure import write

PLAIN = "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n    return 1.0\n"
NAIVE = """\
class NaiveRewardManager:
    async def run_single(self, data):
        response_str = await self.loop.run_in_executor(
            None, lambda: self.tokenizer.decode(valid_response_ids, skip_special_tokens=True)
        )
        extra_info["num_turns"] = num_turns
        return self.compute_score(
            data_source=data_source, solution_str=response_str, ground_truth=ground_truth, extra_info=extra_info
        )
"""
OLD_NAIVE = """\
class RewardManager():
    def __call__(self, data):
        sequences = torch.cat((valid_prompt_ids, valid_response_ids))
        sequences_str = self.tokenizer.decode(sequences)
        compute_score_fn = _select_rm_score_fn(data_source)
        score = compute_score_fn(solution_str=sequences_str, ground_truth=ground_truth)


def _select_rm_score_fn(data_source):
    if data_source == 'openai/gsm8k':
        return gsm8k.compute_score
    raise NotImplementedError
"""
DISPATCH = (
    "def default_compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):\n    return 0.0\n"
)
LOOP = "verl/experimental/reward_loop/reward_manager"


def tree(root: Path, *, dapo_reads: str = 'config.reward.get("reward_kwargs", {})') -> Path:
    """A verl source of today with the files that the reader looks at."""
    home = root / "installed"
    write(
        home,
        {
            f"{LOOP}/naive.py": NAIVE,
            f"{LOOP}/dapo.py": NAIVE.replace('        extra_info["num_turns"] = num_turns\n', "")
            + f"        self.cfg = {dapo_reads}\n",
            "verl/experimental/agent_loop/single_turn_agent_loop.py": "",
            "verl/utils/reward_score/__init__.py": DISPATCH,
            "verl/trainer/main_ppo.py": "",
        },
    )
    return home


def read(
    root: Path,
    config: Mapping[str, Any],
    *,
    module: str = "verl.trainer.main_ppo",
    environment: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> tuple[RewardSpec, tuple[Note, ...]]:
    home = home or tree(root)
    settings = [
        Setting(key=key, value=value, text=str(value), source=SourceRef(file="run.sh", line=number))
        for number, (key, value) in enumerate(config.items(), 10)
    ]
    resolve: Callable[[str], Path | None] = lambda text: path if (path := root / text).exists() else None  # noqa: E731
    return read_reward(
        config,
        settings,
        project_root=root,
        recipe_root=root,
        verl=VerlRef(version="0.9.1", root=str(home), how="test"),
        environment=environment or {},
        module=module,
        resolve=resolve,
    )


@pytest.mark.parametrize("prefix", ["custom_reward_function", "reward.custom_reward_function"])
def test_both_generations_of_the_function_key(tmp_path: Path, prefix: str) -> None:
    write(tmp_path, {"reward.py": PLAIN.replace("compute_score", "grade")})
    spec, notes = read(tmp_path, {f"{prefix}.path": "reward.py", f"{prefix}.name": "grade"})
    assert (spec.kind, spec.path, spec.function) == ("custom", "reward.py", "grade")
    assert spec.source == SourceRef(file="run.sh", line=10)
    assert spec.parameters == ("data_source", "solution_str", "ground_truth", "extra_info")
    assert spec.required == ("data_source", "solution_str", "ground_truth")
    assert notes == ()


def test_the_default_name_and_the_kwargs(tmp_path: Path) -> None:
    write(tmp_path, {"reward.py": PLAIN.replace("extra_info=None", "extra_info=None, scale=1, mode='x'")})
    spec, _ = read(
        tmp_path,
        {
            "custom_reward_function.path": "reward.py",
            "custom_reward_function.reward_kwargs.scale": 2,
            "custom_reward_function.reward_kwargs.mode": "y",
        },
    )
    assert spec.function == "compute_score"
    assert spec.kwargs == {"scale": 2, "mode": "y"}


def test_a_null_path_means_the_built_in_dispatch(tmp_path: Path) -> None:
    spec, _ = read(tmp_path, {"custom_reward_function.path": None, "custom_reward_function.name": "compute_score"})
    assert (spec.kind, spec.path, spec.function) == (
        "builtin",
        "verl/utils/reward_score/__init__.py",
        "default_compute_score",
    )


def test_a_reward_model_is_named_and_not_checkable(tmp_path: Path) -> None:
    spec, notes = read(tmp_path, {"reward_model.enable": True, "reward_model.model.path": "org/judge"})
    assert (spec.kind, spec.path) == ("model", None)
    assert [note.code for note in notes] == ["reward-model-gpu"]
    assert "org/judge" in notes[0].text


def test_the_manager_that_the_recipe_sets_wins_over_a_default(tmp_path: Path) -> None:
    home = tree(tmp_path)
    config = {"reward.reward_manager.name": "naive", "reward_model.reward_manager": "dapo"}
    settings = [
        Setting(key="reward_model.reward_manager", value="dapo", text="dapo", source=SourceRef(file="r.sh", line=3))
    ]
    spec, _ = read_reward(
        config,
        settings,
        project_root=tmp_path,
        recipe_root=tmp_path,
        verl=VerlRef(version="0.9.1", root=str(home), how="test"),
        environment={},
        module="verl.trainer.main_ppo",
        resolve=lambda text: None,
    )
    assert (spec.manager, spec.manager_source) == ("dapo", SourceRef(file="r.sh", line=3))


@pytest.mark.parametrize(
    ("manager", "mode", "turns"),
    [("naive", "async", 2), ("naive", None, 2), ("naive", "sync", None), ("dapo", "async", None)],
)
def test_num_turns_comes_from_the_manager_and_the_rollout(
    tmp_path: Path, manager: str, mode: str | None, turns: int | None
) -> None:
    spec, _ = read(tmp_path, {"reward.reward_manager.name": manager, "actor_rollout_ref.rollout.mode": mode})
    assert spec.num_turns == turns
    assert (spec.text, spec.skip_special_tokens) == ("response", True)


@pytest.mark.parametrize(
    ("form", "reads", "expected"),
    [
        ("reward.reward_kwargs.overlong_buffer_cfg", 'config.reward.get("reward_kwargs", {})', True),
        ("reward_model.reward_kwargs.overlong_buffer_cfg", 'config.reward.get("reward_kwargs", {})', False),
        ("reward_model.reward_kwargs.overlong_buffer_cfg", 'config.reward_model.get("reward_kwargs", {})', True),
        ("reward_model.overlong_buffer", 'config.reward.get("reward_kwargs", {})', False),
    ],
)
def test_three_forms_of_the_overlong_buffer(tmp_path: Path, form: str, reads: str, expected: bool) -> None:
    spec, notes = read(
        tmp_path,
        {
            "reward.reward_manager.name": "dapo",
            f"{form}.enable": True,
            f"{form}.len": 512,
            f"{form}.penalty_factor": 0.5,
            "data.max_response_length": 2048,
        },
        home=tree(tmp_path, dapo_reads=reads),
    )
    assert spec.overlong == (Overlong(max_resp_len=2048, buffer_len=512, penalty_factor=0.5) if expected else None)
    assert [note.code for note in notes] == ([] if expected else ["overlong-ignored"])


def test_the_old_buffer_form_counts_when_the_recipes_own_main_reads_it(tmp_path: Path) -> None:
    write(tmp_path, {"main_own.py": "kwargs = config.reward_model.overlong_buffer\n"})
    spec, notes = read(
        tmp_path,
        {
            "reward_model.reward_manager": "dapo",
            "reward_model.overlong_buffer.enable": True,
            "reward_model.overlong_buffer.len": 100,
            "data.max_response_length": 1000,
        },
        module="main_own",
    )
    assert spec.overlong == Overlong(max_resp_len=1000, buffer_len=100, penalty_factor=1.0)
    assert notes == ()


def test_max_resp_len_of_the_kwargs_wins(tmp_path: Path) -> None:
    spec, _ = read(
        tmp_path,
        {
            "reward.reward_manager.name": "dapo",
            "reward.reward_kwargs.overlong_buffer_cfg.enable": True,
            "reward.reward_kwargs.overlong_buffer_cfg.len": 10,
            "reward.reward_kwargs.max_resp_len": 77,
            "data.max_response_length": 99,
        },
    )
    assert spec.overlong is not None
    assert spec.overlong.max_resp_len == 77


def test_a_penalty_without_the_dapo_manager_is_ignored(tmp_path: Path) -> None:
    spec, notes = read(tmp_path, {"reward.reward_kwargs.overlong_buffer_cfg.enable": True})
    assert spec.overlong is None
    assert "only the dapo manager" in notes[0].text


def test_an_old_fork_selects_inside_its_main(tmp_path: Path) -> None:
    write(tmp_path, {"verl/trainer/main_ppo.py": OLD_NAIVE, "verl/utils/reward_score/__init__.py": ""})
    spec, _ = read(tmp_path, {"data.train_files": "x"}, home=tmp_path)
    assert (spec.kind, spec.path, spec.function) == ("builtin", "verl/trainer/main_ppo.py", "_select_rm_score_fn")
    assert (spec.text, spec.skip_special_tokens, spec.num_turns) == ("prompt_and_response", False, None)
    assert spec.parameters == ("data_source", "solution_str", "ground_truth")


def test_a_recipe_with_its_own_main_and_its_own_dispatch(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "recipe/mine/main_mine.py": "from .reward import load\n",
            "recipe/mine/reward.py": "from .scores import _default_compute_score\n\n\ndef load():\n"
            "    return _default_compute_score\n",
            "recipe/mine/scores.py": DISPATCH.replace("default_compute_score", "_default_compute_score"),
        },
    )
    spec, _ = read(tmp_path, {"data.x": 1}, module="recipe.mine.main_mine")
    assert (spec.kind, spec.path, spec.function) == ("builtin", "recipe/mine/scores.py", "_default_compute_score")


def test_a_custom_manager_is_noted(tmp_path: Path) -> None:
    spec, notes = read(
        tmp_path,
        {
            "reward.reward_manager.source": "importlib",
            "reward.reward_manager.name": "Mine",
            "reward.reward_manager.module.path": "managers.py",
        },
    )
    assert spec.manager == "Mine"
    assert [(note.code, "managers.py" in note.text) for note in notes] == [("reward-manager-custom", True)]


def test_only_the_variables_that_the_scorer_reads_come_along(tmp_path: Path) -> None:
    write(tmp_path, {"reward.py": "import os\n\nMODE = os.environ['MODE']\n\n\n" + PLAIN.replace("1.0", "MODE")})
    spec, _ = read(tmp_path, {"custom_reward_function.path": "reward.py"}, environment={"MODE": "strict", "OTHER": "1"})
    assert spec.environment == {"MODE": "strict"}
    assert "env:MODE" in spec.traits


@pytest.mark.parametrize(
    ("code", "traits"),
    [
        ("import signal\n\n\ndef compute_score(**k):\n    signal.alarm(1)\n", {"signal"}),
        (
            "def compute_score(**k):\n    from math_verify import parse\n    return parse('1')\n",
            {"signal", "import:math_verify"},
        ),
        ("import subprocess\n\n\ndef compute_score(**k):\n    subprocess.run(['x'])\n", {"process", "children"}),
        ("def compute_score(**k):\n    exec(k['solution_str'])\n", {"process"}),
        ("import requests\n\n\ndef compute_score(**k):\n    return requests.get('u')\n", {"http", "import:requests"}),
        (
            "from openai import OpenAI\n\n\ndef compute_score(**k):\n    return OpenAI()\n",
            {"http", "judge", "import:openai"},
        ),
        ("import random\n\n\ndef compute_score(**k):\n    return random.random()\n", {"random"}),
        ("import time\n\n\ndef compute_score(**k):\n    return time.time()\n", {"time"}),
        ("def compute_score(**k):\n    print(open('f').read())\n", {"file", "print"}),
        (
            "import subprocess\n\n\ndef other():\n    subprocess.run([])\n\n\ndef compute_score(**k):\n"
            "    return 1.0\n",
            set(),
        ),
    ],
)
def test_traits(tmp_path: Path, code: str, traits: set[str]) -> None:
    write(tmp_path, {"reward.py": code})
    spec, _ = read(tmp_path, {"custom_reward_function.path": "reward.py"})
    assert set(spec.traits) == traits


@pytest.mark.parametrize(
    ("files", "config", "message"),
    [
        ({}, {"custom_reward_function.path": "gone.py"}, r"run\.sh:10: reward file gone\.py does not exist"),
        (
            {"reward.py": PLAIN},
            {"custom_reward_function.path": "reward.py", "custom_reward_function.name": "other"},
            r"reward\.py: no function other \(run\.sh:10\)",
        ),
        (
            {"reward.py": "\n\ndef f(:\n"},
            {"custom_reward_function.path": "reward.py"},
            r"reward\.py:3: not valid Python",
        ),
        (
            {"reward.py": "def compute_score(solution_str, ground_truth):\n    return 1\n"},
            {"custom_reward_function.path": "reward.py"},
            r"reward\.py:1: compute_score\(solution_str, ground_truth\) does not run in verl either.*"
            r"does not take data_source, extra_info",
        ),
        (
            {"reward.py": PLAIN.replace("extra_info=None", "extra_info, tokenizer")},
            {"custom_reward_function.path": "reward.py"},
            "nothing fills tokenizer",
        ),
        (
            {
                "reward.py": PLAIN.replace("solution_str", "messages").replace(
                    "extra_info=None", "extra_info, metrics"
                ),
                "manager.py": '@register("talk")\nclass TalkRewardManager:\n    pass\n',
            },
            {"custom_reward_function.path": "reward.py", "reward_model.reward_manager": "talk"},
            r"gets messages, metrics from the recipe's own reward manager talk: Relax gives a reward the response",
        ),
    ],
)
def test_what_verl_could_not_run_is_refused(
    tmp_path: Path, files: dict[str, str], config: dict[str, Any], message: str
) -> None:
    write(tmp_path, files)
    with pytest.raises(RefusedInput, match=message):
        read(tmp_path, config)


def test_kwargs_and_other_orders_are_fine(tmp_path: Path) -> None:
    write(tmp_path, {"reward.py": "def compute_score(ground_truth, solution_str, **kwargs):\n    return 1.0\n"})
    spec, _ = read(tmp_path, {"custom_reward_function.path": "reward.py"})
    assert spec.parameters == ("ground_truth", "solution_str", "**kwargs")


def test_a_batch_manager_calls_with_plural_names(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "reward.py": "def compute_score(data_sources, solution_strs, ground_truths, extra_infos):\n"
            "    return [1.0]\n"
        },
    )
    spec, _ = read(tmp_path, {"custom_reward_function.path": "reward.py", "reward_model.reward_manager": "batch"})
    assert spec.manager == "batch"
    assert spec.required[0] == "data_sources"


def test_a_file_that_shares_only_its_name_is_not_the_reward(tmp_path: Path) -> None:
    write(tmp_path, {"prepare/score.py": "def convert(row):\n    return row\n"})
    home = tree(tmp_path)
    where = SourceRef(file="run.sh", line=7)
    setting = Setting(key="custom_reward_function.path", value="lib/score.py", text="lib/score.py", source=where)
    expected = r"lib/score\.py does not exist \(run\.sh:7\); prepare/score\.py has its name but no function"
    with pytest.raises(RefusedInput, match=expected):
        read_reward(
            {setting.key: setting.value},
            [setting],
            project_root=tmp_path,
            recipe_root=tmp_path,
            verl=VerlRef(version="0.9.1", root=str(home), how="test"),
            environment={},
            module="verl.trainer.main_ppo",
            resolve=lambda text: tmp_path / "prepare" / "score.py",
        )


def test_a_scorer_that_no_launch_names_is_reported(tmp_path: Path) -> None:
    root = tree(tmp_path)
    (root / "reward_fn.py").write_text(
        "def compute_score(data_source, solution_str, ground_truth, extra_info):\n    return 1\n"
    )
    spec, notes = read(root, {})
    assert spec.kind == "builtin"
    (note,) = [item for item in notes if item.code == "reward-not-passed"]
    assert "reward_fn.py:compute_score is not used by it" in note.text
