"""Model names: scripts of Relax and known architectures (skill/mapping/models.yaml)."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import yaml

from migrate_tools.mapping.architecture import Architecture, Gap
from migrate_tools.mapping.hf_config import NAMED_GAPS, parse_config
from migrate_tools.model import Frozen
from migrate_tools.resources import resource_dir


class ModelScript(Frozen):
    """A scripts/models/<name>.sh of Relax and the models it serves."""

    script: str
    models: tuple[str, ...]
    evidence: str
    needs: str = ""
    """What the script wants besides, for the report."""


class Models(Frozen):
    """Content of models.yaml."""

    scripts: tuple[ModelScript, ...]
    architectures: dict[str, Architecture]
    configs: dict[str, dict[str, Any]] = {}
    """Fields of a config.json, for models with experts."""
    gaps: dict[str, tuple[str, ...]] = {}
    """model_type -> names of models that no flags describe."""
    aliases: dict[str, str]
    """Model name -> name of an architecture with the same numbers."""


def simple(name: str) -> str:
    """A model name to compare by: last path part, lower case, without separators."""
    return re.sub(r"[-_.\s]+", "", name.rstrip("/").rsplit("/", 1)[-1].lower())


def spellings(name: str) -> set[str]:
    """Forms a model name may take on disk: as it is, and without an organisation in front ("Qwen_Qwen2.5-3B")."""
    last = name.rstrip("/").rsplit("/", 1)[-1]
    return {simple(last), simple(last.split("--")[-1]), simple(last.split("_", 1)[-1])}


@cache
def load_models() -> Models:
    """The shipped model facts."""
    path = resource_dir("skill") / "mapping" / "models.yaml"
    return Models.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def find_script(name: str) -> ModelScript | None:
    """The Relax model script for a model name."""
    names = spellings(name)
    for item in load_models().scripts:
        if names & {simple(model) for model in item.models}:
            return item
    return None


@cache
def _by_name() -> dict[str, Architecture]:
    models = load_models()
    known = dict(models.architectures)
    for name, config in models.configs.items():
        found = parse_config(config)
        if isinstance(found, Gap):
            raise ValueError(f"models.yaml, {name}: {found.reason}")
        known[name] = found
    known |= {name: known[target] for name, target in models.aliases.items()}
    return {simple(name): value for name, value in known.items()}


def find_architecture(name: str) -> Architecture | None:
    """The known architecture of a model name."""
    by_name = _by_name()
    return next((by_name[spelling] for spelling in spellings(name) if spelling in by_name), None)


def find_gap(name: str) -> str:
    """Why no flags describe a model of this name; empty where nothing is known of it."""
    names = spellings(name)
    for kind, models in load_models().gaps.items():
        if names & {simple(model) for model in models}:
            return NAMED_GAPS[kind]
    return ""


def billions_from_name(name: str) -> float | None:
    """Parameters in billions as the name says: "Qwen2.5-7B-Instruct" -> 7."""
    found = re.findall(r"(?<![\dA-Za-z.])(\d+(?:\.\d+)?)[bB](?![A-Za-z0-9])", name.rsplit("/", 1)[-1])
    return float(found[0]) if found else None
