"""The run script of a hand-made example, run in the sandbox against the stand-in Relax."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from migrate_tools.model import Example, Mode, Recipe, Translation
from migrate_tools.rehearsal.converted import convert_data
from migrate_tools.rehearsal.rehearse import RehearsalRun, rehearse
from migrate_tools.sandbox import Sandbox

pytestmark = pytest.mark.jail

Run = Callable[..., RehearsalRun]


@pytest.fixture
def run(
    sandbox: Sandbox,
    toy_files: dict[str, str],
    toy_recipe: Recipe,
    toy_translation: Translation,
    make_example: Callable[[Mapping[str, str]], Example],
    tmp_path: Path,
) -> Run:
    """Rehearses the toy example after text replacements: `run({"reward_toy.py": [("old", "new")]}, "sync")`."""

    def go(
        edits: Mapping[str, list[tuple[str, str]]] | None = None,
        mode: Mode = "sync",
        tape: dict[str, list[str]] | None = None,
        **more: str,
    ) -> RehearsalRun:
        files = {**toy_files, **more}
        for name, changes in (edits or {}).items():
            path = next(path for path in files if path.endswith(name))
            for old, new in changes:
                assert old in files[path]
                files[path] = files[path].replace(old, new)
        example = make_example(files)
        data = convert_data(example, toy_recipe.launches[0], sandbox=sandbox, place=tmp_path / "converted")
        return rehearse(example, toy_translation, mode, data, sandbox=sandbox, place=tmp_path / mode, tape=tape)

    return go


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_sound_example_passes_in_both_modes(run: Run, mode: Mode) -> None:
    done = run(mode=mode)
    assert (done.failures, done.returncode) == ([], 0)
    report = done.report or {}
    assert report["rollout"]["prompts"] == 8
    assert report["rollout"]["samples_per_prompt"] == 8
    # per group of eight: four right, the rest wrong, cut off, empty and nonsense; the reward tells them apart
    assert report["engine"]["right"] >= 32
    assert report["rewards"]["train"] == {"1.0": 32, "0.0": 32}
    assert report["eval"] == {"toy": {"rows": 6, "prompts": 6}}
    assert report["normalised"] == {"estimator": "grpo", "zero_variance_groups": 0}
    assert ("--fully-async" in (done.argv or ())) == (mode == "async")
    assert "--num-layers" in (done.argv or ())


def test_a_misspelt_flag_fails_although_relax_would_ignore_it(run: Run) -> None:
    done = run({"run_toy.sh": [("--reward-key score", "--reward-keys score")]})
    assert "parse.unknown-flag: --reward-keys is not a flag of Relax; did you mean --reward-key?" in done.failures
    assert "get_reward_value: TypeError: the reward is a dict, but --reward-key is not set" in done.failures
    assert done.returncode == 1


def test_a_short_group_reward_fails(run: Run) -> None:
    done = run(
        {
            "run_toy.sh": [("--rollout-shuffle", "--rollout-shuffle --group-rm")],
            "reward_toy.py": [("for item in sample]", "for item in sample[1:]]")],
        }
    )
    assert "the group reward returned 7 rewards for 8 samples" in done.failures


def test_a_reward_that_raises_on_an_empty_response_fails(run: Run) -> None:
    change = ('right = f"{truth}"', 'text.removesuffix("<|im_end|>")[0]; right = f"{truth}"')
    assert any("IndexError" in text for text in run({"reward_toy.py": [change]}).failures)


def test_a_reward_value_must_be_a_float(run: Run) -> None:
    done = run({"reward_toy.py": [("1.0 if right else 0.0", "right")]})
    assert "train: the reward value is bool, not a Python float" in done.failures


SIGNAL = """
import signal
from relax.utils.types import Sample


{kind} reward_func(args, sample: Sample, **kwargs):
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(5)
    signal.alarm(0)
    return {{"score": 1.0 if str(sample.label) in sample.response else 0.0}}
"""


def test_signals_fail_on_the_loop_and_work_in_a_worker_process(run: Run) -> None:
    # Relax runs its event loop in a background thread, and a plain function in a worker's main thread
    awaited = run(**{"examples/toy/reward_toy.py": SIGNAL.format(kind="async def")})
    assert any("signal only works in main thread" in text for text in awaited.failures)
    plain = run(**{"examples/toy/reward_toy.py": SIGNAL.format(kind="def")})
    assert plain.failures == []
    assert (plain.report or {})["reward_kind"] == "sync"


def test_a_config_key_that_overrides_an_argument_fails(run: Run) -> None:
    path = '--custom-config-path "${SCRIPT_DIR}/toy_config.yaml"'
    edit = {"run_toy.sh": [("--rollout-shuffle", f"--rollout-shuffle {path}")]}
    done = run(edit, **{"examples/toy/toy_config.yaml": "lr: 0.1\n"})
    assert done.failures == [
        "config.overrides-argument: the key lr of the config file overrides the Relax argument of that name after "
        "validation"
    ]
    assert run(edit, **{"examples/toy/toy_config.yaml": "toy_lr: 0.1\n"}).failures == []


@pytest.mark.parametrize(
    ("old", "new", "failure"),
    [
        ("--label-key label", "--label-key answer", "--prompt-data: row 0: no column answer (--label-key)"),
        ("--metadata-key extra_info", "--metadata-key ability", "row 0: column ability is str, not a dict"),
        ("--apply-chat-template", "", "row 0: the prompt is list; without --apply-chat-template it must be text"),
        ("train.parquet']", "train.csv']", "Relax reads .parquet and .jsonl only"),
        ("train.parquet']", "other.parquet']", "no such data file"),
        ("examples.toy.reward_toy.reward_func", "examples.toy.reward_toy.score", "has no attribute 'score'"),
    ],
)
def test_what_relax_would_trip_over(run: Run, old: str, new: str, failure: str) -> None:
    done = run({"run_toy.sh": [(old, new)]})
    assert any(failure in text for text in done.failures), done.failures


def test_a_model_script_that_relax_lacks_ends_the_script(run: Run) -> None:
    done = run({"run_toy.sh": [("qwen3-0.6B.sh", "qwen25-1.5B.sh")]})
    assert done.report is None
    assert "qwen25-1.5B.sh: No such file" in done.cause


def test_the_stand_in_entry_point_is_never_replaced(run: Run) -> None:
    # a real local.sh ends every python process of the machine
    done = run(**{"scripts/entrypoint/local.sh": "exit 7\n"})
    assert done.returncode == 0


JUDGE = """
import aiohttp


async def reward_func(args, sample, **kwargs):
    async with aiohttp.ClientSession() as session:
        async with session.post("http://judge:8000/v1", json={"text": sample.response}) as answer:
            text = await answer.text()
    return {"score": float("True" in text)}
"""


def test_a_judge_answers_from_the_tape(run: Run) -> None:
    done = run(tape={"literals": [], "keys": []}, **{"examples/toy/reward_toy.py": JUDGE})
    assert done.failures == []
    assert (done.report or {})["taped"] is True
    assert sum((done.report or {})["rewards"]["train"].values()) == 64
