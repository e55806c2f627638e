"""Every estimator end to end: verl's advantages against Relax's processed rewards, spread and whitened."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from batches import Batch, make_batch
from migrate_tools.relax.hook_library import advantages as library
from relax_formulas import advantages, arguments, processed
from verl_functions import AlgoConfig, Verl

TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-5}
"""Absolute and relative; hooks compute in Python floats, verl in the tensor's type, with 1e-8 beside token counts and
the factor of gpg in single precision."""
ALL = ["0.5.0", "0.6.1", "0.8.0", "0.9.1"]


def relax_side(batch: Batch, args: Any, hook: str, rewards: list[Any] | None = None) -> torch.Tensor:
    samples = batch.samples(rewards)
    done = getattr(library, hook)(args, samples)[1] if hook else processed(args, samples)
    assert len(done) == len(samples)
    parts = advantages(args, samples, done, batch.lists(batch.mask), batch.log_probs.dtype)
    return batch.padded(parts) * batch.mask


def verl_side(verl: Verl, name: str, batch: Batch, **more: Any) -> torch.Tensor:
    function = verl.core.get_adv_estimator_fn(name)
    values = {
        "token_level_rewards": batch.token_rewards,
        "response_mask": batch.mask,
        "config": AlgoConfig(**{"gamma": 1.0, "norm_adv_by_std_in_grpo": True, **more}),
    }
    if name == "reinforce_plus_plus":
        return function(**values)[0]
    extra = {"norm_adv_by_std_in_grpo": more["norm_adv_by_std_in_grpo"]} if "norm_adv_by_std_in_grpo" in more else {}
    return function(**values, index=batch.index, **extra)[0]


def check(verl: torch.Tensor, relax: torch.Tensor, dtype: torch.dtype) -> None:
    assert verl.abs().sum() > 0
    torch.testing.assert_close(relax, verl, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


CASES = [
    ("grpo", {}, {}, "", {}),
    ("grpo", {"norm_adv_by_std_in_grpo": False}, {"grpo_std_normalization": False}, "", {}),
    ("rloo", {}, {}, "leave_one_out", {}),
    ("opo", {}, {}, "length_weighted_baseline", {}),
    ("grpo_passk", {}, {}, "pass_at_k", {}),
    ("grpo_passk", {"norm_adv_by_std_in_grpo": False}, {}, "pass_at_k", {"PASS_AT_K_BY_STD": False}),
    ("gpg", {}, {}, "gpg_advantage", {}),
    ("reinforce_plus_plus_baseline", {}, {"grpo_std_normalization": False, "normalize_advantages": True}, "", {}),
]


@pytest.mark.parametrize("release", ALL, indirect=True)
@pytest.mark.parametrize(("name", "verl_config", "relax_args", "hook", "constants"), CASES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("seed", range(4))
def test_estimators(
    release: Verl,
    name: str,
    verl_config: dict[str, Any],
    relax_args: dict[str, Any],
    hook: str,
    constants: dict[str, Any],
    dtype: torch.dtype,
    seed: int,
    device: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for constant, value in constants.items():
        monkeypatch.setattr(library, constant, value)
    batch = make_batch(seed, device=device, dtype=dtype, empty=seed % 2 == 1)
    args = arguments(n_samples_per_prompt=batch.group, **relax_args)
    check(verl_side(release, name, batch, **verl_config), relax_side(batch, args, hook), dtype)


@pytest.mark.parametrize("release", ["0.6.1", "0.9.1"], indirect=True)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("name", "hook"), [("grpo_vectorized", ""), ("rloo_vectorized", "leave_one_out")])
def test_vectorised_estimators(release: Verl, name: str, hook: str, seed: int, device: str) -> None:
    batch = make_batch(seed, device=device, dtype=torch.float32)
    with release.active():
        left = verl_side(release, name, batch)
    check(left, relax_side(batch, arguments(), hook), torch.float32)


@pytest.mark.parametrize(("name", "alone"), [("rloo", True), ("rloo_vectorized", False)])
def test_one_sample_a_prompt(verl: Verl, name: str, alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "ALONE_TRAINS", alone)
    batch = make_batch(3, prompts=6, group=1)
    with verl.active():
        left = verl_side(verl, name, batch)
    right = relax_side(batch, arguments(n_samples_per_prompt=1), "leave_one_out")
    torch.testing.assert_close(right, left)
    assert bool(left.abs().sum() > 0) is alone


@pytest.mark.parametrize("release", ALL, indirect=True)
@pytest.mark.parametrize("gamma", [1.0, 0.9, 0.0])
@pytest.mark.parametrize("seed", range(4))
def test_reinforce_plus_plus_single_turn(
    release: Verl, gamma: float, seed: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "GAMMA", gamma)
    batch = make_batch(seed, device=device, observations=False)
    left = verl_side(release, "reinforce_plus_plus", batch, gamma=gamma)
    args = arguments(rewards_normalization=False, normalize_advantages=True)
    check(left, relax_side(batch, args, "discounted_returns" if gamma != 1.0 else ""), torch.float64)


@pytest.mark.parametrize("seed", range(6))
def test_reinforce_plus_plus_with_observations(
    verl: Verl, seed: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newest verl: observations are skipped, the discount counts trained tokens only."""
    monkeypatch.setattr(library, "GAMMA", 0.8)
    batch = make_batch(seed, device=device)
    left = verl_side(verl, "reinforce_plus_plus", batch, gamma=0.8)
    args = arguments(rewards_normalization=False, normalize_advantages=True)
    check(left, relax_side(batch, args, "discounted_returns"), torch.float64)


@pytest.mark.parametrize("weights", [(), (0.3, 2.0)])
@pytest.mark.parametrize("by_std", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_gdpo(
    verl: Verl, weights: tuple[float, ...], by_std: bool, seed: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = make_batch(seed, device=device, dtype=torch.float32, observations=False)
    keys = ["accuracy", "shape"]
    monkeypatch.setattr(library, "GDPO_KEYS", tuple(keys))
    monkeypatch.setattr(library, "GDPO_WEIGHTS", weights)
    monkeypatch.setattr(library, "GDPO_BY_STD", by_std)
    values = {key: [float(item) for item in batch.advantages[:, place].tolist()] for place, key in enumerate(keys)}
    prompts = torch.zeros(len(batch.lengths), 3, dtype=torch.int64, device=device)
    attention = torch.cat([torch.ones_like(prompts), batch.mask], dim=1)
    config = AlgoConfig(gdpo_reward_keys=keys, gdpo_reward_weights=list(weights) or None)
    left, _ = verl.core.compute_gdpo_outcome_advantage(
        batch.token_rewards,
        batch.mask,
        batch.index,
        norm_adv_by_std_in_grpo=by_std,
        config=config,
        non_tensor_batch=values,
        batch={"prompts": prompts, "attention_mask": attention},
    )
    rewards = [{"score": 0.0, **{key: values[key][row] for key in keys}} for row in range(len(batch.lengths))]
    right = relax_side(batch, arguments(normalize_advantages=True), "decoupled_rewards", rewards)
    check(left, right, torch.float32)


@pytest.mark.parametrize("hook", ["leave_one_out", "length_weighted_baseline", "gpg_advantage", "discounted_returns"])
def test_equal_rewards_everywhere(hook: str) -> None:
    batch = make_batch(0, prompts=3)
    samples = batch.samples([0.7] * len(batch.lengths))
    raw, done = getattr(library, hook)(arguments(), samples)
    assert raw == [0.7] * len(samples)
    if hook != "discounted_returns":
        assert done == pytest.approx([0.0] * len(samples), abs=1e-12)


@pytest.mark.parametrize("fault", ["incomplete", "no group"])
def test_broken_groups_are_errors(fault: str) -> None:
    samples = make_batch(0).samples()
    if fault == "incomplete":
        samples = samples[:-1]
    else:
        samples[0].group_index = None
    with pytest.raises(ValueError, match="group"):
        library.leave_one_out(arguments(), samples)


@pytest.mark.parametrize("name", ["grpo", "reinforce_plus_plus_baseline"])
def test_one_sample_a_prompt_is_the_reward_itself(verl: Verl, name: str, device: str) -> None:
    batch = make_batch(4, device=device, prompts=12, group=1)
    whitened = name != "grpo"
    args = arguments(n_samples_per_prompt=1, rewards_normalization=False, normalize_advantages=whitened)
    check(verl_side(verl, name, batch), relax_side(batch, args, ""), torch.float32)
