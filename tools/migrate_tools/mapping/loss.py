"""The policy loss, its clipping and its aggregation: Relax's own, or a generated hook where Relax's own is another."""

from __future__ import annotations

from typing import Any, Final

from migrate_tools.mapping.algorithm_table import AGGREGATIONS
from migrate_tools.mapping.batch import read_batch
from migrate_tools.mapping.correction import place_correction
from migrate_tools.mapping.correction_facts import read_correction
from migrate_tools.mapping.draft import Draft
from migrate_tools.mapping.facts import ACTOR, Facts, number_text
from migrate_tools.mapping.kl import IN_LOSS, LOSS_COEF, LOSS_TYPE, OWN_KINDS
from migrate_tools.mapping.loss_facts import (
    AGG,
    BYPASS,
    BYPASS_LOSS,
    CLIP,
    DUAL,
    HIGH,
    LOW,
    OLD_REINFORCE,
    ROLLOUT_LOG_PROBS,
    SCALE,
    Mode,
    aggregation,
    clip_range,
    loss_in_force,
    release,
)

LOSS_KEYS: Final = (ACTOR + "policy_loss.loss_mode", ACTOR + "loss_mode")
LOSS_HOOK: Final = "--custom-loss-function-path"
REDUCER: Final = "--custom-pg-loss-reducer-function-path"
NATIVE: Final = ("token-mean", "seq-mean-token-mean")
COVARIANCE: Final = {
    "clip_cov": (("clip_cov_ratio", "CLIP_COV_RATIO", 0.0002), ("clip_cov_lb", "CLIP_COV_LOW", 1.0),
                 ("clip_cov_ub", "CLIP_COV_HIGH", 5.0)),
    "kl_cov": (("kl_cov_ratio", "KL_COV_RATIO", 0.0002), ("ppo_kl_coef", "KL_COV_COEF", 1.0)),
    "dro": (("dro_beta", "DRO_BETA", None),),
}  # fmt: skip
"""Loss -> (verl's setting, constant of the hook, verl's default)."""


def place_loss(draft: Draft) -> None:
    """Write the loss, its clipping, aggregation and correction."""
    mode = loss_in_force(draft.facts)
    custom = _needs_hook(draft, mode)
    if mode.row.native_when == "never" and not custom:
        draft.refuse(f"this Relax version has no {LOSS_HOOK}, which verl's {mode.name} loss needs")
        return
    low, high = clip_range(draft.facts)
    draft.flag("--eps-clip", number_text(low), "ALGO")
    draft.flag("--eps-clip-high", number_text(high), "ALGO")
    _say_clipping(draft, low, high)
    _bypass(draft, mode)
    constants = place_correction(draft, custom)
    if mode.bypass and constants:
        constants |= {"WEIGHTS_FROM_CURRENT": True, "NO_WEIGHTS": mode.name == "vanilla"}
    if mode.name == "geo_mean" and constants:
        constants["WEIGHTS_PER_RESPONSE"] = True
    constants |= _aggregation(draft, mode, custom)
    constants |= _own_numbers(draft, mode, custom)
    if custom:
        draft.flag("--loss-type", "custom_loss", "ALGO", "the loss of hooks_*.py")
        draft.hook(LOSS_HOOK, mode.row.hook, "ALGO", **constants)
    _dual_clip(draft, mode, custom)
    _say_loss(draft, mode, custom)


def _needs_hook(draft: Draft, mode: Mode) -> bool:
    """Whether Relax's own loss is another one than verl's."""
    facts = draft.facts
    row, agg = mode.row, aggregation(facts)
    moves = mode.bypass or (draft.batch is not None and draft.batch.updates_per_rollout > 1)
    kl_in_loss = _kl_in_loss(facts)
    own = (
        row.native_when == "never"
        or (row.native_when == "ratio is 1" and moves and (mode.name != "vanilla" or facts.has(DUAL)))
        or (mode.bypass and read_correction(facts).active)
        or (agg not in NATIVE and agg in AGGREGATIONS and (kl_in_loss or _entropy(facts)))
        or (kl_in_loss and facts.text(LOSS_TYPE) in OWN_KINDS)
        or (draft.estimator == "reinforce_plus_plus" and agg == "token-mean" and _entropy(facts))
    )
    return bool(own) and draft.estimator != "ppo" and LOSS_HOOK in draft.contract.flags


def _kl_in_loss(facts: Facts) -> bool:
    return facts.flag(IN_LOSS) and (facts.number(LOSS_COEF, default=0.001) or 0.0) != 0


def _entropy(facts: Facts) -> bool:
    return (facts.number(ACTOR + "entropy_coeff", default=0.0) or 0.0) != 0


def _say_clipping(draft: Draft, low: float, high: float) -> None:
    facts = draft.facts
    draft.say(LOW, "exact", "--eps-clip", "lower clip ratio")
    draft.say(HIGH, "exact", "--eps-clip-high", "upper clip ratio")
    if facts.get(LOW) is not None and facts.get(HIGH) is not None:
        draft.say(CLIP, "no_effect", (), f"clip_ratio_low={low} and clip_ratio_high={high} win over it in this version")
    else:
        draft.say(CLIP, "exact", ("--eps-clip", "--eps-clip-high"), "both clip ratios")


def _dual_clip(draft: Draft, mode: Mode, custom: bool) -> None:
    facts = draft.facts
    reads = mode.name in ("vanilla", "dppo_tv", "dppo_kl")
    if not (facts.has(DUAL) and reads and draft.estimator):
        draft.say(DUAL, "no_effect", (), f"the {mode.name} loss has no dual clip")
        return
    dual = facts.number(DUAL, default=3.0) or 3.0
    if custom:
        draft.flag("--eps-clip-c", number_text(dual), "ALGO", "read by the loss hook")
        draft.say(DUAL, "exact", ("--eps-clip-c", LOSS_HOOK), "bound on negative advantages, applied by the loss hook")
        return
    draft.flag("--eps-clip-c", number_text(dual), "ALGO")
    batch = read_batch(facts)
    if batch.updates == 1 and batch.epochs == 1 and draft.batch and draft.batch.updates_per_rollout == 1:
        draft.say(DUAL, "automatic", "--eps-clip-c", "one update a batch: the ratio is 1 on both sides, no clip acts")
        return
    text = (
        f"dual clip at {dual}: Relax parses --eps-clip-c but its policy loss does not apply it; it only acts on "
        "negative advantages whose ratio passes that bound"
    )
    if draft.batch is not None and draft.batch.updates_per_rollout == 1:
        text += "; with one update a rollout the ratio stays at 1 in sync mode, so no clip acts there"
    draft.say(DUAL, "approximate", "--eps-clip-c", text, "training")
    draft.note("dual-clip", text)


def _say_loss(draft: Draft, mode: Mode, custom: bool) -> None:
    asked = draft.facts.loss_mode
    overruled = f"; bypass mode takes it in place of {asked}" if asked != mode.name else ""
    if custom and mode.name == "geo_mean" and release(draft.facts) >= (0, 8, 0):
        text = "the same loss, averaged over the batch; this verl adds up the means of micro batches unscaled"
        draft.say(LOSS_KEYS, "approximate", LOSS_HOOK, text, "training")
    elif custom:
        draft.say(LOSS_KEYS, "derived", LOSS_HOOK, f"verl's {mode.name} loss by a generated hook{overruled}")
    elif mode.name == "vanilla":
        draft.say(LOSS_KEYS, "exact", (), f"the clipped objective{overruled}")
    else:
        draft.say(LOSS_KEYS, "derived", "--advantage-estimator", f"the {mode.name} loss goes with {draft.estimator}")


def _own_numbers(draft: Draft, mode: Mode, custom: bool) -> dict[str, Any]:
    """Constants that only one loss reads, and the KL estimator that Relax lacks."""
    facts = draft.facts
    constants: dict[str, Any] = {}
    for name, rows in COVARIANCE.items():
        for setting, constant, default in rows:
            keys = (ACTOR + "policy_loss." + setting, ACTOR + setting)
            if mode.name == name:
                value = facts.number(*keys, default=default)
                if value is None:
                    draft.refuse(f"{keys[0]}: verl's {name} loss needs a number")
                    continue
                constants[constant] = value
                draft.say(keys, "exact", LOSS_HOOK, f"read by the {name} loss")
            else:
                draft.say(keys, "no_effect", (), f"only read by the {name} loss")
    draft.say(ACTOR + "k_percent", "no_effect", (), "read by no loss of this verl")
    if custom and facts.flag(IN_LOSS) and facts.text(LOSS_TYPE) in OWN_KINDS:
        constants["OWN_KL"] = facts.text(LOSS_TYPE)
    return constants


def _aggregation(draft: Draft, mode: Mode, custom: bool) -> dict[str, Any]:
    """Write the aggregation; with a custom loss return its constants."""
    facts, agg = draft.facts, aggregation(draft.facts)
    forced = agg != facts.text(AGG, default="token-mean") or mode.row.per_sequence == "always"
    if forced:
        draft.say(AGG, "no_effect", (), f"verl's {mode.name} loss always averages per sequence")
    draft.say(SCALE, "no_effect", (), f"not read with loss_agg_mode={agg}")
    if agg == "token-mean":
        return _token_mean(draft, custom)
    if agg == "seq-mean-token-mean":
        if not forced:
            draft.say(AGG, "automatic", (), "mean per sample, Relax's default")
        return {"AGGREGATION": agg} if custom else {}
    if agg not in AGGREGATIONS:
        text = f"loss_agg_mode={agg}: no aggregation of that name is known"
        draft.say(AGG, "unsupported", (), text, "training")
        draft.cap("loss-agg-mode", text)
        return {}
    scale, by_samples, status, why = _scale(draft, agg)
    if not custom and (_kl_in_loss(facts) or _entropy(facts)):
        status, why = "approximate", why + "; the reducer takes the policy term only, KL and entropy keep Relax's mean"
    reads_scale = agg == "seq-mean-token-sum-norm"
    flag = LOSS_HOOK if custom else REDUCER
    if not custom and not draft.hook(REDUCER, "token_sum", "ALGO", REDUCER_SCALE=scale, REDUCER_BY_SAMPLES=by_samples):
        text = f"loss_agg_mode={agg}: this Relax version has no {REDUCER}"
        draft.say(AGG, "unsupported", (), text, "training")
        draft.cap("loss-agg-mode", text)
        return {}
    draft.say(AGG, status, flag, why, "training" if status == "approximate" else "none")
    if reads_scale:
        draft.say(SCALE, "exact", flag, "divisor of the sum")
    return {"AGGREGATION": agg, "AGGREGATION_SCALE": scale, "AGGREGATION_BY_SAMPLES": by_samples} if custom else {}


def _token_mean(draft: Draft, custom: bool) -> dict[str, Any]:
    old = release(draft.facts) < (0, 8, 0) and release(draft.facts) != (0, 0, 0)
    if draft.estimator == "reinforce_plus_plus":
        text = "Relax's reinforce_plus_plus averages samples; the hook gives the token mean of each micro batch" + (
            ", as this verl does" if old else ", verl that of the whole batch"
        )
        flag = LOSS_HOOK if custom else REDUCER
        if not custom:
            draft.hook(REDUCER, "micro_batch_token_mean", "ALGO")
        draft.say(AGG, "derived" if old else "approximate", flag, text, "none" if old else "training")
        return {"AGGREGATION": "micro-batch-token-mean"} if custom else {}
    draft.flag("--calculate-per-token-loss", None, "ALGO")
    text = "mean over all tokens of the batch"
    if old:
        text += "; this verl averages the tokens of each micro batch first and then the micro batches"
    draft.say(AGG, "approximate" if old else "exact", "--calculate-per-token-loss", text)
    return {"AGGREGATION": "token-mean"} if custom else {}


def _scale(draft: Draft, agg: str) -> tuple[float, bool, Any, str]:
    """Factor on the sum over tokens, whether the samples of a micro batch are one more, status and reason."""
    facts = draft.facts
    if agg == "token-sum":
        size = draft.batch.global_batch_size if draft.batch else 1
        return (
            float(size),
            False,
            "exact",
            f"the sum over tokens; the hook undoes Relax's division by {size} samples",
        )
    if agg == "seq-mean-token-sum":
        return 1.0, False, "exact", "the sum over the tokens of a sample, averaged over samples"
    horizon = facts.number(SCALE) or facts.number("data.max_response_length") or 1.0
    text = f"the sum over the tokens of a sample divided by {number_text(horizon)}"
    if release(facts) >= (0, 7, 1) or release(facts) == (0, 0, 0):
        return 1.0 / horizon, False, "exact", text + ", averaged over samples"
    if facts.flag(ACTOR + "use_dynamic_bsz"):
        return 1.0 / horizon, True, "approximate", text + "; this verl weighs a micro batch by its samples once more"
    micro = facts.integer(ACTOR + "ppo_micro_batch_size_per_gpu") or 1
    return micro / horizon, False, "exact", f"{text}; this verl weighs it with the {micro} samples of a micro batch"


def _bypass(draft: Draft, mode: Mode) -> None:
    draft.say((BYPASS_LOSS, OLD_REINFORCE), "no_effect", (), "only read in bypass mode")
    keys = (BYPASS, ROLLOUT_LOG_PROBS)
    if not mode.bypass:
        draft.say(keys, "automatic", (), "old log-probs are recomputed by the trainer on both sides")
        return
    draft.flag("--use-rollout-logprobs", None, "ALGO")
    draft.say(keys, "exact", "--use-rollout-logprobs", "old log-probs are those of the rollout engine")
    draft.say((BYPASS_LOSS, OLD_REINFORCE), "exact", LOSS_HOOK if mode.name == "reinforce" else (), f"{mode.name} loss")
