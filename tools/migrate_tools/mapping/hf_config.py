"""config.json of a Hugging Face model -> the numbers Megatron needs, or a named gap; nothing is guessed.

Field names and their defaults are those of the model's own configuration class in transformers; what Megatron can say
is what its flags say (Megatron-LM megatron/training/arguments.py 85bced0a).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from migrate_tools.errors import UsageError
from migrate_tools.mapping.architecture import Architecture, Experts, Gap, LatentAttention

Config = Mapping[str, Any]
VISION: Final = {"qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2", "qwen3_vl": "qwen3", "qwen3_vl_moe": "qwen3_moe"}
"""Vision-language layouts -> the layout of their text part."""
NAMED_GAPS: Final = {
    "gemma": "Gemma scales its embeddings by the root of the hidden size, which no Megatron flag says",
    "gemma2": "Gemma 2 caps attention and output logits and scales its embeddings, which no Megatron flag says",
    "gemma3": "Gemma 3 alternates local and global attention with two rotary bases, which no Megatron flag says",
    "gemma3_text": "Gemma 3 alternates local and global attention with two rotary bases, which no Megatron flag says",
    "gpt_oss": "gpt-oss has attention sinks and clamped experts, which MODEL_ARGS do not say",
    "qwen3_next": "Qwen3-Next mixes linear attention in; a Relax model script is needed",
    "qwen3_5": "Qwen3.5 mixes linear attention in; only its Relax model scripts describe it",
    "qwen3_5_moe": "Qwen3.5 mixes linear attention in; only its Relax model scripts describe it",
    "mimo": "MiMo has a multi-token prediction layer of its own, which MODEL_ARGS do not say",
    "phi3": "Phi-3 scales long positions by factor lists, which no Megatron flag says",
}
"""Layouts that are known and cannot be written as flags."""


class _Unfit(Exception):
    """A field that Megatron's flags cannot say."""


def load_config(path: Path) -> dict[str, Any]:
    """The content of a config.json, given as the file or as its folder.

    Raises:
        UsageError: there is none, it is not JSON, or not a model configuration.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}", "give the model's config.json, or its folder") from None
    except ValueError as error:
        raise UsageError(f"{file} is not JSON: {error}", "give the model's config.json") from None
    if not isinstance(data, dict) or "model_type" not in data:
        raise UsageError(f"{file} names no model_type", "give the config.json that lies beside the model's weights")
    return data


def read_config(folder: Path) -> Architecture | Gap | None:
    """What the config.json in a folder says; None when there is none that can be read."""
    if not (folder / "config.json").is_file():
        return None
    try:
        return parse_config(load_config(folder))
    except UsageError:
        return None


def parse_config(config: Config) -> Architecture | Gap:
    """The architecture, or why it cannot be written as Megatron flags."""
    kind = str(config.get("model_type", ""))
    if kind in NAMED_GAPS:
        return Gap(reason=NAMED_GAPS[kind])
    family = VISION.get(kind, kind)
    if family not in _FAMILIES:
        known = ", ".join(sorted({*_FAMILIES, *VISION}))
        return Gap(reason=f"model_type {kind!r} is not among the layouts translated ({known})")
    text = dict(config.get("text_config") or config)
    if "tie_word_embeddings" not in text and "tie_word_embeddings" in config:
        text["tie_word_embeddings"] = config["tie_word_embeddings"]
    try:
        values = {**_common(text, family), **_FAMILIES[family](text)}
        return Architecture(**values, vision=kind in VISION)
    except _Unfit as error:
        return Gap(reason=f"{kind}: {error}")
    except KeyError as error:
        return Gap(reason=f"{kind}: config.json has no {error.args[0]}")
    except (TypeError, ValueError) as error:
        return Gap(reason=f"{kind}: a value of config.json is of another kind than expected ({error})")


def _common(text: Config, family: str) -> dict[str, Any]:
    act = str(text.get("hidden_act", "silu"))
    if act not in ("silu", "swish"):
        raise _Unfit(f"hidden_act {act!r}: only the gated SiLU is written (--swiglu)")
    if text.get("mlp_bias"):
        raise _Unfit("mlp_bias is true: no flag gives a bias to the feed-forward layers alone")
    text = {**_CLASS_DEFAULTS.get(family, {}), **{name: value for name, value in text.items() if value is not None}}
    heads, hidden = int(text["num_attention_heads"]), int(text["hidden_size"])
    head = int(text.get("head_dim") or hidden // heads)
    return {
        "layers": int(text["num_hidden_layers"]),
        "hidden": hidden,
        "ffn": int(text["intermediate_size"]),
        "heads": heads,
        "groups": int(text["num_key_value_heads"])
        if family != "llama"
        else int(text.get("num_key_value_heads", heads)),
        "vocab": int(text["vocab_size"]),
        "norm_epsilon": float(text["rms_norm_eps"]),
        "kv_channels": None if head * heads == hidden else head,
        "rotary_base": _rotary_base(text),
        "rotary_percent": float(text.get("partial_rotary_factor") or 1.0),
        "tied": bool(text.get("tie_word_embeddings", False)),
        "window": _window(text, family),
        "family": family,
        **_scaling(text, family),
    }


_CLASS_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "llama": {"rms_norm_eps": 1e-6, "rope_theta": 10000.0},
    "qwen2": {"rms_norm_eps": 1e-6, "rope_theta": 10000.0},
    "qwen3": {"rms_norm_eps": 1e-6, "rope_theta": 10000.0, "head_dim": 128},
}
"""What the configuration class takes for a field that old files leave out; of other layouts every field is wanted."""


def _rope(text: Config) -> Config:
    """Rotary settings: `rope_parameters` of newer files, `rope_scaling` of older ones."""
    found = text.get("rope_parameters") or text.get("rope_scaling") or {}
    return found if isinstance(found, Mapping) else {}


def _rotary_base(text: Config) -> int:
    base = _rope(text).get("rope_theta", text.get("rope_theta"))
    if base is None:
        raise KeyError("rope_theta")
    if float(base) != int(float(base)):
        raise _Unfit(f"rope_theta {base} is no whole number, which --rotary-base wants")
    return int(float(base))


def _scaling(text: Config, family: str) -> dict[str, Any]:
    rope = _rope(text)
    kind = str(rope.get("rope_type", rope.get("type", "default")) or "default")
    if kind in ("default", "mrope") or family.startswith("deepseek"):
        return {}
    if kind == "llama3":
        fixed = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
        for name, value in fixed.items():
            if float(rope.get(name, value)) != value:
                raise _Unfit(f"rope_scaling.{name} is {rope[name]}; Megatron's --use-rope-scaling has {value}")
        return {"rope_scaling_factor": float(rope["factor"])}
    if kind == "linear" and float(rope["factor"]) == int(float(rope["factor"])):
        return {"rope_interpolation": int(float(rope["factor"]))}
    raise _Unfit(f"rope_scaling of type {kind!r}: no Megatron flag says it for this kind of attention")


def _window(text: Config, family: str) -> int | None:
    size = text.get("sliding_window")
    if not size or text.get("use_sliding_window") is False or (family.startswith("qwen") and _lacks_window(text)):
        return None
    return int(size)


def _lacks_window(text: Config) -> bool:
    """Qwen's configuration classes leave the window off unless use_sliding_window says otherwise."""
    return not text.get("use_sliding_window", False)


def _llama(text: Config) -> dict[str, Any]:
    if text.get("attention_bias"):
        raise _Unfit("attention_bias is true: --add-qkv-bias leaves the output projection without one")
    return {}


def _qwen2(text: Config) -> dict[str, Any]:
    return {"qkv_bias": True}


def _qwen3(text: Config) -> dict[str, Any]:
    return {"qk_norm": True, **_llama(text)}


def _sparse_layers(text: Config) -> tuple[int, ...]:
    """Which layers hold experts, by decoder_sparse_step and mlp_only_layers (Qwen) or first_k_dense_replace."""
    count = int(text["num_hidden_layers"])
    step, dense = int(text.get("decoder_sparse_step", 1)), set(text.get("mlp_only_layers") or ())
    first, every = int(text.get("first_k_dense_replace", 0)), int(text.get("moe_layer_freq", 1) or 1)
    layers = tuple(
        int(index not in dense and (index + 1) % step == 0 and index >= first and index % every == 0)
        for index in range(count)
    )
    return () if all(layers) else layers


def _qwen_experts(text: Config, *, normalised: bool) -> Experts:
    shared = int(text.get("shared_expert_intermediate_size") or 0)
    return Experts(
        count=int(text["num_experts"]),
        topk=int(text["num_experts_per_tok"]),
        ffn=int(text["moe_intermediate_size"]),
        sparse_layers=_sparse_layers(text),
        shared_ffn=shared or None,
        shared_gate=shared > 0,
        pre_softmax=not bool(text.get("norm_topk_prob", normalised)),
    )


def _qwen2_moe(text: Config) -> dict[str, Any]:
    return {"qkv_bias": bool(text.get("qkv_bias", True)), "experts": _qwen_experts(text, normalised=False)}


def _qwen3_moe(text: Config) -> dict[str, Any]:
    return {**_qwen3(text), "experts": _qwen_experts(text, normalised=False)}


def _mixtral(text: Config) -> dict[str, Any]:
    experts = Experts(
        count=int(text["num_local_experts"]), topk=int(text["num_experts_per_tok"]), ffn=int(text["intermediate_size"])
    )
    return {"experts": experts}


def _routed(text: Config, *, scoring: str, bias: bool) -> Experts:
    shared = int(text.get("n_shared_experts") or 0) * int(text["moe_intermediate_size"])
    normalised = bool(text.get("norm_topk_prob", scoring == "sigmoid"))
    if scoring == "sigmoid" and not normalised and int(text["num_experts_per_tok"]) > 1:
        raise _Unfit("norm_topk_prob is false with sigmoid scores, which Megatron always makes to sum to one")
    groups, chosen = int(text.get("n_group") or 1), int(text.get("topk_group") or 1)
    topk = int(text["num_experts_per_tok"])
    if groups > 1 and not bias and topk // chosen != 1:
        raise _Unfit(
            "topk_method group_limited_greedy ranks groups by their best expert, Megatron by the sum of its best "
            f"{topk // chosen}"
        )
    scale = float(text.get("routed_scaling_factor") or 1.0)
    return Experts(
        count=int(text["n_routed_experts"]),
        topk=topk,
        ffn=int(text["moe_intermediate_size"]),
        sparse_layers=_sparse_layers(text),
        shared_ffn=shared or None,
        scoring=scoring,
        pre_softmax=scoring == "sigmoid" or not normalised,
        expert_bias=bias,
        groups=groups if groups > 1 else None,
        group_topk=chosen if groups > 1 else None,
        scale=None if scale == 1.0 else scale,
    )


def _latent(text: Config) -> LatentAttention:
    rope = _rope(text)
    kind = str(rope.get("rope_type", rope.get("type", "default")) or "default")
    if kind not in ("default", "yarn"):
        raise _Unfit(f"rope_scaling of type {kind!r}: Megatron's latent attention has YaRN only")
    fixed = {"beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 4096}
    for name, value in fixed.items() if kind == "yarn" else ():
        if float(rope.get(name, value)) != value:
            raise _Unfit(f"rope_scaling.{name} is {rope[name]}; Megatron has {value} and no flag for it")
    if text.get("attention_bias"):
        raise _Unfit("attention_bias is true: latent attention has no flag for it")
    rank = text.get("q_lora_rank")
    scaled = kind == "yarn"
    return LatentAttention(
        q_lora_rank=int(rank) if rank else None,
        kv_lora_rank=int(text["kv_lora_rank"]),
        qk_head=int(text["qk_nope_head_dim"]),
        qk_rotary=int(text["qk_rope_head_dim"]),
        v_head=int(text["v_head_dim"]),
        scaling_factor=float(rope["factor"]) if scaled else 1.0,
        mscale=float(rope.get("mscale", 1.0)) if scaled else 1.0,
        mscale_all=float(rope.get("mscale_all_dim", 0.0)) if scaled else 1.0,
    )


def _deepseek(text: Config, scoring: str) -> dict[str, Any]:
    scoring = str(text.get("scoring_func", scoring))
    bias = str(text.get("topk_method", "noaux_tc" if scoring == "sigmoid" else "greedy")) == "noaux_tc"
    latent = _latent(text)
    return {
        "latent": latent,
        "kv_channels": latent.v_head,
        "groups": int(text["num_attention_heads"]),
        "qk_norm": True,
        "experts": _routed(text, scoring=scoring, bias=bias),
    }


def _deepseek_v2(text: Config) -> dict[str, Any]:
    return _deepseek(text, "softmax")


def _deepseek_v3(text: Config) -> dict[str, Any]:
    return _deepseek(text, "sigmoid")


def _glm4_moe(text: Config) -> dict[str, Any]:
    return {
        "qkv_bias": bool(text.get("attention_bias", False)),
        "qk_norm": bool(text.get("use_qk_norm", False)),
        "rotary_percent": float(text.get("partial_rotary_factor") or 0.5),
        "experts": _routed(text, scoring="sigmoid", bias=True),
    }


_FAMILIES: Final[dict[str, Callable[[Config], dict[str, Any]]]] = {
    "llama": _llama,
    "mistral": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
    "mixtral": _mixtral,
    "deepseek_v2": _deepseek_v2,
    "deepseek_v3": _deepseek_v3,
    "glm4_moe": _glm4_moe,
}
