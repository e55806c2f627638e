"""The model scripts of the stand-in tree."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

_DATA = Path(__file__).with_name("models.json")


@cache
def model_names() -> tuple[str, ...]:
    """Names <name> of scripts/models/<name>.sh that Relax is known to have."""
    data = _data()
    return (*data["shapes"], *data["others"])


@cache
def _data() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(_DATA.read_text(encoding="utf-8"))
    return content


def model_script(name: str) -> str:
    """Text of scripts/models/<name>.sh: it sets the array MODEL_ARGS.

    A model whose shape is not listed gets the family's switches only; the stand-in trainer builds no model.
    """
    shape = _data()["shapes"].get(name)
    flags = ["--swiglu", "--disable-bias-linear", "--normalization RMSNorm", "--use-rotary-position-embeddings"]
    if shape:
        layers, hidden, feed_forward, heads, groups, head_size, vocabulary, rotary, tied, kind = shape
        flags += [
            f"--num-layers {layers}",
            f"--hidden-size {hidden}",
            f"--ffn-hidden-size {feed_forward}",
            f"--num-attention-heads {heads}",
            "--group-query-attention",
            f"--num-query-groups {groups}",
            f"--kv-channels {head_size or hidden // heads}",
            f"--vocab-size {vocabulary}",
            f"--rotary-base {rotary}",
            f"--norm-epsilon {'1e-5' if kind == 'llama' else '1e-6'}",
        ]
        flags += [] if tied else ["--untie-embeddings-and-output-weights"]
        flags += {"qwen2": ["--add-qkv-bias"], "qwen3": ["--qk-layernorm"]}.get(kind, [])
    body = "\n".join(f"    {flag}" for flag in flags)
    return f"# Stand-in model script of migrate-agent's rehearsal.\nMODEL_ARGS=(\n{body}\n)\n"
