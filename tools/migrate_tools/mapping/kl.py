"""Where the KL term sits, its coefficient and its estimator.

verl >= 0.2.1 has algorithm.use_kl_in_reward and actor.use_kl_loss. Older trees have only use_kl_loss: without it the
KL goes into the reward with algorithm.kl_ctrl.kl_coef. Relax's grpo, gspo, sapo, cispo and rloo compute advantages
from the reward alone and ignore --kl-coef (redai-studio/Relax relax/backends/megatron/loss.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from migrate_tools.mapping.draft import Draft
from migrate_tools.mapping.facts import ACTOR, Facts, number_text
from migrate_tools.model import Risk, Status

IN_REWARD, COEF = "algorithm.use_kl_in_reward", "algorithm.kl_ctrl.kl_coef"
IN_LOSS, LOSS_COEF, LOSS_TYPE = ACTOR + "use_kl_loss", ACTOR + "kl_loss_coef", ACTOR + "kl_loss_type"
PENALTY = "algorithm.kl_penalty"
ADAPTIVE = ("algorithm.kl_ctrl.type", "algorithm.kl_ctrl.horizon", "algorithm.kl_ctrl.target_kl")
READS_KL_COEF: Final = frozenset({"ppo", "reinforce_plus_plus"})
"""Relax's estimators that put --kl-coef into the reward."""

KL_TYPES: Final[dict[str, tuple[str, Status, str]]] = {
    "kl": ("k1", "exact", "verl's kl is k1"),
    "k1": ("k1", "exact", "the same estimator"),
    "mse": ("k2", "exact", "verl's mse is k2"),
    "k2": ("k2", "exact", "the same estimator"),
    "low_var_kl": ("low_var_kl", "exact", "the same estimator, clamped to +-10 on both sides"),
    "k3": ("low_var_kl", "exact", "verl clamps its k3 to +-10, as Relax's low_var_kl does"),
    "k1+": ("k2", "approximate", "straight-through: the gradient is that of k2, only the logged value differs"),
    "kl+": ("k2", "approximate", "straight-through: the gradient is that of k2, only the logged value differs"),
    "k3+": ("k2", "approximate", "straight-through: the gradient is that of k2, only the logged value differs"),
    "low_var_kl+": ("k2", "approximate", "straight-through: the gradient is that of k2, only the logged value differs"),
}
"""verl's estimator -> Relax's, status, reason."""
OWN_KINDS: Final = frozenset({"abs"})
"""verl's estimators that Relax lacks and the generated loss has."""


@dataclass(frozen=True)
class Kl:
    """One side's KL: where it acts, how strongly, by which estimator."""

    place: Literal["none", "loss", "reward", "both"]
    loss_coef: float = 0.0
    reward_coef: float = 0.0
    kind: str = ""


def read_kl(facts: Facts) -> Kl:
    """verl's KL under the rules of the launch's version."""
    in_loss = facts.flag(IN_LOSS)
    in_reward = facts.flag(IN_REWARD) if facts.has(IN_REWARD) else not in_loss
    loss_coef = (facts.number(LOSS_COEF, default=0.001) or 0.0) if in_loss else 0.0
    reward_coef = (facts.number(COEF, default=0.001) or 0.0) if in_reward else 0.0
    if not in_loss and not in_reward:
        return Kl("none")
    place: Literal["loss", "reward", "both"] = "both" if in_loss and in_reward else "loss" if in_loss else "reward"
    key = LOSS_TYPE if in_loss else PENALTY
    return Kl(place, loss_coef, reward_coef, facts.text(key, default="low_var_kl" if in_loss else "kl"))


def place_kl(draft: Draft) -> Kl:
    """Write the KL flags and say what became of each KL setting; returns verl's side."""
    kl, facts = read_kl(draft.facts), draft.facts
    if not facts.has(IN_REWARD) and kl.place == "reward" and kl.reward_coef:
        draft.note(
            "R21-kl-by-version",
            f"this verl tree has no {IN_REWARD}: without {IN_LOSS} the KL goes into the "
            f"reward with coefficient {kl.reward_coef}",
        )
    loss_coef, reward_coef, kind = _loss_side(draft, kl), _reward_side(draft, kl), _kind(draft, kl)
    if draft.estimator == "reinforce_plus_plus":
        loss_coef, kind = _no_loss_beside(draft, kl, loss_coef), _reward_kind(draft)
    elif draft.estimator == "ppo" and (loss_coef or reward_coef):
        loss_coef = reward_coef = _no_ppo_kl(draft)
    if loss_coef:
        draft.flag("--use-kl-loss", None, "ALGO")
    draft.flag("--kl-loss-coef", number_text(loss_coef), "ALGO")
    draft.flag("--kl-coef", number_text(reward_coef), "ALGO")
    draft.flag("--kl-loss-type", kind, "ALGO")
    return kl


def _loss_side(draft: Draft, kl: Kl) -> float:
    if kl.place in ("loss", "both"):
        if kl.loss_coef:
            draft.say(IN_LOSS, "exact", "--use-kl-loss", "KL term in the loss")
            draft.say(LOSS_COEF, "exact", "--kl-loss-coef", "coefficient of the KL term")
        else:
            draft.say(IN_LOSS, "derived", "--kl-loss-coef", "on, but its coefficient is 0: no KL term")
            draft.say(LOSS_COEF, "exact", "--kl-loss-coef", "0: no KL term")
        return kl.loss_coef
    draft.say(IN_LOSS, "exact", (), "off: no KL term in the loss")
    draft.say(
        LOSS_COEF,
        "no_effect",
        (),
        "use_kl_loss is off, so verl ignores it (and Relax would refuse it beside --kl-coef)",
    )
    return 0.0


def _reward_side(draft: Draft, kl: Kl) -> float:
    if kl.place not in ("reward", "both") or not kl.reward_coef:
        reason = (
            "off: no KL in the reward" if kl.place not in ("reward", "both") else "coefficient 0: no KL in the reward"
        )
        draft.say(IN_REWARD, "exact", "--kl-coef", reason)
        draft.say((COEF, *ADAPTIVE), "no_effect", (), "no KL in the reward, so verl ignores it")
        return 0.0
    if draft.facts.text(ADAPTIVE[0], default="fixed") == "adaptive":
        draft.say(ADAPTIVE, "unsupported", (), "Relax's KL coefficient is fixed", "training")
        draft.cap("kl-adaptive", "verl adapts the KL coefficient to a target; Relax keeps it fixed")
    else:
        draft.say(ADAPTIVE, "no_effect", (), "the coefficient is fixed")
    if draft.estimator in READS_KL_COEF:
        draft.say((IN_REWARD, COEF), "exact", "--kl-coef", "KL in the reward")
        return kl.reward_coef
    if kl.place == "both":
        text = "Relax refuses KL in the loss together with KL in the reward; the one in the loss is kept"
        coef = 0.0
    else:
        text = (
            f"KL in the reward: Relax's {draft.estimator} does not apply --kl-coef, its advantages come from the "
            "reward alone"
        )
        coef = kl.reward_coef
    draft.say((IN_REWARD, COEF), "unsupported", "--kl-coef" if coef else (), text, "training")
    draft.cap("R21-kl-in-reward", f"{text} (coefficient {kl.reward_coef} in verl)")
    return coef


def _kind(draft: Draft, kl: Kl) -> str:
    if kl.place == "none":
        draft.say((LOSS_TYPE, PENALTY), "no_effect", (), "no KL term")
        return "low_var_kl" if draft.facts.text(LOSS_TYPE, default="low_var_kl") == "low_var_kl" else "k1"
    used, other = (LOSS_TYPE, PENALTY) if kl.place in ("loss", "both") else (PENALTY, LOSS_TYPE)
    draft.say(other, "no_effect", (), "verl reads it for the other place of the KL term only")
    if kl.kind in OWN_KINDS and draft.has("--custom-loss-function-path"):
        draft.say(used, "exact", "--custom-loss-function-path", "computed by the generated loss")
        return "k1"
    if kl.kind in KL_TYPES:
        kind, status, reason = KL_TYPES[kl.kind]
        draft.say(used, status, "--kl-loss-type", reason)
        return kind
    risk: Risk = "training" if kl.loss_coef or kl.reward_coef else "none"
    draft.say(used, "unsupported", "--kl-loss-type", f"Relax has no KL estimator {kl.kind!r}; k1 is written", risk)
    if risk == "training":
        draft.cap("kl-type", f"Relax has no KL estimator {kl.kind!r}; k1 is written")
    return "k1"


def _conflict(draft: Draft, keys: tuple[str, ...], text: str) -> None:
    draft.say(keys, "unsupported", (), text, "training")
    draft.cap("kl-estimator-rule", text)


def _no_loss_beside(draft: Draft, kl: Kl, loss_coef: float) -> float:
    if loss_coef:
        _conflict(
            draft,
            (IN_LOSS, LOSS_COEF),
            f"Relax's reinforce_plus_plus refuses KL in the loss beside that in the reward ({kl.loss_coef} is dropped)",
        )
    return 0.0


def _reward_kind(draft: Draft) -> str:
    kind = draft.facts.text(PENALTY, default="kl")
    if KL_TYPES.get(kind, ("",))[0] == "k1":
        draft.say(PENALTY, "exact", "--kl-loss-type", "the same estimator")
    else:
        _conflict(draft, (PENALTY,), f"Relax's reinforce_plus_plus takes k1 only, the recipe's is {kind}")
    return "k1"


def _no_ppo_kl(draft: Draft) -> float:
    _conflict(draft, (IN_LOSS, LOSS_COEF, IN_REWARD, COEF), "Relax's synchronous ppo turns every KL term off")
    return 0.0
