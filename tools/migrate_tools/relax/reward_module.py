"""Writes reward_<algo>.py: the extracted scorer, and around it what verl's reward manager does."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from migrate_tools.model import Launch, Translation
from migrate_tools.relax.formatting import commented, format_python, render_template
from migrate_tools.relax.hooks import name_hook_modules
from migrate_tools.relax.metadata_names import RAW_PROMPT, ROLLOUT_METADATA
from migrate_tools.relax.reward_code import (
    BLOCKING,
    FOUR,
    lowest_score,
    module_imports,
    renamed,
    result_keys,
    split_future,
    split_imports,
    taken,
    top_names,
)
from migrate_tools.relax.special_tokens import special_tokens
from migrate_tools.verl.extract import Extracted
from migrate_tools.verl.manager_added import added, told_keys

Mode = Literal["inline", "loop", "thread", "worker"]

RELAX_METADATA: Final = (
    "_timing", "reward_error", "request_id", "rollout_traces", "rollout_turns", "rollout_stop_reason",
    "start_rollout_id",
)  # fmt: skip
"""Relax contract, section 3: names that Relax (and this module) write into the metadata."""
WORKER_TRAITS: Final = frozenset({"signal", "process", "import:math_verify"})
SWALLOWS: Final = ("prime", "rate_limited")
"""Managers under which any exception of the scorer is a reward of 0.0."""
MANAGER_SECONDS: Final = 300.0
"""Time limit of the prime and rate_limited managers in verl."""
CALL_SECONDS: Final = 60.0
"""Time limit of a scorer in a worker process where verl sets none."""
OWN_NAMES: Final = frozenset({
    "DATA_SOURCE_DEFAULT", "ADDED_METADATA", "RELAX_METADATA", "SPECIAL_TOKENS", "FLOOR", "EXTRA_KEYS", "REWARD_KWARGS",
    "MANAGER_ADDS", "FROM_ROLLOUT", "ROLLOUT_METADATA", "OVERLONG_MAX_RESPONSE", "OVERLONG_BUFFER", "OVERLONG_FACTOR",
    "CALL_SECONDS", "START_SECONDS",
    "THREADS", "ThreadPoolExecutor", "Sample", "reward_func", "_THREADS", "_LOGGER", "_REPORTED", "_rewards", "_reward",
    "_request", "_reward_kwargs", "_text", "_arrays", "_run", "_LOOPS", "_LOOP_LOCK", "_scorer_loop", "_attempt",
    "_awaited", "_shaped", "_plain", "_number", "_finished", "_report", "_Worker", "_WORKERS", "_OWN", "_in_worker",
    "_stop_workers", "_serve", "_START", "_watch",
})  # fmt: skip
SHARED: Final = frozenset({"ThreadPoolExecutor", "Sample"})
"""Names that mean the same thing in the scorer when it imports them."""
WORKER_MODULES: Final = ("atexit", "multiprocessing.connection", "signal", "subprocess", "sys", "threading")


def reward_module_names(
    translations: Sequence[Translation], extracted: Mapping[str, Extracted | None], launches: Mapping[str, Launch]
) -> dict[str, str]:
    """Launch name -> module name of its reward, without `.py`; launches without a reward are left out.

    Launches that share a reward share its module. The first reward is reward_<algo>, another one
    reward_<algo>_<variant> of the first launch that needs it.
    """
    names: dict[str, str] = {}
    by_identity: dict[str, str] = {}
    for item in translations:
        found = extracted.get(item.launch)
        if found is None:
            continue
        key = _identity(found, launches[item.launch])
        if key not in by_identity:
            base = f"reward_{item.algo}"
            extra = identifier(item.variant or item.launch)
            by_identity[key] = base if not by_identity else f"{base}_{extra}"
        names[item.launch] = by_identity[key]
    return names


def name_hooks(
    translations: Sequence[Translation], extracted: Mapping[str, Extracted | None], launches: Mapping[str, Launch]
) -> tuple[Translation, ...]:
    """The translations with --custom-rm-path and the other hooks naming the modules that they are written to."""
    names = reward_module_names(translations, extracted, launches)
    return name_hook_modules(tuple(_with_hook(item, names.get(item.launch)) for item in translations))


def _with_hook(translation: Translation, module: str | None) -> Translation:
    hook = f"examples.{translation.algo}.{module}.reward_func"
    flags = tuple(
        flag.model_copy(update={"value": hook}) if module and flag.name == "--custom-rm-path" else flag
        for flag in translation.flags
    )
    return translation.model_copy(update={"flags": flags})


def identifier(text: str) -> str:
    """A text as a part of a Python and shell name."""
    return re.sub(r"\W+", "_", text).strip("_") or "x"


def _identity(found: Extracted, launch: Launch) -> str:
    """What two launches must share to use one module."""
    spec = launch.reward
    parts = {
        "code": found.code,
        "entry": found.entry,
        "kwargs": spec.kwargs,
        "manager": spec.manager,
        "manager_kwargs": spec.manager_kwargs,
        "overlong": spec.overlong.model_dump() if spec.overlong else None,
        "log": _logs_overlong(launch),
        "text": [spec.text, spec.skip_special_tokens],
        "adds": [_manager_adds(launch), told_keys(launch)],
        "environment": spec.environment,
        "family": special_tokens(model_name(launch)).name,
        "arrays": _numpy_truth(launch),
    }
    return json.dumps(parts, sort_keys=True, default=str)


def render_reward(launch: Launch, found: Extracted, *, algo: str, config_name: str) -> str:
    """The text of a reward module.

    Raises:
        ValueError: the extracted code is not Python.
    """
    spec = launch.reward
    mode = execution_mode(launch, found)
    code, entry = _without_clashes(found)
    future, code = split_future(code)
    batch, positional = spec.manager == "batch", spec.manager == "prime"
    takes = taken(found.code, found.entry, spec.parameters)
    limited = spec.manager in SWALLOWS
    seconds = float(spec.manager_kwargs.get("timeout") or MANAGER_SECONDS) if limited else CALL_SECONDS
    modules = _modules(mode, spec.environment)
    clash = _clashing(code, modules)
    imports, code = ([], code) if clash or spec.environment else split_imports(code)
    family = special_tokens(model_name(launch))
    values: dict[str, Any] = {
        "licence": licence(found, "reward"),
        "title": f"Reward of {algo}, moved from verl to Relax.",
        "origin": origin_text(found),
        "manager": spec.manager,
        "future": future,
        "modules": modules,
        "scorer_imports": imports,
        "environment": sorted(spec.environment.items()),
        "data_source_default": default_source(launch),
        "relax_metadata": RELAX_METADATA,
        "added_metadata": added_metadata(launch),
        "special_tokens": family.tokens if spec.skip_special_tokens else (),
        "family": family.name,
        "floor": 0.0 if limited else lowest_score(found.code, found.entry),
        "extra_keys": _extra_keys(launch, found),
        "kwargs": spec.kwargs,
        "algo": algo,
        "config_name": config_name,
        "manager_adds": _manager_adds(launch),
        "from_rollout": told_keys(launch),
        "rollout_metadata": ROLLOUT_METADATA,
        "all_from_rollout": bool(launch.multi_turn and launch.multi_turn.loops) and added(launch).passes_fields,
        "overlong": spec.overlong,
        "overlong_log": _logs_overlong(launch),
        "mode": mode,
        "seconds": seconds if limited else (MANAGER_SECONDS if "process" in _traits(found, launch) else CALL_SECONDS),
        "limit_seconds": seconds if limited and mode != "worker" else None,
        "threads": _threads(mode, _traits(found, launch)),
        "code": code,
        "batch": batch,
        "positional": positional,
        "takes": takes.names,
        "takes_all": takes.all or positional,
        "numpy_truth": _numpy_truth(launch),
        "none_for_missing": added(launch).none_for_missing and not _manager_adds(launch),
        "whole_text": spec.text == "prompt_and_response",
        "call": _call(entry, positional=positional),
        "shaped": "[_shaped(item) for item in result]" if batch else "_shaped(result)",
    }
    return format_python(_own_imports(render_template("reward.py.j2", **values), code, clash))


def execution_mode(launch: Launch, found: Extracted) -> Mode:
    """Where the scorer runs: never where it could stop Relax's event loop."""
    traits = _traits(found, launch)
    if WORKER_TRAITS & traits:
        return "worker"
    if found.is_async or launch.reward.is_async:
        return "loop" if BLOCKING.search(found.code) else "inline"
    return "thread"


def model_name(launch: Launch) -> str:
    """The model that the launch trains."""
    return str(launch.get("actor_rollout_ref.model.path") or "")


def default_source(launch: Launch) -> str:
    """The data source of rows that name none: the only one known, else an empty text."""
    names = {item.name for item in launch.data.sources}
    return names.pop() if len(names) == 1 else ""


def licence(found: Extracted | None, kind: str) -> str:
    """Licence comments of copied code, then who wrote the file."""
    from migrate_tools import __version__

    own = f"Generated by migrate-agent {__version__} from a verl recipe ({kind})."
    parts = [found.header, commented(own)] if found and found.header else [commented(own)]
    return "\n#\n".join(part.strip("\n") for part in parts)


def origin_text(found: Extracted) -> str:
    """Where the copied definitions come from, a few places named."""
    files: dict[str, list[int]] = {}
    for item in found.origins:
        files.setdefault(item.file, []).extend([item.line] if item.line else [])
    if not files:
        return "Origin: the recipe."
    parts = [f"{name}:{min(lines)}" if lines else name for name, lines in sorted(files.items())]
    text = "Origin: " + ", ".join(parts).replace("\\", "/").replace('"', "'") + "."
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False)


def _traits(found: Extracted, launch: Launch) -> frozenset[str]:
    return frozenset(found.traits) or frozenset(launch.reward.traits)


def _threads(mode: Mode, traits: frozenset[str]) -> int:
    """Calls at a time; a judge spends its time waiting, Relax allows 64 rewards at once."""
    if mode in ("inline", "loop"):
        return 0
    return 64 if mode == "thread" and {"http", "judge"} & traits else 8


def _modules(mode: Mode, environment: Mapping[str, str]) -> tuple[str, ...]:
    names = ["asyncio", "copy", "inspect", "logging"]
    if mode == "worker":
        names += [*WORKER_MODULES, "os"]
    if mode == "loop":
        names.append("threading")
    if environment:
        names.append("os")
    return tuple(sorted(set(names)))


def _call(entry: str, *, positional: bool) -> str:
    if not positional:
        return f"{entry}(**request)"
    return f"{entry}(*[request.pop(name) for name in {FOUR!r}], **request)"


def _extra_keys(launch: Launch, found: Extracted) -> dict[str, Any]:
    keys = result_keys(found.code)
    if launch.reward.overlong and _logs_overlong(launch):
        keys |= {"overlong_reward": 0.0, "overlong": False}
    return keys


def added_metadata(launch: Launch) -> tuple[str, ...]:
    """What the converter puts into the metadata beside the former extra_info: columns that the rows have.

    `style` stands in reward_model; where nothing is known of the columns, verl's own layout is assumed.
    """
    columns, model = launch.data.columns, launch.data.columns.get("reward_model", "")
    present = [name for name in ("tools_kwargs", "interaction_kwargs", "agent_name") if name in columns]
    style = [] if "struct<" in model and "style:" not in model else ["style"]
    prompt = [RAW_PROMPT] if launch.multi_turn is not None and launch.multi_turn.needs_prompt else []
    return tuple(dict.fromkeys(("data_source", "ability", *style, *present, *prompt, *row_columns(launch))))


def row_columns(launch: Launch) -> tuple[str, ...]:
    """Columns that agent loops of the recipe's own read, beside those that every converted row has."""
    known = launch.data.columns
    wanted = (name for loop in (launch.multi_turn.loops if launch.multi_turn else ()) for name in loop.fields)
    return tuple(dict.fromkeys(name for name in wanted if not known or name in known))


def _manager_adds(launch: Launch) -> dict[str, Any]:
    """Keys that the manager puts into extra_info."""
    return added(launch).keys


def _version(launch: Launch) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", launch.verl.version)[:2]) or (0, 4)


def _logs_overlong(launch: Launch) -> bool:
    keys = (
        "reward.reward_kwargs.overlong_buffer_cfg.log",
        "reward_model.reward_kwargs.overlong_buffer_cfg.log",
        "reward_model.overlong_buffer.log",
    )
    return any(bool(launch.get(key)) for key in keys)


def _numpy_truth(launch: Launch) -> bool:
    """Whether this verl hands lists of a row to the scorer as numpy arrays (it reads parquet through pandas)."""
    source = Path(launch.verl.root, "verl", "utils", "dataset", "rl_dataset.py")
    if source.is_file():
        text = source.read_text(encoding="utf-8", errors="replace")
        return "load_dataset(" not in text and "read_parquet(" in text
    return _version(launch) < (0, 2)


def _without_clashes(found: Extracted) -> tuple[str, str]:
    """The code and its entry, with names changed that the wrapper needs for itself."""
    code, entry = found.code, found.entry
    for name in sorted((top_names(code) & OWN_NAMES) - SHARED):
        code = renamed(code, name, f"scorer_{name.lstrip('_')}")
        entry = f"scorer_{name.lstrip('_')}" if entry == name else entry
    return code, entry


def _clashing(code: str, modules: Sequence[str]) -> list[str]:
    """Modules of the wrapper whose name the scorer uses for something else (`from time import time`)."""
    bound = top_names(code) - module_imports(code)
    return [name for name in modules if name.split(".")[0] in bound]


def _own_imports(text: str, code: str, clashing: Sequence[str]) -> str:
    """The module with the wrapper's imports under names of their own where they clash with the scorer's."""
    for name in clashing:
        root = name.split(".")[0]
        text = text.replace(f"\nimport {name}\n", f"\nimport {name}\nimport {root} as _std_{root}\n", 1)
        before, scorer, after = text.partition(code)
        text = before + scorer + re.sub(rf"(?<![\w.]){root}\.", f"_std_{root}.", after)
    return text
