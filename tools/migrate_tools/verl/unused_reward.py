"""Reward files of a recipe that a launch does not name: verl's own scorers run there, which may not be meant."""

from __future__ import annotations

import re
from pathlib import Path

from migrate_tools.verl.paths import SKIPPED_FOLDERS
from migrate_tools.verl.versions import read_small

_SCORER = re.compile(r"^(?:async )?def (compute_score\w*)\(", re.MULTILINE)
MAX_FILES = 200


def unused_scorers(recipe: Path, verl: Path) -> list[str]:
    """`file:function` of scorers in the recipe's folder and one below it, verl's own tree left out."""
    folders = [recipe, *sorted(path for path in recipe.iterdir() if path.is_dir() and path.name not in SKIPPED_FOLDERS)]
    files = [path for folder in folders if folder != verl / "verl" for path in sorted(folder.glob("*.py"))]
    found = []
    for path in files[:MAX_FILES]:
        match = None if path.is_symlink() else _SCORER.search(read_small(path))
        if match:
            found.append(f"{path.relative_to(recipe)}:{match[1]}")
    return found
