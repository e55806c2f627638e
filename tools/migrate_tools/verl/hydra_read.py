"""Composes a recipe's configuration with hydra-core over its verl version's config tree, without importing verl."""

from __future__ import annotations

import ast
import os
import pickle
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import omegaconf._utils
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from migrate_tools.errors import RefusedInput
from migrate_tools.verl.interpolation import ABSENT, Resolver


@dataclass(frozen=True)
class Primary:
    """The primary configuration of a command."""

    folder: Path
    name: str
    searchpath: tuple[Path, ...] = ()

    @property
    def file(self) -> Path:
        """The YAML file."""
        return self.folder / f"{self.name}.yaml"


@dataclass(frozen=True)
class Parsed:
    """One argument of the command line, as Hydra understands it."""

    text: str
    key: str
    prefix: str
    value: Any
    override: Override | None
    """None when Hydra cannot parse it even quoted."""
    placeholder: bool = False
    """The text is no value that Hydra accepts (such as <path>) and was taken as a string."""
    sweep: bool = False
    """Hydra takes the value as several choices of a sweep."""


@dataclass
class Composed:
    """The configuration, and what did not fit the version's schema."""

    config: dict[str, Any] = field(default_factory=dict)
    misfits: dict[int, str] = field(default_factory=dict)
    """Index of the override -> why this version's schema has no such setting (it was added by force)."""
    error: str = ""
    """Why the base configuration could not be composed."""


def parse_overrides(texts: Iterable[str]) -> list[Parsed]:
    """Parse overrides one by one; what Hydra's grammar refuses is taken as a plain string."""
    return [_parse(text) for text in texts]


@lru_cache(maxsize=4096)  # the launches of a recipe share most of their overrides
def _parse(text: str) -> Parsed:
    parser = OverridesParser.create()
    match = re.match(r"^(\+\+|\+|~)?([^=]*)(?:=(.*))?$", text, re.DOTALL)
    assert match is not None
    prefix, key, raw = match[1] or "", match[2], match[3]
    try:
        override = parser.parse_override(text)
        if not override.is_sweep_override():
            return Parsed(
                text,
                override.key_or_group + (f"@{override.package}" if override.package else ""),
                prefix,
                override.value(),
                override,
            )
        return Parsed(text, key, prefix, raw or "", None, placeholder=True, sweep=True)
    except HydraException:
        pass
    quoted = f"{prefix}{key}='" + (raw or "").replace("\\", "\\\\").replace("'", "\\'") + "'"
    try:
        return Parsed(text, key, prefix, raw or "", parser.parse_override(quoted), placeholder=True)
    except HydraException:
        return Parsed(text, key, prefix, raw or "", None, placeholder=True)


@lru_cache(maxsize=256)
def hydra_main_of(file: Path) -> tuple[str | None, str | None]:
    """config_path and config_name of the `@hydra.main` in a Python file."""
    try:
        tree = ast.parse(file.read_text("utf-8", "replace"))
    except (OSError, SyntaxError, ValueError):
        return None, None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("hydra.main"):
            given = {k.arg: k.value.value for k in node.keywords if k.arg and isinstance(k.value, ast.Constant)}
            path, name = given.get("config_path"), given.get("config_name")
            return (str(path) if path is not None else None), (str(name) if name is not None else None)
    return None, None


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """oc.env sees the launch's variables only, never ours."""
    saved = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


class Composer:
    """Composes commands of one verl version; base configurations are composed once and reused."""

    def __init__(self) -> None:
        self._bases: dict[tuple[Primary, tuple[str, ...]], bytes | str] = {}
        self._groups: dict[tuple[Primary, str], bool] = {}

    def compose(self, primary: Primary, overrides: Sequence[Parsed], environment: Mapping[str, str]) -> Composed:
        """The configuration of a command; a setting that the schema lacks is added by force and reported.

        Raises:
            RefusedInput: a YAML file of the recipe is broken.
        """
        groups = [item.text for item in overrides if item.override and self._is_group(primary, item)]
        with warnings.catch_warnings(), _environment(environment):
            warnings.simplefilter("ignore")
            base = self._base(primary, tuple(groups))
            if isinstance(base, str):
                result, config = Composed(error=base), OmegaConf.create({})
            else:
                result, config = Composed(), pickle.loads(base)
            for index, item in enumerate(overrides):
                if item.override is None or item.text in groups or item.key.startswith("hydra."):
                    continue
                problem = _apply(config, item, item.override, forgive=bool(result.error))
                if problem:
                    result.misfits[index] = problem
            result.config = flatten(config)
        return result

    def _is_group(self, primary: Primary, item: Parsed) -> bool:
        assert item.override is not None
        name = item.override.key_or_group
        if "." in name or isinstance(item.value, dict) or item.key.startswith("hydra"):
            return False
        key = (primary, name)
        if key not in self._groups:
            self._groups[key] = any((folder / name).is_dir() for folder in (primary.folder, *primary.searchpath))
        return self._groups[key]

    def _base(self, primary: Primary, groups: tuple[str, ...]) -> bytes | str:
        """The base configuration, pickled (which copies it in a third of the time), or why there is none."""
        key = (primary, groups)
        if key not in self._bases:
            base = self._compose_base(primary, groups)
            self._bases[key] = base if isinstance(base, str) else pickle.dumps(base)
        return self._bases[key]

    def _compose_base(self, primary: Primary, groups: tuple[str, ...]) -> DictConfig | str:
        paths = ",".join(f"'file://{folder}'" for folder in primary.searchpath)
        extra = [f"hydra.searchpath=[{paths}]"] if primary.searchpath else []
        with _c_yaml():
            try:
                return _composed(primary, [*groups, *extra])
            except (HydraException, OmegaConfBaseException, ValueError, TypeError) as error:
                return " ".join(str(error).split())[:300]
            except Exception as error:  # YAML errors come as ruamel/PyYAML types through Hydra
                if not type(error).__module__.startswith("yaml"):
                    raise
        try:  # once more, for the words of the slow loader
            return _composed(primary, [*groups, *extra])
        except yaml.YAMLError as error:
            raise RefusedInput(f"broken YAML: {' '.join(str(error).split())[:300]}", "correct the file") from error


def _composed(primary: Primary, overrides: list[str]) -> DictConfig:
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(config_dir=str(primary.folder), version_base=None):
            return compose(primary.name, overrides=overrides)
    finally:
        GlobalHydra.instance().clear()


@contextmanager
def _c_yaml() -> Iterator[None]:
    """OmegaConf reads YAML with libyaml's parser, where PyYAML has it: a fifth of the time of a composition."""
    if not hasattr(yaml, "CSafeLoader"):
        yield
        return
    before = omegaconf._utils.get_yaml_loader
    slow, parser = before(), vars(yaml.cyaml)["CParser"]

    class Loader(parser, slow):  # type: ignore[misc, valid-type]
        def __init__(self, stream: Any) -> None:
            parser.__init__(self, stream)
            yaml.constructor.SafeConstructor.__init__(self)
            yaml.resolver.Resolver.__init__(self)

    omegaconf._utils.get_yaml_loader = lambda: Loader
    try:
        yield
    finally:
        omegaconf._utils.get_yaml_loader = before


def _apply(config: DictConfig, item: Parsed, override: Override, forgive: bool) -> str:
    """Apply one override; why the schema has no place for it, or nothing."""
    key = override.key_or_group
    value = item.value
    present = _select(config, key) is not ABSENT
    try:
        if override.type == OverrideType.DEL:
            return _delete(config, key) if present else f"{key} is deleted but does not exist in this version"
        if override.type in (OverrideType.ADD, OverrideType.FORCE_ADD):
            # as in Hydra, + is refused only where a value stands already
            taken = present and override.type == OverrideType.ADD and not isinstance(value, dict | list)
            taken = taken and OmegaConf.select(config, key, throw_on_missing=False) is not None
            OmegaConf.update(config, key, value, merge=True, force_add=True)
            return f"{key} is added with + but exists in this version" if taken and not forgive else ""
        try:
            OmegaConf.update(config, key, value, merge=True)
        except (OmegaConfBaseException, AttributeError):
            OmegaConf.update(config, key, value, merge=True, force_add=True)
            return "" if forgive else f"{key} does not exist in this version"
    except (OmegaConfBaseException, ValueError, TypeError, AssertionError) as error:
        return f"{key} cannot be set in this version ({' '.join(str(error).split())[:120]})"
    return ""


def _delete(config: DictConfig, key: str) -> str:
    head, _, last = key.rpartition(".")
    parent = OmegaConf.select(config, head) if head else config
    with open_dict(parent):
        del parent[last]
    return ""


def _select(config: DictConfig, key: str) -> Any:
    """The raw node at a key, interpolations not followed."""
    node: Any = config
    for part in key.split("."):
        if isinstance(node, DictConfig):
            if node._is_none() or node._is_missing() or part not in list(node.keys()):
                return ABSENT
            node = node._get_node(part)
        elif OmegaConf.is_list(node) and part.isdigit() and int(part) < len(node):
            node = node._get_node(int(part))
        else:
            return ABSENT
    return node


def flatten(config: DictConfig) -> dict[str, Any]:
    """Every leaf as a dotted key, interpolations resolved where they can be; lists and empty mappings are leaves."""
    raw = OmegaConf.to_container(config, resolve=False)
    return Resolver(config, raw).leaves()
