"""verl's side of the effective-training table, second half: sampling, lengths, cadences, precision and GPUs."""

from __future__ import annotations

from migrate_tools.mapping.effective_side import (
    Side,
    every_side,
    kept_side,
    lora_side,
    parallel_side,
    plain,
    precision_side,
    sampling_side,
)
from migrate_tools.mapping.effective_verl import Counts
from migrate_tools.mapping.facts import ACTOR, ROLLOUT, Facts

VAL = ROLLOUT + "val_kwargs."


def run_rows(facts: Facts, size: Counts) -> dict[str, Side]:
    """How it runs: sampling, lengths, cadences, precision, GPUs."""
    return {**_sampling(facts), **_upkeep(facts, size), **_machine(facts, size)}


def _sampling(facts: Facts) -> dict[str, Side]:
    return {
        "training sampling": sampling_side(*_train_sampling(facts)),
        "evaluation sampling": _eval_sampling(facts),
        "lengths": _lengths(facts),
        "context": _context(facts),
        "prompts that are too long": _overlong(facts),
    }


def _looped(facts: Facts) -> bool:
    """Whether the agent loop samples (it reads no do_sample, and top_k only since 0.7)."""
    return facts.text(ROLLOUT + "mode", default="sync") == "async"


def _top_k(facts: Facts, key: str) -> int:
    value = facts.integer(key) or -1
    if value <= 0 or (_looped(facts) and facts.version < (0, 7)):
        return -1
    return value


def _train_sampling(facts: Facts) -> tuple[float, float, int]:
    """Training reads do_sample in the Hugging Face rollout alone."""
    if facts.text(ROLLOUT + "name") == "hf" and not facts.flag(ROLLOUT + "do_sample", default=True):
        return 0.0, 1.0, -1
    temperature, top_p = facts.number(ROLLOUT + "temperature"), facts.number(ROLLOUT + "top_p")
    return (
        1.0 if temperature is None else temperature,
        1.0 if top_p is None else top_p,
        _top_k(facts, ROLLOUT + "top_k"),
    )


def evaluates(facts: Facts) -> int:
    """Steps between evaluations; 0 when there is none during training."""
    every = facts.integer("trainer.test_freq") or 0
    return every if every > 0 and facts.launch.data.val else 0


def _eval_sampling(facts: Facts) -> Side:
    if not evaluates(facts):
        return Side("never", "never")
    own = [ROLLOUT + name for name in ("n_val", "val_temperature")]
    if any(facts.has(key) for key in own):
        # A fork of 0.1: greedy validation whose temperature, when it has one, replaces the 0.
        return sampling_side(facts.number(own[1]) or 0.0, 1.0, -1, facts.integer(own[0]) or 1)
    samples = facts.integer(VAL + "n") or 1
    known = any(facts.has(VAL + name) for name in ("temperature", "do_sample", "n", "top_p", "top_k"))
    if not known or (not _looped(facts) and not facts.flag(VAL + "do_sample")):
        return sampling_side(0.0, 1.0, -1, samples if known else 1)
    temperature, top_p = facts.number(VAL + "temperature"), facts.number(VAL + "top_p")
    return sampling_side(temperature or 0.0, 1.0 if top_p is None else top_p, _top_k(facts, VAL + "top_k"), samples)


def _limits(facts: Facts) -> tuple[int, int]:
    found = []
    for part in ("prompt", "response"):
        own, common = ROLLOUT + f"{part}_length", f"data.max_{part}_length"
        found.append((facts.integer(own) if facts.is_set(own) else None) or facts.integer(common) or 512)
    return found[0], found[1]


def _lengths(facts: Facts) -> Side:
    prompt, response = _limits(facts)
    text = f"prompt {prompt}, response {response} tokens; a response is cut there and trained"
    return Side({"prompt": prompt, "response": response}, text)


def _context(facts: Facts) -> Side:
    prompt, response = _limits(facts)
    keys = (ROLLOUT + "max_model_len", ROLLOUT + "engine_kwargs.vllm.max_model_len")
    limit = facts.integer(*keys) if facts.is_set(*keys) else None
    room = min(limit or prompt + response, prompt + response)
    return Side(room, f"{room} tokens of prompt and response together")


def _overlong(facts: Facts) -> Side:
    if facts.flag("data.filter_overlong_prompts"):
        return Side("dropped", "dropped at load")
    mode = facts.text("data.truncation", default="error")
    return Side("error", "verl stops") if mode == "error" else Side("cut", f"cut ({mode}) and trained")


def _upkeep(facts: Facts, size: Counts) -> dict[str, Side]:
    every, before = evaluates(facts), facts.flag("trainer.val_before_train", default=True)
    if every:
        cadence = every_side(every, size.prompts, before, "at the end")
    elif before and facts.launch.data.val and (facts.integer("trainer.test_freq") or -1) <= 0:
        # Until 0.2 the trainer validated after the last step whatever test_freq said.
        after = facts.version < (0, 3)
        cadence = Side("before", f"before {'and after ' if after else ''}training only")
    else:
        cadence = Side("never", "never" if facts.launch.data.val else "never (no validation files)")
    save, keep = facts.integer("trainer.save_freq") or -1, facts.integer("trainer.max_actor_ckpt_to_keep")
    return {"evaluation": cadence, "checkpoints": kept_side(save, size.prompts, keep)}


def _machine(facts: Facts, size: Counts) -> dict[str, Side]:
    trainer = (facts.integer("trainer.nnodes") or 1) * (facts.integer("trainer.n_gpus_per_node") or 8)
    own = (facts.integer("rollout.nnodes") or 0) * (facts.integer("rollout.n_gpus_per_node") or 0)
    total = trainer + own
    engine = facts.integer(ROLLOUT + "tensor_model_parallel_size") or 2
    for part in ("data_parallel_size", "pipeline_model_parallel_size"):
        engine *= facts.integer(ROLLOUT + part) or 1
    rows = {
        "precision": _precision(facts),
        "GPUs": Side(
            total, f"{total} (trainer {trainer}, rollout {own})" if own else f"{total} (trainer and rollout, shared)"
        ),
        "GPUs an engine": plain(engine),
        "micro batch": _micro(facts, total),
        "LoRA": _lora(facts),
        "staleness": Side(0, "0: every sample is trained right after it was drawn"),
    }
    if facts.launch.module.endswith("fully_async_main"):
        bound = facts.number("async_training.staleness_threshold", default=0.0)
        rows["staleness"] = Side(bound, f"up to {bound} of a step")
    seed = ACTOR + ("megatron.seed" if facts.megatron else "fsdp_config.seed")
    if facts.is_set(seed):
        rows["seed of the trainer"] = plain(facts.integer(seed))
    aux = ACTOR + "megatron.override_transformer_config.moe_aux_loss_coeff"
    if facts.is_set(aux):
        rows["balancing loss of experts"] = plain(facts.number(aux) or 0.0)
    if facts.megatron:
        rows["parallel sizes"] = _parallel(facts)
    return rows


def _precision(facts: Facts) -> Side:
    kind = facts.text(ACTOR + "megatron.dtype", ACTOR + "fsdp_config.dtype", default="bfloat16").lower()
    passes = "fp16" if kind in ("float16", "fp16", "half") else "bf16"
    weights = facts.text(ACTOR + "fsdp_config.model_dtype", default="fp32").lower()
    master = "fp32" if facts.megatron or weights in ("fp32", "float32", "null", "none") else "bf16"
    if weights in ("fp16", "float16") and not facts.megatron:
        master = "fp16"
    sums = facts.text(ACTOR + "fsdp_config.mixed_precision.reduce_dtype", default="fp32").lower()
    return precision_side(passes, master, "fp32" if facts.megatron or sums in ("fp32", "float32") else sums)


def _micro(facts: Facts, total: int) -> Side:
    if facts.flag(ACTOR + "use_dynamic_bsz"):
        cap = facts.integer(ACTOR + "ppo_max_token_len_per_gpu") or 16384
        return Side({"tokens a GPU": cap}, f"up to {cap} tokens a GPU")
    return Side({"samples": None}, "by samples")


def _lora(facts: Facts) -> Side:
    model = "actor_rollout_ref.model."
    rank = facts.integer(model + "lora_rank", model + "lora.rank") or 0
    alpha = facts.number(model + "lora_alpha", model + "lora.alpha")
    return lora_side(rank, 16.0 if alpha is None else alpha)


def _parallel(facts: Facts) -> Side:
    names = ("tensor_model", "pipeline_model", "context", "expert_model")
    sizes = [facts.integer(f"{ACTOR}megatron.{name}_parallel_size") or 1 for name in names]
    return parallel_side(*sizes)
