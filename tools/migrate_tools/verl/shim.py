"""Runs launch scripts inside the sandbox with every external command replaced by a recorder.

Standard library only. Started as `python -m migrate_tools.verl.shim` with the job as JSON on stdin; the records of all
scripts come back as JSON on stdout. Nothing that a script names is really run but bash, the core utilities and,
isolated, `python3 -c` (scripts use it for small sums).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from migrate_tools.verl.commands import classify, parse
from migrate_tools.verl.shim_commands import USER

HOME = "/work/HOME__"
CWD = "/work/cwd"
UNSET = "__UNSET_{}__"
MAX_MARKERS = 40
ARGUMENTS = ("8", "__UNSET_ARG2__", "__UNSET_ARG3__", "__UNSET_ARG4__", "__UNSET_ARG5__", "__UNSET_ARG6__")
NUMBERS = ("-1", "1000", "8", "8", "8", "8")
"""For scripts in stages (`script.sh FIRST_STAGE LAST_STAGE`): all of them."""
GIVEN = {"arguments": ARGUMENTS, "numbers": NUMBERS}
"""Stage of the ladder -> the arguments that it makes up."""
PAST_CHECKS = "past its own checks"
PAST_EXIT = (PAST_CHECKS, "numbers")
"""Stages in which `exit` does not end the script."""
EMPTY_PATHS = frozenset({"PYTHONPATH", "LD_LIBRARY_PATH", "PS1", "LIBRARY_PATH", "CPATH"})
TRACE_BYTES = 4 << 20
RECORD_BYTES = 1 << 20
_INTERNAL = re.compile(
    r"^(?:_|SHLVL|PWD|OLDPWD|SHIM_\w*|BASH_\w*|PS4|HOME|USER|LOGNAME|PATH|LANG|TERM|TMPDIR|VERL_USE_UV)$"
)


class Runner:
    """Runs one script through the ladder of settings until it gives a training command."""

    def __init__(self, script: dict[str, Any], log_root: Path, seconds: float, variables: dict[str, str]) -> None:
        self.path: str = script["path"]
        self.arguments: list[str] = list(script.get("arguments", ()))
        self.once: bool = bool(script.get("once"))
        self.log_root = log_root
        self.seconds = min(seconds, 2.0) if self.once else seconds
        self.markers: dict[str, str] = {}
        self.variables = variables
        self.number = 0

    def read(self) -> dict[str, Any]:
        """The best record: the first stage that gives a training command, else the first one at all."""
        own = str(Path(self.path).parent)
        given = self.arguments
        stages = [
            ("plain", CWD, "plain", given),
            ("own folder", own, "plain", given),
            ("forgiving", CWD, "forgiving", given),
            ("own folder, forgiving", own, "forgiving", given),
            (PAST_CHECKS, CWD, "unguarded", given),
        ]
        if not self.arguments:
            stages.insert(4, ("arguments", CWD, "forgiving", list(ARGUMENTS)))
            stages.append(("numbers", CWD, "unguarded", list(NUMBERS)))
        best: dict[str, Any] | None = None
        slow = False
        for stage, cwd, env, arguments in stages:
            record = self._with_markers(stage, cwd, env, arguments)
            if best is None or _rank(record) > _rank(best):
                best = record
            if record["training"] and not _source_failed(record):
                break
            if self.once or (slow and record["timed_out"]):  # it will not end in the next stage either
                break
            slow = slow or bool(record["timed_out"])
        assert best is not None
        return best

    def _with_markers(self, stage: str, cwd: str, env: str, arguments: list[str]) -> dict[str, Any]:
        """Run; a variable that must be set and is not gets its own name as a marker, and the script runs again."""
        self.markers = {}
        while True:
            record = self._once(cwd, env, arguments)
            record["stage"] = stage
            record["unset"] = sorted(self.markers)
            name = _missing_variable(record["stderr"])
            if record["training"] or name is None or name in self.markers or len(self.markers) >= MAX_MARKERS:
                return record
            self.markers[name] = "" if name in EMPTY_PATHS else UNSET.format(name)

    def _once(self, cwd: str, env: str, arguments: list[str]) -> dict[str, Any]:
        self.number += 1
        log = self.log_root / str(self.number)
        log.mkdir(parents=True)
        environment = {
            "PATH": "/shim:/opt/sandbox/bin:/usr/local/bin:/usr/bin:/bin", "HOME": HOME, "USER": USER,
            "LOGNAME": USER, "LANG": "C.UTF-8", "TERM": "dumb", "SHIM_LOG": str(log),
            "BASH_ENV": f"/shim/{env}.env", "VERL_USE_UV": "0", **self.variables, **self.markers,
        }  # fmt: skip
        started = time.monotonic()
        code, errors, timed_out = _run(["bash", self.path, *arguments], cwd, environment, log, self.seconds)
        calls = list(_calls(log, environment))
        record = {
            "returncode": code,
            "stderr": errors,
            "timed_out": timed_out,
            "seconds": time.monotonic() - started,
            "cwd": cwd,
            "calls": calls,
            "trace": _trace(log / "trace"),
            "training": sum(bool(call["training"]) for call in calls),
        }
        shutil.rmtree(log, ignore_errors=True)
        return record


def _rank(record: dict[str, Any]) -> tuple[int, int, int]:
    return (min(record["training"], 1), -int(_source_failed(record)), record["training"])


def _source_failed(record: dict[str, Any]) -> bool:
    """Whether a sourced file was not found (bash names the file itself then, without "cannot access")."""
    return bool(re.search(r"line \d+: [^:\n]+: No such file or directory", record["stderr"]))


def _missing_variable(errors: str) -> str | None:
    found = re.findall(r"line \d+: ([A-Za-z_]\w*)(?:\[[^\]]*\])?: (?!command not found|readonly|syntax)", errors)
    return found[-1] if found else None


def _run(argv: list[str], cwd: str, env: dict[str, str], log: Path, seconds: float) -> tuple[int | None, str, bool]:
    errors = log / "stderr"
    with errors.open("wb") as stream:
        process = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stream,
            start_new_session=True,
        )  # fmt: skip
        timed_out = False
        try:
            code: int | None = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            timed_out, code = True, None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    with errors.open("rb") as read:
        read.seek(max(0, errors.stat().st_size - 20_000))
        return code, read.read().decode("utf-8", "replace"), timed_out


def _calls(log: Path, base: dict[str, str]) -> Iterable[dict[str, Any]]:
    """Recorded calls in order, with the variables that the script gave them."""
    records = sorted(log.glob("*.argv"), key=lambda path: (path.stat().st_mtime_ns, path.name))
    for path in records[:500]:
        argv = _words(path)
        if not argv:
            continue
        environment = {}
        for item in _words(path.with_suffix(".env")):
            name, sep, value = item.partition("=")
            if sep and not _INTERNAL.match(name) and base.get(name) != value and "%%" not in name:
                environment[name] = value
        parent = next((item[12:] for item in _words(path.with_suffix(".env")) if item.startswith("SHIM_PARENT=")), "")
        cwd = path.with_suffix(".cwd")
        yield {
            "id": path.name.removesuffix(".argv"),
            "argv": argv,
            "environment": environment,
            "parent": parent,
            "cwd": cwd.read_text("utf-8", "replace").strip() if cwd.exists() else "",
            "training": is_training(argv),
        }


def is_training(argv: list[str]) -> bool:
    """Whether a recorded command looks like training: a Python program that is known, or takes several overrides."""
    command = parse(argv)
    if command is None:
        return False
    return len(command.overrides) >= 3 or classify(command).name not in ("other", "tool")


def _words(path: Path) -> list[str]:
    try:
        with path.open("rb") as stream:
            data = stream.read(RECORD_BYTES)
    except OSError:
        return []
    return [word.decode("utf-8", "surrogateescape") for word in data.split(b"\0")[:-1]]


def _trace(path: Path) -> dict[str, list[int]]:
    """Which lines of which files ran."""
    try:
        with path.open("rb") as stream:
            data = stream.read(TRACE_BYTES)
    except OSError:
        return {}
    lines: dict[str, set[int]] = {}
    for match in re.finditer(rb"^\x01+([^\x01\x02\n]*)\x02(\d+)\x02", data, re.MULTILINE):
        lines.setdefault(match[1].decode("utf-8", "replace"), set()).add(int(match[2]))
    return {name: sorted(numbers) for name, numbers in lines.items()}


def prepare(links: dict[str, str]) -> None:
    """The working folder of the scripts: every entry of the project as a link, so that they may write beside them."""
    Path(HOME).mkdir(parents=True, exist_ok=True)
    cwd = Path(CWD)
    cwd.mkdir(parents=True, exist_ok=True)
    for entry in sorted(Path("/project").iterdir()):
        (cwd / entry.name).symlink_to(entry)
    for name, target in links.items():
        place = cwd / name
        if not place.exists() and not place.is_symlink():
            place.symlink_to(target)


def main() -> None:
    """Read the job on stdin, run its scripts two at a time, write the records on stdout."""
    job = json.load(sys.stdin)
    prepare(job["links"])
    root = Path("/work/log")

    def one(item: tuple[int, dict[str, Any]]) -> dict[str, Any]:
        number, script = item
        try:
            return Runner(script, root / str(number), job["seconds"], job.get("variables", {})).read()
        except OSError as error:
            return {"error": str(error)}

    with ThreadPoolExecutor(max_workers=job.get("workers", 2)) as pool:
        records = list(pool.map(one, enumerate(job["scripts"])))
    sys.stdout.write(json.dumps(records))


__all__ = ["USER", "is_training", "main"]

if __name__ == "__main__":
    main()
