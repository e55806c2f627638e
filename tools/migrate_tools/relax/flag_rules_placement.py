"""Rules on --resource, placement and execution modes (flag rules, sections 2 and 3).

Source: redai-studio/Relax relax/utils/arguments.py 6c0099bb and the two older versions named in flags.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from migrate_tools.relax.flag_rules_base import COLOCATED_ROLES, Line, rule

_ROLES = frozenset({"actor", "critic", "rollout", "advantages", "reference", "actor_fwd", "sft", "genrm", "teacher"})
_NOT_IN_OVERRIDES = "max_tokens_per_gpu"


@rule("resource.required", "2")
def resource_required(line: Line) -> Iterator[str]:
    if line.resource is None:
        yield "--resource is missing: the controller reads the GPUs of every role from it"


@rule("resource.shape", "2")
def resource_shape(line: Line) -> Iterator[str]:
    resource = line.resource
    if resource is None:
        return
    if not isinstance(resource, dict):
        yield "--resource is not a JSON object of role -> [1, GPUs]"
        return
    for role, entry in resource.items():
        if role not in line.roles:
            yield f"--resource: the entry of {role} is not a list of two integers"
        elif entry[0] != 1:
            yield f"--resource: the first number of {role} must be 1, not {entry[0]}"
        elif entry[1] < 0:
            yield f"--resource: {role} has a negative number of GPUs"


@rule("resource.role-unknown", "2")
def resource_unknown(line: Line) -> Iterator[str]:
    if isinstance(line.resource, dict):
        yield from (f"--resource: there is no role {role}" for role in line.resource if role not in _ROLES)


def _wanted(line: Line) -> tuple[str, ...]:
    if line.debug_rollout_only:
        return ("rollout",)
    if line.debug_train_only or line.load_debug_rollout_data:
        return ("actor",)
    if line.offline:
        return ("sft", "actor")
    if line.fully_async and not line.hybrid:
        return ("actor", "rollout", "advantages")
    return ("actor", "rollout", "critic") if line.advantage_estimator == "ppo" else ("actor", "rollout")


@rule("resource.role-missing", "2")
def resource_missing(line: Line) -> Iterator[str]:
    if isinstance(line.resource, dict):
        yield from (
            f"--resource has no entry for {role}, which this mode needs; it would be skipped with a warning"
            for role in _wanted(line)
            if role not in line.resource
        )


@rule("resource.role-not-started", "2", "warning")
def resource_not_started(line: Line) -> Iterator[str]:
    if line.fully_async and not line.hybrid:
        started = {"actor", "rollout", "advantages", "reference", "actor_fwd"}
    else:
        started = set(_wanted(line)) | {"advantages"}
    for role in line.roles:
        if role in _ROLES and role not in started | {"genrm", "teacher"}:
            yield f"--resource: {role} is not a role of this mode and is not started"


@rule("resource.reference", "2")
def resource_reference(line: Line) -> Iterator[str]:
    kl = line.use_kl_loss or line.kl_coef != 0
    if line.fully_async and kl and "reference" not in line.roles:
        yield "--fully-async with a KL term needs a reference entry in --resource"


@rule("resource.actor-fwd", "2")
def resource_actor_fwd(line: Line) -> Iterator[str]:
    if line.fully_async and not line.on_policy_by_size and "actor_fwd" not in line.roles:
        yield (
            "--fully-async needs an actor_fwd entry in --resource unless rollout_batch_size x n_samples_per_prompt "
            "equals global_batch_size"
        )


def gpus_needed(line: Line) -> int:
    """GPUs that the roles of --resource take together; roles that share GPUs under colocate count once."""
    roles = dict(line.roles)
    if not line.colocate or line.hybrid:
        return sum(roles.values())
    shared = max((roles.pop(role, 0) for role in COLOCATED_ROLES), default=0)
    return shared + sum(roles.values())


@rule("resource.too-many-gpus", "2")
def resource_gpus(line: Line) -> Iterator[str]:
    need = gpus_needed(line)
    if line.gpus is not None and need > line.gpus:
        yield f"--resource asks for {need} GPUs, the cluster has {line.gpus}"


@rule("resource.nodes-divide", "2")
def resource_nodes(line: Line) -> Iterator[str]:
    total, per_node = line.roles.get("actor", 0), line.num_gpus_per_node
    if per_node and total > per_node and total % per_node:
        yield f"actor has {total} GPUs, not a multiple of --num-gpus-per-node {per_node}: the rest would be lost"


@rule("resource.overrides", "2")
def ref_actor_config(line: Line) -> Iterator[str]:
    overrides = line.ref_actor_config
    if overrides is not None and not isinstance(overrides, dict):
        yield "--ref-actor-config is not a JSON object"
    elif overrides:
        known = line.parsed.values
        yield from (f"--ref-actor-config: {key} is no argument of Relax" for key in overrides if key not in known)


@rule("resource.overrides-no-effect", "2", "warning")
def ref_actor_tokens(line: Line) -> Iterator[str]:
    if line.newer and isinstance(line.ref_actor_config, Mapping) and _NOT_IN_OVERRIDES in line.ref_actor_config:
        yield "--ref-actor-config: max_tokens_per_gpu has no effect, log_probs_max_tokens_per_gpu replaces it"


@rule("mode.async-colocate", "3")
def async_colocate(line: Line) -> Iterator[str]:
    if line.fully_async and line.colocate and not line.hybrid:
        yield "--fully-async and --colocate exclude each other (--hybrid is the mode that joins them)"


@rule("mode.async-normalize-advantages", "3")
def async_normalize(line: Line) -> Iterator[str]:
    if line.fully_async and line.normalize_advantages:
        yield "--normalize-advantages is refused with --fully-async"


@rule("mode.async-opd-megatron", "3")
def async_opd(line: Line) -> Iterator[str]:
    if line.fully_async and line.use_opd and line.opd_type == "megatron":
        yield "--opd-type megatron is refused with --fully-async"


@rule("mode.async-dynamic-batch", "3")
def async_dynamic(line: Line) -> Iterator[str]:
    if line.fully_async and line.use_dynamic_global_batch_size:
        yield "--use-dynamic-global-batch-size is refused with --fully-async"


@rule("mode.staleness", "3")
def staleness(line: Line) -> Iterator[str]:
    if line.max_staleness < 0:
        yield f"--max-staleness must be >= 0, not {line.max_staleness}"


@rule("mode.staleness-sync", "8 of the recipe contract", "warning")
def staleness_sync(line: Line) -> Iterator[str]:
    if line.max_staleness > 0 and not line.pipelined and not line.offline:
        yield f"--max-staleness {line.max_staleness} in the synchronous mode, which is on-policy"


@rule("mode.debug-exclusive", "3")
def debug_exclusive(line: Line) -> Iterator[str]:
    if line.debug_rollout_only and (line.debug_train_only or line.load_debug_rollout_data):
        yield "--debug-rollout-only excludes --debug-train-only and --load-debug-rollout-data"


@rule("mode.expandable-segments", "3")
def expandable_segments(line: Line) -> Iterator[str]:
    offload = line.offload_train if line.offload_train is not None else line.colocate or line.offload
    if (
        line.newer
        and offload
        and not line.selective_offload
        and "expandable_segments:True" in json.dumps(line.train_env_vars)
    ):
        yield "expandable_segments:True in --train-env-vars fails with offloaded training (or give --selective-offload)"
