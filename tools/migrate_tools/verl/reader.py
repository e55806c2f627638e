"""Reads a recipe folder: what it launches, with which settings, reward and data, under which verl version."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from migrate_tools.errors import RefusedInput
from migrate_tools.model import DataSpec, Launch, MultiTurn, Note, Recipe, RewardSpec, Skipped, SourceRef, VerlRef
from migrate_tools.verl.choose_verl import best_fit, find_verl
from migrate_tools.verl.commands import classify
from migrate_tools.verl.commands_of import Found, all_commands
from migrate_tools.verl.discover import commit_of, discover
from migrate_tools.verl.hydra_primary import Places, YamlSetting, find_primary, recipe_settings
from migrate_tools.verl.hydra_read import Composed, Composer, Parsed, parse_overrides
from migrate_tools.verl.launch import runtime_env, strip_roots
from migrate_tools.verl.paths import Names, project_root
from migrate_tools.verl.secrets import redact_variable
from migrate_tools.verl.settings import clean_text, clean_value, command_line_settings, setting_notes, with_yaml
from migrate_tools.verl.source import is_verl_tree

if TYPE_CHECKING:
    from migrate_tools.sandbox import Sandbox

SAMPLE = 8
"""Launches whose settings decide which release fits."""


def read_recipe(
    path: Path,
    *,
    launches: Sequence[str] = (),
    verl_root: Path | None = None,
    verl_version: str | None = None,
    sandbox: Sandbox,
    progress: Callable[[str], None] = lambda text: None,
) -> Recipe:
    """Read a recipe folder or a single launch script.

    Args:
        launches: names of the scripts to read (file name, stem, relative path or pattern); all when empty.
        verl_root: a verl checkout to read against. verl_version: a release to read against.
        progress: gets one line a step.

    Raises:
        RefusedInput: no folder, nothing in it, or no RL training command of verl.
        MachineError: no sandbox, or no verl source.
    """
    path = path.absolute()
    base = path if path.is_dir() else path.parent
    project = project_root(base.resolve() if base.exists() else base)
    found = discover(path.resolve() if path.exists() else path, project, launches)
    warming = Thread(target=_warm)
    warming.start()
    try:
        commands = all_commands(found.scripts, project, sandbox, _links(found.root, project), progress)
    finally:
        warming.join()
    skipped = [*found.skipped, *commands.skipped]
    rl: list[Found] = []
    for item in commands.commands:
        kind = classify(item.recorded.command)
        if kind.name == "rl":
            rl.append(item)
        elif not any(s.file == item.file and s.reason == kind.reason for s in skipped):
            skipped.append(Skipped(file=item.file, reason=kind.reason))
    rl, repeated = _without_wrappers(rl)
    skipped += repeated
    if not rl:
        raise _nothing_to_train(path, found.files, skipped)
    reader = _LaunchReader(found.root, project, progress)
    choice = find_verl(
        found.root, project, [parsed.key for item in rl for parsed in reader.parsed(item)],
        verl_root=verl_root, verl_version=verl_version, progress=progress,
    )  # fmt: skip
    verl = best_fit(choice, lambda ref: reader.misfits(rl[:SAMPLE], ref), progress)
    names = _names(rl)
    read, refused = _read_all(reader, rl, names, verl)
    skipped += refused
    return Recipe(
        name=path.stem if path.is_file() else path.name,
        root=str(found.root),
        project_root=str(project),
        commit=commit_of(project),
        sha256=found.digest,
        launches=tuple(read),
        skipped=tuple(skipped),
        secrets=tuple(found.secrets),
        shell_features=commands.features,
        notes=tuple(_secret_notes(len(found.secrets))),
    )


def _warm() -> None:
    """Imports what reading needs next, while the scripts run in the sandbox."""
    with suppress(Exception):  # whoever needs it says what is wrong
        for name in ("reward_reader", "data_reader", "extract"):
            import_module(f"migrate_tools.verl.{name}")


def _read_all(
    reader: _LaunchReader, items: Sequence[Found], names: Sequence[str], verl: VerlRef
) -> tuple[list[Launch], list[Skipped]]:
    """Every launch that can be read; one with a broken reward or broken data is named, and does not stop the others.

    Raises:
        RefusedInput: none of them can be read.
    """
    read: list[Launch] = []
    refused: list[Skipped] = []
    first: RefusedInput | None = None
    for item, name in zip(items, names, strict=True):
        reader.progress(f"composing {name}")
        try:
            read.append(reader.launch(item, name, verl))
        except RefusedInput as error:
            first = first or error
            refused.append(Skipped(file=item.file, reason=f"refused: {clean_text(error.line())}"))
    if not read and first is not None:
        raise first
    return read, refused


def _links(root: Path, project: Path) -> dict[str, str]:
    """Names that scripts expect in their working folder: a recipe repository stands at `recipe` inside verl."""
    if is_verl_tree(project):
        return {}
    links = {"recipe": "/project", project.name: "/project"}
    if root != project:
        links[root.name] = f"/project/{root.relative_to(project)}"
    return links


def _secret_notes(count: int) -> list[Note]:
    if not count:
        return []
    text = f"{count} credential{'s' if count > 1 else ''} found in the recipe; none is copied into any output"
    return [Note(code="secrets-removed", text=text)]


def _without_wrappers(items: list[Found]) -> tuple[list[Found], list[Skipped]]:
    """Drop commands that a script only reaches by calling another launch script that is read itself."""
    own = {(item.file, item.recorded.argv) for item in items if item.file.endswith(item.recorded.script.name)}
    kept, dropped = [], []
    for item in items:
        mine = item.file.endswith(item.recorded.script.name)
        if not mine and (item.file, item.recorded.argv) in own:
            reason = f"calls {item.file}, which is read itself"
            entry = Skipped(file=item.recorded.script.name, reason=reason)
            if entry not in dropped:
                dropped.append(entry)
        else:
            kept.append(item)
    return kept, dropped


def _nothing_to_train(path: Path, files: int, skipped: Sequence[Skipped]) -> RefusedInput:
    reasons = Counter(item.reason for item in skipped)
    telling = [
        reason for reason, _ in reasons.most_common() if not reason.startswith(("starts no", "no training command"))
    ]
    plain = [reason for reason in reasons if reason.startswith("no training command was")]
    shown = "; ".join((telling or plain)[:4])
    if not shown:
        shown = f"{files} file(s), {len(skipped)} script(s)" if files else f"{len(skipped)} script(s)"
    return RefusedInput(
        f"{path}: no RL training command of verl in it (found: {shown})",
        "give a folder whose scripts start verl.trainer.main_ppo or a trainer of its own",
    )


def _names(items: Sequence[Found]) -> list[str]:
    """Names of launches: the script's stem, with its folder or a number where several share it."""
    per_script = Counter(item.recorded.script for item in items)
    stems: dict[str, set[Path]] = {}
    for item in items:
        stems.setdefault(item.recorded.script.stem, set()).add(item.recorded.script)
    out: list[str] = []
    count: Counter[Path] = Counter()
    for item in items:
        script = item.recorded.script
        name = script.stem if len(stems[script.stem]) == 1 else f"{script.parent.name}_{script.stem}"
        count[script] += 1
        if per_script[script] > 1:
            name += f"_{count[script]}"
        while name in out:
            name += "_"
        out.append(re.sub(r"[^\w.-]", "_", name))
    return out


class _LaunchReader:
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
        composed, remark, own = self.composed(item, verl)
        first = len(item.recorded.argv) - len(command.arguments)
        wanted = [i for i, word in enumerate(command.arguments) if word in set(command.overrides)]
        places = [item.places[first + i] for i in wanted]
        settings = command_line_settings(parsed, places, composed, item.file, item.line)
        settings = with_yaml(settings, own, composed.config)
        config = {key: clean_value(value) for key, value in composed.config.items()}
        environment, _ = self.environment(item)
        notes = [
            *item.notes,
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
        turns = self._multi_turn(config, data, common)
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
            why = clean_text(composed.error)
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
