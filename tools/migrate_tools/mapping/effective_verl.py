"""verl's side of the effective-training table: read from the launch by verl's rules, by nothing of the translation.

No module that writes flags is imported here, so that a fault of one shows as a difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from migrate_tools.mapping.effective_algorithm import verl_rows
from migrate_tools.mapping.effective_lr import OPTIM, verl_curve, verl_floor, verl_style, verl_warmup
from migrate_tools.mapping.effective_side import Side, kl_side, moments, plain, rates, schedule_side
from migrate_tools.mapping.facts import ACTOR, ROLLOUT, Facts
from migrate_tools.mapping.schedule import train_rows

CORRECTION = "algorithm.rollout_correction."
KL_NAMES: Final = {"kl": "k1", "mse": "k2", "k3": "low_var_kl"}
STRAIGHT_THROUGH: Final = frozenset({"kl+", "k1+", "k3+", "low_var_kl+"})
FORK_GROUPS: Final = (ROLLOUT + "n_agent", "agent_grpo.n")


@dataclass(frozen=True)
class Counts:
    """verl's batch in numbers."""

    prompts: int
    group: int
    update: int
    """Samples an update."""
    passes: int
    rows: int | None
    epochs: int
    limit: int | None

    @property
    def updates(self) -> int:
        """Updates a step, one pass."""
        return self.prompts * self.group // self.update

    @property
    def steps(self) -> int | None:
        """Steps of the run; None when neither a limit nor the rows are known."""
        by_rows = self.rows // self.prompts * self.epochs if self.rows is not None else None
        known = [count for count in (self.limit, by_rows) if count is not None]
        return min(known) if known else None


def counts(facts: Facts) -> Counts:
    """Batch and length of a launch whose batch sizes are known to be whole and to divide."""
    prompts = facts.integer("data.train_batch_size") or 0
    mini = facts.integer(ACTOR + "ppo_mini_batch_size") or 0
    group = facts.integer(ROLLOUT + "n") or 1
    update = min(mini, prompts) * group
    for key in FORK_GROUPS:
        own = facts.integer(key) or 1
        if group == 1 and own > 1:
            group, update = own, mini
            break
    limit = facts.integer("trainer.total_training_steps")
    return Counts(
        prompts=prompts,
        group=group,
        update=update,
        passes=facts.integer(ACTOR + "ppo_epochs") or 1,
        rows=train_rows(facts),
        epochs=facts.integer("trainer.total_epochs") or 1,
        limit=limit if limit and limit > 0 else None,
    )


def estimator(facts: Facts) -> str:
    """ "ppo" where verl trains a critic, else verl's own name."""
    name = facts.text("algorithm.adv_estimator", default="gae").rsplit(".", 1)[-1].lower()
    return "ppo" if name == "gae" else name


def training_rows(facts: Facts, size: Counts) -> dict[str, Side]:
    """What is learned: batches, objective, optimizer."""
    name = estimator(facts)
    return {
        **_batch(facts, size),
        **_objective(facts, name, size.updates * size.passes, size.group),
        **_optimizer(facts, size),
    }


def _batch(facts: Facts, size: Counts) -> dict[str, Side]:
    samples = size.prompts * size.group
    updates = size.updates * size.passes
    steps = size.steps
    if steps is None:
        length = Side({"epochs": size.epochs}, f"{size.epochs} epochs")
        seen = Side({"epochs": size.epochs}, f"{size.epochs} times the data")
    else:
        length = Side({"updates": steps * updates}, f"{steps * updates} updates ({steps} steps)")
        seen = Side({"prompts": steps * size.prompts}, f"{steps * size.prompts} ({steps} steps x {size.prompts})")
    seed, shuffled = facts.integer("data.seed"), facts.flag("data.shuffle", default=True)
    order = f"shuffled, seed {seed if seed is not None else 'not fixed'}" if shuffled else "as in the files"
    kept = facts.flag("algorithm.filter_groups.enable")
    made = (facts.integer("data.gen_batch_size") or size.prompts) / size.prompts if kept else 1.0
    return {
        "samples a step": Side(
            {"prompts": size.prompts, "samples": samples}, f"{size.prompts} prompts x {size.group} = {samples} samples"
        ),
        "samples an update": plain(size.update),
        "updates a step": plain(updates),
        "length of training": length,
        "prompts seen": seen,
        "data order": Side({"shuffled": shuffled, "seed": seed if shuffled else None}, order),
        "group filter": Side(
            {"on": kept, "generated a trained prompt": round(made, 6)},
            f"groups with equal values go; {made:g} prompts generated for one trained" if kept else "none",
        ),
    }


def _objective(facts: Facts, name: str, updates: int, group: int) -> dict[str, Side]:
    both = facts.number(ACTOR + "clip_ratio")
    both = 0.2 if both is None else both
    low, high = (facts.number(ACTOR + f"clip_ratio_{end}") for end in ("low", "high"))
    low, high = both if low is None else low, both if high is None else high
    engine_probs = facts.flag(CORRECTION + "bypass_mode") or facts.flag(ACTOR + "use_rollout_log_probs")
    kl = _kl(facts)
    algorithm = verl_rows(facts, updates, any(term[0] == "reward" for term in kl.value), group)
    discount = {
        "gamma": facts.number("algorithm.gamma", default=1.0) if name in ("ppo", "reinforce_plus_plus") else 1.0,
        "lambda": facts.number("algorithm.lam", default=1.0) if name == "ppo" else 1.0,
    }
    rows = {
        **algorithm,
        "KL": kl,
        "clipping": Side([low, high], f"{low} / {high}"),
        "entropy bonus": plain(float(facts.number(ACTOR + "entropy_coeff") or 0.0)),
        "old log-probs": plain("of the engine" if engine_probs else "recomputed"),
        "reference policy": _reference(facts),
        "discount": Side(discount, f"gamma {discount['gamma']}, lambda {discount['lambda']}"),
    }
    if name == "ppo":
        rate, value = facts.number("critic.optim.lr", default=1e-5), facts.number("critic.cliprange_value", default=0.5)
        rows["critic"] = Side([rate, value], f"learning rate {rate}, values clipped at {value}")
    return rows


def _kl(facts: Facts) -> Side:
    """Trees without use_kl_in_reward put the KL into the reward when it is not in the loss (verl < 0.2.1)."""
    in_loss = facts.flag(ACTOR + "use_kl_loss")
    key = "algorithm.use_kl_in_reward"
    in_reward = facts.flag(key) if facts.has(key) else not in_loss
    terms: list[list[Any]] = []
    if in_loss:
        coef = facts.number(ACTOR + "kl_loss_coef", default=0.001)
        terms.append(["loss", coef, _kl_kind(facts.text(ACTOR + "kl_loss_type", default="low_var_kl"))])
    if in_reward:
        coef = facts.number("algorithm.kl_ctrl.kl_coef", default=0.001)
        terms.append(["reward", coef, _kl_kind(facts.text("algorithm.kl_penalty", default="kl"))])
    return kl_side([term for term in terms if term[1]])


def _kl_kind(name: str) -> str:
    return "k2" if name in STRAIGHT_THROUGH else KL_NAMES.get(name, name)


def _reference(facts: Facts) -> Side:
    if not _kl(facts).value:
        return Side("none", "none")
    own = facts.text("actor_rollout_ref.ref.model.path")
    if own and own not in ("null", "None", facts.text("actor_rollout_ref.model.path")):
        return plain(own)
    return plain("the model that training starts from")


def _optimizer(facts: Facts, size: Counts) -> dict[str, Side]:
    rate = facts.number(OPTIM + "lr")
    rate = 1e-6 if rate is None else rate
    decay = facts.number(OPTIM + "weight_decay")
    decay = 0.01 if decay is None else decay
    betas = facts.get(OPTIM + "betas", default=[0.9, 0.999])
    if isinstance(betas, str):
        betas = [item for item in betas.strip("[]() ").split(",") if item.strip()]
    first, second = (float(item) for item in betas)
    norm = facts.number(*((OPTIM + "clip_grad", ACTOR + "grad_clip")[:: 1 if facts.megatron else -1]))
    norm = 1.0 if norm is None else norm
    kind = facts.text(OPTIM + "optimizer", default="adam").lower()
    curve, steps = verl_curve(facts, size.steps), size.steps
    rows = {
        "optimizer": Side({"adamw": "adam"}.get(kind, kind), kind),
        "learning rate": plain(rate),
        "learning-rate schedule": _schedule(facts, size),
        "Adam": Side([first, second, decay], f"betas {first}, {second}, weight decay {decay}"),
        "weight decay on": plain(
            "nothing" if not decay else "matrices only" if facts.megatron else "all weights, norms and biases too"
        ),
        "gradient clipping": plain(norm),
        "learning rate advances": _advances(facts, size),
    }
    if curve is not None:
        rows["learning rate over the run"] = rates(curve, moments(steps, verl_warmup(facts, steps) or 0), 1)
    return rows


def _schedule(facts: Facts, size: Counts) -> Side:
    style, warmup = verl_style(facts), verl_warmup(facts, size.steps)
    floor = 0.0 if style == "constant" else verl_floor(facts)
    if warmup is None:
        share = facts.number(OPTIM + "lr_warmup_steps_ratio")
        return schedule_side(style, {"share": share}, f"{share} of the run", floor)
    updates = warmup * size.updates
    return schedule_side(style, {"updates": updates}, f"{updates:g} updates" if updates else "", floor)


def _advances(facts: Facts, size: Counts) -> Side:
    moving = verl_style(facts) != "constant" or verl_warmup(facts, size.steps) != 0.0
    if not moving:
        return Side("never", "it stays the same")
    every = size.update * size.updates
    return Side(every, f"every {every} samples")
