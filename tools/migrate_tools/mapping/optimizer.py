"""Learning rate, its schedule, Adam and gradient clipping.

verl's scheduler advances once a step (T prompts), Megatron's once an update; warm-up steps are multiplied by the
updates of a verl step under both batch policies, so that the same number of prompts is spent warming up.
"""

from __future__ import annotations

import re

from migrate_tools.mapping.draft import Draft
from migrate_tools.mapping.facts import ACTOR, Facts, number_text

OPTIM = ACTOR + "optim."
STYLE_KEYS = (OPTIM + "lr_scheduler_type", OPTIM + "warmup_style", OPTIM + "lr_decay_style")
STYLES = {"constant": "constant", "cosine": "cosine", "linear": "linear", "inverse-square-root": "inverse-square-root"}
ENGINES_SINCE = (0, 8)
CLIP_KEYS = (ACTOR + "grad_clip", OPTIM + "clip_grad")


def style(facts: Facts) -> str:
    """verl's schedule after warm-up; constant by default."""
    keys = (STYLE_KEYS[2], *STYLE_KEYS[:2]) if facts.megatron else STYLE_KEYS
    return facts.text(*keys, default="constant").lower()


def warmup(facts: Facts) -> tuple[int | None, float]:
    """Warm-up as (steps, ratio): steps when they are set, else the ratio of all steps.

    0 steps count as unset for Megatron's scheduler and since 0.8, whose engines replace the FSDP worker.
    """
    steps = facts.integer(OPTIM + "lr_warmup_steps")
    ratio = facts.number(OPTIM + "lr_warmup_steps_ratio", default=0.0) or 0.0
    zero_means_ratio = facts.megatron or facts.version >= ENGINES_SINCE
    if steps is not None and (steps > 0 or (steps == 0 and not (zero_means_ratio and ratio))):
        return steps, 0.0
    return None, ratio


def betas(facts: Facts) -> tuple[float, float]:
    """Adam's betas; verl's default is 0.9, 0.999."""
    value = facts.get(OPTIM + "betas", default=(0.9, 0.999))
    numbers = [
        float(item) for item in re.findall(r"[\d.eE+-]+", str(list(value) if not isinstance(value, str) else value))
    ]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (0.9, 0.999)


def clip(facts: Facts) -> float:
    """Largest gradient norm."""
    keys = CLIP_KEYS[::-1] if facts.megatron else CLIP_KEYS
    return facts.number(*keys, default=1.0) or 1.0


def min_lr(facts: Facts) -> float:
    """Lowest learning rate of a decaying schedule: absolute for Megatron, a share of the peak for FSDP."""
    if facts.megatron:
        return facts.number(OPTIM + "min_lr", default=0.0) or 0.0
    lr = facts.number(OPTIM + "lr", default=1e-6) or 0.0
    return lr * (facts.number(OPTIM + "min_lr_ratio", OPTIM + "min_lr_factor", default=0.0) or 0.0)


def place_optimizer(draft: Draft, updates: int, steps: int | None = None) -> None:
    """Write the optimizer; `updates` is the number of updates of a verl step, `steps` verl's steps where known."""
    facts = draft.facts
    _kind(draft)
    draft.flag("--lr", number_text(facts.number(OPTIM + "lr", default=1e-6)), "OPTIMIZER")
    draft.say(OPTIM + "lr", "exact", "--lr", "learning rate")
    _schedule(draft, updates, steps)
    draft.flag("--weight-decay", number_text(facts.number(OPTIM + "weight_decay", default=0.01)), "OPTIMIZER")
    draft.say(OPTIM + "weight_decay", "exact", "--weight-decay", "weight decay")
    beta1, beta2 = betas(facts)
    draft.flag("--adam-beta1", number_text(beta1), "OPTIMIZER")
    draft.flag("--adam-beta2", number_text(beta2), "OPTIMIZER")
    draft.say(OPTIM + "betas", "exact", ("--adam-beta1", "--adam-beta2"), "Adam's betas")
    draft.flag("--clip-grad", number_text(clip(facts)), "OPTIMIZER")
    draft.say(CLIP_KEYS, "exact", "--clip-grad", "largest gradient norm")
    _offload(draft)


def _kind(draft: Draft) -> None:
    name = draft.facts.text(OPTIM + "optimizer", default="adam").lower()
    draft.flag("--optimizer", "adam" if name not in ("sgd", "muon") else name, "OPTIMIZER")
    if name in ("adam", "adamw", "sgd", "muon"):
        draft.say(OPTIM + "optimizer", "exact", "--optimizer", "Megatron's adam decouples weight decay, as AdamW does")
    else:
        text = f"optimizer {name}: Megatron has no such optimizer, adam is written"
        draft.say(OPTIM + "optimizer", "unsupported", "--optimizer", text, "training")
        draft.cap("optimizer", text)


def _schedule(draft: Draft, updates: int, total: int | None) -> None:
    facts, kind = draft.facts, style(draft.facts)
    known = kind in STYLES
    draft.flag("--lr-decay-style", STYLES.get(kind, "constant"), "OPTIMIZER")
    if known:
        draft.say(STYLE_KEYS, "exact", "--lr-decay-style", "schedule after warm-up")
    else:
        text = f"learning-rate schedule {kind}: no counterpart, constant is written"
        draft.say(STYLE_KEYS, "unsupported", "--lr-decay-style", text, "training")
        draft.cap("lr-schedule", text)
    low = min_lr(facts)
    floor_keys = (OPTIM + "min_lr", OPTIM + "min_lr_ratio", OPTIM + "min_lr_factor")
    if kind == "constant":
        draft.say(floor_keys, "no_effect", (), "a constant schedule never gets there")
    else:
        draft.flag("--min-lr", number_text(low), "OPTIMIZER")
        draft.say(floor_keys, "derived", "--min-lr", f"lowest learning rate {low}")
        unread = OPTIM + ("min_lr_ratio" if facts.megatron else "min_lr")
        draft.say(
            unread, "no_effect", (), f"verl's {'Megatron' if facts.megatron else 'FSDP'} scheduler does not read it"
        )
    _warmup(draft, updates, total)
    _decay(draft, updates)


def _decay(draft: Draft, updates: int) -> None:
    """Megatron's lr_decay_steps, in updates."""
    key = OPTIM + "lr_decay_steps"
    length = draft.facts.integer(key) if draft.facts.megatron and draft.facts.is_set(key) else None
    if length:
        draft.flag("--lr-decay-iters", length * updates, "OPTIMIZER", "updates")
        draft.say(key, "derived", "--lr-decay-iters", f"{length} verl steps x {updates} updates a step")
    else:
        draft.say(key, "automatic", (), "over the whole run, as Relax does")


def _warmup(draft: Draft, updates: int, total: int | None) -> None:
    facts = draft.facts
    steps, ratio = warmup(facts)
    step_key, ratio_key = OPTIM + "lr_warmup_steps", OPTIM + "lr_warmup_steps_ratio"
    if steps is not None:
        if steps:
            draft.flag("--lr-warmup-iters", steps * updates, "OPTIMIZER", "updates")
        draft.say(
            step_key,
            "derived" if steps else "exact",
            "--lr-warmup-iters" if steps else (),
            f"{steps} verl steps x {updates} updates a step" if steps else "no warm-up",
        )
        draft.say(ratio_key, "no_effect", (), "lr_warmup_steps wins over it")
    elif ratio > 0 and total is not None and not facts.integer(OPTIM + "lr_decay_steps"):
        steps = int(ratio * total)
        if steps:
            draft.flag("--lr-warmup-iters", steps * updates, "OPTIMIZER", "updates")
        reason = f"{ratio} of {total} verl steps, cut to {steps}, x {updates} updates a step"
        draft.say(ratio_key, "derived", "--lr-warmup-iters" if steps else (), reason)
        draft.say(step_key, "no_effect", (), "not set: the ratio decides")
    elif ratio > 0:
        draft.flag("--lr-warmup-fraction", number_text(ratio), "OPTIMIZER")
        draft.say(ratio_key, "exact", "--lr-warmup-fraction", "share of all updates")
        draft.say(step_key, "no_effect", (), "not set: the ratio decides")
    else:
        draft.say((step_key, ratio_key), "exact", (), "no warm-up")


OFFLOAD_KEYS = (ACTOR + "fsdp_config.optimizer_offload", ACTOR + "megatron.optimizer_offload")


def _offload(draft: Draft) -> None:
    facts = draft.facts
    for key in OFFLOAD_KEYS:
        if facts.flag(key):
            draft.say(key, "exact", "--optimizer-cpu-offload", "optimizer states on the CPU", "speed")
        else:
            text = "on the GPU in the recipe; the script keeps it on the CPU, as the migration guide says"
            draft.say(key, "approximate", "--optimizer-cpu-offload", text, "speed")
    keys = [item.key for item in facts.set_below(OPTIM + "override_optimizer_config.")]
    for flag in ("--optimizer-cpu-offload", "--overlap-cpu-optimizer-d2h-h2d", "--use-precision-aware-optimizer"):
        draft.flag(flag, None, "OPTIMIZER")
    for key in keys:
        name = key.rsplit(".", 1)[-1]
        if name in ("optimizer_cpu_offload", "overlap_cpu_optimizer_d2h_h2d", "use_precision_aware_optimizer"):
            draft.say(key, "exact", "--" + name.replace("_", "-"), "optimizer on the CPU, as the script always has it")
        elif name in ("optimizer_offload_fraction", "offload_fraction"):
            value = facts.number(key, default=1.0)
            draft.flag("--optimizer-offload-fraction", number_text(float(value or 1.0)), "OPTIMIZER")
            draft.say(key, "exact", "--optimizer-offload-fraction", "share of the optimizer on the CPU", "speed")
    draft.decide(
        "where the optimizer lives",
        "on the CPU",
        "--optimizer-cpu-offload, --overlap-cpu-optimizer-d2h-h2d and --use-precision-aware-optimizer, as the "
        "migration guide says: memory and speed only",
    )
