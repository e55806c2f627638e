"""The model: checkpoint flags, architecture from a Relax script or from known numbers, LoRA, precision."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from migrate_tools.mapping.draft import Draft, shell
from migrate_tools.mapping.facts import MODEL, number_text
from migrate_tools.mapping.models import (
    Architecture,
    billions_from_name,
    find_architecture,
    find_script,
    model_args,
    read_config,
)
from migrate_tools.model import Recipe

PATH = MODEL + "path"
MODEL_CONFIG = "${MODEL_CONFIG:?set MODEL_CONFIG to the scripts/models/<name>.sh that fits the model}"
"""Stands for the model script when the architecture is not known."""
LORA_RANK = (MODEL + "lora_rank", MODEL + "lora.rank")
LORA_ALPHA = (MODEL + "lora_alpha", MODEL + "lora.alpha")
LORA_MODULES = (MODEL + "target_modules", MODEL + "lora.target_modules")


@dataclass(frozen=True)
class ModelChoice:
    """What the script sources or carries, and what is known about the model."""

    name: str
    script: str
    args: tuple[str, ...]
    architecture: Architecture | None


def _name(text: str) -> str:
    parts = [part for part in text.split("/") if part]
    last = parts[-1] if parts else ""
    if last.lower() in ("huggingface", "hf", "actor", "model", "checkpoint") and len(parts) > 1:
        last = f"{parts[-2]}-{last}"
    return re.sub(r"[^A-Za-z0-9._-]+", "", last) or "model"


def place_model(draft: Draft, recipe: Recipe) -> ModelChoice:
    """Write checkpoint flags and choose where the architecture comes from."""
    facts = draft.facts
    path = facts.text(PATH)
    name = _name(path)
    if not path or "$" in path.rsplit("/", 1)[-1]:
        name = "model"
        draft.note(
            "model-unset", f"{PATH} is {path!r}: put the model into ${{MODEL_DIR}}/{name} or change the script", PATH
        )
    folder = shell(name) if not re.fullmatch(r"[A-Za-z0-9._-]+", name) else name
    place = f'"${{MODEL_DIR}}/{folder}"'
    draft.flag("--hf-checkpoint", place, "CKPT")
    draft.flag("--ref-load", place, "CKPT", "reference policy")
    draft.flag("--megatron-to-hf-mode", "bridge", "CKPT", "loads HF weights as they are")
    draft.say(PATH, "exact", ("--hf-checkpoint", "--ref-load"), f"{path or name}, expected as ${{MODEL_DIR}}/{name}")
    _lora(draft)
    return _architecture(draft, recipe, path, name)


def _architecture(draft: Draft, recipe: Recipe, path: str, name: str) -> ModelChoice:
    local = Path(path) if path.startswith("/") else Path(recipe.project_root) / path
    known = read_config(local) if path else None
    known = known or find_architecture(name)
    script = find_script(name)
    question = "architecture of the model"
    if script:
        draft.decide(question, f"scripts/models/{script}.sh", f"Relax has a script for {name}")
        return ModelChoice(name, script, (), known or _sized(name))
    if known:
        draft.decide(
            question,
            "MODEL_ARGS in the script",
            f"Relax has no script for {name}; its numbers are those of the model's public config.json",
        )
        if known.vision:
            draft.note(
                "vision-model",
                f"{name} is a vision-language model without a Relax model script: MODEL_ARGS "
                "describe its text part only; check that this Relax bridges its vision part",
            )
        return ModelChoice(name, "", model_args(known), known)
    draft.decide(
        question,
        "MODEL_CONFIG must be set by the user",
        f"neither a Relax model script nor public numbers are known for {name}",
        "MODEL_CONFIG=scripts/models/<name>.sh",
    )
    draft.note("model-unknown", f"the architecture of {name} is not known: the script asks for MODEL_CONFIG", PATH)
    return ModelChoice(name, MODEL_CONFIG, (), _sized(name))


def _sized(name: str) -> Architecture | None:
    """A stand-in of the size that the name tells, for choosing parallel sizes only."""
    billions = billions_from_name(name)
    if not billions:
        return None
    layers = max(1, round(billions * 1e9 / (12 * 4096**2)))
    return Architecture(layers=layers, hidden=4096, ffn=4 * 4096 * 2 // 3, heads=32, groups=8, vocab=1, tied=True)


def _lora(draft: Draft) -> None:
    facts = draft.facts
    rank = facts.integer(*LORA_RANK, default=0) or 0
    if rank <= 0:
        draft.say((*LORA_RANK, *LORA_ALPHA, *LORA_MODULES), "no_effect", (), "no LoRA")
        return
    draft.flag("--lora-rank", rank, "ALGO")
    draft.flag("--lora-alpha", int(facts.number(*LORA_ALPHA, default=16) or 16), "ALGO")
    draft.say(LORA_RANK, "exact", "--lora-rank", "LoRA rank")
    draft.say(LORA_ALPHA, "exact", "--lora-alpha", "LoRA alpha")
    modules = facts.get(*LORA_MODULES, default="all-linear")
    names = [str(item) for item in modules] if isinstance(modules, (list, tuple)) else [str(modules).strip("'\"")]
    if names == ["all-linear"]:
        draft.say(LORA_MODULES, "automatic", (), "all linear layers, Relax's default")
        return
    fused = sorted({_megatron_module(item) for item in names})
    draft.flag("--lora-target-modules", " ".join(shell(item) for item in fused), "ALGO")
    draft.say(
        LORA_MODULES, "approximate", "--lora-target-modules", "Megatron's fused layers of the same names", "training"
    )


def _megatron_module(name: str) -> str:
    return {
        "q_proj": "linear_qkv",
        "k_proj": "linear_qkv",
        "v_proj": "linear_qkv",
        "o_proj": "linear_proj",
        "gate_proj": "linear_fc1",
        "up_proj": "linear_fc1",
        "down_proj": "linear_fc2",
    }.get(name, name)


def place_precision(draft: Draft) -> None:
    """bf16 is Relax's default; fp16 needs a flag."""
    key = "actor_rollout_ref.actor.megatron.dtype"
    alias = "actor_rollout_ref.actor.fsdp_config.dtype"
    kind = draft.facts.text(key, alias, default="bfloat16").lower()
    if kind in ("float16", "fp16", "half"):
        draft.flag("--fp16", None, "PERF")
        draft.say((key, alias), "exact", "--fp16", "training in fp16")
    else:
        draft.say((key, alias), "automatic", (), "bf16, Relax's default")
    share = draft.facts.number("actor_rollout_ref.rollout.gpu_memory_utilization", default=0.5)
    draft.flag("--sglang-mem-fraction-static", number_text(share), "SGLANG")
    draft.say(
        "actor_rollout_ref.rollout.gpu_memory_utilization",
        "approximate",
        "--sglang-mem-fraction-static",
        "share of GPU memory for weights and cache; the engines count it a little differently",
        "speed",
    )
