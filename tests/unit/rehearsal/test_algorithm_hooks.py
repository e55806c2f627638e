"""Hooks of the algorithm as the rehearsal calls them: post-process, filter, the trainer's with and without torch."""

from __future__ import annotations

import importlib.util
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from migrate_tools.model import Hook
from migrate_tools.rehearsal.runtime import train, training_hooks
from migrate_tools.rehearsal.runtime.sample import Sample, SampleStatus
from migrate_tools.rehearsal.runtime.train import Report
from migrate_tools.relax.contract import load_contract
from migrate_tools.relax.hooks import render_hooks

POST, FILTER = "custom_reward_post_process_path", "dynamic_sampling_filter_path"
LOSS, REDUCER, TIS = (
    "custom_loss_function_path",
    "custom_pg_loss_reducer_function_path",
    "custom_tis_function_path",
)
HAS_TORCH = importlib.util.find_spec("torch") is not None


def samples(rewards: list[Any], group: int = 4) -> list[Sample]:
    return [
        Sample(
            group_index=number // group,
            index=number,
            tokens=list(range(2 + number % 3 + 3)),
            response_length=number % 3 + 3,
            rollout_log_probs=[-0.5] * (number % 3 + 3),
            reward=reward,
            status=SampleStatus.COMPLETED,
        )
        for number, reward in enumerate(rewards)
    ]


def arguments(**changes: Any) -> Namespace:
    values = load_contract().parse(["--n-samples-per-prompt", "4", "--advantage-estimator", "grpo"]).values
    return Namespace(**{**values, "fully_async": False, "eps_clip_high": 0.2, **changes})


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Writes a module of hooks and makes it importable under a name of its own."""
    standin = Path(train.__file__).parents[1] / "standin"
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(standin))
    names: list[str] = []

    def write(text: str) -> str:
        name = f"hooks_{abs(hash(request.node.name))}_{len(names)}"
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        names.append(name)
        return name

    yield write
    for name in [*names, *(name for name in sys.modules if name.split(".")[0] == "relax")]:
        sys.modules.pop(name, None)


def rendered(function: str, **constants: Any) -> str:
    return render_hooks([Hook(flag="--x", function=function, constants=constants)], algo="demo", origin="a test")


def normalised(args: Namespace, rewards: list[float]) -> dict[str, Any]:
    report = Report([])
    train._normalise(args, samples(rewards), rewards, report)
    return report.data


def test_a_generated_post_process_hook_runs(module: Any) -> None:
    path = f"{module(rendered('leave_one_out'))}.leave_one_out"
    data = normalised(arguments(**{POST: path}), [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0])
    assert data["failures"] == []
    assert data["normalised"]["calls"] == 1


def test_a_generated_hook_may_give_one_number_a_token(module: Any) -> None:
    path = f"{module(rendered('discounted_returns', GAMMA=0.5))}.discounted_returns"
    args = arguments(rewards_normalization=False, **{POST: path})
    assert normalised(args, [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0])["failures"] == []


def test_in_fully_async_mode_it_gets_parts_of_whole_groups(module: Any) -> None:
    text = "def f(args, samples):\n    assert len(samples) == 4\n    return [0.0] * 4\n"
    data = normalised(arguments(fully_async=True, **{POST: f"{module(text)}.f"}), [1.0, 0.0] * 4)
    assert data["failures"] == []
    assert data["normalised"]["calls"] == 2


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("return [0.0]", "1 raw rewards for 8 samples"),
        ("return [0.0] * 8, [0.0] * 7", "7 processed rewards for 8 samples"),
        ("return [float('nan')] * 8", "is not a finite number"),
        ("return [[0.0]] * 8", "a per-token reward of 1 for a response of 3 tokens"),
        ("raise KeyError('score')", "KeyError"),
    ],
)
def test_a_post_process_hook_that_relax_would_trip_over_fails(module: Any, body: str, text: str) -> None:
    name = module(f"def f(args, samples):\n    {body}\n")
    data = normalised(arguments(**{POST: f"{name}.f"}), [1.0, 0.0] * 4)
    assert any(text in failure for failure in data["failures"]), data["failures"]


def filtered(args: Namespace, rewards: list[Any]) -> dict[str, Any]:
    report = Report([])
    items = samples(rewards)
    train._filter(args, [items[:4], items[4:]], report)
    return report.data


def test_the_generated_filter_reads_its_metric(module: Any) -> None:
    path = f"{module(rendered('keep_varied_groups', FILTER_METRIC='acc'))}.keep_varied_groups"
    rewards = [{"score": 0.1 * n, "acc": 1.0} for n in range(4)] + [{"score": 0.0, "acc": n % 2} for n in range(4)]
    data = filtered(arguments(reward_key="score", **{FILTER: path}), rewards)
    assert data["failures"] == []
    assert data["filter"] == {"kept": 1, "dropped": 1}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("return 1", "neither a bool"),
        ("return len({s.reward['score'] for s in samples}) > 1", "aborted group"),
    ],
)
def test_a_filter_that_relax_would_trip_over_fails(module: Any, body: str, text: str) -> None:
    name = module(f"def f(args, samples, **kw):\n    {body}\n")
    data = filtered(arguments(**{FILTER: f"{name}.f"}), [{"score": 0.0}] * 8)
    assert any(text in failure for failure in data["failures"]), data["failures"]


TRAINING = [
    (LOSS, "clip_cov_loss"),
    (LOSS, "geometric_mean_loss"),
    (REDUCER, "token_sum"),
    (TIS, "rollout_correction"),
]


def called(args: Namespace) -> tuple[dict[str, str], list[str]]:
    failures: list[str] = []
    items = samples([1.0, 0.0] * 4)
    return training_hooks.check_training_hooks(args, items, [0.5, -0.5] * 4, failures.append), failures


@pytest.mark.parametrize(("dest", "function"), TRAINING)
def test_without_torch_only_the_signature_is_looked_at_and_that_is_said(
    module: Any, dest: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_hooks.importlib.util, "find_spec", lambda name: None)
    args = arguments(loss_type="custom_loss", **{dest: f"{module(rendered(function))}.{function}"})
    assert called(args) == ({"--" + dest.replace("_", "-"): training_hooks.NOT_RUN}, [])


@pytest.mark.parametrize("dest", [LOSS, REDUCER, TIS])
def test_a_wrong_signature_fails_without_torch(module: Any, dest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_hooks.importlib.util, "find_spec", lambda name: None)
    args = arguments(loss_type="custom_loss", **{dest: f"{module('def f(one): ...')}.f"})
    assert "TypeError" in called(args)[1][0]


def test_a_loss_hook_without_the_loss_type_is_not_called() -> None:
    assert called(arguments(loss_type="policy_loss", **{LOSS: "nowhere.f"})) == ({}, [])


@pytest.mark.torch
@pytest.mark.skipif(not HAS_TORCH, reason="no torch")
@pytest.mark.parametrize(("dest", "function"), TRAINING)
def test_with_torch_they_are_called(module: Any, dest: str, function: str) -> None:
    args = arguments(
        loss_type="custom_loss", calculate_per_token_loss=False, use_kl_loss=True, kl_loss_coef=0.1,
        **{dest: f"{module(rendered(function))}.{function}"},
    )  # fmt: skip
    done, failures = called(args)
    assert failures == []
    assert done["--" + dest.replace("_", "-")] == "called with 31 response tokens of 8 samples"


@pytest.mark.torch
@pytest.mark.skipif(not HAS_TORCH, reason="no torch")
@pytest.mark.parametrize(
    ("dest", "text", "problem"),
    [
        (REDUCER, "def f(a, b, c, d):\n    return lambda values: values * 2", "no scalar tensor"),
        (TIS, "def f(args, *, pg_loss, loss_masks, **k):\n    return pg_loss[:1], loss_masks, {}", "has shape (1,)"),
        (TIS, "def f(args, *, pg_loss, loss_masks, **k):\n    return pg_loss, loss_masks[1:], {}", "other shapes"),
        (LOSS, "def f(args, batch, logits, mean):\n    return logits.sum() * float('nan'), {}", "the loss is nan"),
        (LOSS, "def f(args, batch, logits, mean):\n    return logits.sum(), {'x': 1.0}", "the metric x"),
    ],
)
def test_results_that_the_trainer_cannot_use_fail(module: Any, dest: str, text: str, problem: str) -> None:
    args = arguments(loss_type="custom_loss", calculate_per_token_loss=True, **{dest: f"{module(text)}.f"})
    assert problem in called(args)[1][0]
