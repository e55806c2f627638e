"""Which configuration a training command starts from, and the settings that a recipe's own YAML files make."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from migrate_tools.errors import RefusedInput
from migrate_tools.model import SourceRef
from migrate_tools.verl.commands import Command
from migrate_tools.verl.hydra_read import Primary, hydra_main_of
from migrate_tools.verl.launch import strip_roots
from migrate_tools.verl.paths import Names, inside, resolve
from migrate_tools.verl.source import CONFIG

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_YAML_BYTES = 2 << 20
_OPTIONS = {
    "--config-path": "path", "-cp": "path", "--config-name": "name", "-cn": "name", "--config-dir": "dir", "-cd": "dir",
}  # fmt: skip


@dataclass(frozen=True)
class Places:
    """Where files of a launch are looked for."""

    project: Path
    recipe: Path
    script_folder: Path
    verl: Path
    names: Names = field(default_factory=dict, compare=False, repr=False)

    def find(self, text: str) -> Path | None:
        """A path of a script, inside the project."""
        return resolve(strip_roots(text), self.project, (self.script_folder, self.recipe), self.names)


@dataclass(frozen=True)
class YamlSetting:
    """A leaf of the recipe's own configuration."""

    key: str
    value: Any
    source: SourceRef


def hydra_options(arguments: Sequence[str]) -> dict[str, str]:
    """`path`, `name`, `dir` of Hydra's own command line options."""
    found: dict[str, str] = {}
    for index, word in enumerate(arguments):
        name, sep, value = word.partition("=")
        if name in _OPTIONS:
            if sep:
                found[_OPTIONS[name]] = value
            elif index + 1 < len(arguments):
                found[_OPTIONS[name]] = arguments[index + 1]
    return found


def module_file(command: Command, places: Places) -> Path | None:
    """The Python file that a command runs, in the verl source or in the project."""
    relative = command.module.replace(".", "/") + ".py" if command.is_module else strip_roots(command.program)
    if relative.startswith("verl/") and (places.verl / relative).is_file():
        return places.verl / relative
    folder = relative.removesuffix(".py") + "/__main__.py"
    for text in (relative, folder):
        found = places.find(text)
        if found is not None and found.is_file():
            return found
    return None


def find_primary(command: Command, places: Places) -> tuple[Primary, str]:
    """The primary configuration, and a remark when it could not be found and verl's own stands in."""
    options = hydra_options(command.arguments)
    own = module_file(command, places)
    path, name = hydra_main_of(own) if own else (None, None)
    path = options.get("path", path)
    name = (options.get("name") or name or "ppo_trainer").removesuffix(".yaml")
    default = places.verl / CONFIG
    for folder in _folders(path, options.get("dir"), own, places):
        if (folder / f"{name}.yaml").is_file():
            return _with_searchpath(Primary(folder, name), command, places), ""
    if (default / f"{name}.yaml").is_file():
        return Primary(default, name, _searchpath([], default, places)), ""
    remark = f"the configuration {name} of {command.module} is not at hand; verl's ppo_trainer stands in for it"
    return Primary(default, "ppo_trainer"), remark


def _folders(path: str | None, extra: str | None, own: Path | None, places: Places) -> Iterable[Path]:
    for text in (path, extra):
        if text is None:
            continue
        text = strip_roots(text)
        if own is not None and not text.startswith("/") and (own.parent / text).is_dir():
            yield (own.parent / text).resolve()
        match = re.search(r"verl/trainer/config.*$", text)
        if match and (places.verl / match[0]).is_dir():
            yield places.verl / match[0]
        found = places.find(text)
        if found is not None and found.is_dir():
            yield found


def _with_searchpath(primary: Primary, command: Command, places: Places) -> Primary:
    entries = list(_declared(primary))
    for word in command.arguments:
        match = re.match(r"\+{0,2}hydra\.searchpath=\[(.*)\]$", word)
        if match:
            entries += [item.strip().strip("'\"") for item in match[1].split(",")]
    return Primary(primary.folder, primary.name, _searchpath(entries, primary.folder, places))


def _declared(primary: Primary) -> Iterable[str]:
    data = load_yaml(primary.file)
    hydra = data.get("hydra") if isinstance(data, dict) else None
    entries = hydra.get("searchpath") if isinstance(hydra, dict) else None
    return [str(item) for item in entries] if isinstance(entries, list) else []


def _searchpath(entries: Iterable[str], primary: Path, places: Places) -> tuple[Path, ...]:
    """Folders that entries name (`file://`, `pkg://` or bare), and verl's own tree last."""
    found: dict[Path, None] = {}
    for entry in entries:
        text = entry.removeprefix("file://")
        if text.startswith("pkg://"):
            text = text.removeprefix("pkg://").replace(".", "/")
        in_verl = re.search(r"verl/.*$", text)
        if in_verl and (places.verl / in_verl[0]).is_dir():
            found[places.verl / in_verl[0]] = None
        elif (folder := places.find(text)) is not None and folder.is_dir():
            found[folder] = None
    found[places.verl / CONFIG] = None
    found.pop(primary, None)
    return tuple(found)


def load_yaml(path: Path) -> Any:
    """A YAML file of the recipe.

    Raises:
        RefusedInput: it is broken; names file and line.
    """
    try:
        if path.stat().st_size > MAX_YAML_BYTES:
            return None
        return yaml.load(path.read_text("utf-8", "replace"), Loader=_Loader)
    except yaml.YAMLError as error:
        raise broken_yaml(path, error) from error
    except OSError:
        return None


def broken_yaml(path: Path, error: yaml.YAMLError) -> RefusedInput:
    """The one-line error for a YAML file that does not load."""
    mark = getattr(error, "problem_mark", None)
    where = f"{path}:{mark.line + 1}" if mark else str(path)
    return RefusedInput(
        f"{where}: broken YAML ({getattr(error, 'problem', None) or 'not loadable'})", "correct the file"
    )


def recipe_settings(primary: Primary, places: Places) -> list[YamlSetting]:
    """Settings that the recipe's own YAML files make, base files first; nothing for verl's own configuration."""
    found: dict[str, YamlSetting] = {}
    for path, package in _own_files(primary, places):
        for setting in _leaves_of(path, package, places):
            found.pop(setting.key, None)
            found[setting.key] = setting
    return list(found.values())


def is_own(folder: Path, places: Places) -> bool:
    """Whether a configuration folder is the recipe's rather than verl's."""
    return inside(folder, places.project) and not inside(folder, places.verl / "verl")


def _own_files(primary: Primary, places: Places, seen: frozenset[Path] = frozenset()) -> list[tuple[Path, str]]:
    """The primary file and the files of its defaults list that lie in the recipe, in the order Hydra merges them."""
    if not is_own(primary.folder, places) or primary.file in seen or not primary.file.is_file():
        return []
    data = load_yaml(primary.file)
    defaults = data.get("defaults") if isinstance(data, dict) else None
    out: list[tuple[Path, str]] = []
    own_placed = False
    for entry in defaults if isinstance(defaults, list) else []:
        if entry == "_self_":
            out.append((primary.file, ""))
            own_placed = True
        elif isinstance(entry, str):
            out += _own_files(Primary(primary.folder, entry.lstrip("/")), places, seen | {primary.file})
        elif isinstance(entry, dict):
            out += _group_file(primary, entry)
    return out if own_placed else [(primary.file, ""), *out]


def _group_file(primary: Primary, entry: dict[Any, Any]) -> list[tuple[Path, str]]:
    for raw, name in entry.items():
        group, _, package = str(raw).split()[-1].lstrip("/").partition("@")
        path = primary.folder / group / f"{str(name).removesuffix('.yaml')}.yaml"
        if path.is_file():
            return [(path, package or group.replace("/", "."))]
    return []


def _leaves_of(path: Path, package: str, places: Places) -> Iterable[YamlSetting]:
    text = path.read_text("utf-8", "replace")
    header = re.search(r"^\s*#\s*@package\s+(\S+)", text, re.MULTILINE)
    if header:
        package = "" if header[1] in ("_global_", "_root_") else header[1].replace("_group_", package)
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise broken_yaml(path, error) from error
    shown = str(path.relative_to(places.project)) if path.is_relative_to(places.project) else path.name
    if isinstance(node, yaml.MappingNode):
        yield from _leaves(node, package, shown, top=not package)


def _leaves(node: yaml.MappingNode, prefix: str, file: str, top: bool = False) -> Iterable[YamlSetting]:
    for key_node, value_node in node.value:
        name = str(key_node.value)
        if top and name in ("defaults", "hydra"):
            continue
        key = f"{prefix}.{name}" if prefix else name
        if name == "defaults" and not top and isinstance(value_node, yaml.SequenceNode):
            continue
        if isinstance(value_node, yaml.MappingNode) and value_node.value:
            yield from _leaves(value_node, key, file)
        else:
            value = yaml.load(yaml.serialize(value_node), Loader=_Loader)
            yield YamlSetting(key, value, SourceRef(file=file, line=key_node.start_mark.line + 1))
