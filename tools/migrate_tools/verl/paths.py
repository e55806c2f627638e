"""Paths as launch scripts write them, and the files of the project they mean."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from migrate_tools.folders import PYTHON_CACHE, TOOL_FOLDERS
from migrate_tools.model import Recipe

SKIPPED_FOLDERS = TOOL_FOLDERS | {PYTHON_CACHE, "site-packages", "wandb"}
MAX_FILES = 20_000
Names: TypeAlias = dict[Path, dict[str, list[Path]]]
"""Folder -> name -> the files of that name below it."""


def project_root(recipe: Path) -> Path:
    """The enclosing git checkout, never the home folder or the root; else the recipe itself."""
    forbidden = {Path.home().resolve(), Path("/")}
    for folder in (recipe, *recipe.parents):
        if folder in forbidden:
            break
        if (folder / ".git").exists():
            return folder
    return recipe


def walk(root: Path, limit: int = MAX_FILES) -> Iterator[Path]:
    """Files below a folder in sorted order, without following links and without tool folders."""
    count = 0
    for folder, names, files in os.walk(root, followlinks=False):
        names[:] = sorted(name for name in names if name not in SKIPPED_FOLDERS)
        for name in sorted(files):
            path = Path(folder) / name
            if path.is_symlink() and not inside(path, root):
                continue
            count += 1
            if count > limit:
                return
            yield path


def inside(path: Path, root: Path) -> bool:
    """Whether a path, links followed, stays within a folder."""
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        return False


def resolve_project_path(text: str, recipe: Recipe) -> Path | None:
    """The file or folder of the project that a script means by `text`; None when there is none."""
    return resolve(text, Path(recipe.project_root), (Path(recipe.root),))


def resolve(text: str, root: Path, folders: tuple[Path, ...] = (), names: Names | None = None) -> Path | None:
    """As resolve_project_path; `folders` are further places a relative path may start from (the script's own).

    `names` keeps what lies in the folders from one call to the next, while they do not change.

    Tried in turn: from the project, from each folder, without a leading `recipe/` or checkout name, the longest tail of
    an absolute path that exists, and a file of that name when there is only one.
    """
    text = text.strip().strip("\"'").removeprefix("file://")
    text = text.removeprefix("pkg://")
    if not text or "\0" in text or "\n" in text or len(text) > 1000:
        return None
    pure = PurePosixPath(text)
    parts = [part for part in pure.parts if part not in ("/", ".")]
    if not parts:
        return root
    starts = (root, *folders)
    if not pure.is_absolute():
        for start in starts:
            found = _existing(start / text, root)
            if found:
                return found
    for skip in range(1 if not pure.is_absolute() else 0, len(parts)):
        if ".." in parts[skip:] and skip < len(parts) - 1:
            continue
        if len(parts) - skip == 1 and len(parts) > 1:
            break
        for start in starts:
            found = _existing(start.joinpath(*parts[skip:]), root)
            if found:
                return found
    return _unique_name(parts[-1], folders or (root,), root, {} if names is None else names)


def _existing(path: Path, root: Path) -> Path | None:
    return path.resolve() if path.exists() and inside(path, root) else None


def _unique_name(name: str, folders: tuple[Path, ...], root: Path, names: Names) -> Path | None:
    if "." not in name or name.startswith("."):
        return None
    for folder in dict.fromkeys((*reversed(folders), root)):
        found = _names_below(folder, names).get(name, ())
        if len(found) == 1:
            return found[0]
        if found:
            return None
    return None


def _names_below(folder: Path, names: Names) -> dict[str, list[Path]]:
    if folder not in names:
        below = names[folder] = {}
        for path in walk(folder):
            below.setdefault(path.name, []).append(path)
    return names[folder]
