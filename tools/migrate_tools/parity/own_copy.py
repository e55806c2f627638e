"""A private copy of a folder for a sandbox job whose code makes files or folders beside itself, as it may in verl.

Small files are copied, larger ones are links into the original, which stays read-only.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from migrate_tools.folders import PYTHON_CACHE, TOOL_FOLDERS
from migrate_tools.sandbox import Mount

ORIGINS = "/originals"
"""Where the originals are inside the sandbox."""
SMALL = 1 << 20
"""Bytes of a file that is copied, at most."""
SKIPPED = TOOL_FOLDERS | {PYTHON_CACHE}


def writable_mounts(source: Path, target: str, place: Path) -> tuple[Mount, ...]:
    """Mounts that show `source` at `target` as a folder that code may write to; nothing reaches the original.

    Args:
        place: where the copy is made; what was there is removed. The folders of this run above it (work, parity,
            launch) are no part of the copy when they lie inside `source`.
    """
    originals = f"{ORIGINS}{target}"
    skipped = {place, *place.parents[:3]}
    shutil.rmtree(place, ignore_errors=True)
    for folder, names, files in os.walk(source):
        names[:] = sorted(
            name
            for name in names
            if name not in SKIPPED and Path(folder, name) not in skipped and not Path(folder, name).is_symlink()
        )
        relative = Path(folder).relative_to(source)
        copy = place / relative
        copy.mkdir(parents=True)
        for name in files:
            _put(Path(folder, name), copy / name, f"{originals}/{relative / name}")
    return Mount(place, target, writable=True), Mount(source, originals)


def _put(source: Path, target: Path, original: str) -> None:
    if source.is_symlink() or source.stat().st_size > SMALL:
        target.symlink_to(original)
    else:
        shutil.copy(source, target)
