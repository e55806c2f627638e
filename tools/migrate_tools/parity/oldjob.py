"""From a launch to what the old side needs: which function, under which manager, fed how."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from migrate_tools.model import Launch, Recipe
from migrate_tools.parity import managers

PROJECT, VERL = "/project", "/verl"
REWARD_LOOP = ("naive", "dapo", "gdpo", "rate_limited", "remote")
"""Managers that exist in the reward loop of current verl."""


def not_checkable(launch: Launch) -> str:
    """Why this reward cannot be run on both sides at all, or empty."""
    spec = launch.reward
    if spec.kind == "model":
        return "the reward is a model on GPU: no function to compare"
    if spec.kind == "none":
        return "the recipe has no reward function to compare"
    if not spec.path or not spec.function:
        return "the reward function was not found in the recipe"
    if manager_name(launch) not in managers.KNOWN:
        return f"the reward manager {spec.manager} is not one whose behaviour is known here"
    return ""


def manager_name(launch: Launch) -> str:
    """The manager of the launch under the names of `managers.KNOWN`, or as written."""
    name = launch.reward.manager
    return {"limited": "rate_limited", "ratelimited": "rate_limited", "": "naive"}.get(name, name)


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
    in_loop = name in REWARD_LOOP and Path(launch.verl.root, "verl", "experimental", "reward_loop").is_dir()
    added: dict[str, Any] = {}
    if name in ("naive", "remote") and spec.num_turns is not None:
        added["num_turns"] = spec.num_turns
    if (name in ("naive", "remote") and spec.num_turns is not None or name == "batch") and _version(launch) >= Version(
        "0.6"
    ):
        added["rollout_reward_scores"] = {}
    if name == "gdpo":
        added["experiment_name"] = launch.get("trainer.experiment_name")
    overlong = None
    if name == "dapo" and spec.overlong is not None:
        overlong = {**spec.overlong.model_dump(), "log": _logs_overlong(launch)}
    return {
        "name": name,
        "kwargs": spec.kwargs,
        "added": added,
        "overlong": overlong,
        "source_key": launch.data.reward_fn_key,
        "logs_acc": in_loop,
        "dispatch": bool(spec.function and spec.function.startswith("_select")),
    }


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
