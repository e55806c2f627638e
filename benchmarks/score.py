"""Scores the translation on whole corpora: every script of verl-recipe and of verl's examples, one line each.

    python benchmarks/score.py --recipe CHECKOUT --verl CHECKOUT [--only PATTERN] [--out TABLE.md] [--summary FILE.md]

A script is read in the sandbox, its settings are composed over the verl that it was written for, translated, and
written as flags, which the flag contract then parses. Nothing is run on data: no parity, no rehearsal. Exit code 1 when
something is unknown, lost, invalid or crashed.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
import shlex
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bash_witness import witness
from migrate_tools.errors import MigrateError, RefusedInput
from migrate_tools.mapping.effective import argv_of
from migrate_tools.mapping.translate import translate
from migrate_tools.model import Launch, Recipe, Translation
from migrate_tools.relax.contract import load_contract
from migrate_tools.relax.flag_rules import check_rules
from migrate_tools.sandbox import Sandbox, open_sandbox
from migrate_tools.verl.commands import parse
from migrate_tools.verl.discover import SCRIPT_SUFFIXES
from migrate_tools.verl.reader import read_recipe

STATUSES = ("exact", "derived", "approximate", "automatic", "no_effect", "unsupported", "unknown")
NOTHING = "no RL training command of verl in it"
HEAD = ("script", "bash", "read", "verl", "composed", *STATUSES, "flags", "at best", "why not better")


@dataclass
class Line:
    """One training command, or a script that has none."""

    script: str
    bash: int
    """RL training commands that plain bash starts."""
    read: int = 0
    verl: str = ""
    composed: str = ""
    """"yes", or the first setting that the version's schema refuses (it is kept), or why nothing was composed."""
    settings: Counter[str] = field(default_factory=Counter)
    unknown: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    flags: int = 0
    invalid: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    verdict: str = ""
    why: str = ""
    crash: str = ""

    def cells(self) -> tuple[str, ...]:
        """The line of the table."""
        counts = [str(self.settings[status]) if self.settings else "" for status in STATUSES]
        flags = str(self.flags) if self.flags else ""
        if self.invalid:
            flags += f" ({len(self.invalid)} invalid)"
        seen = (str(self.bash), str(self.read))
        return (self.script, *seen, self.verl, self.composed, *counts, flags, self.verdict, self.crash or self.why)


def main() -> int:
    """Score, print, and say by the exit code whether all is accounted for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipe", type=Path, help="checkout of verl-recipe")
    parser.add_argument("--verl", type=Path, help="checkout of verl; its examples/ are scored")
    parser.add_argument("--project", type=Path, action="append", default=[], help="another checkout, scored as a whole")
    parser.add_argument("--only", default="*", help="pattern of script paths")
    parser.add_argument("--out", type=Path, help="file for the table of all scripts")
    parser.add_argument("--summary", type=Path, help="file for totals and refusals")
    options = parser.parse_args()
    begin = time.monotonic()
    sandbox = open_sandbox()
    lines: list[Line] = []
    corpora = [(options.recipe, "."), (options.verl, "examples"), *((path, ".") for path in options.project)]
    for project, below in corpora:
        if project is not None:
            lines += score(project.resolve(), below, options.only, sandbox)
    table = "\n".join(markdown(HEAD, [line.cells() for line in lines]))
    text = "\n".join(summary(lines, time.monotonic() - begin))
    if options.out:
        options.out.write_text(table + "\n", "utf-8")
    if options.summary:
        options.summary.write_text(text + "\n", "utf-8")
    print(f"{table}\n\n{text}")
    return 1 if any(line.unknown or line.lost or line.invalid or line.crash for line in lines) else 0


def score(project: Path, below: str, only: str, sandbox: Sandbox) -> Iterator[Line]:
    """The lines of one checkout, folder by folder."""
    scripts = sorted(path for path in (project / below).rglob("*") if path.suffix in SCRIPT_SUFFIXES and path.is_file())
    scripts = [path for path in scripts if fnmatch.fnmatch(str(path.relative_to(project)), only)]
    seen = witness(scripts, project, sandbox)
    folders: dict[Path, list[Path]] = {}
    for path in scripts:
        parts = path.relative_to(project / below).parts
        folders.setdefault(project / below / parts[0] if len(parts) > 1 else path, []).append(path)
    for folder, members in folders.items():
        print(f"{folder.relative_to(project)}: {len(members)} scripts", file=sys.stderr, flush=True)
        yield from _folder(folder, members, project, seen, sandbox)


def _folder(
    folder: Path, members: Sequence[Path], project: Path, seen: dict[Path, list[tuple[str, ...]]], sandbox: Sandbox
) -> Iterator[Line]:
    names = {str(path.relative_to(project)): len(seen[path]) for path in members}
    try:
        recipe = read_recipe(folder, sandbox=sandbox)
    except MigrateError as error:
        if len(members) > 1:  # each script by itself, so that each says its own reason
            for path in members:
                yield from _folder(path, [path], project, seen, sandbox)
            return
        why = error.message.replace(f"{project}/", "").removeprefix(f"{folder.relative_to(project)}: ")
        verdict = "left out" if why.startswith(NOTHING) else "refused"
        yield from (Line(name, count, verdict=verdict, why=_found(why)) for name, count in names.items())
        return
    except Exception as error:
        traceback.print_exc()
        crash = f"{type(error).__name__}: {error}"
        yield from (Line(name, count, verdict="crash", crash=crash) for name, count in names.items())
        return
    launches: dict[str, list[Launch]] = {}
    for launch in recipe.launches:
        launches.setdefault(launch.script, []).append(launch)
    for name, count in names.items():
        for launch in launches.get(name, []):
            yield _launch(recipe, launch, count, len(launches[name]))
        if name not in launches:
            reason = "; ".join(dict.fromkeys(item.reason for item in recipe.skipped if item.file == name))
            verdict = "refused" if reason.startswith("refused: ") else "left out"
            yield Line(name, count, verdict=verdict, why=reason.removeprefix("refused: ") or "nothing said")


def _found(why: str) -> str:
    """What a folder without RL training holds instead, without the words around it."""
    match = re.fullmatch(rf"{NOTHING}.*?\(found: (.*)\)", why)
    text = match[1] if match else why
    return "starts no training" if re.fullmatch(r"\d+ (?:file|script)\(s\).*", text) else text


def _launch(recipe: Recipe, launch: Launch, bash: int, read: int) -> Line:
    composed = _composed(launch).replace(f"{Path(recipe.project_root).parent}/", "")
    line = Line(launch.script, bash, read, launch.verl.version, composed)
    try:
        contract = load_contract()
        item = translate(recipe, launch, algo=recipe.name.replace("-", "_"), contract=contract)
    except RefusedInput as error:
        line.verdict, line.why = "refused", error.line()
        line.settings = Counter({"unsupported": len(launch.settings)})
        return line
    except Exception as error:
        traceback.print_exc()
        line.verdict, line.crash = "crash", f"{type(error).__name__}: {error}"
        return line
    line.settings = Counter(setting.status for setting in item.settings)
    line.unknown = tuple(setting.key for setting in item.settings if setting.status == "unknown")
    line.lost = _lost(launch, item)
    line.flags = len(item.flags)
    line.invalid, line.rules = _flags(item)
    line.verdict = item.verdict_cap
    line.why = "; ".join(item.refusals or _why(item))
    return line


def _composed(launch: Launch) -> str:
    for note in launch.notes:
        if note.code in ("config-not-composed", "config-not-found"):
            return note.text
    skew = [note.text for note in launch.notes if note.code == "version-skew"]
    return f"{len(skew)} kept by force: {skew[0]}" if skew else "yes"


def _lost(launch: Launch, item: Translation) -> tuple[str, ...]:
    """Overrides of the recorded command that are in no outcome."""
    command = parse(launch.argv) if launch.argv else None
    given = {word.lstrip("+~").split("=", 1)[0] for word in command.overrides} if command else set()
    told = {setting.key for setting in item.settings}
    told |= {key.rpartition("@")[2] or key for key in told} | {key.partition("@")[0] for key in told}
    return tuple(sorted(key for key in given if key not in told and key.partition("@")[0] not in told))


def _flags(item: Translation) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the contract finds wrong with the flags of both modes: unknown or ill-typed ones, and rules broken."""
    invalid: dict[str, None] = {}
    rules: dict[str, None] = {}
    modes = ("SYNC",) if item.async_refusal else ("SYNC", "ASYNC")
    for mode in modes if item.flags else ():
        words = [word for text in item.model_args for word in shlex.split(text)]
        parsed = load_contract().parse([*argv_of(item.flags, mode), *words])
        invalid |= dict.fromkeys(problem.text for problem in parsed.errors)
        found = check_rules(parsed, gpus=item.gpus.total if item.gpus else None)
        rules |= dict.fromkeys(f"{problem.rule}: {problem.text}" for problem in found if problem.severity == "error")
    return tuple(invalid), tuple(rules)


def _why(item: Translation) -> list[str]:
    hard = [
        f"{setting.key}: {setting.reason}"
        for setting in item.settings
        if setting.status == "unknown" or (setting.status == "unsupported" and setting.risk == "training")
    ]
    return [*item.cap_reasons, *hard]


def summary(lines: Sequence[Line], seconds: float) -> Iterator[str]:
    """Totals, then every refusal with its reason."""
    trained = [line for line in lines if line.read]
    scripts = {line.script for line in lines}
    verdicts = Counter(line.verdict for line in lines)
    statuses: Counter[str] = sum((line.settings for line in lines), Counter())
    fewer = sorted({line.script for line in lines if line.bash > line.read and line.verdict != "refused"})
    commands = len({line.script for line in trained})
    started = sum({line.script: line.bash for line in lines}.values())
    yield f"{len(scripts)} scripts, {len(trained)} RL training commands in {commands} of them; plain bash, with nothing"
    yield f"set, starts {started}. {seconds:.0f} s."
    yield ""
    yield from markdown(
        ("", "count", "which"),
        [
            ("unknown settings", str(sum(len(line.unknown) for line in lines)), _which(lines, "unknown")),
            ("lost settings", str(sum(len(line.lost) for line in lines)), _which(lines, "lost")),
            ("invalid flags", str(sum(len(line.invalid) for line in lines)), _which(lines, "invalid")),
            ("rules between flags broken", str(sum(len(line.rules) for line in lines)), _which(lines, "rules")),
            ("crashes", str(verdicts["crash"]), ", ".join(line.script for line in lines if line.crash)),
            ("commands that bash starts and the reader misses", str(len(fewer)), ", ".join(fewer)),
        ],
    )
    yield ""
    composed = Counter(
        "yes" if line.composed == "yes" else "forced" if "kept by force" in line.composed else "no" for line in trained
    )
    yield f"Composed: {composed['yes']} as they stand; {composed['forced']} with settings that their verl lacks (kept"
    yield f"and reported); {composed['no']} not, a configuration being absent: only the recipe's own settings count."
    yield f"Settings: {', '.join(f'{statuses[status]} {status}' for status in STATUSES)}."
    yield f"At best: {', '.join(f'{count} {name}' for name, count in verdicts.most_common())}."
    yield ""
    whys = [line for line in lines if line.verdict in ("refused", "left out")]
    groups: dict[tuple[str, str], list[str]] = {}
    for line in whys:
        groups.setdefault((line.verdict, line.why), []).append(line.script)
    rows = [(verdict, why, "<br>".join(names)) for (verdict, why), names in sorted(groups.items())]
    yield from markdown(("", "reason", "scripts"), rows)


def _which(lines: Sequence[Line], name: str) -> str:
    return "; ".join(f"{line.script}: {', '.join(getattr(line, name))}" for line in lines if getattr(line, name))


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A Markdown table, a line at a time."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + " --- |" * len(head)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |"


if __name__ == "__main__":
    raise SystemExit(main())
