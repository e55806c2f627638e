"""From a launch to what the old side needs: which function, under which manager, fed how."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from migrate_tools.model import Launch, Recipe
from migrate_tools.parity import managers, own_copy
from migrate_tools.sandbox import Mount
from migrate_tools.verl.manager_added import added, manager_name
from migrate_tools.verl.reward_manager import MODULE_KEYS, registered_file
from migrate_tools.verl.reward_reader import ROUTER_KEYWORDS

PROJECT, VERL = "/project", "/verl"


def not_checkable(recipe: Recipe, launch: Launch) -> str:
    """Why this reward cannot be run on both sides at all, or empty."""
    spec = launch.reward
    if spec.kind == "model":
        return "the reward is a model on GPU: no function to compare"
    if spec.kind == "none":
        return "the recipe has no reward function to compare"
    if asked := [name for name in ROUTER_KEYWORDS if name in spec.required and name not in spec.kwargs]:
        return f"the reward asks a reward model on GPU beside it ({', '.join(asked)}): nothing here answers for it"
    if not spec.path or not spec.function:
        return "the reward function was not found in the recipe"
    if manager_name(launch) not in managers.KNOWN and real_manager(recipe, launch) is None:
        return f"the reward manager {spec.manager} is neither one of verl's nor in the files of the recipe"
    return ""


def row_reader(launch: Launch) -> str:
    """ "pandas" when this verl reads parquet through pandas, else "python" (HF datasets)."""
    source = Path(launch.verl.root, "verl", "utils", "dataset", "rl_dataset.py")
    if source.is_file():
        text = source.read_text(encoding="utf-8", errors="replace")
        return "python" if "load_dataset(" in text or "read_parquet(" not in text else "pandas"
    return "pandas" if _version(launch) < Version("0.2") else "python"


def manager_settings(launch: Launch) -> dict[str, Any]:
    """Arguments of `managers.Manager`."""
    spec = launch.reward
    name = manager_name(launch)
    facts = added(launch)
    overlong = None
    if name == "dapo" and spec.overlong is not None:
        overlong = {**spec.overlong.model_dump(), "log": _logs_overlong(launch)}
    return {
        "name": name if name in managers.KNOWN else managers.CUSTOM,
        "kwargs": spec.kwargs,
        "added": facts.keys,
        "overlong": overlong,
        "source_key": launch.data.reward_fn_key,
        "logs_acc": facts.logs_acc,
        "none_for_missing": facts.none_for_missing,
        "takes_dict": facts.takes_dict,
        "dispatch": bool(spec.function and spec.function.startswith("_select")),
    }


def real_manager(recipe: Recipe, launch: Launch) -> dict[str, Any] | None:
    """Arguments of `real_manager.RealManager`; None when the class cannot be run: it needs Ray, or is missing."""
    spec, name = launch.reward, manager_name(launch)
    if name == "remote":
        return None
    facts = added(launch)
    columns: dict[str, Any] = {}
    if "num_turns" in facts.keys and spec.num_turns is not None:
        columns["__num_turns__"] = spec.num_turns
    if "turn_scores" in facts.keys:
        columns["tool_extra_fields"] = {"turn_scores": [], "tool_rewards": []}
    common = {"name": name, "source_key": launch.data.reward_fn_key, "columns": columns}
    plain = {key: value for key, value in launch.config.items() if isinstance(value, (str, int, float, bool, list))}
    if facts.file is not None:
        module = facts.file.removesuffix(".py").replace("/", ".")
        if "reward_loop" in facts.file:
            return {**common, "module": module, "config": {**plain, **_loop_defaults(launch)}}
        return {**common, "module": module, "arguments": _arguments(launch, name)}
    if (own := own_manager(recipe, launch)) is not None:
        return {**common, **own, "arguments": _arguments(launch, name), "config": {**plain, **_loop_defaults(launch)}}
    return None


def _arguments(launch: Launch, name: str) -> dict[str, Any]:
    """Keywords that verl's trainers give the class: reward_kwargs, and for dapo its penalty."""
    if name in ("naive", "prime", "batch"):
        return {}
    if name != "dapo":
        return nested(launch.reward.manager_kwargs)
    limits = launch.reward.overlong
    settings = {"enable": limits is not None, "len": 1, "penalty_factor": 1.0, "log": _logs_overlong(launch)}
    if limits is not None:
        settings |= {"len": limits.buffer_len, "penalty_factor": limits.penalty_factor}
    longest = limits.max_resp_len if limits else launch.get("data.max_response_length", 1024)
    return {"max_resp_len": longest, "overlong_buffer_cfg": settings}


def nested(dotted: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as a tree."""
    tree: dict[str, Any] = {}
    for key, value in dotted.items():
        place = tree
        *above, leaf = key.split(".")
        for part in above:
            place = place.setdefault(part, {})
        place[leaf] = value
    return tree


def _loop_defaults(launch: Launch) -> dict[str, Any]:
    """What managers of the reward loop read of the configuration, where the composed one lacks it."""
    found: dict[str, Any] = {"trainer.experiment_name": launch.get("trainer.experiment_name")}
    if (limits := launch.reward.overlong) is not None:
        base = "reward.reward_kwargs"
        found |= {
            f"{base}.max_resp_len": limits.max_resp_len,
            f"{base}.overlong_buffer_cfg.enable": True,
            f"{base}.overlong_buffer_cfg.len": limits.buffer_len,
            f"{base}.overlong_buffer_cfg.penalty_factor": limits.penalty_factor,
            f"{base}.overlong_buffer_cfg.log": _logs_overlong(launch),
        }
        found |= {key.replace("reward.", "reward_model.", 1): value for key, value in found.items() if base in key}
    return {"reward.reward_manager.name": manager_name(launch), "reward_model.reward_manager": None, **found}


def own_manager(recipe: Recipe, launch: Launch) -> dict[str, Any] | None:
    """Where the recipe's own manager class is: named by path, registered in a file of its own, in a fork's trainer."""
    spec = launch.reward
    for key in MODULE_KEYS:
        if path := launch.get(key):
            found = inside_name(recipe, str(path).removeprefix("file://"))
            return None if found is None else {"file": found[1]}
    if spec.manager in ("", "naive") and not (spec.function or "").startswith("_select"):
        return None
    if (spec.function or "").startswith("_select"):
        found = inside_name(recipe, spec.path or "")
        return None if found is None else {"file": found[1], "name": "RewardManager", "fragment": True}
    path = registered_file((Path(recipe.root), Path(recipe.project_root)), spec.manager)
    if path is None:
        return None
    found = inside_name(recipe, str(path.resolve().relative_to(Path(recipe.project_root).resolve())))
    return None if found is None else {"file": found[1]}


def _logs_overlong(launch: Launch) -> bool:
    keys = ("reward.reward_kwargs.overlong_buffer_cfg.log", "reward_model.reward_kwargs.overlong_buffer_cfg.log",
            "reward_model.overlong_buffer.log")  # fmt: skip
    return any(bool(launch.get(key)) for key in keys)


def scorer(recipe: Recipe, launch: Launch) -> dict[str, Any]:
    """Where the function lies inside the sandbox."""
    spec = launch.reward
    path, function = spec.path or "", spec.function or ""
    in_project = Path(recipe.project_root, path).is_file()
    base = PROJECT if in_project else VERL
    if function.startswith("_select"):
        return {"file": f"{base}/{path}", "function": function, "fragment": True}
    if path.startswith("verl/") and (spec.kind == "builtin" or not in_project):
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return {"module": module, "function": function}
    return {"file": f"{base}/{path}", "function": function}


def source_mounts(recipe: Recipe, launch: Launch, place: Path, *, writes: bool) -> tuple[Mount, ...]:
    """The recipe and verl inside the sandbox.

    Args:
        place: folder of the job; a private copy of the recipe is made beside it.
        writes: the reward makes files or folders beside itself.
    """
    verl = Mount(Path(launch.verl.root), VERL)
    if not writes:
        return Mount(Path(recipe.project_root), PROJECT), verl
    return *own_copy.writable_mounts(Path(recipe.project_root), PROJECT, place.with_name(f"{place.name}_project")), verl


def import_paths(recipe: Recipe) -> dict[str, Any]:
    """sys.path and package aliases under which files of a recipe find each other."""
    inside = recipe_folder(recipe)
    paths = [PROJECT, *([inside] if inside != PROJECT else [])]
    aliases: dict[str, list[str]] = {}
    if not Path(recipe.project_root, "recipe").is_dir():
        aliases["recipe"] = [PROJECT]
    return {"paths": paths, "aliases": aliases}


def recipe_folder(recipe: Recipe) -> str:
    """The recipe's own folder inside the sandbox."""
    try:
        relative = Path(recipe.root).resolve().relative_to(Path(recipe.project_root).resolve())
    except ValueError:
        return PROJECT
    return f"{PROJECT}/{relative}" if str(relative) != "." else PROJECT


def inside_name(recipe: Recipe, file: str) -> tuple[Path, str] | None:
    """A source file as named in a SourceRef: its place on this machine and inside the sandbox."""
    for root, base in ((recipe.project_root, PROJECT), (_verl_root(recipe), VERL)):
        if root and Path(root, file).is_file():
            return Path(root, file), f"{base}/{file}"
    return None


def _verl_root(recipe: Recipe) -> str:
    return recipe.launches[0].verl.root if recipe.launches else ""


def _version(launch: Launch) -> Version:
    try:
        return Version(launch.verl.version)
    except InvalidVersion:
        return Version("0.4")


def environment(launch: Launch) -> Mapping[str, str]:
    """Variables that the scorer reads."""
    return launch.reward.environment
