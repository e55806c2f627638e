"""Relax's side of the effective-training table: the parsed command line, defaults included, by Relax's rules.

Everything is taken from the flags as they will be written; of the launch only the number of rows is used, which is a
fact about the data and not about either side (flag rules 2 to 8; Relax contract 7 and 8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from migrate_tools.mapping.effective_algorithm import relax_rows as algorithm_rows
from migrate_tools.mapping.effective_hooks import hook_effect
from migrate_tools.mapping.effective_lr import relax_curve
from migrate_tools.mapping.effective_side import (
    Side,
    every_side,
    kept_side,
    kl_side,
    lora_side,
    parallel_side,
    plain,
    precision_side,
    rates,
    sampling_side,
    schedule_side,
)
from migrate_tools.model import Hook

Values = Mapping[str, Any]
KL_IN_REWARD: Final = frozenset({"ppo", "reinforce_plus_plus"})
"""Estimators that read --kl-coef (redai-studio/Relax relax/backends/megatron/loss.py 0405262)."""
STANDARD_FILTER: Final = "relax.engine.filters.dynamic_sampling_filters.check_reward_nonzero_std"


def _number(value: Any) -> float:
    return float(value or 0)


def _only(value: Any) -> Any:
    """The one value of a flag that may take several."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def updates_of(values: Values, rows: int | None) -> int | None:
    """Updates of the whole run; None when epochs of an unknown number of rows decide."""
    count = rollouts_of(values, rows)
    per_rollout = int(values["rollout_batch_size"]) * int(values["n_samples_per_prompt"])
    return None if count is None else count * per_rollout // int(values["global_batch_size"])


def rollouts_of(values: Values, rows: int | None) -> int | None:
    """Rollouts of the run: --num-rollout, else epochs of whole rollouts."""
    if values.get("num_rollout") is not None:
        return int(values["num_rollout"])
    return None if rows is None else int(values.get("num_epoch") or 0) * (rows // int(values["rollout_batch_size"]))


def relax_rows(
    values: Values, rows: int | None, step_samples: int, steps: list[int], hooks: Sequence[Hook] = ()
) -> dict[str, Side]:
    """Every cell of Relax's side, by row name.

    Args:
        rows: training rows, where they are at hand.
        step_samples: samples of a verl step, to find the update at which the same data has been used.
        steps: verl steps at which the learning rate is asked for.
        hooks: generated hooks, with the numbers in them.
    """
    name = str(values["advantage_estimator"])
    return {
        **_batch(values, rows),
        **_objective(values, name, hooks),
        **_optimizer(values, rows, step_samples, steps),
        **_sampling(values),
        **_upkeep(values),
        **_machine(values),
    }


def _batch(values: Values, rows: int | None) -> dict[str, Side]:
    prompts, group = int(values["rollout_batch_size"]), int(values["n_samples_per_prompt"])
    update, samples = int(values["global_batch_size"]), prompts * group
    rollouts, epochs = rollouts_of(values, rows), values.get("num_epoch")
    if rollouts is None:
        length = Side({"epochs": epochs}, f"{epochs} epochs")
        seen = Side({"epochs": epochs}, f"{epochs} times the data")
    else:
        total = rollouts * samples // update
        ends = f"{rollouts} rollouts" + (
            "" if values.get("num_rollout") is not None else f", {epochs} epochs of {rows} rows"
        )
        length = Side({"updates": total}, f"{total} updates ({ends})")
        seen = Side({"prompts": rollouts * prompts}, f"{rollouts * prompts} ({rollouts} rollouts x {prompts})")
    shuffled, seed = bool(values.get("rollout_shuffle")), values.get("rollout_seed")
    order = f"shuffled, seed {seed} (by another generator, so in another order)" if shuffled else "as in the files"
    return {
        "samples a step": Side(
            {"prompts": prompts, "samples": samples}, f"{prompts} prompts x {group} = {samples} samples a rollout"
        ),
        "samples an update": plain(update),
        "updates a step": Side(samples // update, f"{samples // update} a rollout"),
        "length of training": length,
        "prompts seen": seen,
        "data order": Side({"shuffled": shuffled, "seed": seed if shuffled else None}, order),
        "group filter": _filter(values, prompts),
    }


def _filter(values: Values, prompts: int) -> Side:
    path = values.get("dynamic_sampling_filter_path")
    made = int(values.get("over_sampling_batch_size") or prompts) / prompts
    if not path:
        return Side({"on": False, "generated a trained prompt": round(made, 6)}, "none")
    if path != STANDARD_FILTER and (own := hook_effect(path, "group filter")) is not None:
        return own
    text = f"groups with equal values go; {made:g} prompts generated for one trained"
    on: bool | str = path == STANDARD_FILTER or path.endswith(".keep_varied_groups") or str(path)
    return Side({"on": on, "generated a trained prompt": round(made, 6)}, text)


def _objective(values: Values, name: str, hooks: Sequence[Hook]) -> dict[str, Side]:
    low = _number(values["eps_clip"])
    high = low if values.get("eps_clip_high") is None else _number(values["eps_clip_high"])
    discount = {
        "gamma": _number(values["gamma"]) if name in ("ppo", "reinforce_plus_plus") else 1.0,
        "lambda": _number(values["lambd"]) if name == "ppo" else 1.0,
    }
    discount["gamma"] = next(
        (hook.constants["GAMMA"] for hook in hooks if "GAMMA" in hook.constants), discount["gamma"]
    )
    kl = _kl(values, name)
    start = values.get("ref_load") == values.get("hf_checkpoint")
    rows = {
        **algorithm_rows(values, hooks),
        "KL": kl,
        "reference policy": plain(
            "none" if not kl.value else "the model that training starts from" if start else str(values.get("ref_load"))
        ),
        "clipping": Side([low, high], f"{low} / {high}"),
        "entropy bonus": plain(_number(values["entropy_coef"])),
        "old log-probs": plain("of the engine" if values.get("use_rollout_logprobs") else "recomputed"),
        "discount": Side(discount, f"gamma {discount['gamma']}, lambda {discount['lambda']}"),
    }
    if name == "ppo":
        rate = _number(values["lr"] if values.get("critic_lr") is None else values["critic_lr"])
        clip = _number(values["value_clip"])
        rows["critic"] = Side([rate, clip], f"learning rate {rate}, values clipped at {clip}")
    return {**rows, **_hooks(values, rows)}


def _hooks(values: Values, rows: Mapping[str, Side]) -> dict[str, Side]:
    """Cells that a hook of the command line replaces."""
    found: dict[str, Side] = {}
    for dest in (
        "custom_pg_loss_reducer_function_path",
        "custom_reward_post_process_path",
        "custom_tis_function_path",
        "custom_loss_function_path",
    ):
        path = values.get(dest)
        if not path or (dest == "custom_loss_function_path" and values.get("loss_type") != "custom_loss"):
            continue
        for row in rows:
            if (effect := hook_effect(str(path), row)) is not None:
                found[row] = effect
    return found


def _kl(values: Values, name: str) -> Side:
    kind = str(values["kl_loss_type"])
    kind = "low_var_kl" if kind == "k3" else kind
    if name == "ppo":
        return kl_side([])
    terms: list[list[Any]] = []
    if values.get("use_kl_loss") and _number(values["kl_loss_coef"]):
        terms.append(["loss", _number(values["kl_loss_coef"]), kind])
    coef = _number(values["kl_coef"])
    if coef and name in KL_IN_REWARD:
        terms.append(["reward", coef, kind])
    elif coef:
        side = kl_side(terms)
        return Side(side.value, f"{side.text} ({name} ignores --kl-coef {coef})")
    return kl_side(terms)


def _optimizer(values: Values, rows: int | None, step_samples: int, steps: list[int]) -> dict[str, Side]:
    weight = [_number(values[name]) for name in ("adam_beta1", "adam_beta2", "weight_decay")]
    cells = {
        "optimizer": plain(str(values["optimizer"])),
        "learning rate": plain(_number(values["lr"])),
        "learning-rate schedule": _schedule(values, rows),
        "Adam": Side(weight, f"betas {weight[0]}, {weight[1]}, weight decay {weight[2]}"),
        "weight decay on": plain("matrices only" if weight[2] else "nothing"),
        "gradient clipping": plain(_number(values["clip_grad"])),
        "learning rate advances": _advances(values),
        "learning rate over the run": Side("not known", "not known: the length of the run is not"),
    }
    curve = relax_curve(values, updates_of(values, rows))
    update = int(values["global_batch_size"])
    if curve is not None:
        cells["learning rate over the run"] = rates(curve, steps, step_samples / update)
    return cells


def _warmup(values: Values) -> bool:
    return bool(values.get("lr_warmup_iters") or values.get("lr_warmup_fraction"))


def _schedule(values: Values, rows: int | None) -> Side:
    style, share = str(values["lr_decay_style"]), values.get("lr_warmup_fraction")
    floor = 0.0 if style == "constant" else _number(values.get("min_lr"))
    total = values.get("lr_decay_iters") or updates_of(values, rows)
    if share is not None and total is None:
        return schedule_side(style, {"share": float(share)}, f"{share} of the run", floor)
    iters = float(share) * float(total or 0) if share is not None else _number(values.get("lr_warmup_iters"))
    return schedule_side(style, {"updates": iters}, f"{iters:g} updates" if iters else "", floor)


def _advances(values: Values) -> Side:
    if str(values["lr_decay_style"]) == "constant" and not _warmup(values):
        return Side("never", "it stays the same")
    return Side(int(values["global_batch_size"]), f"every {values['global_batch_size']} samples")


def _sampling(values: Values) -> dict[str, Side]:
    prompt, response = values.get("rollout_max_prompt_len"), int(values.get("rollout_max_response_len") or 0)
    text = f"prompt {prompt}, response {response} tokens; a response is cut there and trained"
    limits = [values.get("rollout_max_context_len"), values.get("sglang_context_length"), (prompt or 0) + response]
    room = min(int(limit) for limit in limits if limit)
    cells = {
        "training sampling": sampling_side(
            _number(values["rollout_temperature"]), _number(values["rollout_top_p"]), int(values["rollout_top_k"])
        ),
        "lengths": Side({"prompt": prompt or "no limit", "response": response}, text),
        "context": Side(room, f"{room} tokens of prompt and response together"),
        "prompts that are too long": Side("dropped", "dropped at load") if prompt else Side("kept", "no limit"),
        "evaluation sampling": Side("never", "never"),
    }
    if evaluates(values):
        numbers = [_own(values, f"eval_{name}", f"rollout_{name}") for name in ("temperature", "top_p", "top_k")]
        samples = int(values["n_samples_per_eval_prompt"])
        cells["evaluation sampling"] = sampling_side(numbers[0], numbers[1], int(numbers[2]), samples)
    return cells


def _own(values: Values, dest: str, fallback: str) -> float:
    return _number(values[fallback] if values.get(dest) is None else values[dest])


def evaluates(values: Values) -> bool:
    """Whether there is evaluation during training: an interval and data."""
    return bool(values.get("eval_interval")) and bool(values.get("eval_prompt_data") or values.get("eval_config"))


def _upkeep(values: Values) -> dict[str, Side]:
    """Cadences (redai-studio/Relax relax/components/rollout.py 0d0fa7aa, _should_eval; actor.py 0d7808fb).

    Epochs given by --num-epoch bring an evaluation at the end of each; no rule evaluates after the last rollout.
    """
    prompts = int(values["rollout_batch_size"])
    cadence = Side("never", "never")
    if evaluates(values):
        interval, rollouts = int(values["eval_interval"]), values.get("num_rollout")
        besides = "at the end of each epoch"
        if rollouts is not None:
            besides = "" if int(rollouts) % interval else "at the end"
        elif values.get("num_epoch") == 1:
            besides = "at the end"
        cadence = every_side(interval, prompts, not values.get("skip_eval_before_train"), besides)
    save = int(values.get("save_interval") or -1) if values.get("save") else -1
    if save > 0 and values.get("rotate_ckpt"):
        save = 1
    return {"evaluation": cadence, "checkpoints": kept_side(save, prompts, values.get("max_actor_ckpt_to_keep"))}


def roles_text(values: Values) -> str:
    """GPUs of each role of one mode, in the order of --resource."""
    roles = values.get("resource")
    return ", ".join(f"{role} {pair[1]}" for role, pair in roles.items()) if isinstance(roles, dict) else ""


def _machine(values: Values) -> dict[str, Side]:
    roles = values.get("resource")
    gpus = [pair[1] for pair in roles.values()] if isinstance(roles, dict) else []
    shared = bool(values.get("colocate"))
    total = max(gpus, default=0) if shared else sum(gpus)
    sizes = [
        int(values[f"{name}_parallel_size"]) for name in ("tensor_model", "pipeline_model", "context", "expert_model")
    ]
    if values.get("use_dynamic_batch_size"):
        cap = values.get("max_tokens_per_gpu")
        micro = Side({"tokens a GPU": cap}, f"up to {cap} tokens a GPU")
    else:
        micro = Side({"samples": int(values["micro_batch_size"])}, f"{values['micro_batch_size']} samples a GPU")
    stale = int(values.get("max_staleness") or 0)
    sums = "fp32" if values.get("accumulate_allreduce_grads_in_fp32") else "bf16"
    return {
        "precision": precision_side("fp16" if values.get("fp16") else "bf16", "fp32", sums),
        "GPUs": Side(total, f"{total} ({roles_text(values)}{', shared' if shared else ''})"),
        "GPUs an engine": plain(int(values["rollout_num_gpus_per_engine"])),
        "micro batch": micro,
        "LoRA": lora_side(int(values.get("lora_rank") or 0), _number(values.get("lora_alpha"))),
        "staleness": Side(
            stale, "0: every sample is trained right after it was drawn" if not stale else f"{stale} rollouts"
        ),
        "seed of the trainer": plain(int(values["seed"])),
        "balancing loss of experts": plain(_number(_only(values.get("moe_aux_loss_coeff")))),
        "parallel sizes": parallel_side(*sizes),
    }
