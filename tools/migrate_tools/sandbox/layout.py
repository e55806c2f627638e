"""What every job finds inside, whatever the provider: the interpreter, our package, its libraries, an environment."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path, PurePosixPath

from migrate_tools.sandbox.api import Mount

BIN = "/opt/sandbox/bin"
PYTHON = f"{BIN}/python3"
"""The interpreter inside: a link to one of the same version as the one that runs now."""
PATH = f"{BIN}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
TOOLS = "/tools"
SITE = "/site"
HOST = "sandbox"
PASSWD = "root:x:0:0:root:/:/bin/sh\nrunner:x:{uid}:{gid}:runner:/work:/bin/sh\n"
GROUP = "root:x:0:\nrunner:x:{gid}:\n"
HOSTS = "127.0.0.1 localhost sandbox\n"

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@cache
def python_mounts() -> tuple[Mount, ...]:
    """Read-only mounts that let a job import migrate_tools and every library of the running interpreter."""
    tools = Mount(Path(__file__).resolve().parents[2], TOOLS)
    return (tools, *(Mount(folder, name) for folder, name in zip(_site_folders(), _site_names(), strict=True)))


def python_env() -> dict[str, str]:
    """Environment that goes with `python_mounts`; a fresh dict at every call."""
    return {"PYTHONPATH": ":".join([TOOLS, *_site_names()])}


def empty_folders(targets: Iterable[str], place: Path) -> tuple[Mount, ...]:
    """Empty folders, made below `place`, at each of the targets; one inside another is made inside its folder."""
    made: dict[PurePosixPath, Path] = {}
    for target in map(PurePosixPath, sorted(targets)):
        outer = next((known for known in made if target.is_relative_to(known)), None)
        folder = made[outer] / target.relative_to(outer) if outer else place / str(len(made))
        folder.mkdir(parents=True, exist_ok=True)
        if outer is None:
            made[target] = folder
    return tuple(Mount(folder, str(target)) for target, folder in made.items())


def base_environment() -> dict[str, str]:
    """What a job's environment holds before the job's own variables. Nothing of it is taken from ours."""
    return {
        "PATH": PATH,
        "HOME": "/work",
        "USER": "runner",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TMPDIR": "/tmp",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        **dict.fromkeys(_THREADS, "1"),
    }


def is_site(mount: Mount) -> bool:
    """Whether the mount is one of the library folders of the running interpreter."""
    return mount.target in _site_names()


def base_python() -> Path:
    """The real interpreter under a virtual environment, links followed."""
    return Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()


@cache
def _site_folders() -> tuple[Path, ...]:
    found = [Path(entry).resolve() for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    return tuple(dict.fromkeys(folder for folder in found if folder.is_dir()))


def _site_names() -> tuple[str, ...]:
    return tuple(SITE if i == 0 else f"{SITE}{i + 1}" for i in range(len(_site_folders())))
