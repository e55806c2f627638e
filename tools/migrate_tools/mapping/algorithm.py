"""Estimator and policy loss for Relax, and what is refused by name (Relax contract 7, flag rules 6)."""

from __future__ import annotations

from typing import Final

from migrate_tools.mapping.draft import Draft
from migrate_tools.mapping.facts import ACTOR, number_text

ESTIMATOR_KEY = "algorithm.adv_estimator"
LOSS_KEY = ACTOR + "policy_loss.loss_mode"

ESTIMATORS: Final = {
    "grpo": "grpo",
    "grpo_vectorized": "grpo",
    "rloo": "rloo",
    "rloo_vectorized": "rloo",
    "reinforce_plus_plus": "reinforce_plus_plus",
    "reinforce_plus_plus_baseline": "reinforce_plus_plus_baseline",
    "gae": "ppo",
}
"""verl's estimator -> Relax's."""

NO_ESTIMATOR: Final = {
    "gpg": "Relax has no GPG estimator",
    "opo": "Relax has no OPO estimator (length-weighted baseline)",
    "remax": "ReMax needs an extra greedy sample for every prompt, which Relax's rollout does not make",
    "grpo_passk": "Relax has no Pass@k estimator",
    "gdpo": "Relax has no GDPO estimator (one normalisation for each reward key)",
    "optimal_token_baseline": "Relax has no token-level baseline estimator",
    "tir_optimal_token_baseline": "Relax has no token-level baseline estimator",
}
LOSS_ESTIMATORS: Final = {"gspo": "gspo", "sapo": "sapo", "cispo": "cispo"}
"""verl's policy loss -> the estimator that carries it in Relax."""

NO_LOSS: Final = {
    "gpg": "the GPG loss",
    "clip_cov": "the Clip-Cov loss",
    "kl_cov": "the KL-Cov loss",
    "geo_mean": "the geometric-mean loss (GMPO)",
    "dppo_tv": "the DPPO loss",
    "dppo_kl": "the DPPO loss",
    "dro": "the DRO loss",
    "bypass_mode": "the loss of bypass mode",
    "gvpo": "the GVPO loss",
}
SEQUENCE_MEAN: Final = frozenset({"gspo", "sapo"})
"""Losses that verl always averages per sequence, whatever loss_agg_mode says."""

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
    "rloo": "Relax runs rloo in colocate mode only",
    "reinforce_plus_plus": "Relax runs reinforce_plus_plus in colocate mode only",
    "reinforce_plus_plus_baseline": "Relax runs reinforce_plus_plus_baseline in colocate mode only",
    "ppo": "Relax runs ppo (with a critic) in colocate mode only",
}


def choose_estimator(draft: Draft) -> None:
    """Set `draft.estimator` and write it, or record the refusal by name."""
    _entry_module(draft)
    verl, loss = draft.facts.estimator, draft.facts.loss_mode
    estimator = _by_name(draft, verl, loss)
    if not estimator:
        return
    choices = getattr(draft.contract.flags["--advantage-estimator"], "choices", None) or ()
    if choices and estimator not in choices:
        draft.refuse(f"this Relax version has no advantage estimator {estimator} (it has {', '.join(choices)})")
        return
    draft.estimator = estimator
    draft.flag("--advantage-estimator", estimator, "ALGO")
    draft.say(
        ESTIMATOR_KEY,
        "exact" if estimator == verl else "derived",
        "--advantage-estimator",
        f"verl's {verl} with the {loss} loss is Relax's {estimator}",
    )
    draft.say(
        (LOSS_KEY, ACTOR + "loss_mode"),
        "exact" if loss == "vanilla" else "derived",
        () if loss == "vanilla" else "--advantage-estimator",
        f"the {loss} loss goes with {estimator}",
    )
    if estimator in COLOCATE_ONLY:
        draft.async_refusals.append(COLOCATE_ONLY[estimator])
    _estimator_flags(draft)
    _normalisation(draft)


def _by_name(draft: Draft, verl: str, loss: str) -> str:
    if loss in NO_LOSS:
        text = f"{LOSS_KEY}={loss}: Relax does not have {NO_LOSS[loss]}"
        draft.say((LOSS_KEY, ACTOR + "loss_mode"), "unsupported", (), text, "training")
        draft.refuse(text)
    elif loss != "vanilla" and loss not in LOSS_ESTIMATORS:
        text = f"{LOSS_KEY}={loss}: no policy loss of that name is known"
        draft.say((LOSS_KEY, ACTOR + "loss_mode"), "unsupported", (), text, "training")
        draft.refuse(text)
    if verl in NO_ESTIMATOR or verl not in ESTIMATORS:
        text = f"{ESTIMATOR_KEY}={verl}: {NO_ESTIMATOR.get(verl, 'no estimator of that name is known')}"
        draft.say(ESTIMATOR_KEY, "unsupported", (), text, "training")
        draft.refuse(text)
    if draft.refusals and (loss not in LOSS_ESTIMATORS and loss != "vanilla" or verl not in ESTIMATORS):
        return ""
    if loss in LOSS_ESTIMATORS:
        if ESTIMATORS[verl] != "grpo":
            draft.refuse(
                f"{LOSS_KEY}={loss} with {ESTIMATOR_KEY}={verl}: Relax couples the {loss} loss with "
                "group-normalised advantages"
            )
            return ""
        return LOSS_ESTIMATORS[loss]
    return ESTIMATORS[verl]


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


def _estimator_flags(draft: Draft) -> None:
    facts, estimator = draft.facts, draft.estimator
    if estimator in ("reinforce_plus_plus", "reinforce_plus_plus_baseline"):
        draft.flag("--normalize-advantages", None, "ALGO", "verl whitens these advantages too")
    for key, flag in (("algorithm.gamma", "--gamma"), ("algorithm.lam", "--lambd")):
        used = estimator == "ppo" or (estimator == "reinforce_plus_plus" and flag == "--gamma")
        if used:
            draft.flag(flag, number_text(facts.number(key, default=1.0)), "ALGO")
            draft.say(key, "exact", flag, "discount of the advantage estimator")
        else:
            draft.say(key, "no_effect", (), f"{estimator} reads neither gamma nor lambda, in verl and in Relax")
    for name, flag in (("tau_pos", "--sapo-tau-pos"), ("tau_neg", "--sapo-tau-neg")):
        keys = ACTOR + name
        if estimator == "sapo":
            default = 1.0 if flag.endswith("pos") else 1.05
            draft.flag(flag, number_text(facts.number(keys, default=default)), "ALGO")
            draft.say(keys, "exact", flag, "temperature of the soft gate")
        else:
            draft.say(keys, "no_effect", (), "only read by the sapo loss")


def _normalisation(draft: Draft) -> None:
    key = "algorithm.norm_adv_by_std_in_grpo"
    if draft.estimator not in ("grpo", "gspo", "sapo", "cispo"):
        draft.say(key, "no_effect", (), "only read by grpo")
    elif draft.facts.flag(key, default=True):
        draft.say(key, "automatic", (), "Relax divides by the group's standard deviation by default")
    else:
        draft.flag("--disable-grpo-std-normalization", None, "ALGO")
        draft.say(key, "exact", "--disable-grpo-std-normalization", "advantages without division (Dr.GRPO)")
