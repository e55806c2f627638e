"""Reads a recipe folder: what it launches, with which settings, reward and data, under which verl version."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from migrate_tools.errors import RefusedInput
from migrate_tools.model import Launch, Note, Recipe, Skipped, VerlRef
from migrate_tools.parsing import parse_one_at_a_time
from migrate_tools.verl.choose_verl import best_fit, enclosing_tree, find_verl
from migrate_tools.verl.commands import Kind, classify
from migrate_tools.verl.commands_of import Found, all_commands, python_commands
from migrate_tools.verl.discover import commit_of, discover, show
from migrate_tools.verl.launch_reader import SAMPLE, LaunchReader
from migrate_tools.verl.nothing import nothing_to_train
from migrate_tools.verl.paths import project_root
from migrate_tools.verl.settings import clean_text
from migrate_tools.verl.source import is_verl_tree
from migrate_tools.verl.versions import pin_of, style_of

if TYPE_CHECKING:
    from migrate_tools.sandbox import Sandbox

NOT_READ = (
    "Python launcher: it starts verl from Python; the recipe's scripts were read instead "
    "(name it with --launch to read it)"
)


def read_recipe(
    path: Path,
    *,
    launches: Sequence[str] = (),
    verl_root: Path | None = None,
    verl_version: str | None = None,
    variables: Mapping[str, str] | None = None,
    sandbox: Sandbox,
    progress: Callable[[str], None] = lambda text: None,
) -> Recipe:
    """Read a recipe folder or a single launch script.

    Args:
        launches: names of the scripts to read (file name, stem, relative path or pattern); all when empty.
        verl_root: a verl checkout to read against. verl_version: a release to read against.
        variables: values for shell variables that the scripts expect from outside.
        progress: gets one line a step.

    Raises:
        RefusedInput: no folder, nothing in it, or no RL training command of verl.
        MachineError: no sandbox, or no verl source.
    """
    path = path.absolute()
    base = path if path.is_dir() else path.parent
    project = project_root(base.resolve() if base.exists() else base)
    found = discover(path.resolve() if path.exists() else path, project, launches)
    parse_one_at_a_time()
    warming = Thread(target=_warm)
    warming.start()
    try:
        commands = all_commands(found.scripts, project, sandbox, _links(found.root, project), progress, variables or {})
    finally:
        warming.join()
    reader = LaunchReader(found.root, project, progress)
    rl, skipped, kinds = _sorted(commands.commands, [*found.skipped, *commands.skipped], reader)
    rl, repeated = _without_wrappers(rl)
    skipped += repeated
    if found.launchers and (found.asked or not rl):
        python = python_commands(found.launchers, project)
        more, skipped, others = _sorted(python.commands, [*skipped, *python.skipped], reader)
        rl, kinds = [*rl, *more], [*kinds, *others]
    else:
        skipped += [Skipped(file=show(path, project), reason=NOT_READ) for path in found.launchers]
    if not rl:
        raise nothing_to_train(path, found, project, skipped, kinds)
    sources = _sources(rl, reader, found.root, project, verl_root, verl_version, progress)
    names = _names(rl)
    read, refused = _read_all(reader, rl, names, sources)
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
        notes=(*_secret_notes(len(found.secrets)), *_generation_notes(read)),
    )


def _sorted(
    commands: Sequence[Found], skipped: list[Skipped], reader: LaunchReader
) -> tuple[list[Found], list[Skipped], list[tuple[str, Kind]]]:
    """Commands that train by RL with verl; the others are added to `skipped` and given with their kind and file."""
    rl: list[Found] = []
    kinds: list[tuple[str, Kind]] = []
    for item in commands:
        kind = classify(item.recorded.command)
        if kind.name == "hydra":
            kind = reader.kind_by_configuration(item, kind)
        if kind.name == "rl" or (kind.name == "other" and item.file.endswith(".py")):
            rl.append(item)  # a Python launcher hands over to verl by itself
            continue
        kinds.append((item.file, kind))
        if not any(s.file == item.file and s.reason == kind.reason for s in skipped):
            skipped.append(Skipped(file=item.file, reason=kind.reason))
    return rl, skipped, kinds


def _warm() -> None:
    """Imports what reading needs next, while the scripts run in the sandbox."""
    with suppress(Exception):  # whoever needs it says what is wrong
        for name in ("reward_reader", "data_reader", "extract"):
            import_module(f"migrate_tools.verl.{name}")


def _sources(
    items: Sequence[Found],
    reader: LaunchReader,
    root: Path,
    project: Path,
    verl_root: Path | None,
    verl_version: str | None,
    progress: Callable[[str], None],
) -> list[VerlRef]:
    """The verl source of every command: one for all, unless nothing but their keys tells the version and those belong
    to different generations."""  # fmt: skip

    def choose(group: Sequence[Found]) -> VerlRef:
        choice = find_verl(
            root, project, reader.keys(group), verl_root=verl_root, verl_version=verl_version, progress=progress
        )
        return best_fit(choice, lambda ref: reader.misfits(group[:SAMPLE], ref), progress)

    folders = [root, *(parent for parent in root.parents if parent.is_relative_to(project))]
    told = verl_root or verl_version or enclosing_tree(root, project) or pin_of(folders, project)
    groups: dict[str, list[Found]] = {}
    for item in items:
        hint = style_of(reader.keys([item]))
        groups.setdefault(hint.version if hint.told else "", []).append(item)
    if told or len(groups.keys() - {""}) < 2:
        return [choose(items)] * len(items)
    untold = groups.pop("", [])
    max(groups.values(), key=len).extend(untold)
    chosen = {id(item): verl for group in groups.values() for verl in [choose(group)] for item in group}
    return [chosen[id(item)] for item in items]


def _read_all(
    reader: LaunchReader, items: Sequence[Found], names: Sequence[str], sources: Sequence[VerlRef]
) -> tuple[list[Launch], list[Skipped]]:
    """Every launch that can be read; one with a broken reward or broken data is named, and does not stop the others.

    Raises:
        RefusedInput: none of them can be read.
    """
    read: list[Launch] = []
    refused: list[Skipped] = []
    first: RefusedInput | None = None
    for item, name, verl in zip(items, names, sources, strict=True):
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


def _generation_notes(launches: Sequence[Launch]) -> list[Note]:
    versions: dict[str, list[str]] = {}
    for launch in launches:
        versions.setdefault(launch.verl.version, []).append(launch.name)
    if len(versions) < 2:
        return []
    listed = "; ".join(f"{version}: {', '.join(names[:4])}" for version, names in versions.items())
    text = f"the launches are written for different versions of verl, and each is read against its own ({listed})"
    return [Note(code="several-verl-versions", text=text)]


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
