"""Every command of a recipe's scripts, executed or read from the tree, with the place of each of its words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from migrate_tools.model import Note, Skipped, SourceRef
from migrate_tools.verl import shim
from migrate_tools.verl.align import Placed, best_command, outer_command, placed
from migrate_tools.verl.commands import parse
from migrate_tools.verl.dialects import PROGRAMS
from migrate_tools.verl.discover import show
from migrate_tools.verl.launch import Recorded, ScriptRun, run_scripts, strip_roots
from migrate_tools.verl.paths import resolve
from migrate_tools.verl.pylaunch import ADVICE, PythonLauncher, read_launcher
from migrate_tools.verl.shellmap import Evaluator
from migrate_tools.verl.shelltree import Script, ShellSyntaxError, line_of, parse_script, side_effects
from migrate_tools.verl.symbolic import Word, marked_text
from migrate_tools.verl.untaken import untaken_settings

if TYPE_CHECKING:
    from migrate_tools.sandbox import Sandbox

UNKNOWN = "__SHELL__"
"""Stands for a part that only a run could tell, in commands read from the tree."""
MARKER = re.compile(r"__UNSET_(\w+?)__")


@dataclass(frozen=True)
class Found:
    """One command with the places of its words."""

    recorded: Recorded
    how: str
    file: str
    line: int | None
    places: tuple[Placed | None, ...]
    unset: tuple[str, ...]
    notes: tuple[Note, ...]


@dataclass(frozen=True)
class AllCommands:
    """What the scripts of a recipe start."""

    commands: tuple[Found, ...]
    skipped: tuple[Skipped, ...]
    features: tuple[Note, ...]


class _Scripts:
    """Parsed scripts of a project, each once."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.parsed: dict[Path, Script | str] = {}

    def get(self, path: Path) -> Script | str:
        """The parsed script, or why it cannot be parsed."""
        path = path.resolve()
        if path not in self.parsed:
            try:
                self.parsed[path] = parse_script(path, show(path, self.project))
            except ShellSyntaxError as error:
                self.parsed[path] = f"not valid bash: {error}"
            except OSError as error:
                self.parsed[path] = f"cannot be read ({error.strerror})"
        return self.parsed[path]

    def sourced(self, text: str, origin: Script) -> Script | None:
        """The script that a `source` word means."""
        clean = re.sub(r'["\']', "", text)
        clean = re.sub(r"\$\([^)]*\)|\$\{?\w+\}?|`[^`]*`", ".", clean)
        found = resolve(strip_roots(clean), self.project, (origin.path.parent,))
        if found is None or not found.is_file():
            return None
        script = self.get(found)
        return script if isinstance(script, Script) else None


def all_commands(
    scripts: Sequence[Path],
    project: Path,
    sandbox: Sandbox,
    links: dict[str, str],
    progress: Callable[[str], None],
    variables: Mapping[str, str],
) -> AllCommands:
    """Run the scripts in the sandbox and place every word of their commands.

    `variables` are what the user gives for variables that scripts expect from outside.
    """  # fmt: skip
    progress(f"running {len(scripts)} script(s) with recorders")
    trees = _Scripts(project)
    circular = [path for path in scripts if _sources_itself(path, trees)]
    runs = run_scripts(scripts, project, sandbox, links, circular, variables)
    commands: list[Found] = []
    skipped: list[Skipped] = []
    features: list[Note] = []
    for path in scripts:
        script = trees.get(path)
        run = runs[path]
        if isinstance(script, str):
            if not run.commands:
                skipped.append(Skipped(file=show(path, project), reason=script))
                continue
            commands += [_unplaced(item, project, run) for item in run.commands]
            continue
        found, cycle = _of_script(script, run, trees)
        if found:
            commands += found
            features += side_effects(script)
        elif cycle:
            skipped.append(Skipped(file=script.file, reason=f"sources itself in a circle: {' -> '.join(cycle)}"))
        else:
            reason = f"no training command was reached: {run.problem}" if run.problem else "no training command"
            if not run.problem and run.others:
                reason += f" of verl; it starts {', '.join(strip_roots(name) for name in run.others[:3])}"
            skipped.append(Skipped(file=script.file, reason=reason))
    return AllCommands(tuple(commands), tuple(skipped), tuple(features))


def _sources_itself(path: Path, trees: _Scripts) -> bool:
    """Whether following the script's text comes back to it (bash would go round until its stack is full)."""
    script = trees.get(path)
    if isinstance(script, str) or not re.search(rb"(?m)^\s*(?:source|\.)\s", script.source):
        return False
    evaluator = Evaluator(trees.sourced)
    evaluator.follow(script)
    return bool(evaluator.cycle)


def _of_script(script: Script, run: ScriptRun, trees: _Scripts) -> tuple[list[Found], list[str]]:
    arguments = shim.GIVEN.get(run.stage, ())
    past_exit = run.stage in shim.PAST_EXIT
    evaluator = Evaluator(trees.sourced, run.ran if run.commands else None, arguments, past_exit)
    evaluator.follow(script)
    if not run.commands:
        return _static(script, evaluator, run), evaluator.cycle
    notes = [*_run_notes(script, run), *_untaken_notes(run, trees, evaluator)]
    values = {"HOME": shim.HOME, "USER": shim.USER, **{name: shim.UNSET.format(name) for name in run.unset}}
    values.update(run.given)
    values.update({name: "" for name in run.unset if name in shim.EMPTY_PATHS})
    used: set[int] = set()
    out = []
    for item in run.commands:
        index, words = best_command(item.argv, evaluator.commands, values, used)
        if item.parents:
            outer, same = outer_command(item.parents[0], item.argv, evaluator.commands, values, used)
            if outer is not None and not same and outer != index:
                index, words = outer, [None] * len(item.argv)
        if index is not None:
            used.add(index)
        out.append(_found(item, "executed", script, evaluator, index, words, values, run, notes))
    return out, []


def _found(
    item: Recorded, how: str, script: Script, evaluator: Evaluator, index: int | None, words: Sequence[Word | None],
    values: dict[str, str], run: ScriptRun, notes: Sequence[Note],
) -> Found:  # fmt: skip
    places = tuple(placed(word, text, values) for word, text in zip(words, item.argv, strict=True))
    item = _with_markers(item, words, places, values)
    bare = [name for place in places if place for name in place.variables]
    markers = [name for text in item.argv for name in MARKER.findall(text)]
    unset = tuple(dict.fromkeys([*run.unset, *markers, *bare]))
    unset = tuple(name for name in unset if name not in shim.EMPTY_PATHS and name not in run.given)
    command = evaluator.commands[index] if index is not None else None
    return Found(
        item, how, command.script.file if command else script.file, command.line if command else None, places, unset,
        tuple(notes),
    )  # fmt: skip


def _with_markers(
    item: Recorded, words: Sequence[Word | None], places: Sequence[Placed | None], values: dict[str, str]
) -> Recorded:
    """The command with a marker for every variable that was empty because nobody sets it."""
    argv = list(item.argv)
    for index, (word, place) in enumerate(zip(words, places, strict=True)):
        if word is not None and place is not None and "=" in argv[index]:
            argv[index] = marked_text(word.pieces, values, argv[index], shim.UNSET)
    command = parse(argv) if tuple(argv) != item.argv else item.command
    return replace(item, argv=tuple(argv), command=command or item.command)


def _unplaced(item: Recorded, project: Path, run: ScriptRun) -> Found:
    return Found(item, "executed", show(item.script, project), None, (None,) * len(item.argv), run.unset, ())


def _static(script: Script, evaluator: Evaluator, run: ScriptRun) -> list[Found]:
    """Commands read from the tree alone, for a script that could not be run."""
    out = []
    for index, command in enumerate(evaluator.commands):
        words = _unwrapped(command.words)
        argv = tuple(_static_text(word) for word in words)
        parsed = parse(argv)
        if parsed is None or not shim.is_training(list(argv)):
            continue
        item = Recorded(script.path, argv, parsed, _exports(evaluator), cwd=shim.CWD)
        why = run.problem or "running it gave no training command"
        note = Note(
            code="read-without-running",
            text=f"the command was read from the script's text, not recorded from a run: {why}",
            source=SourceRef(file=command.script.file, line=command.line),
        )
        values = {"HOME": shim.HOME, "USER": shim.USER}
        out.append(_found(item, "static", script, evaluator, index, words, values, ScriptRun(script.path), [note]))
    return out


def _unwrapped(words: list[Word]) -> list[Word]:
    for index, word in enumerate(words):
        name = (word.known() or "").rsplit("/", 1)[-1]
        if re.match(r"^(?:python[\d.]*|torchrun|accelerate|deepspeed)$", name) or name in PROGRAMS:
            return words[index:]
    return words


def python_commands(launchers: Sequence[Path], project: Path) -> AllCommands:
    """The commands of Python launchers, read from their text; one that cannot be read is named with what to do."""
    commands: list[Found] = []
    skipped: list[Skipped] = []
    for path in launchers:
        launcher = read_launcher(path, show(path, project))
        found = [item for index in range(len(launcher.commands)) if (item := _of_python(launcher, index))]
        commands += found
        if not found:
            at = f" (line {launcher.line})" if launcher.line else ""
            problem = launcher.problem or "it starts no training command of verl"
            skipped.append(Skipped(file=launcher.file, reason=f"Python launcher: {problem}{at}; {ADVICE}"))
    return AllCommands(tuple(commands), tuple(skipped), ())


def _of_python(launcher: PythonLauncher, index: int) -> Found | None:
    started = launcher.commands[index]
    argv = tuple(_static_text(word) for word in started.words)
    parsed = parse(argv)
    if parsed is None:
        return None
    values = {"HOME": shim.HOME, "USER": shim.USER}
    places = tuple(placed(word, text, values) for word, text in zip(started.words, argv, strict=True))
    unset = tuple(dict.fromkeys(name for place in places if place for name in place.variables))
    where = SourceRef(file=launcher.file, line=started.line)
    text = "the command was read from the text of a Python launcher, not recorded from a run"
    notes = [Note(code="read-from-python", text=text, source=where)]
    for what, line in launcher.patches:
        text = f"the launcher replaces {what} at run time; what that changes is not translated"
        notes.append(Note(code="verl-patched", text=text, source=SourceRef(file=launcher.file, line=line)))
    for what, line in launcher.untaken:
        text = f"not followed, because only a run can tell it: {what[:160]}"
        notes.append(Note(code="branch-not-taken", text=text, source=SourceRef(file=launcher.file, line=line)))
    item = Recorded(launcher.path, argv, parsed, {}, cwd=shim.CWD)
    item = _with_markers(item, started.words, places, values)
    return Found(item, "static", launcher.file, started.line, places, unset, tuple(notes))


def _static_text(word: Word) -> str:
    out = ""
    for piece in word.pieces:
        if piece.kind == "literal":
            out += piece.text
        elif piece.kind == "variable" and piece.text in ("HOME", "USER"):
            out += shim.HOME if piece.text == "HOME" else shim.USER
        elif piece.kind == "variable":
            out += _static_text(Word(piece.default, word.file, word.line)) if piece.default is not None else ""
        else:
            out += UNKNOWN
    return out


def _exports(evaluator: Evaluator) -> dict[str, str]:
    out = {}
    for name in evaluator.exported:
        value = evaluator.variables.get(name)
        if isinstance(value, tuple):
            out[name] = _static_text(Word(value, "", 0))
    return out


def _run_notes(script: Script, run: ScriptRun) -> list[Note]:
    if run.stage in shim.GIVEN:
        text = "the script takes arguments; made-up ones were given to read it"
        return [Note(code="script-arguments", text=text, source=script.ref(None))]
    if run.stage == shim.PAST_CHECKS:
        text = "the script stops by itself here (a check, or a step that fails); it was read past that point"
        return [Note(code="script-checks-passed-over", text=text, source=script.ref(None))]
    if "forgiving" in run.stage:
        text = "the script needs files or commands that are not at hand; those steps were passed over to read it"
        return [Note(code="script-missing-parts", text=text, source=script.ref(None))]
    return []


def _untaken_notes(run: ScriptRun, trees: _Scripts, evaluator: Evaluator) -> list[Note]:
    notes = []
    seen = {command.script.path: command.script for command in evaluator.commands}
    for script in seen.values():
        if script.file not in run.ran:
            continue
        for label, line, count in untaken_settings(script, run.ran[script.file]):
            text = f"not taken by default: {label[:160]} ({count} setting{'s' if count > 1 else ''} there)"
            notes.append(Note(code="branch-not-taken", text=text, source=script.ref(line)))
    return notes


__all__ = ["MARKER", "UNKNOWN", "AllCommands", "Found", "all_commands", "line_of", "python_commands"]
