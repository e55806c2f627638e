"""Repairs that need no model: a failing check, a draft in, a better draft out (or None).

A rule never runs foreign code; ruff and shellcheck only parse. Whether it helped is decided by the ladder.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from migrate_tools.model import CheckResult, Example, ExampleFile, Note, Translation

from migrate_agent.engine import Draft

SYNTAX_RUNG, CONTRACT_RUNG = 0, 1
TOOL_SECONDS = 60
LINE_LENGTH = 120


@dataclass(frozen=True)
class Repaired:
    """A new draft and one line that says what changed. Changed translations are rendered again by the node."""

    draft: Draft
    what: str


@dataclass(frozen=True)
class Rule:
    """One repair; `apply(check, draft, known flags)` returns None when it has nothing to offer."""

    name: str
    apply: Callable[[CheckResult, Draft, frozenset[str]], Repaired | None]


def drop_unknown_flags(check: CheckResult, draft: Draft, known: frozenset[str]) -> Repaired | None:
    """Takes out flags that the chosen Relax contract lacks, and says so on each setting that they came from."""
    if check.rung != CONTRACT_RUNG:
        return None
    gone = sorted({flag.name for item in draft.translations for flag in item.flags} - known)
    if not gone:
        return None
    translations = tuple(_without(item, frozenset(gone)) for item in draft.translations)
    return Repaired(Draft(translations, draft.example), f"dropped {', '.join(gone)}: not in this Relax contract")


def fix_python(check: CheckResult, draft: Draft, known: frozenset[str]) -> Repaired | None:
    """ruff's safe fixes and its formatter over the Python files."""
    if check.rung != SYNTAX_RUNG:
        return None
    return _per_file(draft, ".py", _ruff, "ruff fixed and formatted")


def fix_shell(check: CheckResult, draft: Draft, known: frozenset[str]) -> Repaired | None:
    """The replacements that shellcheck itself proposes for the run scripts."""
    if check.rung != SYNTAX_RUNG:
        return None
    return _per_file(draft, ".sh", _shellcheck, "shellcheck's own fixes in")


RULES = (
    Rule("drop-unknown-flags", drop_unknown_flags),
    Rule("ruff-autofix", fix_python),
    Rule("shellcheck-autofix", fix_shell),
)


def _without(item: Translation, gone: frozenset[str]) -> Translation:
    lost = sorted({flag.name for flag in item.flags} & gone)
    if not lost:
        return item
    settings = tuple(
        setting.model_copy(
            update={
                "relax": tuple(name for name in setting.relax if name.split()[0] not in gone),
                "status": "unsupported",
                "risk": "training",
                "reason": f"this Relax contract has no {', '.join(lost)}; {setting.reason}".rstrip("; "),
            }
        )
        if any(name.split()[0] in gone for name in setting.relax if name)
        else setting
        for setting in item.settings
    )
    note = Note(code="flag-dropped", text=f"dropped, because this Relax contract lacks them: {', '.join(lost)}")
    flags = tuple(flag for flag in item.flags if flag.name not in gone)
    return item.model_copy(update={"flags": flags, "settings": settings, "notes": (*item.notes, note)})


def _per_file(draft: Draft, suffix: str, fix: Callable[[str], str], verb: str) -> Repaired | None:
    files: list[ExampleFile] = []
    changed: list[str] = []
    for item in draft.example.files:
        text = fix(item.text) if item.path.endswith(suffix) else item.text
        if text != item.text:
            changed.append(item.path)
        files.append(item.model_copy(update={"text": text}))
    if not changed:
        return None
    example = Example(algo=draft.example.algo, files=tuple(files))
    return Repaired(Draft(draft.translations, example), f"{verb} {', '.join(changed)}")


def _ruff(text: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.py"
        path.write_text(text, "utf-8")
        for step in (["check", "--fix", "--quiet"], ["format", "--quiet"]):
            command = [_tool("ruff"), *step, "--isolated", "--no-cache", f"--line-length={LINE_LENGTH}", str(path)]
            subprocess.run(command, capture_output=True, timeout=TOOL_SECONDS, check=False)
        return path.read_text("utf-8")


def _shellcheck(text: str) -> str:
    command = [_tool("shellcheck"), "--format=json1", "--norc", "--shell=bash", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False)
    try:
        comments = json.loads(done.stdout)["comments"]
    except (json.JSONDecodeError, KeyError):
        return text
    fixes = [item for comment in comments if comment.get("fix") for item in comment["fix"]["replacements"]]
    return apply_replacements(text, fixes)


def apply_replacements(text: str, replacements: list[dict[str, Any]]) -> str:
    """Applies shellcheck's replacements (1-based lines and columns, end exclusive) from the end backwards."""
    lines = text.split("\n")
    order = sorted(replacements, key=lambda item: (item["line"], item["column"], item["precedence"]), reverse=True)
    for item in order:
        if item["line"] != item["endLine"]:
            continue
        line = lines[item["line"] - 1]
        lines[item["line"] - 1] = line[: item["column"] - 1] + item["replacement"] + line[item["endColumn"] - 1 :]
    return "\n".join(lines)


def _tool(name: str) -> str:
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.is_file() else shutil.which(name) or name
