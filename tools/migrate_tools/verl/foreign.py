"""Recognises recipes of other trainers by their files, for folders without a command that could be recorded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from migrate_tools.verl import dialects
from migrate_tools.verl.commands import Kind, dialect_kind
from migrate_tools.verl.versions import read_small

MAX_FILES = 400
_SECTION = re.compile(r"^([A-Za-z_][\w-]*):", re.MULTILINE)


def foreign_files(paths: Sequence[Path], project: Path) -> list[tuple[str, Kind]]:
    """Python files that import another trainer, and configurations with the sections of one."""
    found: list[tuple[str, Kind]] = []
    files = [path for path in paths if path.suffix in (".py", ".yaml", ".yml")]
    for path in files[:MAX_FILES]:
        text = read_small(path)
        python = path.suffix == ".py"
        dialect = dialects.of_source(text) if python else dialects.of_sections(_SECTION.findall(text))
        if dialect is not None:
            shown = str(path.relative_to(project)) if path.is_relative_to(project) else path.name
            found.append((shown, dialect_kind(dialect, shown)))
    return found
