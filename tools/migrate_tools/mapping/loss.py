"""Clipping, loss aggregation and rollout correction."""

from __future__ import annotations

import re
from typing import Final

from migrate_tools.mapping.algorithm import SEQUENCE_MEAN
from migrate_tools.mapping.draft import Draft
from migrate_tools.mapping.facts import ACTOR, Facts, number_text

CLIP, LOW, HIGH, DUAL = (ACTOR + name for name in ("clip_ratio", "clip_ratio_low", "clip_ratio_high", "clip_ratio_c"))
AGG = ACTOR + "loss_agg_mode"
IS = "algorithm.rollout_correction."
NO_PER_TOKEN: Final = frozenset({"reinforce_plus_plus", "reinforce_plus_plus_baseline"})
"""Estimators that refuse --calculate-per-token-loss."""


def clip_range(facts: Facts) -> tuple[float, float]:
    """Lower and upper clip ratio in force: low and high win over clip_ratio where they are not null."""
    both = facts.number(CLIP, default=0.2) or 0.2
    low, high = facts.number(LOW), facts.number(HIGH)
    return (both if low is None else low), (both if high is None else high)


def aggregation(facts: Facts) -> str:
    """verl's loss aggregation in force; gspo and sapo average per sequence whatever the setting says."""
    if facts.loss_mode in SEQUENCE_MEAN:
        return "seq-mean-token-mean"
    return facts.text(AGG, default="token-mean")


def place_loss(draft: Draft) -> None:
    """Write clipping, aggregation and importance sampling flags."""
    _clipping(draft)
    _aggregation(draft)
    _correction(draft)


def _clipping(draft: Draft) -> None:
    facts = draft.facts
    low, high = clip_range(facts)
    draft.flag("--eps-clip", number_text(low), "ALGO")
    draft.flag("--eps-clip-high", number_text(high), "ALGO")
    draft.say(LOW, "exact", "--eps-clip", "lower clip ratio")
    draft.say(HIGH, "exact", "--eps-clip-high", "upper clip ratio")
    if facts.get(LOW) is not None and facts.get(HIGH) is not None:
        draft.say(CLIP, "no_effect", (), f"clip_ratio_low={low} and clip_ratio_high={high} win over it in this version")
    else:
        draft.say(CLIP, "exact", ("--eps-clip", "--eps-clip-high"), "both clip ratios")
    if not (facts.has(DUAL) and facts.loss_mode == "vanilla" and draft.estimator != ""):
        draft.say(DUAL, "no_effect", (), f"the {facts.loss_mode} loss has no dual clip")
        return
    dual = facts.number(DUAL, default=3.0) or 3.0
    draft.flag("--eps-clip-c", number_text(dual), "ALGO")
    text = (
        f"dual clip at {dual}: Relax parses --eps-clip-c but its policy loss does not apply it; it only acts on "
        "negative advantages whose ratio passes that bound"
    )
    if draft.batch is not None and draft.batch.updates_per_rollout == 1:
        text += "; with one update a rollout the ratio stays at 1 in sync mode, so no clip acts there"
    draft.say(DUAL, "approximate", "--eps-clip-c", text, "training")
    draft.note("dual-clip", text)


def _aggregation(draft: Draft) -> None:
    facts, mode = draft.facts, aggregation(draft.facts)
    if facts.loss_mode in SEQUENCE_MEAN:
        draft.say(AGG, "no_effect", (), f"verl's {facts.loss_mode} loss always averages per sequence")
    if mode == "token-mean":
        if draft.estimator in NO_PER_TOKEN:
            text = f"loss over all tokens (token-mean): Relax's {draft.estimator} allows the mean per sample only"
            draft.say(AGG, "unsupported", (), text, "training")
            draft.cap("loss-agg-rule", text)
            return
        draft.flag("--calculate-per-token-loss", None, "ALGO")
        draft.say(AGG, "exact", "--calculate-per-token-loss", "mean over all tokens of the batch")
        return
    if mode == "seq-mean-token-mean":
        if facts.loss_mode not in SEQUENCE_MEAN:
            draft.say(AGG, "automatic", (), "mean per sample, Relax's default")
    else:
        text = (
            f"loss_agg_mode={mode}: Relax has the mean per token and the mean per sample; another reduction needs "
            "a hook (--custom-pg-loss-reducer-function-path)"
        )
        draft.say(AGG, "unsupported", (), text, "training")
        draft.cap("loss-agg-mode", text)
    if draft.estimator == "rloo":
        draft.flag("--calculate-per-token-loss", None, "ALGO", "Relax's rloo demands it")
        text = f"loss_agg_mode={mode}: Relax's rloo allows the mean per token only"
        draft.say(AGG, "unsupported", "--calculate-per-token-loss", text, "training")
        draft.cap("loss-agg-rule", text)


def _threshold(draft: Draft, value: object) -> tuple[float, float] | None:
    """Lower and upper bound from 2.0 or "0.5_2.0"."""
    parts = re.split(r"_", str(value).strip("'\""))
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        return None
    return (0.0, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])


def _correction(draft: Draft) -> None:
    facts = draft.facts
    level = facts.text(IS + "rollout_is", "algorithm.rollout_is_level").lower()
    cap = facts.number(ACTOR + "tis_imp_ratio_cap", default=-1.0) or -1.0
    extras = (IS + "rollout_is_batch_normalize", IS + "loss_type")
    if cap > 0:
        _tis(draft, (ACTOR + "tis_imp_ratio_cap",), 0.0, cap)
    elif facts.has(ACTOR + "tis_imp_ratio_cap"):
        draft.say(ACTOR + "tis_imp_ratio_cap", "no_effect", (), "off")
    if level in ("", "null", "none", "false"):
        draft.say(
            (IS + "rollout_is", *extras, IS + "rollout_is_threshold"),
            "no_effect",
            (),
            "no importance weights for the rollout policy",
        )
    elif level == "token":
        bounds = _threshold(draft, facts.get(IS + "rollout_is_threshold", default=2.0))
        if bounds is None:
            _unsupported(draft, (IS + "rollout_is_threshold",), "the threshold is no number")
        else:
            _tis(draft, (IS + "rollout_is", IS + "rollout_is_threshold"), *bounds)
        if facts.flag(extras[0]):
            _unsupported(draft, extras[:1], "normalising the weights over the batch has no counterpart in Relax")
        else:
            draft.say(extras[0], "automatic", (), "weights are not normalised, as in Relax")
    else:
        _unsupported(
            draft,
            (IS + "rollout_is", IS + "rollout_is_threshold"),
            f"importance weights per {level}: Relax's --use-tis weighs tokens",
        )
    _rejection(draft)


def _rejection(draft: Draft) -> None:
    facts = draft.facts
    keys = (
        IS + "rollout_rs",
        IS + "rollout_rs_threshold",
        IS + "rollout_rs_threshold_lower",
        IS + "rollout_token_veto_threshold",
    )
    if facts.text(keys[0]).lower() not in ("", "null", "none", "false"):
        _unsupported(draft, keys, "rejection of samples by importance ratio needs a hook (--custom-tis-function-path)")
    else:
        draft.say(keys, "no_effect", (), "no rejection sampling")
    bypass = IS + "bypass_mode"
    if not facts.flag(bypass):
        draft.say(bypass, "automatic", (), "old log-probs are recomputed by the trainer on both sides")
    elif draft.has("--use-tis"):
        _unsupported(draft, (bypass,), "Relax refuses rollout log-probs together with --use-tis")
    elif facts.text(IS + "loss_type", default="ppo_clip") != "ppo_clip":
        _unsupported(draft, (bypass, IS + "loss_type"), "bypass mode with a REINFORCE loss has no counterpart")
    else:
        draft.flag("--use-rollout-logprobs", None, "ALGO")
        draft.say(bypass, "exact", "--use-rollout-logprobs", "old log-probs are those of the rollout engine")


def _tis(draft: Draft, keys: tuple[str, ...], low: float, high: float) -> None:
    draft.flag("--use-tis", None, "ALGO")
    draft.flag("--tis-clip", number_text(high), "ALGO")
    draft.flag("--tis-clip-low", number_text(low), "ALGO")
    draft.say(keys, "exact", ("--use-tis", "--tis-clip"), "truncated importance weights per token")


def _unsupported(draft: Draft, keys: tuple[str, ...], text: str) -> None:
    draft.say(keys, "unsupported", (), text, "training")
    draft.cap("rollout-correction", text)
