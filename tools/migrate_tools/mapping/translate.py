"""One launch in Relax's terms: flags, the outcome of every setting, decisions, and what differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from migrate_tools.errors import RefusedInput
from migrate_tools.mapping.algorithm import choose_estimator
from migrate_tools.mapping.batch import Policy, VerlBatch, micro_batch, plan_batch
from migrate_tools.mapping.data_area import place_data, place_reward
from migrate_tools.mapping.draft import Draft
from migrate_tools.mapping.effective import effective_rows, unexplained
from migrate_tools.mapping.engine_kwargs import place_engine_kwargs
from migrate_tools.mapping.evaluation import place_evaluation
from migrate_tools.mapping.facts import Facts
from migrate_tools.mapping.gpus import plan_gpus
from migrate_tools.mapping.guide import guide_differences
from migrate_tools.mapping.hook_limits import check_hooks
from migrate_tools.mapping.kl import place_kl
from migrate_tools.mapping.logs import place_logging
from migrate_tools.mapping.loss import place_loss
from migrate_tools.mapping.megatron import place_megatron
from migrate_tools.mapping.misc import place_critic, place_misc
from migrate_tools.mapping.model_area import ModelChoice, place_model, place_precision
from migrate_tools.mapping.model_args import without
from migrate_tools.mapping.optimizer import place_optimizer
from migrate_tools.mapping.rollout import place_rollout
from migrate_tools.mapping.row import Row
from migrate_tools.mapping.schedule import place_checkpoints, place_schedule, total_steps
from migrate_tools.mapping.tables import Tables, load_tables
from migrate_tools.mapping.transforms import TRANSFORMS, Omit
from migrate_tools.mapping.turns import place_turns
from migrate_tools.model import Launch, Recipe, Setting, Status, Translated, Translation, Verdict
from migrate_tools.relax.contract import FlagContract

GROUPS = ("CKPT", "ROLLOUT", "EVAL", "PERF", "ALGO", "OPTIMIZER", "SGLANG", "LOG", "MISC", "SYNC", "ASYNC")


def translate(
    recipe: Recipe,
    launch: Launch,
    *,
    algo: str,
    variant: str = "",
    batch_policy: Policy = "on-policy",
    contract: FlagContract,
    model_configs: Mapping[str, Mapping[str, Any]] | None = None,
) -> Translation:
    """Translate one launch.

    `model_configs`: contents of config.json by model name ("" for every model), given by the user.

    A launch that Relax cannot express comes back with `verdict_cap` "refused", its refusals named, no flags, and
    every setting still accounted for.

    Raises:
        TableError: a mapping table is wrong.
        RuntimeError: the settings do not balance (a defect of this program).
    """
    tables = load_tables()
    draft = Draft(Facts(launch), contract, algo, variant)
    if any(note.code == "config-not-composed" for note in launch.notes):
        draft.cap(
            "defaults-not-known", "the configuration could not be composed, so that verl's defaults are not known"
        )
    model, config = _run_areas(draft, recipe, tables, batch_policy, model_configs)
    settings = tuple(_settle(draft, tables, item) for item in launch.settings)
    check_balance(launch, settings)
    refused = bool(draft.refusals)
    flags = () if refused else tuple(sorted(draft.flags.values(), key=lambda flag: GROUPS.index(flag.group)))
    effective = () if refused or draft.batch is None else effective_rows(draft, flags, settings)
    for reason in unexplained(effective):
        draft.cap("effective-unexplained", reason)
    return Translation(
        launch=launch.name,
        algo=algo,
        variant=variant,
        verdict_cap=_cap(draft, settings),
        refusals=tuple(draft.refusals),
        cap_reasons=tuple(dict.fromkeys(draft.caps)),
        async_refusal="; ".join(dict.fromkeys(draft.async_refusals)),
        flags=flags,
        settings=settings,
        batch=draft.batch,
        gpus=draft.gpus,
        model_script=model.script if model else "",
        model_args=without(model.args, {flag.name for flag in flags}) if model else (),
        model_dir_name=model.name if model else "",
        effective=effective,
        decisions=tuple(draft.decisions),
        notes=tuple(draft.notes),
        guide_differences=() if refused else guide_differences(draft),
        hooks=() if refused else tuple(draft.hooks),
        config_yaml={} if refused else config,
    )


def _run_areas(
    draft: Draft,
    recipe: Recipe,
    tables: Tables,
    policy: Policy,
    model_configs: Mapping[str, Mapping[str, Any]] | None,
) -> tuple[ModelChoice | None, dict[str, object]]:
    """Run every area; a refusal of one does not hide those of the others."""
    model: list[ModelChoice] = []
    config: dict[str, object] = {}
    batches: list[VerlBatch] = []

    def attempt(step: Callable[[], object]) -> None:
        try:
            step()
        except RefusedInput as error:
            draft.refuse(error.line())

    attempt(lambda: choose_estimator(draft))
    attempt(lambda: batches.append(plan_batch(draft, policy)[0]))
    attempt(lambda: config.update(place_reward(draft)))
    attempt(lambda: model.append(place_model(draft, recipe, model_configs)))
    if draft.refusals or draft.batch is None:
        return (model[0] if model else None), config
    verl, plan = batches[0], draft.batch
    scale = plan.rollouts_per_verl_step
    attempt(lambda: place_data(draft))
    attempt(lambda: place_rollout(draft))
    attempt(lambda: config.update(place_turns(draft)))
    attempt(lambda: place_loss(draft))
    kl: list[bool] = []
    attempt(lambda: kl.append(place_kl(draft).place != "none"))
    attempt(lambda: plan_gpus(draft, plan, model[0] if model else None, _needs_reference(draft)))
    attempt(lambda: check_hooks(draft))
    ranks = (
        draft.gpus.total // (draft.gpus.tensor_parallel * draft.gpus.pipeline_parallel * draft.gpus.context_parallel)
        if draft.gpus
        else 1
    )
    attempt(lambda: micro_batch(draft, verl, ranks))
    attempt(lambda: place_schedule(draft, verl.prompts, scale))
    attempt(lambda: place_checkpoints(draft, scale))
    attempt(lambda: place_evaluation(draft, scale))
    attempt(lambda: place_optimizer(draft, verl.updates, total_steps(draft.facts, verl.prompts)))
    attempt(lambda: place_critic(draft, verl.updates, scale))
    attempt(lambda: place_megatron(draft))
    attempt(lambda: place_precision(draft))
    attempt(lambda: place_logging(draft))
    attempt(lambda: _place_rows(draft, tables))
    attempt(lambda: place_misc(draft))
    attempt(lambda: place_engine_kwargs(draft))
    return (model[0] if model else None), config


def _needs_reference(draft: Draft) -> bool:
    written = draft.flags.get(("--kl-coef", ""))
    return draft.has("--use-kl-loss") or (written is not None and float(written.value or 0) != 0)


def _place_rows(draft: Draft, tables: Tables) -> None:
    """Write the flags of rows that need no area."""
    for row in tables.rows:
        if not row.transform or not row.group or not (row.emit == "always" or draft.facts.is_set(*row.exact)):
            continue
        value = draft.facts.get(*row.exact)
        if row.judge(value)[0] in ("no_effect", "unsupported") or draft.has(row.relax[0]):
            continue
        try:
            text = TRANSFORMS[row.transform](value)
        except (TypeError, ValueError):
            raise RefusedInput(
                f"{draft.facts.where(*row.exact)} is {value!r}: no value of its kind", "correct it"
            ) from None
        if not isinstance(text, Omit):
            draft.flag(row.relax[0], text, row.group)


def _settle(draft: Draft, tables: Tables, setting: Setting) -> Translated:
    row = tables.lookup(setting.key)
    name = row.id if row else ""
    base = {"key": setting.key, "value": setting.value, "source": setting.source, "row": name}
    if setting.prefix == "~":
        return _settle_removed(base, row)
    outcome = draft.outcomes.get(setting.key)
    if outcome is not None:
        return Translated(**base, status=outcome.status, relax=outcome.relax, reason=outcome.reason, risk=outcome.risk)
    if row is None:
        return _settle_mapping(tables, setting) or Translated(
            **base, status="unknown", reason="in no mapping table", risk="training"
        )
    if isinstance(setting.value, dict) and setting.value and (found := _settle_mapping(tables, setting)):
        return found
    status, reason, risk = row.judge(setting.value)
    return Translated(**base, status=status, relax=_made(draft, row), reason=reason, risk=risk)


def _settle_removed(base: dict[str, Any], row: Row | None) -> Translated:
    """A key taken out by `~`: nothing is made from it, and verl may stop where it reads it."""
    if row is None or not row.relax:
        return Translated(**base, status="no_effect", reason="removed from verl's configuration by ~")
    flags = ", ".join(row.relax)
    reason = (
        f"removed from verl's configuration by ~, so that {flags} is not made from it; verl itself may need the key"
    )
    return Translated(**base, status="approximate", reason=reason, risk="training")


_ORDER: tuple[Status, ...] = ("exact", "automatic", "no_effect", "approximate", "unsupported")


def _settle_mapping(tables: Tables, setting: Setting) -> Translated | None:
    """A whole mapping given as one value: known when each of its leaves is, as good as its worst."""
    leaves = _leaves(setting.key, setting.value) if isinstance(setting.value, dict) else []
    found = [(tables.lookup(key), value) for key, value in leaves]
    if not found or any(row is None or row.combiner or row.transform for row, _ in found):
        return None
    judged = [(*row.judge(value), row.id) for row, value in found if row is not None]
    status, reason, risk, row_id = max(judged, key=lambda item: _ORDER.index(item[0]))
    return Translated(
        key=setting.key, value=setting.value, source=setting.source, status=status, reason=reason, risk=risk, row=row_id
    )


def _leaves(key: str, value: object) -> list[tuple[str, object]]:
    if not isinstance(value, dict) or not value:
        return [(key, value)]
    return [leaf for name, inner in value.items() for leaf in _leaves(f"{key}.{name}", inner)]


def _made(draft: Draft, row: Row) -> tuple[str, ...]:
    return tuple(flag for flag in row.relax if draft.refusals or draft.has(flag))


def check_balance(launch: Launch, settings: tuple[Translated, ...]) -> None:
    """Every setting has exactly one outcome.

    Raises:
        RuntimeError: one is missing or doubled.
    """
    wanted, got = [item.key for item in launch.settings], [item.key for item in settings]
    if wanted != got or len(set(got)) != len(got):
        lost = sorted(set(wanted) - set(got)) or sorted({key for key in got if got.count(key) > 1})
        raise RuntimeError(f"{launch.name}: {len(wanted)} settings, {len(got)} outcomes; not balanced: {lost}")


def _cap(draft: Draft, settings: tuple[Translated, ...]) -> Verdict:
    if draft.refusals:
        return "refused"
    doubtful = any(
        item.status == "unknown" or (item.status == "unsupported" and item.risk == "training") for item in settings
    )
    return "partial" if doubtful or draft.caps else "verified"
