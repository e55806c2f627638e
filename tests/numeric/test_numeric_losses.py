"""Every loss hook, called as Relax calls it, against verl's loss of the same name with its entropy and KL terms.

Values and gradients on the logits, over micro batches, after Relax's division by the batch's tokens or samples.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from batches import WIDTH, Batch, make_batch
from migrate_tools.relax.hook_library import correction, loss_parts, losses
from relax_formulas import arguments, step_loss, sum_of_sample_mean
from verl_functions import ActorConfig, Config, Verl

TOLERANCE = 1e-6
"""Absolute and relative, double precision: verl adds 1e-8 to token counts."""
WORDS = 7
PROMPT = 2

HOOKS = {
    "vanilla": "dual_clip_loss",
    "gspo": "sequence_ratio_loss",
    "sapo": "soft_gate_loss",
    "gpg": "gpg_loss",
    "clip_cov": "clip_cov_loss",
    "kl_cov": "kl_cov_loss",
    "geo_mean": "geometric_mean_loss",
    "dppo_tv": "tv_bound_loss",
    "dppo_kl": "binary_kl_bound_loss",
    "dro": "quadratic_penalty_loss",
    "cispo": "clipped_weight_loss",
}
IN_0_6 = ("vanilla", "gspo", "gpg", "clip_cov", "kl_cov", "geo_mean")


@pytest.fixture(autouse=True)
def relax_modules() -> Iterator[None]:
    """relax.backends.megatron.loss with the one function that loss hooks import from it."""

    def get_log_probs_and_entropy(logits: Any, *, args: Any, unconcat_tokens: Any, **more: Any) -> Any:
        log_probs, entropy, start = [], [], 0
        for tokens, total, response in zip(
            unconcat_tokens, more["total_lengths"], more["response_lengths"], strict=True
        ):
            chunk = logits[0, start + total - response - 1 : start + total - 1].log_softmax(-1)
            log_probs.append(chunk.gather(-1, tokens[-response:, None])[:, 0])
            entropy.append(-(chunk.exp() * chunk).sum(-1))
            start += total
        return None, {"log_probs": log_probs, "entropy": entropy}

    names = ("relax", "relax.backends", "relax.backends.megatron", "relax.backends.megatron.loss")
    before = {name: sys.modules.get(name) for name in names}
    for name in names:
        sys.modules[name] = types.ModuleType(name)
    sys.modules[names[-1]].get_log_probs_and_entropy = get_log_probs_and_entropy  # type: ignore[attr-defined]
    yield
    for name in names:
        if before[name] is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before[name]  # type: ignore[assignment]


class Scene:
    """A batch with logits: log-probs and entropy follow from them, so that gradients can be compared."""

    def __init__(self, seed: int, device: str, **options: Any) -> None:
        self.batch: Batch = make_batch(seed, device=device, **options)
        rng = torch.Generator().manual_seed(seed + 1000)
        count = len(self.batch.lengths)
        self.logits = torch.randn(count, WIDTH, WORDS, generator=rng, dtype=torch.float64).to(device).requires_grad_()
        self.tokens = torch.randint(0, WORDS, (count, WIDTH), generator=rng).to(device)
        table = self.logits.log_softmax(-1)
        self.log_probs = table.gather(-1, self.tokens[..., None])[..., 0]
        self.entropy = -(table.exp() * table).sum(-1)
        detached = self.log_probs.detach()
        for name in ("old_log_probs", "rollout_log_probs", "reference"):
            moved = detached + (getattr(self.batch, name) - self.batch.log_probs)
            setattr(self.batch, name, moved.clamp(max=-1e-3))

    def relax_batch(self, rows: list[int]) -> dict[str, Any]:
        batch = self.batch
        lengths = [batch.lengths[row] for row in rows]

        def lists(values: torch.Tensor) -> list[torch.Tensor]:
            return [values[row, : batch.lengths[row]] for row in rows]

        prompt = torch.zeros(PROMPT, dtype=torch.int64, device=self.tokens.device)
        return {
            "unconcat_tokens": [torch.cat([prompt, tokens]) for tokens in lists(self.tokens)],
            "total_lengths": [PROMPT + length for length in lengths],
            "response_lengths": lengths,
            "loss_masks": lists(batch.mask),
            "log_probs": lists(batch.old_log_probs),
            "rollout_log_probs": lists(batch.rollout_log_probs),
            "ref_log_probs": lists(batch.reference),
            "advantages": lists(batch.advantages),
        }

    def packed(self, rows: list[int]) -> torch.Tensor:
        """Logits as Megatron gives them: [1, tokens of all samples, words], a row predicts the next token."""
        parts = []
        for row in rows:
            length = self.batch.lengths[row]
            before = torch.zeros(PROMPT - 1, WORDS, dtype=torch.float64, device=self.logits.device)
            parts += [before, self.logits[row, :length], before[:1] if PROMPT > 1 else before.new_zeros(1, WORDS)]
        return torch.cat(parts)[None]

    def relax_loss(self, hook: str, args: Any, micro: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss of one update through the hook, and its gradient."""
        total = len(self.batch.lengths)
        size = total // micro
        parts = []
        for start in range(0, total, size):
            rows = list(range(start, start + size))
            batch = self.relax_batch(rows)
            reduce = sum_of_sample_mean(batch["response_lengths"], batch["loss_masks"], args.calculate_per_token_loss)
            loss, metrics = getattr(losses, hook)(args, batch, self.packed(rows), reduce)
            assert all(not value.requires_grad and value.ndim == 0 for value in metrics.values())
            parts.append(loss)
        loss = step_loss(parts, per_token=args.calculate_per_token_loss, tokens=self.batch.mask.sum(), samples=total)
        return loss.detach(), self.gradient(loss)

    def gradient(self, loss: torch.Tensor) -> torch.Tensor:
        (found,) = torch.autograd.grad(loss, self.logits, retain_graph=True)
        inside = torch.zeros_like(found)
        for row, length in enumerate(self.batch.lengths):
            inside[row, :length] = 1
        return found * inside

    def verl_loss(self, verl: Verl, mode: str, args: Any, agg: str, micro: int, **more: Any) -> Any:
        """verl's ppo_loss over micro batches with global normalisation (0.8 on), or dp_actor's means before."""
        core, batch = verl.core, self.batch
        total = len(batch.lengths)
        size = total // micro
        mask = more.pop("mask", batch.mask)
        weights = more.pop("weights", None)
        modern = tuple(int(part) for part in verl.version.split(".")[:2]) >= (0, 8)
        info: dict[str, Any] = {}
        if modern:
            info = {"dp_size": 1, "batch_num_tokens": mask.sum(), "global_batch_size": total}
            info["loss_scale_factor"] = more.pop("loss_scale_factor", None)
        config = ActorConfig(
            clip_ratio=0.2, clip_ratio_low=args.eps_clip, clip_ratio_high=args.eps_clip_high, tau_pos=args.sapo_tau_pos,
            tau_neg=args.sapo_tau_neg, clip_ratio_c=args.eps_clip_c, global_batch_info=info,
            policy_loss=Config(clip_cov_ratio=0.05, clip_cov_lb=0.05, clip_cov_ub=5.0, kl_cov_ratio=0.1,
                               ppo_kl_coef=0.7, dro_beta=0.1),
        )  # fmt: skip
        loss = torch.zeros((), dtype=torch.float64, device=self.logits.device)
        for start in range(0, total, size):
            rows = slice(start, start + size)
            keywords = {
                "old_log_prob": (batch.rollout_log_probs if args.use_rollout_logprobs else batch.old_log_probs)[rows],
                "log_prob": self.log_probs[rows],
                "advantages": batch.advantages[rows],
                "response_mask": mask[rows],
                "loss_agg_mode": agg,
                "config": config,
            }
            if weights is not None:
                keywords["rollout_is_weights"] = weights[rows]
            part = core.get_policy_loss_fn(mode)(**keywords)[0]
            if modern and mode == "geo_mean":  # a mean of the micro batch, which verl since 0.8 adds up unscaled
                part = part * size / total
            if args.entropy_coef:
                entropy = core.agg_loss(self.entropy[rows], mask[rows], agg, **info)
                part = part - args.entropy_coef * entropy
            if args.use_kl_loss:
                kl = core.kl_penalty(self.log_probs[rows], batch.reference[rows], args.kl_loss_type)
                part = part + args.kl_loss_coef * core.agg_loss(kl, mask[rows], agg, **info)
            loss = loss + (part if modern else part * size / total)
        return loss.detach(), self.gradient(loss)


def set_constants(patch: pytest.MonkeyPatch, **constants: Any) -> None:
    for name, value in constants.items():
        for module in (losses, loss_parts, correction):
            if hasattr(module, name):
                patch.setattr(module, name, value)


COV = {"CLIP_COV_RATIO": 0.05, "CLIP_COV_LOW": 0.05, "CLIP_COV_HIGH": 5.0, "KL_COV_RATIO": 0.1, "KL_COV_COEF": 0.7,
       "DRO_BETA": 0.1}  # fmt: skip


@pytest.mark.parametrize("mode", HOOKS)
@pytest.mark.parametrize("agg", ["token-mean", "seq-mean-token-mean"])
@pytest.mark.parametrize("seed", range(3))
def test_losses(verl: Verl, mode: str, agg: str, seed: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newest verl; entropy and KL on; several micro batches; observations and a response that does not train."""
    if mode in ("sapo", "geo_mean"):
        agg = "seq-mean-token-mean"
    scene = Scene(seed, device, empty=seed == 2, spread=1.0)
    args = arguments(
        calculate_per_token_loss=agg == "token-mean", entropy_coef=0.01, use_kl_loss=True, kl_loss_coef=0.2,
        kl_loss_type="low_var_kl",
    )  # fmt: skip
    set_constants(monkeypatch, AGGREGATION=agg, **COV)
    micro = 3
    torch.manual_seed(seed)
    left = scene.verl_loss(verl, mode, args, agg, micro)
    torch.manual_seed(seed)
    right = scene.relax_loss(HOOKS[mode], args, micro)
    assert left[1].abs().sum() > 0
    torch.testing.assert_close(right, left, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize(
    ("release", "mode"),
    [*(("0.6.1", mode) for mode in IN_0_6), *(("0.7.0", mode) for mode in (*IN_0_6, "sapo", "cispo"))],
    indirect=["release"],
)
def test_losses_of_older_releases(release: Verl, mode: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One micro batch, where the older mean over micro batches and the newer one over the batch are the same."""
    agg = "seq-mean-token-mean" if mode in ("sapo", "geo_mean", "gspo") else "token-mean"
    scene = Scene(5, device, spread=1.0)
    args = arguments(calculate_per_token_loss=agg == "token-mean", entropy_coef=0.01)
    set_constants(monkeypatch, AGGREGATION=agg, **COV)
    torch.manual_seed(0)
    left = scene.verl_loss(release, mode, args, agg, 1)
    torch.manual_seed(0)
    torch.testing.assert_close(scene.relax_loss(HOOKS[mode], args, 1), left, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize(
    ("agg", "scale", "divisor"),
    [
        ("token-sum", 24.0, None),
        ("seq-mean-token-sum", 1.0, None),
        ("seq-mean-token-sum-norm", 1 / WIDTH, None),
        ("seq-mean-token-sum-norm", 0.01, 100),
    ],
)
@pytest.mark.parametrize("micro", [1, 4])
def test_sums_with_entropy_and_kl(
    verl: Verl,
    agg: str,
    scale: float,
    divisor: int | None,
    micro: int,
    device: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(1, device)
    args = arguments(
        calculate_per_token_loss=False, entropy_coef=0.02, use_kl_loss=True, kl_loss_coef=0.1, kl_loss_type="abs"
    )
    set_constants(monkeypatch, AGGREGATION=agg, AGGREGATION_SCALE=scale, OWN_KL="abs")
    left = scene.verl_loss(verl, "vanilla", args, agg, micro, loss_scale_factor=divisor)
    torch.testing.assert_close(scene.relax_loss("dual_clip_loss", args, micro), left, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("release", ["0.5.0", "0.6.1", "0.7.0"], indirect=True)
def test_token_mean_of_micro_batches(release: Verl, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What verl before 0.8 calls token-mean, over several micro batches."""
    scene = Scene(2, device)
    args = arguments(calculate_per_token_loss=False, entropy_coef=0.02)
    set_constants(monkeypatch, AGGREGATION="micro-batch-token-mean")
    mode = "vanilla" if release.version != "0.5.0" else "gpg"
    left = scene.verl_loss(release, mode, args, "token-mean", 4)
    right = scene.relax_loss(HOOKS[mode], args, 4)
    torch.testing.assert_close(right, left, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("seed", range(3))
def test_relax_own_losses_where_no_hook_is_written(verl: Verl, seed: int, device: str) -> None:
    """With one update a rollout the ratio is 1: Relax's clipped loss, its cispo and verl's have one gradient.

    Relax's formulas: L = max(-r A, -clip(r) A); cispo L = -sg(min(r, 1 + high) or max(r, 1 - low)) A log pi.
    """
    scene = Scene(seed, device)
    scene.batch.old_log_probs = scene.log_probs.detach()
    args = arguments()
    flat = scene.batch.flat
    advantages, mask = flat(scene.batch.advantages), flat(scene.batch.mask)
    ratio = (flat(scene.log_probs) - flat(scene.log_probs).detach()).exp()
    own = {
        "vanilla": torch.maximum(-ratio * advantages, -ratio.clamp(0.8, 1.28) * advantages),
        "cispo": -advantages * flat(scene.log_probs),
    }
    for mode, values in own.items():
        gradient = scene.gradient((values * mask).sum() / mask.sum())
        torch.testing.assert_close(gradient, scene.verl_loss(verl, mode, args, "token-mean", 1)[1])


def test_true_on_policy_mode_has_no_old_log_probs(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(0, device)
    args = arguments(true_on_policy_mode=True)
    rows = list(range(len(scene.batch.lengths)))
    batch = scene.relax_batch(rows)
    del batch["log_probs"]
    reduce = sum_of_sample_mean(batch["response_lengths"], batch["loss_masks"], True)
    loss, metrics = losses.dual_clip_loss(args, batch, scene.packed(rows), reduce)
    assert float(metrics["ppo_kl"]) == 0.0
    assert float(loss.detach()) == pytest.approx(-float((scene.batch.advantages * scene.batch.mask).sum()))


def test_split_responses_are_an_error(device: str) -> None:
    scene = Scene(0, device)
    rows = list(range(len(scene.batch.lengths)))
    batch = scene.relax_batch(rows)
    batch["loss_masks"] = [mask.repeat(2) for mask in batch["loss_masks"]]
    with pytest.raises(ValueError, match="context-parallel"):
        losses.kl_cov_loss(arguments(), batch, scene.packed(rows), lambda values: values.sum())
    loss, _ = losses.gpg_loss(arguments(), batch, scene.packed(rows), lambda values: values.sum())
    assert torch.isfinite(loss)  # token by token: Relax's own reducer knows which part of the responses this is


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("mode", ["vanilla", "gpg", "geo_mean"])
def test_importance_weights_in_the_loss(
    verl: Verl, mode: str, level: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rollout_is beside a custom loss: the weights of the trainer's old log-probs against the rollout's."""
    scene = Scene(4, device, spread=0.5)
    agg = "seq-mean-token-mean" if mode == "geo_mean" else "token-mean"
    args = arguments(calculate_per_token_loss=agg == "token-mean")
    with verl.active():
        weights, _, _ = verl.correction.compute_rollout_correction_and_rejection_mask(
            scene.batch.old_log_probs, scene.batch.rollout_log_probs, scene.batch.mask, level, 2.0
        )
    set_constants(monkeypatch, AGGREGATION=agg, IS_LEVEL=level, IS_UPPER=2.0, WEIGHTS_PER_RESPONSE=mode == "geo_mean")
    left = scene.verl_loss(verl, mode, args, agg, 2, weights=weights.batch["rollout_is_weights"])
    right = scene.relax_loss(HOOKS[mode], args, 2)
    torch.testing.assert_close(right, left, atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("kind", ["reinforce", "ppo_clip"])
@pytest.mark.parametrize("rejection", [None, "token_k1,seq_mean_k3"])
def test_bypass_mode(
    verl: Verl, kind: str, rejection: str | None, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """verl's bypass_mode loss; what is rejected leaves the sum on both sides, verl's divisor is scaled back."""
    scene = Scene(6, device, spread=0.6)
    settings = Config(
        loss_type=kind, rollout_is="token", rollout_is_threshold=1.5, rollout_rs=rejection,
        rollout_rs_threshold="0.5_2.0,0.3" if rejection else None,
    )  # fmt: skip
    args = arguments(use_rollout_logprobs=True)
    total = len(scene.batch.lengths)
    tokens = scene.batch.mask.sum()
    config = ActorConfig(
        clip_ratio=0.2, clip_ratio_low=args.eps_clip, clip_ratio_high=args.eps_clip_high, clip_ratio_c=args.eps_clip_c,
        global_batch_info={"dp_size": 1, "batch_num_tokens": tokens, "global_batch_size": total},
        policy_loss=Config(rollout_correction=settings),
    )  # fmt: skip
    with verl.active():
        loss, _ = verl.core.get_policy_loss_fn("bypass_mode")(
            scene.batch.rollout_log_probs, scene.log_probs, scene.batch.advantages, scene.batch.mask, "token-mean",
            config,
        )  # fmt: skip
    rules = [("token_k1", 0.5, 2.0), ("seq_mean_k3", None, 0.3)] if rejection else []
    set_constants(
        monkeypatch, AGGREGATION="token-mean", IS_LEVEL="token", IS_UPPER=1.5, REJECT=rules,
        WEIGHTS_FROM_CURRENT=True, NO_WEIGHTS=kind == "ppo_clip",
    )  # fmt: skip
    right = scene.relax_loss("reinforce_loss" if kind == "reinforce" else "dual_clip_loss", args, 2)
    left = (loss.detach(), scene.gradient(loss))
    torch.testing.assert_close(right, left, atol=2e-6, rtol=2e-6)
