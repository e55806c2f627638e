"""The verl source that a recipe is read against: a given folder, the enclosing checkout, or a cached release."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from migrate_tools.errors import MachineError, UsageError
from migrate_tools.model import VerlRef

CONFIG = Path("verl/trainer/config")
PIP_SECONDS = 300


def cache_root() -> Path:
    """Where downloaded releases are kept; MIGRATE_AGENT_CACHE overrides it."""
    given = os.environ.get("MIGRATE_AGENT_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "migrate-agent"


def is_verl_tree(folder: Path) -> bool:
    """Whether the folder holds the package `verl/` with its configuration."""
    return (folder / CONFIG).is_dir() and (folder / "verl" / "__init__.py").is_file()


def tree(folder: Path, how: str) -> VerlRef:
    """A verl source tree on this machine.

    Raises:
        UsageError: there is no `verl/` with a configuration in the folder.
    """
    if not is_verl_tree(folder):
        raise UsageError(f"{folder}: no verl/trainer/config in it", "give the folder that contains the package verl/")
    return VerlRef(version=tree_version(folder), root=str(folder.resolve()), how=how)


def tree_version(folder: Path) -> str:
    """The version text of a source tree ("unknown" when it has none)."""
    for name in ("verl/version/version", "verl/version.py", "verl/__init__.py"):
        path = folder / name
        if path.is_file():
            match = re.search(r"\d+\.\d+[\w.]*", path.read_text("utf-8", "replace"))
            if match:
                return match[0]
    return "unknown"


def cached(version: str) -> bool:
    """Whether a release is at hand without a download."""
    return is_verl_tree(cache_root() / "verl" / version)


def wheel(version: str, how: str = "", progress: Callable[[str], None] = lambda text: None) -> VerlRef:
    """A verl release, downloaded once with pip (no dependencies) and then kept.

    Raises:
        MachineError: it is not cached and could not be downloaded.
    """
    target = cache_root() / "verl" / version
    if not is_verl_tree(target):
        if not re.fullmatch(r"[\w.]+", version):
            raise UsageError(f"{version!r} is not a verl version", "give one such as 0.9.1")
        progress(f"downloading verl {version}")
        _download(version, target)
    return VerlRef(version=version, root=str(target), how=how or f"release {version} from the package index")


def installed() -> VerlRef | None:
    """The verl package of this Python's path, found without importing it."""
    for entry in sys.path:
        folder = Path(entry or ".")
        if is_verl_tree(folder):
            return VerlRef(version=tree_version(folder), root=str(folder.resolve()), how="the installed package verl")
    return None


def _download(version: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{version}-", dir=target.parent) as work:
        folder = Path(work)
        command = [
            sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet",
            "--disable-pip-version-check", "--dest", str(folder / "wheel"), f"verl=={version}",
        ]  # fmt: skip
        problem = _run(command)
        wheels = sorted((folder / "wheel").glob("*.whl")) if (folder / "wheel").is_dir() else []
        if problem or not wheels:
            raise MachineError(
                f"verl {version} is not cached and could not be downloaded: {problem or 'pip gave no wheel'}",
                "connect to a package index once, or give --verl-root with a verl checkout",
            )
        unpacked = folder / "tree"
        with zipfile.ZipFile(wheels[0]) as archive:
            archive.extractall(unpacked)
        try:
            unpacked.rename(target)
        except OSError:
            if not is_verl_tree(target):
                raise


def _run(command: list[str]) -> str:
    """Run pip; the last line of its complaint, or nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"pip ended with {done.returncode}"
