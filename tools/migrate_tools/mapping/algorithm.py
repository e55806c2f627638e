"""Estimator and policy loss for Relax, and what is refused by name (Relax contract 7, flag rules 6)."""

from __future__ import annotations

from typing import Any, Final

from migrate_tools.errors import RefusedInput
from migrate_tools.mapping.algorithm_table import ESTIMATORS, LOSSES, Estimator, PolicyLoss
from migrate_tools.mapping.batch import read_batch
from migrate_tools.mapping.draft import Draft
from migrate_tools.mapping.facts import ACTOR, number_text
from migrate_tools.mapping.kl import read_kl

ESTIMATOR_KEY = "algorithm.adv_estimator"
LOSS_KEY = ACTOR + "policy_loss.loss_mode"

REFUSED_MODULES: Final = {
    "main_spin": "SPIN (online preference pairs) has no counterpart in Relax",
    "main_sppo": "SPPO (regression on preference scores) has no counterpart in Relax",
    "main_prime": "PRIME trains a process reward model inside the loop, for which Relax has no hook",
    "gvpo_main_ppo": "GVPO brings its own policy loss, which Relax does not have",
    "main_flowrl": "FlowRL trains a partition function beside the policy, which Relax does not have",
    "main_gkd": "on-policy distillation from a served teacher is a trainer of its own",
    "main_dance": "DanceGRPO trains a diffusion model",
    "spo_main_ppo": "SPO brings its own trainer and advantage",
    "main_rep_exp": "the exploration bonus is computed inside its own trainer",
}
"""Last part of the entry module -> why Relax cannot run that trainer."""

KNOWN_MODULES: Final = frozenset({"main_ppo", "main_dapo", "main_ppo_sync", "main_entropy"})
ASYNC_MODULES: Final = frozenset({"fully_async_main"})
COLOCATE_ONLY: Final = {
    "reinforce_plus_plus": "Relax runs reinforce_plus_plus in colocate mode only",
    "ppo": "Relax runs ppo (with a critic) in colocate mode only",
}
POST_PROCESS: Final = "--custom-reward-post-process-path"


def choose_estimator(draft: Draft) -> None:
    """Set `draft.estimator` and write it with what makes its advantage, or record the refusal by name."""
    _entry_module(draft)
    if draft.facts.flag("distillation.enabled"):
        draft.refuse("distillation.enabled: distillation from a teacher is not translated (Relax has --use-opd for it)")
    entry, loss = _known(draft)
    if entry is None or loss is None:
        return
    verl = draft.facts.estimator
    in_reward = verl == "reinforce_plus_plus" and read_kl(draft.facts).reward_coef != 0
    name = "reinforce_plus_plus" if in_reward else entry.relax
    if name == "grpo":
        name = loss.estimator or "grpo"
    elif loss is not LOSSES["vanilla"]:
        draft.refuse(
            f"{LOSS_KEY}={draft.facts.loss_mode} with {ESTIMATOR_KEY}={verl}: Relax's {name} has a loss of its own"
        )
        return
    choices = getattr(draft.contract.flags["--advantage-estimator"], "choices", None) or ()
    if choices and name not in choices:
        draft.refuse(f"this Relax version has no advantage estimator {name} (it has {', '.join(choices)})")
        return
    draft.estimator = name
    draft.flag("--advantage-estimator", name, "ALGO")
    if name in COLOCATE_ONLY:
        draft.async_refusals.append(COLOCATE_ONLY[name])
    _discount(draft)
    _gate(draft)
    advantage = _advantage(draft, entry, in_reward)
    draft.say(
        ESTIMATOR_KEY,
        "exact" if name == verl and not advantage else "derived",
        ("--advantage-estimator", *advantage),
        f"verl's {verl}: {'the reward carries k1 here; ' if in_reward else ''}{entry.exact}",
    )


def _known(draft: Draft) -> tuple[Estimator | None, PolicyLoss | None]:
    """The rows of the estimator and the loss; None, with a refusal by name, where Relax cannot express one."""
    facts = draft.facts
    verl, mode = facts.estimator, facts.loss_mode
    loss, entry = LOSSES.get(mode), ESTIMATORS.get(verl)
    if loss is None or not loss.hook:
        why = loss.refusal if loss else "no policy loss of that name is known"
        text = f"{LOSS_KEY}={mode}: {why}"
        draft.say((LOSS_KEY, ACTOR + "loss_mode"), "unsupported", (), text, "training")
        draft.refuse(text)
        loss = None
    if entry is None or not entry.relax:
        why = entry.refusal if entry else "no estimator of that name is known"
        text = f"{ESTIMATOR_KEY}={verl}: {why}"
        draft.say(ESTIMATOR_KEY, "unsupported", (), text, "training")
        draft.refuse(text)
        entry = None
    return entry, loss


def _advantage(draft: Draft, entry: Estimator, in_reward: bool) -> tuple[str, ...]:
    """Write how the processed reward comes about; returns the flags."""
    made: list[str] = []
    if entry.whiten:
        draft.flag("--normalize-advantages", None, "ALGO", "verl whitens these advantages too")
        made.append("--normalize-advantages")
        if draft.estimator not in COLOCATE_ONLY:
            draft.async_refusals.append("Relax's fully async mode does not whiten advantages (--normalize-advantages)")
    key = "algorithm.norm_adv_by_std_in_grpo"
    by_std = draft.facts.flag(key, default=True)
    hook, constants = _hook(draft, entry)
    alone = not hook and _one_sample(draft) and entry.advantage in ("group mean", "group mean and std")
    if alone:
        draft.note(
            "one-sample-a-prompt",
            f"one sample a prompt: verl's {draft.facts.estimator} has no baseline then and trains on the reward, "
            "and so does the script; set the number of samples if that is not meant",
        )
    if hook and not in_reward:
        if entry.whole_rollout:
            draft.async_refusals.append(f"{hook} needs the whole rollout at once; fully async mode hands over parts")
        if draft.hook(POST_PROCESS, hook, "ALGO", **constants):
            made.append(POST_PROCESS)
        else:
            draft.refuse(f"this Relax version has no {POST_PROCESS}, which {draft.facts.estimator} needs")
        used = "PASS_AT_K_BY_STD" in constants or "GDPO_BY_STD" in constants
        draft.say(
            key,
            "exact" if used else "no_effect",
            POST_PROCESS if used else (),
            "read by the hook" if used else f"{draft.facts.estimator} does not read it",
        )
    elif alone or (entry.advantage == "raw reward" and not in_reward):
        draft.flag("--disable-rewards-normalization", None, "ALGO", "the advantage is the reward itself")
        made.append("--disable-rewards-normalization")
        draft.say(key, "no_effect", (), f"{draft.facts.estimator} does not read it")
    elif entry.advantage == "group mean":
        draft.flag("--disable-grpo-std-normalization", None, "ALGO")
        made.append("--disable-grpo-std-normalization")
        draft.say(key, "no_effect", (), f"{draft.facts.estimator} does not read it")
    elif entry.advantage != "group mean and std":
        draft.say(key, "no_effect", (), f"{draft.facts.estimator} does not read it")
    elif by_std:
        draft.say(key, "automatic", (), "Relax divides by the group's standard deviation by default")
    else:
        draft.flag("--disable-grpo-std-normalization", None, "ALGO")
        draft.say(key, "exact", "--disable-grpo-std-normalization", "advantages without division (Dr.GRPO)")
    return tuple(made)


def _one_sample(draft: Draft) -> bool:
    try:
        return read_batch(draft.facts).group == 1
    except RefusedInput:
        return False


def _hook(draft: Draft, entry: Estimator) -> tuple[str, dict[str, Any]]:
    """The post-process function and the recipe's numbers in it."""
    facts, verl = draft.facts, draft.facts.estimator
    by_std = facts.flag("algorithm.norm_adv_by_std_in_grpo", default=True)
    keys, weights = "algorithm.gdpo_reward_keys", "algorithm.gdpo_reward_weights"
    if verl == "gdpo":
        names = facts.get(keys)
        if not names:
            raise RefusedInput(f"{ESTIMATOR_KEY}=gdpo needs {keys}", "name the keys of the reward's dict")
        draft.say((keys, weights), "exact", POST_PROCESS, "components of the reward, normalised one by one")
        listed = [str(name) for name in ([names] if isinstance(names, str) else names)]
        return entry.hook, {
            "GDPO_KEYS": listed,
            "GDPO_WEIGHTS": [float(weight) for weight in facts.get(weights) or [1.0] * len(listed)],
            "GDPO_BY_STD": by_std,
        }
    draft.say((keys, weights), "no_effect", (), "only read by gdpo")
    if verl == "grpo_passk" and _one_sample(draft):
        raise RefusedInput(
            f"{ESTIMATOR_KEY}=grpo_passk with one sample a prompt; verl refuses this too", "set rollout.n"
        )
    if verl == "grpo_passk":
        return entry.hook, {"PASS_AT_K_BY_STD": by_std}
    if verl in ("rloo", "rloo_vectorized"):
        return entry.hook, {"ALONE_TRAINS": verl == "rloo"}
    gamma = facts.number("algorithm.gamma", default=1.0)
    if verl == "reinforce_plus_plus" and gamma != 1.0:
        if draft.contract.version == "infra":
            draft.refuse("this Relax version takes one reward a sample, and a discount below 1 needs one a token")
        return "discounted_returns", {"GAMMA": gamma}
    return entry.hook, {}


def _entry_module(draft: Draft) -> None:
    module = draft.facts.launch.module
    last = module.rsplit(".", 1)[-1]
    if last in REFUSED_MODULES:
        draft.refuse(f"{module}: {REFUSED_MODULES[last]}")
    elif last in ASYNC_MODULES:
        draft.note("entry-async", f"{module} trains asynchronously; the script's async mode is the near counterpart")
    elif last not in KNOWN_MODULES or (last == "main_ppo" and not _stock_main(module)):
        draft.cap("entry-own-trainer", f"{module} is a trainer of the recipe's own; what it changes is not translated")


def _stock_main(module: str) -> bool:
    return module in ("verl.trainer.main_ppo", "main_ppo") or module.endswith("trainer.main_ppo")


def _discount(draft: Draft) -> None:
    facts, estimator = draft.facts, draft.estimator
    for key, flag in (("algorithm.gamma", "--gamma"), ("algorithm.lam", "--lambd")):
        used = estimator == "ppo" or (estimator == "reinforce_plus_plus" and flag == "--gamma")
        if used:
            draft.flag(flag, number_text(facts.number(key, default=1.0)), "ALGO")
            draft.say(key, "exact", flag, "discount of the advantage estimator")
        elif facts.estimator == "reinforce_plus_plus" and flag == "--gamma":
            one = facts.number(key, default=1.0) == 1.0
            draft.say(key, "exact", () if one else POST_PROCESS, "1: no discount" if one else "read by the hook")
        else:
            draft.say(key, "no_effect", (), f"{facts.estimator} reads neither gamma nor lambda, in verl and in Relax")


def _gate(draft: Draft) -> None:
    for name, flag, default in (("tau_pos", "--sapo-tau-pos", 1.0), ("tau_neg", "--sapo-tau-neg", 1.05)):
        if draft.estimator == "sapo":
            draft.flag(flag, number_text(draft.facts.number(ACTOR + name, default=default)), "ALGO")
            draft.say(ACTOR + name, "exact", flag, "temperature of the soft gate")
        else:
            draft.say(ACTOR + name, "no_effect", (), "only read by the sapo loss")
