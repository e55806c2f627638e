"""Algorithm rows of the effective-training table: advantage, loss, aggregation, weights.

verl's cells come from the launch by verl's rules, Relax's from the flags as written and the numbers in the hooks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from migrate_tools.mapping.algorithm_table import ESTIMATORS, LOSSES
from migrate_tools.mapping.correction_facts import read_correction
from migrate_tools.mapping.effective_side import Side, plain
from migrate_tools.mapping.facts import Facts
from migrate_tools.mapping.loss_facts import DUAL, Mode, aggregation, loss_in_force
from migrate_tools.model import Hook

POST_PROCESS: Final = "--custom-reward-post-process-path"
LOSS_HOOK: Final = "--custom-loss-function-path"
REDUCER: Final = "--custom-pg-loss-reducer-function-path"
TIS_HOOK: Final = "--custom-tis-function-path"
NATIVE: Final = ("token-mean", "seq-mean-token-mean")

HOOK_TEXT: Final = {
    "leave_one_out": "leave one out",
    "length_weighted_baseline": "group mean weighted by length",
    "pass_at_k": "lead of the best sample",
    "gpg_advantage": "group mean, scaled by the share of rewards that are not 0",
    "decoupled_rewards": "group mean and std of each component",
    "discounted_returns": "discounted reward",
}
"""Post-process hook -> the advantage in words."""


def verl_rows(facts: Facts, updates: int, kl_in_reward: bool, group: int) -> dict[str, Side]:
    """verl's side of the algorithm rows.

    Args:
        updates: updates of one batch, passes included.
        kl_in_reward: whether the KL term is taken off the reward.
        group: samples a prompt; with one there is no baseline.
    """
    mode = loss_in_force(facts)
    estimator = facts.estimator
    text = estimator if mode.name == "vanilla" else f"{estimator} with the {mode.name} loss"
    advantage = _verl_advantage(facts, kl_in_reward, group)
    return {
        "estimator": Side([advantage, mode.name], text),
        "advantage normalisation": plain(advantage),
        "dual clip": _verl_dual(facts, updates, mode),
        "loss aggregation": plain(aggregation(facts)),
        "importance weights": _weights(**_verl_weights(facts, mode)),
    }


def relax_rows(values: Mapping[str, Any], hooks: Sequence[Hook]) -> dict[str, Side]:
    """Relax's side of the algorithm rows."""
    by_flag = {hook.flag: hook for hook in hooks if _named(values, hook)}
    mode = _relax_loss(values, by_flag)
    advantage = _relax_advantage(values, by_flag.get(POST_PROCESS))
    text = str(values["advantage_estimator"])
    if POST_PROCESS in by_flag:
        text += f", advantage by the hook {by_flag[POST_PROCESS].function}"
    if LOSS_HOOK in by_flag:
        text += f", loss by the hook {by_flag[LOSS_HOOK].function}"
    return {
        "estimator": Side([advantage, mode], text),
        "advantage normalisation": plain(advantage),
        "dual clip": _relax_dual(values, by_flag),
        "loss aggregation": _relax_aggregation(values, by_flag),
        "importance weights": _weights(**_relax_weights(values, by_flag)),
    }


def _named(values: Mapping[str, Any], hook: Hook) -> bool:
    """Whether the command line names the hook, so that it is called."""
    path = str(values.get(hook.flag.strip("-").replace("-", "_")) or "")
    if hook.flag == LOSS_HOOK and values.get("loss_type") != "custom_loss":
        return False
    return path.rpartition(".")[2] == hook.function


def _verl_advantage(facts: Facts, kl_in_reward: bool, group: int) -> str:
    entry = ESTIMATORS.get(facts.estimator)
    if entry is None or not entry.relax:
        return facts.estimator
    text = HOOK_TEXT.get(entry.hook, entry.advantage)
    if facts.estimator == "reinforce_plus_plus":
        discount = facts.number("algorithm.gamma", default=1.0) != 1.0
        text = HOOK_TEXT["discounted_returns"] if discount else "raw reward"
        text = "reward minus KL" if kl_in_reward else text
    if entry.advantage == "critic":
        text = "GAE with a critic"
    elif entry.advantage.startswith("group mean") and group == 1:
        text = "raw reward"
    elif entry.advantage == "group mean and std" and not _by_std(facts):
        text = "group mean"
    elif entry.hook in ("pass_at_k", "decoupled_rewards") and not _by_std(facts):
        text += ", not divided by the std"
    return text + (", batch whitening" if entry.whiten else "")


def _by_std(facts: Facts) -> bool:
    return facts.flag("algorithm.norm_adv_by_std_in_grpo", default=True)


def _relax_advantage(values: Mapping[str, Any], hook: Hook | None) -> str:
    name = str(values["advantage_estimator"])
    if hook is not None:
        text = HOOK_TEXT[hook.function]
        if hook.constants.get("PASS_AT_K_BY_STD", hook.constants.get("GDPO_BY_STD", True)) is False:
            text += ", not divided by the std"
    elif name == "ppo":
        text = "GAE with a critic"
    elif name == "reinforce_plus_plus":
        text = "reward minus KL" if _number(values.get("kl_coef")) else "raw reward"
    elif name == "rloo":
        text = "leave one out"
    elif not values.get("rewards_normalization", True):
        text = "raw reward"
    else:
        one = int(values["n_samples_per_prompt"]) == 1 or name == "reinforce_plus_plus_baseline"
        text = "group mean" if one or not values.get("grpo_std_normalization", True) else "group mean and std"
    return text + (", batch whitening" if values.get("normalize_advantages") else "")


def _relax_loss(values: Mapping[str, Any], hooks: Mapping[str, Hook]) -> str:
    """verl's name of the loss that Relax computes."""
    if LOSS_HOOK in hooks:
        return next(name for name, row in LOSSES.items() if row.hook == hooks[LOSS_HOOK].function)
    name = str(values["advantage_estimator"])
    return next((key for key, row in LOSSES.items() if row.estimator == name), "vanilla")


def _verl_dual(facts: Facts, updates: int, mode: Mode) -> Side:
    if not facts.has(DUAL) or mode.name not in ("vanilla", "dppo_tv", "dppo_kl"):
        return Side("none", "none")
    dual = facts.number(DUAL, default=3.0)
    if updates == 1 and not mode.bypass and mode.name == "vanilla":
        return Side("cannot act", f"{dual}, cannot act: one update a batch")
    return plain(dual)


def _relax_dual(values: Mapping[str, Any], hooks: Mapping[str, Hook]) -> Side:
    dual = values.get("eps_clip_c")
    if dual is None:
        return Side("none", "none")
    return plain(_number(dual)) if LOSS_HOOK in hooks else Side("none", "none (parsed, not applied)")


def _relax_aggregation(values: Mapping[str, Any], hooks: Mapping[str, Hook]) -> Side:
    reducer, own = hooks.get(REDUCER), hooks.get(LOSS_HOOK)
    name = str(own.constants.get("AGGREGATION", "")) if own else ""
    if name and name not in NATIVE:
        return plain(name)
    if reducer is not None and reducer.function == "token_sum":
        scale = _number(reducer.constants["REDUCER_SCALE"])
        size = _number(values["global_batch_size"])
        return plain(
            "token-sum" if scale == size else "seq-mean-token-sum" if scale == 1.0 else "seq-mean-token-sum-norm"
        )
    if reducer is not None:
        return plain("micro-batch-token-mean")
    return plain("token-mean" if values.get("calculate_per_token_loss") else "seq-mean-token-mean")


def _verl_weights(facts: Facts, mode: Mode) -> dict[str, Any]:
    found = read_correction(facts)
    level = "none" if mode.bypass and mode.name == "vanilla" else found.level
    return {
        "level": level, "lower": found.lower, "upper": found.upper, "reject": found.reject, "veto": found.veto,
        "normalised": found.normalise and level != "none",
    }  # fmt: skip


def _relax_weights(values: Mapping[str, Any], hooks: Mapping[str, Hook]) -> dict[str, Any]:
    hook = hooks.get(TIS_HOOK) or hooks.get(LOSS_HOOK)
    numbers = hook.constants if hook else {}
    if "IS_LEVEL" in numbers:
        level = "none" if numbers.get("NO_WEIGHTS") else numbers["IS_LEVEL"]
        rules = tuple(tuple(rule) for rule in numbers["REJECT"])
        return {
            "level": level, "lower": numbers["IS_LOWER"], "upper": numbers["IS_UPPER"], "reject": rules,
            "veto": numbers["VETO"],
        }  # fmt: skip
    if values.get("use_tis"):
        return {"level": "token", "lower": None, "upper": _number(values["tis_clip"])}
    return {}


def _weights(
    level: str = "none",
    lower: float | None = None,
    upper: float = 2.0,
    reject: tuple[Any, ...] = (),
    veto: float | None = None,
    normalised: bool = False,
) -> Side:
    parts = []
    if level != "none":
        bounds = f"up to {upper}" if lower is None else f"0 outside {lower} .. {upper}"
        parts.append(f"per {level}, {bounds}{', normalised over the batch' if normalised else ''}")
    parts += [f"rejection by {rule} {'' if low is None else f'{low} .. '}{high}" for rule, low, high in reject]
    if veto is not None:
        parts.append(f"veto below {veto}")
    if not parts:
        return Side("none", "none")
    weights = [level, lower, upper, normalised] if level != "none" else []
    return Side({"weights": weights, "reject": [list(rule) for rule in reject], "veto": veto or 0.0}, "; ".join(parts))


def _number(value: Any) -> float:
    return float(value or 0)
