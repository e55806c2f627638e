"""Entropy, the critic of ppo, seeds, and the fixed flags that every script has."""

from __future__ import annotations

from typing import Final

from migrate_tools.mapping.draft import Draft
from migrate_tools.mapping.facts import ACTOR, number_text

ENTROPY = ACTOR + "entropy_coeff"
FIXED: Final = (
    ("--attention-dropout", "0.0"),
    ("--hidden-dropout", "0.0"),
    ("--accumulate-allreduce-grads-in-fp32", None),
    ("--attention-softmax-in-fp32", None),
)
"""Flags of the guide's template that keep what verl does (no dropout, sums in fp32)."""


NOT_CARRIED: Final = frozenset({"reward-manager-custom", "reward-manager-unknown", "verl-patched"})
"""Notes of reading about code of the recipe that does something around the scorer or the trainer and stays behind."""


def place_misc(draft: Draft) -> None:
    """Write entropy, seeds, fault tolerance and the fixed flags."""
    facts = draft.facts
    draft.caps += dict.fromkeys(note.text for note in facts.launch.notes if note.code in NOT_CARRIED)
    draft.flag("--entropy-coef", number_text(facts.number(ENTROPY, default=0.0)), "ALGO")
    draft.say(ENTROPY, "exact", "--entropy-coef", "entropy bonus")
    for name, value in FIXED:
        if not draft.has(name):
            draft.flag(name, value, "MISC")
    if not draft.has("--attention-backend"):
        draft.flag("--attention-backend", "flash", "MISC")
    draft.flag("--use-fault-tolerance", None, "ROLLOUT")
    draft.decide(
        "health check and fault tolerance",
        "on",
        "--use-health-check and --use-fault-tolerance, as the "
        "migration guide says; they can hide the first error, so take them out while debugging",
    )
    key, other = ACTOR + "fsdp_config.seed", ACTOR + "megatron.seed"
    if facts.megatron:
        key, other = other, key
    draft.say(other, "no_effect", (), "seed of the engine that is not used")
    if facts.is_set(key) and (seed := facts.integer(key)) is not None:
        draft.flag("--seed", seed, "MISC")
        draft.say(key, "exact", "--seed", "seed of the trainer; it draws nothing the other one would draw")


def place_critic(draft: Draft, updates: int, scale: int) -> None:
    """Write the critic's flags for ppo, or say that nothing reads the critic's settings."""
    facts = draft.facts
    settings = facts.set_below("critic.")
    if draft.estimator != "ppo":
        keys = [item.key for item in settings] + ["trainer.critic_warmup", "trainer.max_critic_ckpt_to_keep"]
        draft.say(keys, "no_effect", (), f"{draft.estimator} has no critic")
        return
    draft.flag("--critic-lr", number_text(facts.number("critic.optim.lr", default=1e-5)), "OPTIMIZER")
    draft.say("critic.optim.lr", "exact", "--critic-lr", "learning rate of the critic")
    warmup = facts.integer("critic.optim.lr_warmup_steps", default=-1) or -1
    if warmup > 0:
        draft.flag("--critic-lr-warmup-iters", warmup * updates, "OPTIMIZER", "updates")
    draft.say(
        "critic.optim.lr_warmup_steps",
        "derived",
        "--critic-lr-warmup-iters" if warmup > 0 else (),
        f"{warmup} verl steps x {updates} updates a step" if warmup > 0 else "no warm-up",
    )
    draft.flag("--value-clip", number_text(facts.number("critic.cliprange_value", default=0.5)), "ALGO")
    draft.say("critic.cliprange_value", "exact", "--value-clip", "clip range of the value")
    only = facts.integer("trainer.critic_warmup", default=0) or 0
    if only:
        draft.flag("--num-critic-only-steps", only * scale, "ALGO", "rollouts")
    draft.say(
        "trainer.critic_warmup",
        "derived" if only else "exact",
        "--num-critic-only-steps" if only else (),
        f"{only} verl steps x {scale} rollouts a step" if only else "no warm-up of the critic",
    )
    if not draft.has("--use-tis") and not draft.has("--use-rollout-logprobs"):
        draft.flag("--use-rollout-logprobs", None, "ALGO", "Relax's ppo takes them as old log-probs")
        draft.note(
            "ppo-old-logprobs", "Relax's ppo takes the rollout engine's log-probs as old ones, verl recomputes them"
        )
    if facts.is_set("critic.model.path") and facts.text("critic.model.path") != facts.text(
        "actor_rollout_ref.model.path"
    ):
        text = f"the critic starts from {facts.text('critic.model.path')}; Relax starts it from the actor's checkpoint"
        draft.say("critic.model.path", "approximate", (), text, "training")
        draft.note("critic-model", text, "critic.model.path")
    else:
        draft.say("critic.model.path", "automatic", (), "the critic starts from the actor's checkpoint on both sides")
