"""GPUs per role and parallel sizes.

Sync: actor and rollout share all GPUs. Async: the seed's split of 8 is 4/2/1/1 and of 16 is 8/4/2/2 (actor, rollout,
reference, actor_fwd); a role that is not needed gives its GPUs to the next one, so that engine sizes still divide.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from migrate_tools.errors import RefusedInput
from migrate_tools.mapping.draft import Draft, Group, shell
from migrate_tools.mapping.facts import ROLLOUT, Facts
from migrate_tools.mapping.model_area import ModelChoice
from migrate_tools.mapping.parallel import Sizes, check_sizes, fsdp_sizes, megatron_sizes
from migrate_tools.model import BatchPlan, GpuPlan

NODES, PER_NODE = "trainer.nnodes", "trainer.n_gpus_per_node"
ROLLOUT_POOL = ("rollout.nnodes", "rollout.n_gpus_per_node")
ENGINE = ROLLOUT + "tensor_model_parallel_size"


@dataclass(frozen=True)
class Pool:
    """GPUs of a launch: of the trainer, and of generation where the recipe keeps some for it."""

    nodes: int
    per_node: int
    rollout: int = 0

    @property
    def total(self) -> int:
        """All GPUs."""
        return self.nodes * self.per_node


def gpu_pool(facts: Facts) -> Pool:
    """Nodes, GPUs per node, and the pool that verl's separated trainers keep for generation.

    Only their configurations have `rollout.nnodes` at the top (verl/experimental/fully_async_policy/config 1dda039).

    Raises:
        RefusedInput: one is no number, for example a variable that nobody sets.
    """
    nodes, per_node = facts.integer(NODES, default=1) or 1, facts.integer(PER_NODE, default=8) or 8
    if nodes < 1 or per_node < 1:
        raise RefusedInput(f"{NODES}={nodes}, {PER_NODE}={per_node}: both must be above 0", "correct the script")
    own = (facts.integer(ROLLOUT_POOL[0]) or 0) * (facts.integer(ROLLOUT_POOL[1]) or 0)
    if not own:
        return Pool(nodes, per_node)
    total = nodes * per_node + own
    room = max(per_node, 8 if total >= 8 else total)
    if total % room:
        room = next(size for size in range(min(8, total), 0, -1) if total % size == 0)
    return Pool(total // room, room, own)


def split_own(total: int, rollout: int, reference: bool, actor_fwd: bool) -> dict[str, int]:
    """The async split of a recipe that keeps `rollout` GPUs for generation itself; empty when too few are left.

    >>> split_own(16, 8, True, False)
    {'actor': 4, 'rollout': 8, 'reference': 4, 'advantages': 0}
    """
    rest, roles = total - rollout, [name for name, used in (("reference", reference), ("actor_fwd", actor_fwd)) if used]
    if rest < 1 + len(roles):
        return {}
    actor = rest // 2 if roles else rest
    spare = rest - actor
    split = {"actor": actor, "rollout": rollout}
    for index, name in enumerate(roles):
        split[name] = spare // len(roles) + (index < spare % len(roles))
    return {**split, "advantages": 0}


def split_async(total: int, reference: bool, actor_fwd: bool, per_node: int = 8) -> dict[str, int]:
    """GPUs per role of the async mode; empty when there are too few.

    An actor larger than a node takes whole nodes, as Relax counts its GPUs in nodes.

    >>> split_async(8, True, True)
    {'actor': 4, 'rollout': 2, 'reference': 1, 'actor_fwd': 1, 'advantages': 0}
    """
    needed = 2 + reference + actor_fwd
    if total < needed:
        return {}
    eighth = max(1, total // 8)
    ref, fwd = (eighth if reference else 0), (eighth if actor_fwd else 0)
    spare = 0 if total < 8 else 2 * eighth - ref - fwd
    if spare and reference:
        ref += spare
    elif spare and actor_fwd:
        fwd += spare
    actor = max(1, total // 2) if total >= 8 else max(1, (total - ref - fwd + 1) // 2)
    if actor > per_node:
        actor -= actor % per_node
    rollout = total - actor - ref - fwd
    split = {"actor": actor, "rollout": rollout}
    if reference:
        split["reference"] = ref
    if actor_fwd:
        split["actor_fwd"] = fwd
    return {**split, "advantages": 0}


def plan_gpus(draft: Draft, batch: BatchPlan, model: ModelChoice | None, kl: bool) -> GpuPlan:
    """Choose sizes and splits, write parallel, resource and mode flags.

    Raises:
        RefusedInput: the GPUs are no numbers, or the recipe's own sizes do not divide them.
    """
    facts = draft.facts
    pool = gpu_pool(facts)
    total, per_node = pool.total, pool.per_node
    _pool_said(draft, pool)
    actor_fwd = batch.rollout_batch_size * batch.n_samples_per_prompt != batch.global_batch_size
    if pool.rollout:
        split = split_own(total, pool.rollout, kl, actor_fwd)
    else:
        split = split_async(total, kl, actor_fwd, per_node)
    if draft.async_refusals:
        split = {}
    prompts = _prompts_of_update(draft, batch)
    numbers = model.architecture if model else None
    if facts.megatron:
        sizes = megatron_sizes(draft, total, numbers)
    else:
        sizes = fsdp_sizes(draft, total, split.get("actor", 0), model, prompts)
    check_sizes(draft, sizes, total, numbers, prompts)
    engine = _engine(draft, total)
    split = _check_async(draft, total, sizes, split, 2 + kl + actor_fwd, prompts)
    plan = GpuPlan(
        total=total,
        per_node=per_node,
        nodes=pool.nodes,
        tensor_parallel=sizes.tensor,
        pipeline_parallel=sizes.pipeline,
        context_parallel=sizes.context,
        expert_parallel=sizes.expert,
        gpus_per_engine=engine.gpus,
        async_split=split,
    )
    draft.gpus = plan
    _parallel_flags(draft, sizes, split)
    _engine_flags(draft, engine, split)
    if per_node != 8:
        draft.flag("--num-gpus-per-node", per_node, "PERF", "gpus")
    _mode_flags(draft, plan, batch, sizes)
    return plan


def _prompts_of_update(draft: Draft, batch: BatchPlan) -> int:
    """Prompts of an update, which the copies of the model share; 0, and a cap, where groups are cut apart."""
    prompts, updates = batch.rollout_batch_size, batch.updates_per_rollout
    if prompts % updates == 0:
        return prompts // updates
    whole = [size for size in range(1, prompts + 1) if prompts % size == 0]
    near = (max(size for size in whole if size < updates), min(size for size in whole if size > updates))
    choices = " or ".join(
        f"--global-batch-size {prompts // size * batch.n_samples_per_prompt} ({size} updates)" for size in near
    )
    draft.cap(
        "batch-groups",
        f"{updates} updates of {batch.global_batch_size} samples cut the {prompts} groups of "
        f"{batch.n_samples_per_prompt} apart, which the newer Relax refuses at start; {choices} keeps them whole",
    )
    return 0


def _pool_said(draft: Draft, pool: Pool) -> None:
    text = f"{pool.nodes} x {pool.per_node} = {pool.total} GPUs"
    if pool.rollout:
        text = f"{pool.total - pool.rollout} of the trainer and {pool.rollout} for generation = {pool.total} GPUs"
        draft.say(ROLLOUT_POOL, "derived", "--resource", f"{text}; async keeps {pool.rollout} for generation")
        draft.decide(
            "GPUs of a recipe that trains and generates apart",
            f"{pool.total}",
            f"{text}: sync shares them all, async gives generation its {pool.rollout}",
        )
    draft.say((NODES, PER_NODE), "derived", "--resource", text)


@dataclass(frozen=True)
class Engine:
    """An inference engine: its GPUs, and how they are split."""

    gpus: int
    data: int = 1
    pipeline: int = 1
    expert: int = 1


def _engine(draft: Draft, total: int) -> Engine:
    """verl gives an engine tensor x data x pipeline parallel GPUs; SGLang splits the same number."""
    facts = draft.facts
    tensor = facts.integer(ENGINE, default=2) or 1
    data = facts.integer(ROLLOUT + "data_parallel_size", default=1) or 1
    pipeline = facts.integer(ROLLOUT + "pipeline_model_parallel_size", default=1) or 1
    expert = facts.integer(ROLLOUT + "expert_parallel_size", default=1) or 1
    size = tensor * data * pipeline
    if total % size == 0:
        names = f"{tensor} x {data} x {pipeline}" if size != tensor else str(size)
        draft.say(ENGINE, "exact", "--rollout-num-gpus-per-engine", f"GPUs an inference engine: {names}")
        _engine_said(draft, data, pipeline, expert)
        return Engine(size, data, pipeline, expert)
    smaller = next(n for n in range(min(size, total), 0, -1) if total % n == 0)
    reason = f"{size} does not divide {total} GPUs; {smaller} is written"
    draft.say(ENGINE, "approximate", "--rollout-num-gpus-per-engine", reason, "speed")
    return Engine(smaller)


def _engine_said(draft: Draft, data: int, pipeline: int, expert: int) -> None:
    for key, size, flag in (
        ("data_parallel_size", data, "--sglang-dp-size"),
        ("pipeline_model_parallel_size", pipeline, "--sglang-pp-size"),
        ("expert_parallel_size", expert, "--sglang-ep-size"),
    ):
        if size > 1:
            draft.say(ROLLOUT + key, "derived", flag, "split of the GPUs of an inference engine", "speed")
        else:
            draft.say(ROLLOUT + key, "exact", (), "one: nothing to split")


def _check_async(
    draft: Draft, total: int, sizes: Sizes, split: dict[str, int], needed: int, prompts: int
) -> dict[str, int]:
    """The split when the actor's sizes fit into it; else nothing, and the reason is recorded."""
    if draft.async_refusals:
        return {}
    if not split:
        draft.async_refusals.append(f"fully async needs at least {needed} GPUs for its roles, there are {total}")
        return {}
    actor, rest = split["actor"], sizes.expert_tensor * sizes.pipeline
    if actor % sizes.model:
        draft.async_refusals.append(
            f"of {total} GPUs async leaves {actor} to the actor, which tensor x pipeline x context parallel = "
            f"{sizes.model} does not divide"
        )
    elif sizes.expert > 1 and actor % rest:
        draft.async_refusals.append(
            f"of {total} GPUs async leaves {actor} to the actor, which expert tensor x pipeline parallel = {rest} "
            "does not divide"
        )
    elif prompts % (actor // sizes.model):
        draft.async_refusals.append(
            f"of {total} GPUs async leaves {actor} to the actor: {actor // sizes.model} copies of the model do not "
            f"divide the {prompts} prompts of an update"
        )
    return {} if draft.async_refusals else split


def _engine_flags(draft: Draft, engine: Engine, split: dict[str, int]) -> None:
    """One engine size for both modes where it divides the rollout GPUs of the async split, else one for each."""
    name, rollout = "--rollout-num-gpus-per-engine", split.get("rollout", engine.gpus)
    both = rollout % engine.gpus == 0
    draft.flag(name, engine.gpus, "SGLANG" if both else "SYNC", "gpus")
    group: Group = "SGLANG" if both else "SYNC"
    if engine.data > 1:
        draft.flag("--sglang-dp-size", engine.data, group)
        draft.flag("--sglang-enable-dp-attention", None, group)
    if engine.pipeline > 1:
        draft.flag("--sglang-pp-size", engine.pipeline, group)
    if engine.expert > 1:
        draft.flag("--sglang-ep-size", engine.expert, group)
    if both:
        return
    smaller = next(size for size in range(min(engine.gpus, rollout), 0, -1) if rollout % size == 0)
    draft.flag(name, smaller, "ASYNC", "gpus")
    draft.decide(
        "inference engines in async mode",
        f"{smaller} GPUs each",
        f"async leaves {rollout} GPUs to the rollout, which engines of {engine.gpus} do not divide: check the fit",
    )


def _experts_in(actor: int, sizes: Sizes) -> int:
    """The largest expert parallel size that the actor's GPUs of the async split hold."""
    grid = sizes.expert_tensor * sizes.pipeline
    fits = (size for size in range(sizes.expert, 0, -1) if sizes.expert % size == 0 and actor % (size * grid) == 0)
    return next(fits, 1)


def _parallel_flags(draft: Draft, sizes: Sizes, split: dict[str, int]) -> None:
    draft.flag("--tensor-model-parallel-size", sizes.tensor, "PERF")
    if sizes.tensor > 1 and sizes.sequence:
        draft.flag("--sequence-parallel", None, "PERF")
    draft.flag("--pipeline-model-parallel-size", sizes.pipeline, "PERF")
    draft.flag("--context-parallel-size", sizes.context, "PERF")
    name, fewer = "--expert-model-parallel-size", _experts_in(split["actor"], sizes) if split else sizes.expert
    if fewer == sizes.expert:
        draft.flag(name, sizes.expert, "PERF")
    else:
        draft.flag(name, sizes.expert, "SYNC")
        draft.flag(name, fewer, "ASYNC")
        draft.decide(
            "expert parallel size in async mode",
            str(fewer),
            f"async leaves {split['actor']} GPUs to the actor, which {sizes.expert} does not divide: check the fit",
        )
    draft.flag("--expert-tensor-parallel-size", sizes.expert_tensor, "PERF")


def _json(value: object) -> str:
    return shell(json.dumps(value))


def _mode_flags(draft: Draft, plan: GpuPlan, batch: BatchPlan, sizes: Sizes) -> None:
    roles: dict[str, list[int]] = {"actor": [1, plan.total], "rollout": [1, plan.total]}
    if draft.estimator == "ppo":
        roles |= {"critic": [1, plan.total], "advantages": [1, 0]}
    draft.flag("--resource", _json(roles), "SYNC")
    draft.flag("--max-staleness", 0, "SYNC")
    draft.flag("--num-data-storage-units", 1, "SYNC")
    draft.flag("--colocate", None, "SYNC")
    draft.flag("--use-health-check", None, "SYNC")
    if draft.facts.flag("trainer.balance_batch", default=False):
        draft.flag("--balance-data", None, "SYNC")
    draft.differs("guide-staleness", "the guide sets --max-staleness 1 in sync mode; Relax wants 0")
    split = plan.async_split
    if not split:
        return
    draft.flag("--resource", _json({role: [1, count] for role, count in split.items()}), "ASYNC")
    draft.flag("--max-staleness", 3, "ASYNC")
    draft.flag("--num-data-storage-units", 1, "ASYNC")
    draft.flag("--num-iters-per-train-update", _divisor(batch.rollout_batch_size, 8), "ASYNC")
    if "reference" in split or "actor_fwd" in split:
        draft.flag("--ref-actor-config", _json(_ref_config(plan, sizes)), "ASYNC")
    draft.flag("--fully-async", None, "ASYNC")
    draft.flag("--use-health-check", None, "ASYNC")


def _ref_config(plan: GpuPlan, sizes: Sizes) -> dict[str, object]:
    """Sizes of the roles that only read the weights: what their GPUs hold, experts spread over all of them."""
    own = min(plan.async_split.get(role, 10**6) for role in ("reference", "actor_fwd") if role in plan.async_split)
    tensor = 1
    if plan.tensor_parallel * plan.pipeline_parallel > 4:
        while tensor * 2 <= min(own, plan.tensor_parallel):
            tensor *= 2
    config: dict[str, object] = {
        "tensor_model_parallel_size": tensor,
        "max_tokens_per_gpu": 16384,
        "sequence_parallel": False,
        "only_load_weight": True,
    }
    for name, size in (
        ("pipeline_model_parallel_size", plan.pipeline_parallel),
        ("context_parallel_size", plan.context_parallel),
        ("expert_tensor_parallel_size", sizes.expert_tensor),
    ):
        if size > 1:
            config[name] = 1
    if sizes.expert > 1:
        config["expert_model_parallel_size"] = _experts_in(own, Sizes(expert=sizes.expert))
    return config


def _divisor(total: int, top: int) -> int:
    return next(size for size in range(top, 0, -1) if total % size == 0)
