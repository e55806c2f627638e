"""Puts an Example into a Relax checkout: all or nothing, and never over a file that somebody else wrote or edited."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from migrate_tools import __version__
from migrate_tools.errors import UsageError
from migrate_tools.model import Example, ExampleFile

MANIFEST = "migration/files.json"


def write_example(example: Example, target: Path, *, force: bool) -> tuple[Path, ...]:
    """Write the files that are new or changed, and a manifest with their sha256.

    Returns the paths that were written. When one rename fails, those before it are undone.

    Raises:
        UsageError: a path leaves `target`, or a file there is not ours or was edited since (unless `force`).
    """
    manifest_path = target / "examples" / _safe_name(example.algo) / MANIFEST
    places = {file.path: _inside(target, file.path) for file in example.files}
    before = read_manifest(manifest_path)
    changed = [file for file in example.files if _differs(places[file.path], file)]
    foreign = [file.path for file in changed if _is_foreign(places[file.path], before.get(file.path))]
    if foreign and not force:
        verb = "was" if len(foreign) == 1 else "were"
        raise UsageError(
            f"{target}: {', '.join(foreign)} {verb} edited or not written by migrate-agent",
            "move your changes away, or pass --force to overwrite",
        )
    manifest = _manifest(example, before)
    pending = [(places[file.path], file.text, file.executable) for file in changed]
    if not manifest_path.is_file() or manifest_path.read_text("utf-8", errors="replace") != manifest:
        pending.append((manifest_path, manifest, False))
    _write_all(target, pending)
    return tuple(path for path, _, _ in pending)


def read_manifest(path: Path) -> dict[str, str]:
    """Path -> sha256 of what was written last; empty when there is no readable manifest."""
    try:
        files = json.loads(path.read_text("utf-8"))["files"]
        return {str(name): str(item["sha256"]) for name, item in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def sha256(text: str) -> str:
    """Hash of a file's text as written."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _manifest(example: Example, before: Mapping[str, str]) -> str:
    files = {path: {"sha256": digest} for path, digest in before.items()}
    files |= {file.path: {"sha256": sha256(file.text), "origin": file.origin} for file in example.files}
    document = {"algo": example.algo, "generator": f"migrate-agent {__version__}", "files": dict(sorted(files.items()))}
    return json.dumps(document, indent=2) + "\n"


def _safe_name(algo: str) -> str:
    if not algo or algo in (".", "..") or "/" in algo or "\\" in algo or "\0" in algo:
        raise UsageError(f"{algo!r} is not a name for an example", "use letters, digits and underscores")
    return algo


def _inside(target: Path, relative: str) -> Path:
    """The place of a relative path below `target`, links followed.

    Raises:
        UsageError: it would lie outside, or a link stands in its place.
    """
    pure = PurePosixPath(relative)
    if pure.is_absolute() or not pure.parts or ".." in pure.parts or "\\" in relative or "\0" in relative:
        raise UsageError(f"{relative!r} is not a path inside the example", "nothing was written")
    place = target.joinpath(*pure.parts)
    root = target.resolve()
    if place.is_symlink() or not place.parent.resolve().is_relative_to(root):
        raise UsageError(f"{place} is reached through a link out of {target}", "replace the link by a folder")
    if place.is_dir():
        raise UsageError(f"{place} is a folder where a file is to be written", "move it away")
    return place


def _differs(place: Path, file: ExampleFile) -> bool:
    if not place.is_file():
        return True
    same_mode = not file.executable or os.access(place, os.X_OK)
    return place.read_bytes() != file.text.encode("utf-8") or not same_mode


def _is_foreign(place: Path, recorded: str | None) -> bool:
    return place.is_file() and hashlib.sha256(place.read_bytes()).hexdigest() != recorded


def _write_all(target: Path, pending: list[tuple[Path, str, bool]]) -> None:
    """Write everything beside the target first, then rename; on failure put back what was there."""
    if not pending:
        return
    first_made = _first_missing(target)
    target.mkdir(parents=True, exist_ok=True)
    stage = Path(tempfile.mkdtemp(prefix=".migrate-agent-", dir=target))
    done: list[tuple[Path, Path | None]] = []
    made: list[Path] = []
    try:
        staged = [_stage(stage, index, text, executable) for index, (_, text, executable) in enumerate(pending)]
        for index, (place, source) in enumerate(zip((item[0] for item in pending), staged, strict=True)):
            made += _make_parents(place.parent)
            backup = stage / f"before-{index}" if place.exists() else None
            if backup is not None:
                shutil.copy2(place, backup)
            source.replace(place)
            done.append((place, backup))
    except BaseException:
        for place, backup in reversed(done):
            backup.replace(place) if backup is not None else place.unlink()
        for folder in reversed(made):
            if not any(folder.iterdir()):
                folder.rmdir()
        shutil.rmtree(stage, ignore_errors=True)
        if first_made is not None and first_made.is_dir():
            shutil.rmtree(first_made, ignore_errors=True)
        raise
    shutil.rmtree(stage, ignore_errors=True)


def _stage(stage: Path, index: int, text: str, executable: bool) -> Path:
    path = stage / f"new-{index}"
    path.write_text(text, encoding="utf-8", newline="\n")
    path.chmod(0o755 if executable else 0o644)
    return path


def _make_parents(folder: Path) -> list[Path]:
    missing: list[Path] = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for item in reversed(missing):
        item.mkdir()
    return list(reversed(missing))


def _first_missing(folder: Path) -> Path | None:
    """The topmost folder that does not exist yet."""
    missing: Path | None = None
    while not folder.exists():
        missing = folder
        folder = folder.parent
    return missing
