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
from migrate_tools.sandbox import owner
from migrate_tools.sandbox.api import Mount
from migrate_tools.sandbox.layout import python_mounts

_FOLDER = stat.S_IROTH | stat.S_IXOTH


@contextmanager
def staged(mounts: Sequence[Mount], uid: int, gid: int) -> Iterator[tuple[Mount, ...]]:
    """The mounts with real sources, parents before children, as a job that runs as uid:gid can use them.

    A read-only tree with entries that only its owner may read is copied with open modes for the time of the job.
    A writable tree is handed to the user and taken back at the end.

    Raises:
        MachineError: a source does not exist, or two mounts have one target.
    """
    with ExitStack() as stack:
        ready = [_prepared(_checked(mount), uid, gid, stack) for mount in mounts]
        targets = [mount.target for mount in ready]
        if len(set(targets)) != len(targets):
            raise MachineError(f"two mounts of a sandbox job have the same target among {', '.join(targets)}")
        yield tuple(sorted(ready, key=lambda mount: len(PurePosixPath(mount.target).parts)))


def _checked(mount: Mount) -> Mount:
    source = mount.source.resolve()
    if not source.exists():
        raise MachineError(f"{mount.source} cannot be mounted into the sandbox: no such file or folder")
    target = PurePosixPath(mount.target)
    if not target.is_absolute() or ".." in target.parts or target == PurePosixPath("/"):
        raise MachineError(f"{mount.target} is no place for a mount inside the sandbox")
    return replace(mount, source=source, target=str(target))


def _prepared(mount: Mount, uid: int, gid: int, stack: ExitStack) -> Mount:
    if mount.writable:
        stack.callback(take_back, mount.source)
        if uid != os.getuid():
            _own(mount.source, uid, gid)
        return mount
    if uid == os.getuid() or mount in python_mounts() or _open_to_all(mount.source):
        return mount
    folder = Path(stack.enter_context(TemporaryDirectory(prefix=owner.prefix(), ignore_cleanup_errors=True)))
    return replace(mount, source=_open_copy(mount.source, folder / "copy"))


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


def _open_to_all(path: Path) -> bool:
    """Whether every user may read the whole tree. Links say nothing: what they point to is mounted or absent."""
    mode = path.stat().st_mode
    if not stat.S_ISDIR(mode):
        return bool(mode & stat.S_IROTH)
    if mode & _FOLDER != _FOLDER:
        return False
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_symlink():
                continue
            if entry.is_dir(follow_symlinks=False):
                if not _open_to_all(Path(entry.path)):
                    return False
            elif not entry.stat(follow_symlinks=False).st_mode & stat.S_IROTH:
                return False
    return True


def _open_copy(source: Path, target: Path) -> Path:
    """Copies what we ourselves may read; sockets, pipes and devices are left out. The folder itself stays hidden."""
    target.parent.chmod(0o711)
    if not source.is_dir():
        shutil.copyfile(source, target)
        target.chmod(0o444 | source.stat().st_mode & 0o111)
        return target
    for folder, folders, files in os.walk(source):
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
