"""The rollout correction hook and the pg-loss reducers against verl's functions, release by release."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from batches import WIDTH, Batch, make_batch
from migrate_tools.relax.hook_library import correction, loss_parts, reducers
from relax_formulas import arguments
from verl_functions import Verl

TOLERANCE = 1e-6
"""Absolute and relative; the hook computes ratios in single precision."""


def run_hook(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and masks of the hook as matrices."""
    ones = torch.ones_like(batch.flat(batch.log_probs))
    weights, masks, metrics = correction.rollout_correction(
        arguments(),
        pg_loss=ones,
        train_log_probs=batch.lists(batch.old_log_probs),
        rollout_log_probs=batch.lists(batch.rollout_log_probs),
        loss_masks=batch.lists(batch.mask),
        total_lengths=[length + 2 for length in batch.lengths],
        response_lengths=batch.lengths,
    )
    assert all(values.shape == ones.shape for values in metrics.values())
    assert [mask.dtype for mask in masks] == [batch.mask.dtype] * len(masks)
    return batch.padded(list(weights.split(batch.lengths))) * batch.mask, batch.padded(masks)


def settings(patch: pytest.MonkeyPatch, **values: Any) -> None:
    for name, value in values.items():
        patch.setattr(correction, name, value)


def compare(batch: Batch, weights: Any, mask: torch.Tensor) -> None:
    own_weights, own_mask = run_hook(batch)
    torch.testing.assert_close(own_mask.double(), mask.double(), atol=0, rtol=0)
    if weights is not None:
        found = weights.batch["rollout_is_weights"].double()
        torch.testing.assert_close(own_weights.double(), found, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("release", ["0.8.0", "0.9.1"], indirect=True)
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize(("threshold", "bounds"), [(1.2, (None, 1.2)), ("0.7_1.3", (0.7, 1.3))])
@pytest.mark.parametrize("seed", range(3))
def test_weights(
    release: Verl,
    level: str,
    threshold: Any,
    bounds: tuple[float | None, float],
    seed: int,
    device: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = make_batch(seed, device=device, dtype=torch.float32, empty=seed == 1, spread=0.5)
    settings(monkeypatch, IS_LEVEL=level, IS_LOWER=bounds[0], IS_UPPER=bounds[1])
    with release.active():
        weights, mask, _ = release.correction.compute_rollout_correction_and_rejection_mask(
            batch.old_log_probs, batch.rollout_log_probs, batch.mask, level, threshold
        )
    compare(batch, weights, mask)


RULES = [
    ("token_k1", "0.8_1.2", [("token_k1", 0.8, 1.2)]),
    ("token_k1", "1.5", [("token_k1", 1 / 1.5, 1.5)]),
    ("token_k2", "0.05", [("token_k2", None, 0.05)]),
    ("token_k3", "0.05", [("token_k3", None, 0.05)]),
    ("seq_sum_k1", "0.5_2.0", [("seq_sum_k1", 0.5, 2.0)]),
    ("seq_sum_k2", "0.3", [("seq_sum_k2", None, 0.3)]),
    ("seq_sum_k3", "0.3", [("seq_sum_k3", None, 0.3)]),
    ("seq_mean_k1", "0.9_1.1", [("seq_mean_k1", 0.9, 1.1)]),
    ("seq_mean_k2", "0.08", [("seq_mean_k2", None, 0.08)]),
    ("seq_mean_k3", "0.08", [("seq_mean_k3", None, 0.08)]),
    ("seq_max_k2", "0.3", [("seq_max_k2", None, 0.3)]),
    ("seq_max_k3", "0.3", [("seq_max_k3", None, 0.3)]),
    ("token_k1,seq_max_k2", "0.8_1.2,0.5", [("token_k1", 0.8, 1.2), ("seq_max_k2", None, 0.5)]),
]


@pytest.mark.parametrize("release", ["0.8.0", "0.9.1"], indirect=True)
@pytest.mark.parametrize(("rule", "threshold", "rules"), RULES)
def test_rejection(
    release: Verl, rule: str, threshold: str, rules: list[Any], device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(monkeypatch, REJECT=rules)
    rejected = 0.0
    for seed in range(4):
        batch = make_batch(seed, device=device, dtype=torch.float32, empty=seed == 1, spread=0.5)
        with release.active():
            _, mask, _ = release.correction.compute_rollout_correction_and_rejection_mask(
                batch.old_log_probs, batch.rollout_log_probs, batch.mask, None, None, False, rule, threshold
            )
        compare(batch, None, mask)
        rejected += float((batch.mask - mask).sum())
    assert rejected > 0


@pytest.mark.parametrize("release", ["0.6.1", "0.7.0"], indirect=True)
@pytest.mark.parametrize(
    ("level", "rule"), [("token", "token_ratio"), ("sequence", "seq_sum_ratio"), ("geometric", "seq_mean_ratio")]
)
@pytest.mark.parametrize("veto", [None, 0.4])
def test_rejection_by_ratio(
    release: Verl, level: str, rule: str, veto: float | None, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(monkeypatch, IS_LEVEL="token", IS_UPPER=1.5, REJECT=[(rule, 0.8, 1.4)], VETO=veto)
    for seed in range(4):
        batch = make_batch(seed, device=device, dtype=torch.float32, empty=seed == 1, spread=0.5)
        with release.active():
            weights, mask, _ = release.correction.compute_rollout_correction_and_rejection_mask(
                batch.old_log_probs, batch.rollout_log_probs, batch.mask, "token", 1.5, level, 1.4, 0.8, veto, False
            )
        compare(batch, weights, mask)


@pytest.mark.parametrize("release", ["0.6.0"], indirect=True)
@pytest.mark.parametrize("level", ["token", "sequence", "geometric"])
@pytest.mark.parametrize("mode", ["truncate", "mask"])
def test_first_generation(release: Verl, level: str, mode: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """verl 0.6.0 puts the veto into the weights; the hook takes it out of the mask, which trains the same."""
    settings(monkeypatch, IS_LEVEL=level, IS_UPPER=1.3, IS_LOWER=0.75 if mode == "mask" else None, VETO=0.3)
    for seed in range(4):
        batch = make_batch(seed, device=device, dtype=torch.float32, spread=0.5)
        with release.active():
            weights, _ = release.correction.compute_rollout_importance_weights(
                batch.old_log_probs, batch.rollout_log_probs, batch.mask, level, mode, 1.3, 0.75, 0.3
            )
        own, mask = run_hook(batch)
        found = weights.batch["rollout_is_weights"]
        torch.testing.assert_close(own * mask, found * batch.mask, atol=TOLERANCE, rtol=TOLERANCE)


def test_relax_own_tis_is_verl_token_weights(verl: Verl, device: str) -> None:
    """--use-tis with --tis-clip-low 0: w = clamp(exp(d), 0, --tis-clip)."""
    batch = make_batch(0, device=device, dtype=torch.float32, spread=0.8)
    with verl.active():
        weights, _, _ = verl.correction.compute_rollout_correction_and_rejection_mask(
            batch.old_log_probs, batch.rollout_log_probs, batch.mask, "token", 1.5
        )
    own = (batch.old_log_probs - batch.rollout_log_probs).exp().clamp(0.0, 1.5) * batch.mask
    torch.testing.assert_close(own, weights.batch["rollout_is_weights"])


def test_split_responses_are_an_error() -> None:
    batch = make_batch(0)
    with pytest.raises(ValueError, match="context-parallel"):
        correction.rollout_correction(
            arguments(),
            pg_loss=torch.ones(1),
            train_log_probs=[part[:1] for part in batch.lists(batch.old_log_probs)],
            rollout_log_probs=[part[:1] for part in batch.lists(batch.old_log_probs)],
            loss_masks=batch.lists(batch.mask),
        )


@pytest.mark.parametrize(
    ("release", "agg", "scale", "divisor"),
    [
        ("0.9.1", "token-sum", 24.0, None),
        ("0.8.0", "seq-mean-token-sum", 1.0, None),
        ("0.9.1", "seq-mean-token-sum", 1.0, None),
        ("0.8.0", "seq-mean-token-sum-norm", 1 / WIDTH, None),
        ("0.9.1", "seq-mean-token-sum-norm", 1 / 50, 50),
    ],
    indirect=["release"],
)
@pytest.mark.parametrize("micro", [1, 3])
def test_reducers(
    release: Verl,
    agg: str,
    scale: float,
    divisor: int | None,
    micro: int,
    device: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reducers, "REDUCER_SCALE", scale)
    batch = make_batch(7, device=device)
    total = len(batch.lengths)
    left = release.core.agg_loss(
        batch.advantages, batch.mask, agg, 1, batch.mask.sum(), total, loss_scale_factor=divisor
    )
    torch.testing.assert_close(reduced(batch, "token_sum", micro) / total, left, atol=1e-12, rtol=1e-9)


def reduced(batch: Batch, name: str, micro: int) -> Any:
    """The reducer over micro batches, added up as Relax adds them."""
    values, masks = batch.lists(batch.advantages), batch.lists(batch.mask)
    size = len(values) // micro
    parts = []
    for start in range(0, len(values), size):
        rows = slice(start, start + size)
        lengths = batch.lengths[rows]
        reduce = getattr(reducers, name)([length + 2 for length in lengths], lengths, masks[rows], False)
        parts.append(reduce(torch.cat(values[rows])))
    return sum(parts)


@pytest.mark.parametrize("release", ["0.5.0", "0.6.1", "0.7.0"], indirect=True)
@pytest.mark.parametrize("agg", ["token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"])
@pytest.mark.parametrize("micro", [1, 3])
def test_reducers_of_older_releases(
    release: Verl, agg: str, micro: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before 0.8 a micro batch is aggregated alone and weighed by its share of the samples (dp_actor)."""
    batch = make_batch(8, device=device)
    total = len(batch.lengths)
    size = total // micro
    rows = [slice(start, start + size) for start in range(0, total, size)]
    left = sum(release.core.agg_loss(batch.advantages[row], batch.mask[row], agg) * size / total for row in rows)
    name = "micro_batch_token_mean" if agg == "token-mean" else "token_sum"
    if agg == "seq-mean-token-sum-norm":
        monkeypatch.setattr(reducers, "REDUCER_SCALE", size / WIDTH)
        torch.testing.assert_close(reduced(batch, name, micro) / total, left, atol=1e-9, rtol=1e-8)
        monkeypatch.setattr(reducers, "REDUCER_SCALE", 1 / WIDTH)
        monkeypatch.setattr(reducers, "REDUCER_BY_SAMPLES", True)
    torch.testing.assert_close(reduced(batch, name, micro) / total, left, atol=1e-8, rtol=1e-7)


def test_reducers_refuse_what_they_are_not_written_for() -> None:
    with pytest.raises(ValueError, match="calculate-per-token-loss"):
        reducers.token_sum([3], [1], [torch.ones(1)], True)
    with pytest.raises(ValueError, match="context-parallel"):
        reducers.token_sum([3], [2], [torch.ones(2)], False)(torch.ones(1))


PLAIN_KL = ("kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3")


@pytest.mark.parametrize(
    ("release", "kind"),
    [
        *((version, kind) for version in ("0.6.1", "0.7.0", "0.9.1") for kind in PLAIN_KL),
        *(("0.9.1", kind) for kind in ("k1+", "kl+", "k3+", "low_var_kl+")),
    ],
    indirect=["release"],
)
def test_kl_estimators(release: Verl, kind: str, device: str) -> None:
    batch = make_batch(9, device=device, spread=3.0)
    own, theirs = (batch.log_probs.clone().requires_grad_() for _ in range(2))
    left = release.core.kl_penalty(theirs, batch.reference, kind)
    right = loss_parts.kl_tokens(own, batch.reference, kind)
    torch.testing.assert_close(right, left)
    left.sum().backward()
    right.sum().backward()
    torch.testing.assert_close(own.grad, theirs.grad)


@pytest.mark.parametrize(
    ("verl_kind", "relax_kind"),
    [("kl", "k1"), ("mse", "k2"), ("low_var_kl", "low_var_kl"), ("k3", "low_var_kl"), ("k3+", "k2"), ("k1+", "k2")],
)
def test_relax_own_kl_has_the_same_gradient(verl: Verl, verl_kind: str, relax_kind: str, device: str) -> None:
    """Relax: k1 = d, k2 = d^2 / 2, low_var_kl = clamp(exp(-d) - 1 + d, -10, 10), d = log pi - log ref."""
    batch = make_batch(10, device=device, spread=0.8)
    own, theirs = (batch.log_probs.clone().requires_grad_() for _ in range(2))
    difference = own - batch.reference
    values = {
        "k1": difference,
        "k2": difference**2 / 2,
        "low_var_kl": ((-difference).exp() - 1 + difference).clamp(-10, 10),
    }[relax_kind]
    values.sum().backward()
    verl.core.kl_penalty(theirs, batch.reference, verl_kind).sum().backward()
    torch.testing.assert_close(own.grad, theirs.grad)
