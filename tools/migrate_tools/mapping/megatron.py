"""Megatron settings of the recipe (`override_transformer_config.*` and friends): the flag of the same name is kept."""

from __future__ import annotations

import json
from typing import Any, Final

from migrate_tools.mapping.draft import Draft, shell
from migrate_tools.mapping.facts import ACTOR, MODEL, ROLLOUT, number_text
from migrate_tools.model import Setting

OVERRIDE = ACTOR + "megatron.override_transformer_config."
CHECKPOINTING = MODEL + "enable_gradient_checkpointing"
RECOMPUTE: Final = ("recompute_granularity", "recompute_method", "recompute_num_layers")

RENAMED: Final = {
    "num_layers_in_first_pipeline_stage": "--decoder-first-pipeline-num-layers",
    "num_layers_in_last_pipeline_stage": "--decoder-last-pipeline-num-layers",
    "fp8": "--fp8-format",
}
"""Transformer option -> Megatron flag of another name."""

NEGATED: Final = {
    "apply_rope_fusion": "--no-rope-fusion",
    "gradient_accumulation_fusion": "--no-gradient-accumulation-fusion",
    "persist_layer_norm": "--no-persist-layer-norm",
    "masked_softmax_fusion": "--no-masked-softmax-fusion",
    "bias_activation_fusion": "--no-bias-swiglu-fusion",
    "bias_dropout_fusion": "--no-bias-dropout-fusion",
}
"""Options that Megatron has on by default and a flag turns off."""

TRAINS: Final = frozenset(
    {
        "moe_aux_loss_coeff",
        "moe_z_loss_coeff",
        "moe_router_bias_update_rate",
        "moe_router_load_balancing_type",
        "moe_router_dtype",
        "dsa_indexer_loss_coeff",
    }
)
"""Options that change what is learned; the rest changes speed and memory."""


def place_megatron(draft: Draft) -> None:
    """Write recompute, pipeline layout and every known transformer option."""
    _recompute(draft)
    for setting in draft.facts.set_below(OVERRIDE):
        name = setting.key.removeprefix(OVERRIDE)
        if name not in RECOMPUTE:
            _option(draft, setting, name)
    _virtual_stages(draft)
    _routing_replay(draft)


def _recompute(draft: Draft) -> None:
    facts = draft.facts
    own = {name: facts.get(OVERRIDE + name) for name in RECOMPUTE if facts.is_set(OVERRIDE + name)}
    if own and own.get("recompute_granularity") not in (None, "null"):
        for name, value in own.items():
            flag = "--" + name.replace("_", "-")
            draft.flag(flag, shell(str(value)), "PERF")
            draft.say(OVERRIDE + name, "exact", flag, "the recipe's activation recomputation", "speed")
        draft.say(CHECKPOINTING, "automatic", (), "override_transformer_config decides about recomputation", "speed")
        return
    if facts.flag(CHECKPOINTING, default=True):
        draft.flag("--recompute-granularity", "full", "PERF")
        draft.flag("--recompute-method", "uniform", "PERF")
        draft.flag("--recompute-num-layers", 1, "PERF")
        draft.say(CHECKPOINTING, "derived", "--recompute-granularity", "every layer is recomputed", "speed")
    else:
        draft.say(CHECKPOINTING, "exact", (), "no recomputation", "speed")
    draft.say([OVERRIDE + name for name in own], "no_effect", (), "recompute_granularity is not set", "speed")


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    text = str(value).strip("'\"").lower()
    return {"true": True, "false": False}.get(text)


def _option(draft: Draft, setting: Setting, name: str) -> None:
    key, value, truth = setting.key, setting.value, _truth(setting.value)
    risk = "training" if name in TRAINS else "speed"
    if name in NEGATED:
        if truth is False:
            draft.flag(NEGATED[name], None, "PERF")
            draft.say(key, "exact", NEGATED[name], "kernel choice: speed only", "speed")
        else:
            draft.say(key, "automatic", (), "on by default in Megatron", "speed")
        return
    flag = RENAMED.get(name, "--" + name.replace("_", "-"))
    info = draft.contract.flags.get(flag)
    if value is None or value == "":
        draft.say(key, "no_effect", (), "empty: Megatron's default", "speed")
    elif info is None:
        _no_flag(draft, key, name, risk == "training")
    elif info.is_switch:
        if truth:
            draft.flag(flag, None, "PERF")
        draft.say(key, "exact", flag if truth else (), "Megatron's flag of this name", "none")
    else:
        if draft.has(flag):
            draft.say(key, "derived", flag, "written by another setting")
            return
        if isinstance(value, (list, tuple)):
            words = [shell(str(item)) for item in value]
            text = " ".join(words) if info.is_list else shell(json.dumps(list(value)))
        elif isinstance(value, (int, float)) and truth is None:
            text = number_text(value)
        else:
            text = shell(str(value).strip("'\""))
        if info.choices and not isinstance(value, (list, tuple)) and text not in [str(item) for item in info.choices]:
            draft.say(key, "unsupported", (), f"{flag} does not take {text}", risk)  # type: ignore[arg-type]
            return
        draft.flag(flag, text, "PERF")
        draft.say(key, "exact", flag, "Megatron's flag of this name")


def _no_flag(draft: Draft, key: str, name: str, trains: bool) -> None:
    if trains:
        draft.say(key, "unsupported", (), f"Megatron has no flag for {name}", "training")
        draft.cap("transformer-option", f"{key}: Megatron has no flag for it")
    else:
        draft.say(key, "unsupported", (), f"no Megatron flag sets {name}; it chooses a kernel or a schedule", "speed")


def _virtual_stages(draft: Draft) -> None:
    key = ACTOR + "megatron.virtual_pipeline_model_parallel_size"
    stages = draft.facts.integer(key) if draft.facts.megatron else None
    if stages and stages > 1:
        draft.flag("--num-virtual-stages-per-pipeline-rank", stages, "PERF")
        draft.say(key, "exact", "--num-virtual-stages-per-pipeline-rank", "interleaved pipeline", "speed")
    else:
        draft.say(key, "automatic", (), "no interleaving", "speed")


ROUTER = tuple(ACTOR + f"{part}router_replay.mode" for part in ("", "megatron.", "veomni."))
REPLAY: Final = {
    "r2": ("--use-routing-replay", "the routes of the old log-probs are replayed in the update"),
    "r3": ("--use-rollout-routing-replay", "the routes of the rollout engine are replayed in training"),
}
"""verl's replay of expert routes -> Relax's switch."""


def _routing_replay(draft: Draft) -> None:
    mode = draft.facts.text(*ROUTER, default="disabled").lower()
    if mode not in REPLAY:
        draft.say(ROUTER, "exact", (), "expert routes are not replayed")
        return
    flag, reason = REPLAY[mode]
    draft.flag(flag, None, "ALGO")
    draft.say(ROUTER, "exact", flag, reason)
    sent = ROLLOUT + "enable_rollout_routing_replay"
    draft.say(
        sent, "automatic", flag if mode == "r3" else (), "Relax asks its engine for the routes where they are used"
    )
