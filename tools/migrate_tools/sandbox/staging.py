"""Makes mounts fit for a foreign user: read-only trees that it may read, writable ones that it owns."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from migrate_tools.errors import MachineError
from migrate_tools.folders import TOOL_FOLDERS
from migrate_tools.sandbox import owner
from migrate_tools.sandbox.api import Mount
from migrate_tools.sandbox.layout import python_mounts

_FOLDER = stat.S_IROTH | stat.S_IXOTH
MANY = 16
"""More closed entries than these in a folder: it is copied as a whole, rather than each entry mounted."""


@contextmanager
def staged(mounts: Sequence[Mount], uid: int, gid: int) -> Iterator[tuple[Mount, ...]]:
    """The mounts with real sources, parents before children, as a job that runs as uid:gid can use them.

    What only its owner may read in a read-only tree is copied with open modes for the time of the job, and the copy
    mounted over it. A writable tree is handed to the user and taken back at the end.

    Raises:
        MachineError: a source does not exist, or two mounts have one target.
    """
    with ExitStack() as stack:
        ready = [_checked(mount) for mount in mounts]
        targets = [mount.target for mount in ready]
        if len(set(targets)) != len(targets):
            raise MachineError(f"two mounts of a sandbox job have the same target among {', '.join(targets)}")
        ready = [part for mount in ready for part in _prepared(mount, uid, gid, targets, stack)]
        yield tuple(sorted(ready, key=lambda mount: len(PurePosixPath(mount.target).parts)))


def _checked(mount: Mount) -> Mount:
    source = mount.source.resolve()
    if not source.exists():
        raise MachineError(f"{mount.source} cannot be mounted into the sandbox: no such file or folder")
    target = PurePosixPath(mount.target)
    if not target.is_absolute() or ".." in target.parts or target == PurePosixPath("/"):
        raise MachineError(f"{mount.target} is no place for a mount inside the sandbox")
    return replace(mount, source=source, target=str(target))


def _prepared(mount: Mount, uid: int, gid: int, targets: Sequence[str], stack: ExitStack) -> Iterator[Mount]:
    """The mount, then what lies over its closed entries."""
    if mount.writable:
        stack.callback(take_back, mount.source)
        if uid != os.getuid():
            _own(mount.source, uid, gid)
    elif uid != os.getuid() and mount not in python_mounts() and (closed := _closed(mount.source)):
        folder = Path(stack.enter_context(TemporaryDirectory(prefix=owner.prefix(), ignore_cleanup_errors=True)))
        folder.chmod(0o711)
        if closed == [mount.source]:
            yield replace(mount, source=_open_copy(mount.source, folder / "copy"))
            return
        yield mount
        above = PurePosixPath(mount.target)
        inner = [PurePosixPath(target) for target in targets if PurePosixPath(target).is_relative_to(above)]
        for number, path in enumerate(closed):
            target = above / path.relative_to(mount.source)
            if not any(target.is_relative_to(other) for other in inner if other != above):
                yield Mount(_open_copy(path, folder / str(number)), str(target))
        return
    yield mount


def take_back(path: Path) -> None:
    """Makes every entry below `path` ours again: removable by us, readable by us. Never follows a link."""
    root = os.getuid() == 0
    for entry in (path, *_below(path)):
        try:
            if root:
                os.chown(entry, 0, 0, follow_symlinks=False)
            elif not entry.is_symlink() and entry.is_dir():
                entry.chmod(0o700 | stat.S_IMODE(entry.lstat().st_mode) & 0o777)
        except OSError:
            continue


def _own(path: Path, uid: int, gid: int) -> None:
    for entry in (path, *_below(path)):
        os.chown(entry, uid, gid, follow_symlinks=False)


def _below(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        return
    for folder, names, files in os.walk(path):
        yield from (Path(folder, name) for name in (*names, *files))


def _closed(path: Path) -> list[Path]:
    """The topmost entries of a tree, or `path` itself, that some user may not read; a folder where many of its files
    are such. Links say nothing: what they point to is mounted or absent. Nor do folders of tools, which may be large.
    """
    mode = path.stat().st_mode
    if not stat.S_ISDIR(mode):
        return [] if mode & stat.S_IROTH else [path]
    if mode & _FOLDER != _FOLDER:
        return [path]
    files: list[Path] = []
    below: list[Path] = []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_symlink():
                continue
            if entry.is_dir(follow_symlinks=False):
                if entry.name in TOOL_FOLDERS:
                    continue
                below += _closed(Path(entry.path))
            elif entry.is_file(follow_symlinks=False) and not entry.stat(follow_symlinks=False).st_mode & stat.S_IROTH:
                files.append(Path(entry.path))
    return [path] if len(files) + len(below) > MANY else files + below


def _open_copy(source: Path, target: Path) -> Path:
    """Copies what we ourselves may read; sockets, pipes, devices and folders of tools are left out."""
    if not source.is_dir():
        shutil.copyfile(source, target)
        target.chmod(0o444 | source.stat().st_mode & 0o111)
        return target
    for folder, folders, files in os.walk(source):
        folders[:] = [name for name in folders if name not in TOOL_FOLDERS]
        place = target / Path(folder).relative_to(source)
        place.mkdir()
        for name in (*files, *(name for name in folders if Path(folder, name).is_symlink())):
            _copy_entry(Path(folder, name), place / name)
        place.chmod(0o755)
    return target


def _copy_entry(source: Path, target: Path) -> None:
    if target.is_symlink() or target.exists():
        return
    if source.is_symlink():
        target.symlink_to(source.readlink())
    elif source.is_file() and os.access(source, os.R_OK):
        shutil.copyfile(source, target)
        target.chmod(0o444 | (0o111 if source.stat().st_mode & 0o111 else 0))
