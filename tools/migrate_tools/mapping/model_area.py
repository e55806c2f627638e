"""The model: checkpoint flags, architecture from a Relax script or from known numbers, LoRA, precision."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from migrate_tools.mapping.architecture import Architecture, Gap
from migrate_tools.mapping.draft import Draft, shell
from migrate_tools.mapping.facts import MODEL, number_text
from migrate_tools.mapping.hf_config import parse_config, read_config
from migrate_tools.mapping.model_args import model_args
from migrate_tools.mapping.models import billions_from_name, find_architecture, find_gap, find_script, simple, spellings
from migrate_tools.mapping.rollout import lengths
from migrate_tools.model import Recipe

CHAT_TEMPLATE = "actor_rollout_ref.model.custom_chat_template"
TEMPLATE_FILE = "chat_template.jinja"
"""The name under which transformers finds a template in a model folder."""
PATH = MODEL + "path"
QUESTION: Final = "architecture of the model"
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
    billions: float | None = None
    """Parameters, from the architecture or from the name."""


def _name(text: str) -> str:
    parts = [part for part in text.split("/") if part]
    last = parts[-1] if parts else ""
    if last.lower() in ("huggingface", "hf", "actor", "model", "checkpoint") and len(parts) > 1:
        last = f"{parts[-2]}-{last}"
    return re.sub(r"[^A-Za-z0-9._-]+", "", last) or "model"


def place_model(draft: Draft, recipe: Recipe, given: Mapping[str, Mapping[str, Any]] | None = None) -> ModelChoice:
    """Write checkpoint flags and choose where the architecture comes from.

    Args:
        given: contents of config.json by model name; the empty name stands for every model.
    """
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
    if facts.text(CHAT_TEMPLATE):
        why = f"Relax reads the chat template from the model folder: copy {TEMPLATE_FILE} into it before training"
        draft.say(CHAT_TEMPLATE, "approximate", f"file: {TEMPLATE_FILE}", why, "training")
    _lora(draft)
    found, whence = _own_config(recipe, path, name, given or {})
    return _architecture(draft, path, name, found, whence)


def _architecture(draft: Draft, path: str, name: str, found: Architecture | Gap | None, whence: str) -> ModelChoice:
    """Relax's script where it has one and it fits the config.json at hand, else MODEL_ARGS, else a named gap."""
    known = find_architecture(name)
    script = find_script(name)
    there = draft.contract.model_scripts
    if script and there is not None and script.script not in there:
        draft.note("model-script-absent", f"scripts/models/{script.script}.sh is not in this Relax checkout", PATH)
        script = None
    if script and (found is None or isinstance(found, Gap) or known is None or _same(found, known)):
        draft.decide(QUESTION, f"scripts/models/{script.script}.sh", f"Relax has a script for {name}")
        if script.needs:
            draft.note("model-script-needs", f"scripts/models/{script.script}.sh needs {script.needs}", PATH)
        own = found if isinstance(found, Architecture) else known
        return ModelChoice(name, script.script, (), own, own.billions if own else billions_from_name(name))
    if isinstance(found, Gap):
        return _gap(draft, path, name, f"{whence}: {found.reason}")
    model = found or known
    if model is None:
        why = find_gap(name) or f"neither a Relax model script nor public numbers are known for {name}"
        return _gap(draft, path, name, why)
    why = f"Relax has no script for {name}"
    if script:
        why = f"scripts/models/{script.script}.sh does not fit {whence} ({_difference(model, known)})"
    source = whence if found else "the model's public config.json"
    draft.decide(QUESTION, "MODEL_ARGS in the script", f"{why}; the numbers are those of {source}")
    draft.note("model-args", f"MODEL_ARGS are generated for {name}: {why}; the numbers are those of {source}", PATH)
    _doubts(draft, name, model)
    return ModelChoice(name, "", model_args(model, draft.contract.flags), model, model.billions)


def _same(one: Architecture, other: Architecture) -> bool:
    return model_args(one) == model_args(other)


def _difference(one: Architecture, other: Architecture | None) -> str:
    mine, theirs = set(model_args(one)), set(model_args(other)) if other else set()
    return ", ".join(sorted(mine - theirs)) or "fewer settings"


def _gap(draft: Draft, path: str, name: str, why: str) -> ModelChoice:
    draft.decide(QUESTION, "MODEL_CONFIG must be set by the user", why, "--model-config FILE")
    draft.note(
        "model-unknown",
        f"the architecture of {name} is not known ({why}): the script asks for MODEL_CONFIG; give the model's "
        "config.json with --model-config FILE, or set MODEL_CONFIG to a scripts/models/<name>.sh that fits",
        PATH,
    )
    return ModelChoice(name, MODEL_CONFIG, (), None, billions_from_name(name))


def _doubts(draft: Draft, name: str, model: Architecture) -> None:
    """What the flags cannot promise."""
    if model.vision:
        draft.note(
            "vision-model",
            f"{name} is a vision-language model without a Relax model script: MODEL_ARGS "
            "describe its text part only; check that this Relax bridges its vision part",
        )
    if model.experts is not None or model.latent is not None or model.family == "mistral":
        draft.note(
            "model-bridge",
            f"{name} is of the family {model.family}: that this Relax bridges its weights (--megatron-to-hf-mode "
            "bridge) is not established",
        )
    if model.window is not None and sum(lengths(draft.facts)) > model.window:
        text = (
            f"{name} looks back {model.window} tokens, prompt and response together may have "
            f"{sum(lengths(draft.facts))}: MODEL_ARGS have no attention window"
        )
        draft.cap("model-window", text)


def _own_config(
    recipe: Recipe, path: str, name: str, given: Mapping[str, Mapping[str, Any]]
) -> tuple[Architecture | Gap | None, str]:
    """The config.json given by the user for this model (or for all), else the one in the local folder of the model."""
    wanted = {simple(key): value for key, value in given.items()}
    for key in (*spellings(name), ""):
        if key in wanted:
            return parse_config(wanted[key]), "the config.json given with --model-config"
    if not path:
        return None, ""
    return read_config(Path(recipe.project_root) / _at_home(path)), f"config.json in {path}"


def _at_home(path: str) -> Path:
    """The path on this machine; only the home folder is filled in, for looking, never for writing."""
    return Path(re.sub(r"\A(?:\$HOME|\$\{HOME\}|~)(?=/)", lambda _: str(Path.home()), path))


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
