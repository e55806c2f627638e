"""Model names: scripts of Relax, known architectures (skill/mapping/models.yaml), config.json of a local model."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from migrate_tools.model import Frozen
from migrate_tools.resources import resource_dir


class Architecture(Frozen):
    """Numbers of a dense transformer, as in its public config.json."""

    layers: int
    hidden: int
    ffn: int
    heads: int
    groups: int
    vocab: int
    rotary_base: int = 10000
    norm_epsilon: float = 1e-6
    kv_channels: int | None = None
    """Size of a head when it is not hidden / heads."""
    qkv_bias: bool = False
    qk_norm: bool = False
    tied: bool = False
    """Input and output embeddings are one matrix."""
    rope_scaling_factor: float | None = None
    """Llama 3.1 frequency scaling, by this factor."""
    vision: bool = False
    """The text part of a vision-language model."""
    family: str = ""

    @property
    def billions(self) -> float:
        """Parameters in billions, by counting the matrices."""
        head = self.kv_channels or self.hidden // self.heads
        attention = self.hidden * head * (2 * self.heads + 2 * self.groups)
        block = attention + 3 * self.hidden * self.ffn
        embeddings = self.vocab * self.hidden * (1 if self.tied else 2)
        return (self.layers * block + embeddings) / 1e9


class ModelScript(Frozen):
    """A scripts/models/<name>.sh of Relax and the models it serves."""

    script: str
    models: tuple[str, ...]
    evidence: str


class Models(Frozen):
    """Content of models.yaml."""

    scripts: tuple[ModelScript, ...]
    architectures: dict[str, Architecture]
    aliases: dict[str, str]
    """Model name -> name of an architecture with the same numbers."""


def simple(name: str) -> str:
    """A model name to compare by: last path part, lower case, without separators."""
    return re.sub(r"[-_.\s]+", "", name.rstrip("/").rsplit("/", 1)[-1].lower())


def spellings(name: str) -> set[str]:
    """Forms a model name may take on disk: as it is, and without an organisation in front ("Qwen_Qwen2.5-3B")."""
    last = name.rstrip("/").rsplit("/", 1)[-1]
    return {simple(last), simple(last.split("--")[-1]), simple(last.split("_", 1)[-1])}


@cache
def load_models() -> Models:
    """The shipped model facts."""
    path = resource_dir("skill") / "mapping" / "models.yaml"
    return Models.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def find_script(name: str) -> str:
    """The Relax model script for a model name, or empty."""
    names = spellings(name)
    for item in load_models().scripts:
        if names & {simple(model) for model in item.models}:
            return item.script
    return ""


def find_architecture(name: str) -> Architecture | None:
    """The known architecture of a model name."""
    models = load_models()
    by_name = {simple(key): value for key, value in models.architectures.items()}
    by_name |= {simple(key): models.architectures[target] for key, target in models.aliases.items()}
    return next((by_name[spelling] for spelling in spellings(name) if spelling in by_name), None)


def read_config(folder: Path) -> Architecture | None:
    """The architecture in a local config.json; None when there is none or it is not a known dense layout."""
    path = folder / "config.json"
    if not path.is_file():
        return None
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    kind = str(data.get("model_type", ""))
    text = data.get("text_config") or data
    if kind not in ("qwen2", "qwen3", "llama", "qwen2_5_vl") or "num_hidden_layers" not in text:
        return None
    scaling = text.get("rope_scaling") or {}
    return Architecture(
        layers=text["num_hidden_layers"],
        hidden=text["hidden_size"],
        ffn=text["intermediate_size"],
        heads=text["num_attention_heads"],
        groups=text.get("num_key_value_heads", text["num_attention_heads"]),
        vocab=text["vocab_size"],
        rotary_base=int(text.get("rope_theta", 10000)),
        norm_epsilon=text.get("rms_norm_eps", 1e-6),
        kv_channels=text.get("head_dim"),
        qkv_bias=kind in ("qwen2", "qwen2_5_vl"),
        qk_norm=kind == "qwen3",
        tied=bool(data.get("tie_word_embeddings", False)),
        rope_scaling_factor=scaling.get("factor") if scaling.get("rope_type") == "llama3" else None,
        vision=kind == "qwen2_5_vl",
        family=kind,
    )


def billions_from_name(name: str) -> float | None:
    """Parameters in billions as the name says: "Qwen2.5-7B-Instruct" -> 7."""
    found = re.findall(r"(?<![\dA-Za-z.])(\d+(?:\.\d+)?)[bB](?![A-Za-z0-9])", name.rsplit("/", 1)[-1])
    return float(found[0]) if found else None


def model_args(model: Architecture) -> tuple[str, ...]:
    """Megatron's MODEL_ARGS for the architecture, one flag with its value an item."""
    args = [
        f"--num-layers {model.layers}",
        f"--hidden-size {model.hidden}",
        f"--ffn-hidden-size {model.ffn}",
        f"--num-attention-heads {model.heads}",
    ]
    if model.groups != model.heads:
        args += ["--group-query-attention", f"--num-query-groups {model.groups}"]
    args += [
        f"--kv-channels {model.kv_channels or model.hidden // model.heads}",
        f"--vocab-size {model.vocab}",
        "--swiglu",
        "--normalization RMSNorm",
        f"--norm-epsilon {model.norm_epsilon:g}",
        "--disable-bias-linear",
        "--use-rotary-position-embeddings",
        "--position-embedding-type rope",
        f"--rotary-base {model.rotary_base}",
        "--rotary-percent 1.0",
    ]
    if model.qkv_bias:
        args.append("--add-qkv-bias")
    if model.qk_norm:
        args.append("--qk-layernorm")
    if not model.tied:
        args.append("--untie-embeddings-and-output-weights")
    if model.rope_scaling_factor:
        args += ["--use-rope-scaling", f"--rope-scaling-factor {model.rope_scaling_factor:g}"]
    if model.vision:
        args.append("--no-rope-fusion")
    return tuple(args)
