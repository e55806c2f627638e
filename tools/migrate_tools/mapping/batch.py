"""Batch algebra: prompts and samples, updates per rollout, over-sampling, micro batches.

verl counts `data.train_batch_size` and `ppo_mini_batch_size` in prompts and multiplies the mini batch by `rollout.n`
itself; Relax's `--global-batch-size` counts samples (Relax contract 8, flag rules 4). Forks with a group key of
their own count the mini batch in samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from migrate_tools.errors import RefusedInput
from migrate_tools.mapping.draft import Draft
from migrate_tools.mapping.facts import ACTOR, ROLLOUT, Facts
from migrate_tools.model import BatchPlan

T_KEY = "data.train_batch_size"
M_KEY = ACTOR + "ppo_mini_batch_size"
N_KEY = ROLLOUT + "n"
FORK_GROUP_KEYS = (ROLLOUT + "n_agent", ROLLOUT + "n_repeat", "agent_grpo.n")
"""Group-size keys of forks that leave rollout.n at 1 and count the mini batch in samples."""
CHECKED_SINCE = (0, 3)
"""verl stops at a mini batch above the train batch since 0.3; before, it makes one update of the whole batch."""
FILTER = "relax.engine.filters.dynamic_sampling_filters.check_reward_nonzero_std"
Policy = Literal["on-policy", "faithful"]


@dataclass(frozen=True)
class VerlBatch:
    """verl's side in plain numbers."""

    prompts: int
    """Prompts a step (T)."""
    group: int
    """Samples a prompt (n)."""
    mini: int
    """Mini batch as written (M)."""
    mini_unit: Literal["prompts", "samples"]
    group_key: str
    epochs: int

    @property
    def mini_samples(self) -> int:
        """Samples an update."""
        return self.mini if self.mini_unit == "samples" else self.mini * self.group

    @property
    def updates(self) -> int:
        """Updates a step, one pass over the batch."""
        return self.prompts * self.group // self.mini_samples


def read_batch(facts: Facts) -> VerlBatch:
    """The batch sizes of a launch.

    Raises:
        RefusedInput: a size is missing or no number, or the sizes do not divide each other (numbers named).
    """
    prompts, mini = facts.integer(T_KEY), facts.integer(M_KEY)
    if prompts == 0 and facts.launch.module.endswith("fully_async_main"):
        raise RefusedInput(
            f"{T_KEY}=0: verl's fully asynchronous trainer has no train batch, it streams rollout.total_rollout_steps",
            "migrate the synchronous script of the recipe; its async mode is the near counterpart",
        )
    if not prompts or not mini or prompts < 1 or mini < 1:
        raise RefusedInput(f"batch sizes are missing: {T_KEY}={prompts}, {M_KEY}={mini}", "set both in the script")
    group, key, unit = facts.integer(N_KEY, default=1) or 1, N_KEY, "prompts"
    for fork_key in FORK_GROUP_KEYS:
        own = facts.integer(fork_key)
        if own and own > 1 and group == 1:
            group, key, unit = own, fork_key, "samples"
    batch = VerlBatch(
        prompts,
        group,
        mini,
        "samples" if unit == "samples" else "prompts",
        key,
        facts.integer(ACTOR + "ppo_epochs", default=1) or 1,
    )
    if batch.mini_unit == "prompts" and mini > prompts and facts.version < CHECKED_SINCE:
        return replace(batch, mini=prompts)
    if batch.mini_unit == "prompts" and mini > prompts:
        raise RefusedInput(
            f"{M_KEY}={mini} prompts is more than {T_KEY}={prompts} prompts; verl refuses this too",
            "make the mini batch a divisor of the train batch",
        )
    if (prompts * group) % batch.mini_samples:
        raise RefusedInput(
            f"{T_KEY}={prompts} x {group} samples = {prompts * group} is not a multiple of the mini batch of "
            f"{batch.mini_samples} samples",
            "make the mini batch a divisor of the train batch",
        )
    return batch


def plan_batch(draft: Draft, policy: Policy) -> tuple[VerlBatch, BatchPlan]:
    """Choose sizes under the policy, write the flags, record the choice.

    Raises:
        RefusedInput: see `read_batch`.
    """
    facts = draft.facts
    batch = read_batch(facts)
    plan = _choose(draft, batch, policy)
    draft.batch = plan
    draft.flag("--rollout-batch-size", plan.rollout_batch_size, "ROLLOUT", "prompts")
    draft.flag("--n-samples-per-prompt", plan.n_samples_per_prompt, "ROLLOUT")
    draft.flag("--global-batch-size", plan.global_batch_size, "ROLLOUT", "samples")
    sizes = f"T={batch.prompts}, M={batch.mini} {batch.mini_unit}, n={batch.group}, policy {plan.policy}"
    draft.say(T_KEY, "derived", "--rollout-batch-size", f"prompts: {sizes}")
    draft.say(M_KEY, "derived", "--global-batch-size", f"samples: {sizes}")
    draft.say(batch.group_key, "exact", "--n-samples-per-prompt", "samples for each prompt")
    written = facts.integer(M_KEY)
    if batch.mini_unit == "prompts" and written != batch.mini:
        text = (
            f"{M_KEY}={written} is more than {T_KEY}={batch.prompts}: this old verl makes one update of the whole batch"
        )
        draft.say(M_KEY, "derived", "--global-batch-size", text)
        draft.note("batch-mini-above-train", text, M_KEY)
    if batch.group_key != N_KEY:
        draft.say(N_KEY, "no_effect", (), f"the fork takes the group size from {batch.group_key}")
    _epochs(draft, batch)
    _over_sampling(draft, batch, plan)
    return batch, plan


def _choose(draft: Draft, batch: VerlBatch, policy: Policy) -> BatchPlan:
    updates, samples = batch.updates, batch.mini_samples
    chosen = policy
    if policy == "on-policy" and samples % batch.group:
        chosen = "faithful"
        draft.note(
            "batch-mini-in-samples",
            f"the mini batch of {samples} samples holds no whole number of groups of {batch.group}; "
            "an on-policy rollout of one mini batch is not possible",
        )
    faithful = BatchPlan(
        policy="faithful",
        rollout_batch_size=batch.prompts,
        n_samples_per_prompt=batch.group,
        global_batch_size=samples,
        updates_per_rollout=updates,
        rollouts_per_verl_step=1,
    )
    fresh = BatchPlan(
        policy="on-policy",
        rollout_batch_size=max(1, samples // batch.group),
        n_samples_per_prompt=batch.group,
        global_batch_size=samples,
        updates_per_rollout=1,
        rollouts_per_verl_step=updates,
    )
    plan, other = (fresh, faithful) if chosen == "on-policy" else (faithful, fresh)
    if updates == 1:
        plan = plan.model_copy(update={"updates_per_rollout": 1, "rollouts_per_verl_step": 1})
        why = f"T = M: both policies give {_sizes(plan)}"
    else:
        why = f"gives {_sizes(plan)}; the other policy gives {_sizes(other)}"
    draft.decide("batch policy", plan.policy, why, f"--batch-policy {other.policy}")
    return plan


def _sizes(plan: BatchPlan) -> str:
    return (
        f"rollout {plan.rollout_batch_size} prompts x {plan.n_samples_per_prompt}, global batch "
        f"{plan.global_batch_size} samples, {plan.updates_per_rollout} update(s) a rollout"
    )


def _epochs(draft: Draft, batch: VerlBatch) -> None:
    key = ACTOR + "ppo_epochs"
    if batch.epochs > 1:
        text = f"{batch.epochs} passes over each batch; Relax trains every rollout once"
        draft.say(key, "unsupported", (), text, "training")
        draft.cap("ppo-epochs", text)
    else:
        draft.say(key, "automatic", (), "one pass over each batch, as Relax does")


def _over_sampling(draft: Draft, batch: VerlBatch, plan: BatchPlan) -> None:
    facts = draft.facts
    prefix = "algorithm.filter_groups."
    keys = [prefix + name for name in ("enable", "metric", "max_num_gen_batches", "max_inflight_gen_batches")]
    generated = facts.integer("data.gen_batch_size")
    if not facts.flag(prefix + "enable"):
        draft.say(keys, "no_effect", (), "group filtering is off")
        if generated and generated != batch.prompts and facts.is_set("data.gen_batch_size"):
            draft.say(
                "data.gen_batch_size",
                "approximate",
                (),
                f"{generated} prompts are generated for a batch of {batch.prompts} without filtering; "
                "Relax generates what it trains on",
                "speed",
            )
        else:
            draft.say("data.gen_batch_size", "no_effect", (), "no filter: as many prompts as the train batch")
        return
    wanted = generated or batch.prompts
    over = max(plan.rollout_batch_size, -(-wanted * plan.rollout_batch_size // batch.prompts))
    draft.flag("--over-sampling-batch-size", over, "ROLLOUT", "prompts")
    _filter_metric(draft, prefix + "metric")
    draft.say(
        "data.gen_batch_size",
        "derived",
        "--over-sampling-batch-size",
        f"{wanted} prompts for {batch.prompts} in verl, so {over} for {plan.rollout_batch_size}",
    )
    draft.say(prefix + "enable", "exact", "--dynamic-sampling-filter-path", "groups whose values are all equal go")
    draft.say(
        prefix + "max_num_gen_batches",
        "approximate",
        (),
        "verl stops after this many generation batches; Relax generates until the batch is full",
        "none",
    )
    draft.say(prefix + "max_inflight_gen_batches", "no_effect", (), "generation batches in flight: speed only", "speed")


def _filter_metric(draft: Draft, key: str) -> None:
    """Relax's own filter compares the trained reward; another metric is read from the reward's dict by a hook."""
    flag = "--dynamic-sampling-filter-path"
    metric = draft.facts.text(key, default="acc")
    overlong = draft.facts.launch.reward.overlong is not None
    if metric not in ("score", "seq_reward", "seq_final_reward", "reward"):
        draft.hook(flag, "keep_varied_groups", "ROLLOUT", f"compares {metric}", FILTER_METRIC=metric)
        draft.say(key, "exact", flag, f"both compare `{metric}` within a group")
        return
    draft.flag(flag, FILTER, "ROLLOUT")
    if metric == "seq_reward" or (not overlong and metric != "seq_final_reward"):
        draft.say(key, "exact", flag, "both compare the reward within a group")
    elif metric == "seq_final_reward":
        draft.say(key, "approximate", flag, "verl compares the reward after KL in the reward, Relax the reward itself")
    else:
        draft.say(
            key,
            "approximate",
            flag,
            f"verl compares `{metric}`, Relax the trained reward (overlong penalty included): a group with equal "
            f"`{metric}` and unequal reward stays",
            "training",
        )


def micro_batch(draft: Draft, batch: VerlBatch, data_parallel: int) -> None:
    """Dynamic batch (token cap) or a fixed micro batch; memory and speed only."""
    facts = draft.facts
    dynamic, cap = ACTOR + "use_dynamic_bsz", ACTOR + "ppo_max_token_len_per_gpu"
    micro_keys = (ACTOR + "ppo_micro_batch_size_per_gpu", ACTOR + "ppo_micro_batch_size")
    if facts.flag(dynamic):
        tokens = facts.integer(cap, default=16384) or 16384
        draft.flag("--use-dynamic-batch-size", None, "PERF")
        draft.flag("--max-tokens-per-gpu", tokens, "PERF", "tokens")
        _log_prob_cap(draft, tokens)
        draft.say(dynamic, "exact", "--use-dynamic-batch-size", "micro batches by tokens")
        draft.say(cap, "exact", "--max-tokens-per-gpu", "tokens a GPU in a micro batch")
        draft.say(micro_keys, "no_effect", (), "a dynamic batch ignores it in verl too")
        return
    written = facts.integer(*micro_keys, default=1) or 1
    if not facts.get(micro_keys[0]) and facts.get(micro_keys[1]):
        written = max(1, written // max(1, data_parallel))
    size = _divisor(batch.mini_samples // max(1, data_parallel), written)
    draft.flag("--micro-batch-size", size, "PERF", "samples")
    why = (
        "" if size == written else f"; {written} does not divide {batch.mini_samples} samples on {data_parallel} ranks"
    )
    draft.say(micro_keys, "derived", "--micro-batch-size", f"samples a rank and pass: memory only{why}", "speed")
    draft.say(dynamic, "exact", (), "fixed micro batches")
    draft.say(cap, "no_effect", (), "only read with a dynamic batch")


def _log_prob_cap(draft: Draft, tokens: int) -> None:
    key = ROLLOUT + "log_prob_max_token_len_per_gpu"
    own = draft.facts.integer(key)
    if own and own != tokens:
        draft.flag("--log-probs-max-tokens-per-gpu", own, "PERF", "tokens")
        draft.say(key, "exact", "--log-probs-max-tokens-per-gpu", "tokens a GPU when only log-probs are computed")
    else:
        draft.say(key, "automatic", (), "Relax takes the training cap, which is the same number")


def _divisor(total: int, wanted: int) -> int:
    size = max(1, min(wanted, total))
    while total % size:
        size -= 1
    return size
