"""Training commands of launch scripts, recorded in the sandbox."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from migrate_tools.verl import shim, shim_commands
from migrate_tools.verl.commands import Command, parse

if TYPE_CHECKING:
    from migrate_tools.sandbox import Sandbox

SCRIPT_SECONDS = 8.0
BATCH = 60
_ROOTS = (f"{shim.CWD}/", "/project/")


@dataclass(frozen=True)
class Recorded:
    """One command as a script starts it."""

    script: Path
    argv: tuple[str, ...]
    """As the process would get it; temporary names and markers still in it."""
    command: Command
    environment: dict[str, str]
    parents: tuple[tuple[str, ...], ...] = ()
    """Commands that started it, outermost first (`ray job submit ...`)."""
    cwd: str = ""


@dataclass(frozen=True)
class ScriptRun:
    """What running one script gave."""

    script: Path
    stage: str = ""
    commands: tuple[Recorded, ...] = ()
    unset: tuple[str, ...] = ()
    ran: dict[str, set[int]] = field(default_factory=dict)
    """Path inside the project -> lines that ran."""
    problem: str = ""
    """Why nothing was recorded, in one line."""
    others: tuple[str, ...] = ()
    """Python programs that it starts and that train nothing that is known."""
    given: dict[str, str] = field(default_factory=dict)
    """Variables that the user gave."""


def run_scripts(
    scripts: Sequence[Path],
    project: Path,
    sandbox: Sandbox,
    links: dict[str, str] | None = None,
    circular: Collection[Path] = (),
    variables: Mapping[str, str] | None = None,
) -> dict[Path, ScriptRun]:
    """Run launch scripts in the sandbox with every external command replaced by a recorder.

    `links` are extra names in the working folder (name -> path inside the sandbox); `circular` are scripts that
    source themselves: they get one short try. `variables` are set for all of them.
    """
    given = dict(variables or {})
    found: dict[Path, ScriptRun] = {}
    for start in range(0, len(scripts), BATCH):
        batch = scripts[start : start + BATCH]
        records = _job(batch, project, sandbox, links or {}, circular, given)
        if records is None and len(batch) > 1:
            # one of them disturbed the others: each alone
            records = [(_job([item], project, sandbox, links or {}, circular, given) or [None])[0] for item in batch]
        for script, record in zip(batch, records or [None], strict=True):
            found[script] = replace(_read(script, record), given=given)
    return found


def _job(
    scripts: Sequence[Path],
    project: Path,
    sandbox: Sandbox,
    links: dict[str, str],
    circular: Collection[Path],
    variables: Mapping[str, str],
) -> list[Any] | None:
    """Records of the scripts in order; None when the job as a whole failed."""  # fmt: skip
    from migrate_tools.sandbox import PYTHON, Job, Limits, Mount, python_env, python_mounts

    with tempfile.TemporaryDirectory(prefix="migrate-shim-") as folder:
        shims = Path(folder) / "shim"
        shims.mkdir()
        Path(folder).chmod(0o755)
        shims.chmod(0o755)
        shim_commands.write_shims(shims, PYTHON)
        items = [{"path": f"/project/{script.relative_to(project)}", "once": script in circular} for script in scripts]
        work = {
            "scripts": items,
            "links": links,
            "seconds": SCRIPT_SECONDS,
            "workers": 2,
            "variables": dict(variables),
        }
        outcome = sandbox.run(
            Job(
                argv=(PYTHON, "-m", "migrate_tools.verl.shim"),
                mounts=(*python_mounts(), Mount(project, "/project"), Mount(shims, "/shim")),
                env=python_env(),
                stdin=json.dumps(work).encode("utf-8", "surrogateescape"),
                limits=Limits(seconds=30 + 25 * len(scripts), processes=192, output_bytes=64 << 20),
            )
        )
    try:
        records = json.loads(outcome.stdout)
    except ValueError:
        return None
    return records if isinstance(records, list) and len(records) == len(scripts) else None


def _read(script: Path, record: Any) -> ScriptRun:
    if not isinstance(record, dict) or "calls" not in record:
        reason = record.get("error", "") if isinstance(record, dict) else ""
        return ScriptRun(script, problem=reason or "the sandbox gave no answer for it")
    calls = {call["id"]: call for call in record["calls"]}
    commands = []
    for call in record["calls"]:
        command = parse(call["argv"])
        if command is None or not call["training"]:
            continue
        commands.append(
            Recorded(
                script, tuple(call["argv"]), command, dict(call["environment"]), _parents(call, calls), call["cwd"]
            )
        )
    ran = {_inside(name): set(lines) for name, lines in record["trace"].items() if _inside(name)}
    parsed = [parse(call["argv"]) for call in record["calls"] if not call["training"]]
    others = tuple(dict.fromkeys(item.module for item in parsed if item is not None))
    return ScriptRun(
        script, record["stage"], tuple(commands), tuple(record["unset"]), ran, _problem(record, commands), others
    )


def _parents(call: dict[str, Any], calls: dict[str, dict[str, Any]]) -> tuple[tuple[str, ...], ...]:
    found: list[tuple[str, ...]] = []
    while call.get("parent") in calls and len(found) < 6:
        call = calls[call["parent"]]
        found.insert(0, tuple(call["argv"]))
    return tuple(found)


def _inside(name: str) -> str:
    """A traced file's path relative to the project; empty for files that are not the project's."""
    if not name.startswith("/"):
        return name.removeprefix("./")
    for root in _ROOTS:
        if name.startswith(root):
            return name.removeprefix(root)
    return ""


def _problem(record: dict[str, Any], commands: Iterable[Recorded]) -> str:
    if any(True for _ in commands):
        return ""
    if record["timed_out"]:
        return f"it was still running after {SCRIPT_SECONDS:.0f} s (it waits for something that only a cluster has)"
    lines = [line for line in record["stderr"].splitlines() if ": line " in line or "error" in line.lower()]
    for root in _ROOTS:
        lines = [line.replace(root, "") for line in lines]
    return lines[-1][:300] if lines else ""


def runtime_env(parents: Iterable[Sequence[str]], project: Path) -> tuple[dict[str, str], str]:
    """Variables of `ray job submit --runtime-env[-json]`, and the file they come from ("" when inline)."""
    for argv in parents:
        text, name = "", ""
        for index, word in enumerate(argv):
            if word == "--":
                break
            for option in ("--runtime-env-json", "--runtime-env"):
                if word == option and index + 1 < len(argv):
                    text, name = argv[index + 1], option
                elif word.startswith(option + "="):
                    text, name = word.split("=", 1)[1], option
        if name == "--runtime-env-json":
            return _env_vars(text), ""
        if name:
            from migrate_tools.verl.paths import resolve

            path = resolve(strip_roots(text), project)
            if path is not None and path.is_file() and path.stat().st_size < 1 << 20:
                shown = str(path.relative_to(project)) if path.is_relative_to(project) else path.name
                return _env_vars(path.read_text("utf-8", "replace")), shown
    return {}, ""


def _env_vars(text: str) -> dict[str, str]:
    import yaml

    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError:
        return {}
    variables = data.get("env_vars") if isinstance(data, dict) else None
    return {str(key): str(value) for key, value in variables.items()} if isinstance(variables, dict) else {}


def strip_roots(text: str) -> str:
    """A text with the sandbox's names turned back: the home folder, the user, and paths of the project."""
    text = text.replace(shim.HOME, "$HOME").replace(shim.USER, "$USER")
    for root in _ROOTS:
        text = text.replace(root, "")
    for root in (shim.CWD, "/project"):
        text = "." if text == root else text
    return text.replace("/work/TMP__", "/tmp/tmp")
