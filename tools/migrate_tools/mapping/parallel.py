"""Parallel sizes of the trainer: those of a Megatron recipe are kept, those of an FSDP recipe chosen; all are checked.

What must divide what: heads and query groups by the tensor size, layers by the pipeline, experts by the expert size
(Megatron-LM megatron/core/transformer/transformer_config.py), and the prompts of an update by the data-parallel size
(redai-studio/Relax relax/backends/megatron/data.py 0011f56b, build_rollout_minibatch_plan).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from migrate_tools.errors import RefusedInput
from migrate_tools.mapping.architecture import Architecture
from migrate_tools.mapping.draft import Draft
from migrate_tools.mapping.facts import ACTOR
from migrate_tools.mapping.model_area import ModelChoice
from migrate_tools.model import Status

MEGATRON = ACTOR + "megatron."
OVERRIDE = MEGATRON + "override_transformer_config."
ULYSSES = (
    ACTOR + "ulysses_sequence_parallel_size",
    ACTOR + "fsdp_config.ulysses_sequence_parallel_size",
    ACTOR + "veomni.ulysses_parallel_size",
    ACTOR + "fsdp_config.turbo_config.distributed.ulysses_parallel_size",
)
FSDP_EXPERT = (
    ACTOR + "veomni.expert_parallel_size",
    ACTOR + "fsdp_config.turbo_config.distributed.expert_parallel_size",
)
TP_BY_SIZE = ((2.0, 1), (5.0, 2), (10.0, 4), (40.0, 8))
"""Billions of parameters up to which an FSDP recipe gets this tensor parallel size; 8 above."""
EP_BY_SIZE = ((60.0, 8), (150.0, 16), (300.0, 32))
"""Billions of parameters up to which a recipe without expert parallelism gets this expert size; 64 above."""


@dataclass(frozen=True)
class Sizes:
    """Parallel sizes of the trainer."""

    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int = 1
    sequence: bool = True
    """Sequence parallelism beside tensor parallelism."""

    @property
    def model(self) -> int:
        """GPUs that one copy of the model takes."""
        return self.tensor * self.pipeline * self.context


def megatron_sizes(draft: Draft, total: int, model: Architecture | None) -> Sizes:
    """The recipe's own sizes.

    Raises:
        RefusedInput: they do not divide the GPUs, which stops verl's Megatron too.
    """
    facts = draft.facts
    names = {
        "tensor": "tensor_model_parallel_size",
        "pipeline": "pipeline_model_parallel_size",
        "context": "context_parallel_size",
        "expert": "expert_model_parallel_size",
    }
    sizes = {name: facts.integer(MEGATRON + key, default=1) or 1 for name, key in names.items()}
    for key in names.values():
        draft.say(MEGATRON + key, "exact", "--" + key.replace("_", "-"), "the recipe's parallel size")
    if sizes["context"] > 1 and not draft.has("--calculate-per-token-loss"):
        text = f"context parallel size {sizes['context']}: Relax needs the loss per token for it, so it is 1 there"
        draft.say(MEGATRON + "context_parallel_size", "approximate", "--context-parallel-size", text, "speed")
        draft.note("context-parallel", f"{text}; a long sequence then takes that much more memory of one GPU")
        sizes["context"] = 1
    result = Sizes(**sizes, expert_tensor=_expert_tensor(draft, sizes, model, total), sequence=_sequence(draft, model))
    if total % result.model:
        raise RefusedInput(
            f"tensor x pipeline x context parallel = {result.tensor} x {result.pipeline} x {result.context} = "
            f"{result.model} does not divide {total} GPUs",
            "correct the parallel sizes or the number of GPUs",
        )
    return result


def _expert_tensor(draft: Draft, sizes: dict[str, int], model: Architecture | None, total: int) -> int:
    """Megatron takes the tensor size where verl leaves the expert tensor size empty; a dense model does not read it."""
    key = MEGATRON + "expert_tensor_parallel_size"
    own = draft.facts.integer(key)
    draft.say(key, "exact", "--expert-tensor-parallel-size", "the recipe's size")
    if own:
        return own
    sparse = sizes["expert"] > 1 or (model is not None and model.experts is not None)
    grid = sizes["expert"] * sizes["pipeline"]
    if sparse and total % (grid * sizes["tensor"]) and total % grid == 0:
        text = (
            f"not set: Megatron takes the tensor parallel size, {sizes['tensor']}, which does not divide with expert x "
            f"pipeline parallel = {grid} into {total} GPUs; 1 is written"
        )
        draft.say(key, "approximate", "--expert-tensor-parallel-size", text, "speed")
        draft.note("expert-tensor-parallel", text)
        return 1
    if sparse and sizes["tensor"] > 1:
        text = f"not set: Megatron takes the tensor parallel size, {sizes['tensor']}"
        draft.say(key, "derived", "--expert-tensor-parallel-size", text)
        return sizes["tensor"]
    return 1


def _sequence(draft: Draft, model: Architecture | None) -> bool:
    keys = (MEGATRON + "sequence_parallel", OVERRIDE + "sequence_parallel")
    if draft.facts.flag(*keys, default=True):
        draft.say(keys, "automatic", "--sequence-parallel", "on whenever the tensor size is above 1", "speed")
        return True
    if model is not None and model.experts is not None:
        text = "off in the recipe; Megatron wants it on for experts with tensor parallelism"
        draft.say(keys, "approximate", "--sequence-parallel", text, "speed")
        return True
    draft.say(keys, "exact", (), "off, as in the recipe", "speed")
    return False


def default_tensor(billions: float | None, limit: int, heads: int | None, groups: int | None) -> int:
    """Tensor parallel size by model size: a power of two that divides the GPUs, the heads and the query groups."""
    wanted = 4 if billions is None else next((tp for top, tp in TP_BY_SIZE if billions <= top), 8)
    size = 1
    while size * 2 <= wanted and not _too_wide(size * 2, limit, heads, groups):
        size *= 2
    return size


def _too_wide(size: int, limit: int, heads: int | None, groups: int | None) -> bool:
    return bool(limit % size or (heads and heads % size) or (groups and groups % size))


def fsdp_sizes(draft: Draft, total: int, actor: int, choice: ModelChoice | None, prompts: int) -> Sizes:
    """Sizes for a recipe that shards with FSDP: memory and speed only, so that everything divides.

    Args:
        actor: GPUs of the async actor, 0 without one.
        prompts: prompts of an update, which the data-parallel size has to divide.
    """
    context = _from_ulysses(draft, total)
    room = max(1, (actor if actor > 1 else total) // context)
    model = choice.architecture if choice else None
    billions = choice.billions if choice else None
    heads, groups = (model.heads, model.groups) if model else (None, None)
    tensor = default_tensor(billions, room, heads, groups)
    widened = ""
    # What async leaves to the actor sets the room; where that is too little for sync to divide, sync goes first.
    for limit in (room, max(1, total // context)):
        wider = tensor
        while prompts % max(1, total // (wider * context)) and not _too_wide(wider * 2, limit, heads, groups):
            wider *= 2
        copies = total // (wider * context)
        if wider != tensor and copies and not prompts % copies:
            widened = f", and so that the {prompts} prompts of an update divide among {copies} copies"
            tensor = wider
            break
    draft.decide(
        "tensor parallel size of the trainer",
        str(tensor),
        f"the recipe trains with FSDP; chosen for {f'{billions:.1f}B parameters' if billions else 'an unknown size'}"
        f" on {total} GPUs so that it divides heads, query groups and GPUs{widened}: memory and speed only",
        "--tensor-model-parallel-size N after the mode",
    )
    return Sizes(tensor=tensor, context=context, expert=_fsdp_experts(draft, total, model))


def _from_ulysses(draft: Draft, total: int) -> int:
    ulysses = draft.facts.integer(*ULYSSES, default=1) or 1
    if ulysses <= 1:
        draft.say(ULYSSES, "automatic", (), "no sequence parallelism")
        return 1
    if draft.has("--calculate-per-token-loss") and total % ulysses == 0:
        reason = "Ulysses sequence parallelism becomes context parallelism"
        draft.say(ULYSSES, "derived", "--context-parallel-size", reason)
        return ulysses
    text = f"sequence parallel size {ulysses}: Relax's context parallelism needs the loss per token; memory layout only"
    draft.say(ULYSSES, "approximate", (), text, "speed")
    draft.note("context-parallel", f"{text}; a long sequence then takes that much more memory of one GPU")
    return 1


def _fsdp_experts(draft: Draft, total: int, model: Architecture | None) -> int:
    own = draft.facts.integer(*FSDP_EXPERT)
    if model is None or model.experts is None:
        draft.say(FSDP_EXPERT, "automatic", (), "no experts to spread", "speed")
        return 1
    wanted = next((size for top, size in EP_BY_SIZE if model.billions <= top), 64)
    if own and own > 1:
        wanted = own
    size = next(size for size in range(min(wanted, total), 0, -1) if total % size == model.experts.count % size == 0)
    why = (
        f"the recipe's own size, {own}"
        if size == own
        else f"{model.billions:.0f}B parameters in {model.experts.count} experts on {total} GPUs: memory and speed only"
    )
    draft.decide("expert parallel size of the trainer", str(size), why, "--expert-model-parallel-size N after the mode")
    status: Status = "exact" if size == own else "derived"
    draft.say(FSDP_EXPERT, status, "--expert-model-parallel-size", why, "speed")
    return size


def check_sizes(draft: Draft, sizes: Sizes, total: int, model: Architecture | None, prompts: int) -> None:
    """Cap the launch for every division that Megatron or Relax would refuse at start, with the numbers."""
    for problem in problems(draft, sizes, total, model, prompts):
        draft.cap("parallel-sizes", f"{problem}; the trainer stops at start: change the sizes in the script")


def problems(draft: Draft, sizes: Sizes, total: int, model: Architecture | None, prompts: int) -> Iterator[str]:
    """What does not divide, a sentence each."""
    grid = sizes.expert * sizes.expert_tensor * sizes.pipeline
    if sizes.expert > 1 and total % grid:
        yield (
            f"expert x expert tensor x pipeline parallel = {sizes.expert} x {sizes.expert_tensor} x {sizes.pipeline} "
            f"= {grid} does not divide {total} GPUs"
        )
    copies = total // sizes.model
    if prompts % copies:
        yield (
            f"{total} GPUs hold {copies} copies of the model (tensor x pipeline x context parallel = {sizes.model}), "
            f"which do not divide the {prompts} prompts of an update"
        )
    if model is None:
        return
    for what, count in (("attention heads", model.heads), ("query groups", model.groups)):
        if count % sizes.tensor and not (what == "query groups" and model.latent):
            yield f"tensor parallel size {sizes.tensor} does not divide {count} {what}"
    if sizes.expert > 1 and model.experts is None:
        yield f"expert parallel size {sizes.expert} for a model without experts"
    elif model.experts is not None and model.experts.count % sizes.expert:
        yield f"expert parallel size {sizes.expert} does not divide {model.experts.count} experts"
    if (layers := _layers(draft, sizes, model)) is not None:
        yield layers


def _layers(draft: Draft, sizes: Sizes, model: Architecture) -> str | None:
    """Megatron's rule for layers and stages: first and last stage may be given, the rest divides evenly."""
    facts = draft.facts
    if sizes.pipeline == 1 or facts.get(OVERRIDE + "pipeline_model_parallel_layout"):
        return None
    ends = [facts.integer(f"{OVERRIDE}num_layers_in_{end}_pipeline_stage") for end in ("first", "last")]
    given = [count for count in ends if count is not None]
    stages = sizes.pipeline - len(given)
    extra = sum(facts.flag(f"{OVERRIDE}account_for_{part}_in_pipeline_split") for part in ("embedding", "loss"))
    rest = model.layers + extra - sum(given)
    chunks = stages * (1 if given else facts.integer(MEGATRON + "virtual_pipeline_model_parallel_size") or 1)
    if (stages == 0 and rest == 0) or (stages > 0 and rest % chunks == 0):
        return None
    fixed = f" ({', '.join(map(str, given))} of them in stages of their own)" if given else ""
    return f"{model.layers} layers{fixed} do not divide among {sizes.pipeline} pipeline stages"
