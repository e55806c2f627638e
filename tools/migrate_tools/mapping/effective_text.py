"""The two sides of the effective-training table: comparable facts and the text that a reader sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from migrate_tools.mapping import kl, loss, optimizer, rollout, schedule
from migrate_tools.mapping.algorithm import ESTIMATORS, LOSS_ESTIMATORS
from migrate_tools.mapping.batch import VerlBatch
from migrate_tools.mapping.facts import ACTOR, Facts
from migrate_tools.mapping.gpus import total_gpus

GROUP_NORMALISED = frozenset({"grpo", "gspo", "sapo", "cispo"})


class Side(NamedTuple):
    """One cell: what is compared, and how it reads."""

    facts: Any
    text: str


def _plain(value: Any) -> Side:
    return Side(value, str(value))


def _number(value: Any) -> float:
    return float(value or 0)


def verl_side(facts: Facts, batch: VerlBatch) -> dict[str, Side]:
    """verl's cells, from the launch by verl's rules."""
    samples = batch.prompts * batch.group
    updates = batch.updates * batch.epochs
    estimator, mode = facts.estimator, facts.loss_mode
    name = LOSS_ESTIMATORS.get(mode) or ESTIMATORS.get(estimator, estimator)
    low, high = loss.clip_range(facts)
    prompt, response = rollout.lengths(facts)
    dual = facts.number(loss.DUAL, default=3.0) if facts.has(loss.DUAL) and mode == "vanilla" else None
    nodes, per_node = total_gpus(facts)
    beta1, beta2 = optimizer.betas(facts)
    return {
        "samples a step": Side(
            (batch.prompts, batch.group), f"{batch.prompts} prompts x {batch.group} = {samples} samples"
        ),
        "samples an update": _plain(batch.mini_samples),
        "updates a step": _plain(updates),
        "length of training": _verl_length(facts, batch),
        "estimator": Side(name, estimator if mode == "vanilla" else f"{estimator} with the {mode} loss"),
        "advantage normalisation": _verl_norm(facts, name),
        "KL": _verl_kl(facts),
        "clipping": Side((low, high), f"{low} / {high}"),
        "dual clip": Side(dual, "none" if dual is None else str(dual)),
        "loss aggregation": _plain(loss.aggregation(facts)),
        "entropy bonus": _plain(_number(facts.number(ACTOR + "entropy_coeff"))),
        "old log-probs": _plain("of the engine" if facts.flag(loss.IS + "bypass_mode") else "recomputed"),
        "importance weights": _verl_is(facts),
        "learning rate": _plain(_number(facts.number(optimizer.OPTIM + "lr", default=1e-6))),
        "learning-rate schedule": _verl_schedule(facts, batch),
        "Adam": Side(
            (beta1, beta2, _number(facts.number(optimizer.OPTIM + "weight_decay", default=0.01))),
            f"betas {beta1}, {beta2}, weight decay {facts.number(optimizer.OPTIM + 'weight_decay', default=0.01)}",
        ),
        "gradient clipping": _plain(optimizer.clip(facts)),
        "training sampling": _sampling(*rollout.train_sampling(facts)),
        "lengths": Side((prompt, response), f"prompt {prompt}, response {response} tokens"),
        "prompts that are too long": _verl_overlong(facts),
        "evaluation": _verl_eval(facts, batch),
        "checkpoints": _every(facts.integer(schedule.SAVE, default=-1), batch.prompts),
        "precision": _verl_precision(facts),
        "GPUs": _plain(nodes * per_node),
    }


def relax_side(values: Mapping[str, Any], facts: Facts) -> dict[str, Side]:
    """Relax's cells, from the parsed flags by Relax's rules; `facts` gives the row count of the data only."""
    prompts, group = int(values["rollout_batch_size"]), int(values["n_samples_per_prompt"])
    update = int(values["global_batch_size"])
    updates = prompts * group // update
    name = str(values["advantage_estimator"])
    low = _number(values["eps_clip"])
    high = low if values.get("eps_clip_high") is None else _number(values["eps_clip_high"])
    weight = (_number(values["adam_beta1"]), _number(values["adam_beta2"]), _number(values["weight_decay"]))
    prompt, response = values.get("rollout_max_prompt_len"), values.get("rollout_max_response_len")
    return {
        "samples a step": Side((prompts, group), f"{prompts} prompts x {group} = {prompts * group} samples a rollout"),
        "samples an update": _plain(update),
        "updates a step": Side(updates, f"{updates} a rollout"),
        "length of training": _relax_length(values, facts, prompts, updates),
        "estimator": _plain(name),
        "advantage normalisation": _relax_norm(values, name, group),
        "KL": _relax_kl(values, name),
        "clipping": Side((low, high), f"{low} / {high}"),
        "dual clip": Side(None, "none (parsed, not applied)" if values.get("eps_clip_c") else "none"),
        "loss aggregation": _plain("token-mean" if values.get("calculate_per_token_loss") else "seq-mean-token-mean"),
        "entropy bonus": _plain(_number(values["entropy_coef"])),
        "old log-probs": _plain("of the engine" if values.get("use_rollout_logprobs") else "recomputed"),
        "importance weights": _relax_is(values),
        "learning rate": _plain(_number(values["lr"])),
        "learning-rate schedule": _relax_schedule(values),
        "Adam": Side(weight, f"betas {weight[0]}, {weight[1]}, weight decay {weight[2]}"),
        "gradient clipping": _plain(_number(values["clip_grad"])),
        "training sampling": _sampling(
            _number(values["rollout_temperature"]), _number(values["rollout_top_p"]), int(values["rollout_top_k"])
        ),
        "lengths": Side((prompt, response), f"prompt {prompt}, response {response} tokens"),
        "prompts that are too long": Side("dropped", "dropped at load"),
        "evaluation": _relax_eval(values, prompts),
        "checkpoints": _every(values.get("save_interval"), prompts),
        "precision": Side("fp16" if values.get("fp16") else "bf16", "fp16" if values.get("fp16") else "bf16"),
        "GPUs": _relax_gpus(values),
    }


def _every(steps: Any, prompts: int) -> Side:
    if not steps or int(steps) <= 0:
        return Side(0, "never")
    return Side(int(steps) * prompts, f"every {steps} x {prompts} = {int(steps) * prompts} prompts")


def _sampling(temperature: float, top_p: float, top_k: int) -> Side:
    return Side((temperature, top_p, top_k), f"temperature {temperature}, top_p {top_p}, top_k {top_k}")


def _length(updates: int | None, text: str, epochs: int | None) -> Side:
    if updates is not None:
        return Side(("updates", updates), f"{updates} updates ({text})")
    return Side(("epochs", epochs), text)


def _verl_length(facts: Facts, batch: VerlBatch) -> Side:
    limit, by_epochs = schedule.verl_steps(facts, batch.prompts)
    epochs = facts.integer(schedule.EPOCHS, default=1)
    known = [count for count in (limit, by_epochs) if count is not None]
    each = batch.updates * batch.epochs
    if not known:
        return _length(None, f"{epochs} epochs", epochs)
    return _length(min(known) * each, f"{min(known)} steps", epochs)


def _relax_length(values: Mapping[str, Any], facts: Facts, prompts: int, updates: int) -> Side:
    rollouts, epochs = values.get("num_rollout"), values.get("num_epoch")
    if rollouts is not None:
        return _length(int(rollouts) * updates, f"{rollouts} rollouts", None)
    rows = schedule.train_rows(facts)
    if rows is None:
        return _length(None, f"{epochs} epochs", epochs)
    count = int(epochs or 0) * (rows // prompts)
    return _length(count * updates, f"{count} rollouts, {epochs} epochs of {rows} rows", epochs)


def _verl_norm(facts: Facts, name: str) -> Side:
    if name in GROUP_NORMALISED:
        divided = facts.flag("algorithm.norm_adv_by_std_in_grpo", default=True)
        return _plain("group mean and std" if divided else "group mean")
    return _plain(_NORMS.get(name, name))


def _relax_norm(values: Mapping[str, Any], name: str, group: int) -> Side:
    if name in GROUP_NORMALISED:
        divided = bool(values.get("grpo_std_normalization", True)) and group > 1
        return _plain("group mean and std" if divided else "group mean")
    whitened = name in ("reinforce_plus_plus", "reinforce_plus_plus_baseline") and not values.get(
        "normalize_advantages"
    )
    return _plain("none" if whitened else _NORMS.get(name, name))


_NORMS = {
    "rloo": "leave one out",
    "reinforce_plus_plus": "batch whitening",
    "ppo": "GAE with a critic",
    "reinforce_plus_plus_baseline": "group mean, batch whitening",
}


def _kl_side(place: str, coef: float, kind: str) -> Side:
    if place == "none" or not coef:
        return Side(("none", 0.0, ""), "none")
    return Side((place, coef, kind), f"in the {place}, {coef} x {kind}")


def _verl_kl(facts: Facts) -> Side:
    found = kl.read_kl(facts)
    kind = kl.KL_TYPES.get(found.kind, (found.kind,))[0]
    if found.place == "both":
        return Side(
            ("both", found.loss_coef, found.reward_coef),
            f"in the loss, {found.loss_coef} x {found.kind}, and in the reward, {found.reward_coef}",
        )
    if found.place == "reward":
        return _kl_side("reward", found.reward_coef, kind)
    return _kl_side(found.place, found.loss_coef, kind)


def _relax_kl(values: Mapping[str, Any], name: str) -> Side:
    kind = str(values["kl_loss_type"])
    if name == "ppo":
        return _kl_side("none", 0.0, "")
    if values.get("use_kl_loss"):
        return _kl_side("loss", _number(values["kl_loss_coef"]), kind)
    coef = _number(values["kl_coef"])
    if coef and name not in kl.READS_KL_COEF:
        return Side(("none", 0.0, ""), f"none ({name} ignores --kl-coef {coef})")
    return _kl_side("reward", coef, kind)


def _verl_is(facts: Facts) -> Side:
    cap = facts.number(ACTOR + "tis_imp_ratio_cap", default=-1.0) or -1.0
    level = facts.text(loss.IS + "rollout_is", "algorithm.rollout_is_level").lower()
    if cap > 0:
        return Side(("token", str(cap)), f"per token, up to {cap}")
    if level in ("", "null", "none", "false"):
        return Side(None, "none")
    bound = facts.get(loss.IS + "rollout_is_threshold", default=2.0)
    low, _, high = str(bound).rpartition("_")
    text = str(float(high)) if not low else f"{float(low)}_{float(high)}"
    return Side((level, text), f"per {level}, up to {bound}")


def _relax_is(values: Mapping[str, Any]) -> Side:
    if not values.get("use_tis"):
        return Side(None, "none")
    low, high = _number(values.get("tis_clip_low")), _number(values["tis_clip"])
    return Side(("token", f"{low}_{high}" if low else str(high)), f"per token, up to {high}")


def _schedule(style: str, warm: str, floor: float) -> Side:
    text = style + (f", warm-up {warm}" if warm else ", no warm-up") + (f", down to {floor}" if floor else "")
    return Side((style, warm, floor), text)


def _verl_schedule(facts: Facts, batch: VerlBatch) -> Side:
    style = optimizer.style(facts)
    steps, ratio = optimizer.warmup(facts)
    warm = f"{steps * batch.updates} updates" if steps else f"{ratio} of the run" if ratio else ""
    return _schedule(style, warm, 0.0 if style == "constant" else optimizer.min_lr(facts))


def _relax_schedule(values: Mapping[str, Any]) -> Side:
    style, iters, ratio = str(values["lr_decay_style"]), values.get("lr_warmup_iters"), values.get("lr_warmup_fraction")
    warm = f"{iters} updates" if iters else f"{ratio} of the run" if ratio else ""
    return _schedule(style, warm, 0.0 if style == "constant" else _number(values.get("min_lr")))


def _verl_overlong(facts: Facts) -> Side:
    if facts.flag(rollout.FILTER):
        return Side("dropped", "dropped at load")
    mode = facts.text(rollout.TRUNCATION, default="error")
    return Side("error", "verl stops") if mode == "error" else Side("cut", f"cut ({mode})")


def _eval(every: Any, prompts: int, sampling: tuple[Any, ...], before: bool) -> Side:
    if not every or int(every) <= 0:
        return Side(("never",), "never")
    temperature, top_p, top_k, samples = sampling
    text = (
        f"every {every} x {prompts} = {int(every) * prompts} prompts, {samples} sample(s), temperature {temperature}, "
        f"top_p {top_p}, top_k {top_k}" + (", also before training" if before else "")
    )
    return Side((int(every) * prompts, *sampling, before), text)


def _verl_eval(facts: Facts, batch: VerlBatch) -> Side:
    every = facts.integer("trainer.test_freq", default=-1)
    before = facts.flag("trainer.val_before_train", default=True)
    if not facts.launch.data.val:
        return Side(("never",), "never (no validation files)")
    if (every or -1) <= 0 and before:
        return Side(("ends",), "before and after training only")
    return _eval(every, batch.prompts, rollout.eval_sampling(facts), before)


def _relax_eval(values: Mapping[str, Any], prompts: int) -> Side:
    every = values.get("eval_interval")
    if not every or not values.get("eval_prompt_data"):
        return Side(("never",), "never")

    def own(dest: str, fallback: str) -> float:
        return _number(values[fallback] if values.get(dest) is None else values[dest])

    sampling = (
        own("eval_temperature", "rollout_temperature"),
        own("eval_top_p", "rollout_top_p"),
        int(own("eval_top_k", "rollout_top_k")),
        int(values["n_samples_per_eval_prompt"]),
    )
    return _eval(every, prompts, sampling, not values.get("skip_eval_before_train"))


def _verl_precision(facts: Facts) -> Side:
    kind = facts.text(ACTOR + "megatron.dtype", ACTOR + "fsdp_config.dtype", default="bfloat16").lower()
    short = "fp16" if kind in ("float16", "fp16", "half") else "bf16"
    return Side(short, short)


def roles_text(values: Mapping[str, Any]) -> str:
    """GPUs of each role of one mode, in the order of --resource."""
    roles = values.get("resource")
    return ", ".join(f"{role} {pair[1]}" for role, pair in roles.items()) if isinstance(roles, dict) else ""


def _relax_gpus(values: Mapping[str, Any]) -> Side:
    roles = values.get("resource")
    counts = [pair[1] for pair in roles.values()] if isinstance(roles, dict) else []
    total = max(counts, default=0) if values.get("colocate") else sum(counts)
    return Side(total, f"{total} ({roles_text(values)}{', shared' if values.get('colocate') else ''})")
