"""Turns one recorded command into a launch: its settings, its composed configuration, its reward and its data."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from migrate_tools.model import DataSpec, Launch, MultiTurn, Note, RewardSpec, SourceRef, VerlRef
from migrate_tools.verl import dialects
from migrate_tools.verl.commands import Kind, dialect_kind
from migrate_tools.verl.commands_of import Found
from migrate_tools.verl.example_rows import with_turns
from migrate_tools.verl.hydra_primary import Places, YamlSetting, find_primary, recipe_settings
from migrate_tools.verl.hydra_read import Composed, Composer, Parsed, parse_overrides
from migrate_tools.verl.launch import runtime_env, strip_roots
from migrate_tools.verl.launch_checks import option_notes, refuse_empty, refuse_sweeps
from migrate_tools.verl.paths import Names
from migrate_tools.verl.secrets import redact_variable
from migrate_tools.verl.settings import clean_text, clean_value, command_line_settings, setting_notes, with_yaml

SAMPLE = 8
"""Launches whose settings decide which release fits."""


class LaunchReader:
    """Turns recorded commands into launches."""

    def __init__(self, root: Path, project: Path, progress: Callable[[str], None]) -> None:
        self.root = root
        self.project = project
        self.progress = progress
        self.composer = Composer()
        self._names: Names = {}
        self._parsed: dict[int, list[Parsed]] = {}
        self._composed: dict[tuple[int, str], tuple[Composed, str, list[YamlSetting]]] = {}

    def parsed(self, item: Found) -> list[Parsed]:
        """The overrides of a command."""
        if id(item) not in self._parsed:
            self._parsed[id(item)] = parse_overrides(item.recorded.command.overrides)
        return self._parsed[id(item)]

    def keys(self, items: Sequence[Found]) -> list[str]:
        """The keys that commands and the recipe's own configurations set, before a version is chosen."""
        out = [parsed.key for item in items for parsed in self.parsed(item)]
        return out + [key for item in items[:SAMPLE] for key in self._own_keys(item)]

    def _own_keys(self, item: Found) -> list[str]:
        """The keys of the recipe's own configuration."""
        places = Places(self.project, self.root, item.recorded.script.parent, self.project, self._names)
        primary, _ = find_primary(item.recorded.command, places)
        return [setting.key for setting in recipe_settings(primary, places)]

    def kind_by_configuration(self, item: Found, kind: Kind) -> Kind:
        """What a Hydra program without telling overrides trains: its configuration's keys say it."""
        keys = self._own_keys(item)
        dialect = dialects.of_command("", keys, ())
        if dialect is not None:
            return dialect_kind(*dialect)
        if any(key.startswith("actor_rollout_ref.") for key in keys):
            return Kind("rl")
        return kind

    def misfits(self, items: Sequence[Found], verl: VerlRef) -> list[str]:
        """What the schema of a version refuses, over several commands."""
        out = []
        for item in items:
            composed, remark, _ = self.composed(item, verl)
            out += list(composed.misfits.values())
            out += [composed.error] if composed.error else []
            out += [remark] if remark else []
        return out

    def composed(self, item: Found, verl: VerlRef) -> tuple[Composed, str, list[YamlSetting]]:
        """The configuration under a version, a remark on where it starts from, and the recipe's own YAML settings."""
        key = (id(item), verl.root)
        if key not in self._composed:
            places = self._places(item, verl)
            primary, remark = find_primary(item.recorded.command, places)
            variables = {"HOME": "$HOME", **self.environment(item)[0]}
            composed = self.composer.compose(primary, self.parsed(item), variables)
            self._composed[key] = (composed, remark, recipe_settings(primary, places))
        return self._composed[key]

    def _places(self, item: Found, verl: VerlRef) -> Places:
        return Places(self.project, self.root, item.recorded.script.parent, Path(verl.root), self._names)

    def environment(self, item: Found) -> tuple[dict[str, str], str]:
        """Exported variables and those of a Ray runtime environment, with the file of the latter."""
        extra, file = runtime_env(item.recorded.parents, self.project)
        merged = {**item.recorded.environment, **extra}
        return {name: redact_variable(name, clean_text(value)) for name, value in sorted(merged.items())}, file

    def launch(self, item: Found, name: str, verl: VerlRef) -> Launch:
        """One command as a launch."""
        command = item.recorded.command
        parsed = self.parsed(item)
        refuse_sweeps(command.arguments, parsed, item)
        composed, remark, own = self.composed(item, verl)
        refuse_empty(command, parsed, own, item)
        first = len(item.recorded.argv) - len(command.arguments)
        wanted = [i for i, word in enumerate(command.arguments) if word in set(command.overrides)]
        places = [item.places[first + i] for i in wanted]
        settings = command_line_settings(parsed, places, composed, item.file, item.line)
        settings = with_yaml(settings, own, composed.config)
        config = {key: clean_value(value) for key, value in composed.config.items()}
        environment, _ = self.environment(item)
        notes = [
            *item.notes,
            *option_notes(command, item),
            *setting_notes(settings, parsed, composed, verl.version),
            *self._notes(item, composed, remark),
        ]
        resolve = self._places(item, verl).find
        common: dict[str, Any] = {
            "project_root": self.project,
            "recipe_root": self.root,
            "verl": verl,
            "resolve": resolve,
        }
        reward, reward_notes = self._reward(config, settings, environment, command.module, common)
        data, data_notes = self._data(config, settings, reward, common)
        reward = self._with_traits(reward, data, verl)
        turns = self._multi_turn(config, data, common)
        if turns is not None and data.example_rows:
            rows = with_turns(data.example_rows, turns, data.prompt_key)
            data = data.model_copy(update={"example_rows": rows})
        return Launch(
            name=name, script=_script_name(item, self.project), line=item.line, module=command.module,
            argv=tuple(clean_text(word) for word in item.recorded.argv),
            how="static" if item.how == "static" else "executed", environment=environment, unset=item.unset,
            settings=tuple(settings), config=config, verl=verl, reward=reward, data=data, multi_turn=turns,
            notes=tuple(_unique([*notes, *reward_notes, *data_notes])),
        )  # fmt: skip

    def _reward(self, config: Any, settings: Any, environment: Any, module: str, common: Any) -> tuple[RewardSpec, Any]:
        from migrate_tools.verl.reward_reader import read_reward

        return read_reward(config, settings, environment=environment, module=module, **common)

    def _with_traits(self, reward: RewardSpec, data: DataSpec, verl: VerlRef) -> RewardSpec:
        from migrate_tools.verl.extract import taken_traits

        traits = taken_traits(reward, data, project_root=self.project, verl=verl)
        return reward.model_copy(update={"traits": traits}) if traits != reward.traits else reward

    def _data(self, config: Any, settings: Any, reward: RewardSpec, common: Any) -> tuple[DataSpec, Any]:
        from migrate_tools.verl.data_reader import read_data

        return read_data(config, settings, reward=reward, **common)

    def _multi_turn(self, config: Any, data: DataSpec, common: Any) -> MultiTurn | None:
        from migrate_tools.verl.multi_turn import read_multi_turn

        return read_multi_turn(config, data, **common)

    def _notes(self, item: Found, composed: Composed, remark: str) -> list[Note]:
        place = SourceRef(file=item.file, line=item.line)
        notes = []
        if remark:
            notes.append(Note(code="config-not-found", text=clean_text(remark), source=place))
        if composed.error:
            why = re.sub(r"(?:/[\w.+-]+)+/(?=verl/)", "", clean_text(composed.error))
            text = f"the base configuration does not compose ({why}); only the recipe's settings are known"
            notes.append(Note(code="config-not-composed", text=text, source=place))
        for variable in item.unset:
            text = f"the script reads ${variable} and nobody sets it: give it a value before running"
            notes.append(Note(code="unset-variable", text=text, source=place))
        for argv in item.recorded.parents:
            notes.append(
                Note(code="started-through", text=f"started through `{strip_roots(' '.join(argv[:3]))}`", source=place)
            )
        return notes


def _script_name(item: Found, project: Path) -> str:
    script = item.recorded.script
    return str(script.relative_to(project)) if script.is_relative_to(project) else script.name


def _unique(notes: Sequence[Note]) -> list[Note]:
    return list(dict.fromkeys(notes))
