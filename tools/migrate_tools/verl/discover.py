"""Finds the launch scripts of a recipe, and names what is none and why."""

from __future__ import annotations

import fnmatch
import hashlib
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from migrate_tools.errors import RefusedInput
from migrate_tools.model import Secret, Skipped
from migrate_tools.verl.paths import walk
from migrate_tools.verl.secrets import find_secrets

SCRIPT_SUFFIXES = (".sh", ".slurm", ".sbatch", ".bash")
TEXT_SUFFIXES = (*SCRIPT_SUFFIXES, ".py", ".yaml", ".yml", ".env", ".json", ".toml", ".cfg", ".ini", ".txt")
MAX_TEXT_BYTES = 1 << 20
_STARTS_SOMETHING = re.compile(
    r"python|torchrun|deepspeed|\bswift\b|llamafactory|openrlhf|\.py\b|accelerate|\btrl\b|\bray\b|\.sh\b|\$\{?\w*(?:PYTHON|LAUNCH|CMD)|main_ppo|srun|sbatch",
    re.I,
)
_LAUNCHES_FROM_PYTHON = re.compile(
    r"verl\.trainer\.main_ppo|from verl\.trainer\.\w+ import (?:run_ppo|main)|trainer/main_ppo\.py|RayPPOTrainer"
)
_STARTS_PROCESS = re.compile(
    r"subprocess\.|os\.system\(|os\.exec|Popen\(|hydra\.compose|initialize_config|\bcompose\(|run_ppo\(|sys\.argv|hydra\.main"
)
_PARTS_OF_VERL = re.compile(r"(?:^|/)(?:verl/(?:trainer|experimental|workers|utils)|tests?)/")


@dataclass
class Found:
    """What lies in a recipe folder."""

    root: Path
    scripts: list[Path] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    secrets: list[Secret] = field(default_factory=list)
    launchers: list[Path] = field(default_factory=list)
    """Python files that start verl."""
    asked: bool = False
    """Whether the launchers (or scripts) were named by the user."""
    digest: str = ""
    files: int = 0
    paths: list[Path] = field(default_factory=list)


def discover(path: Path, project: Path, launches: Sequence[str] = ()) -> Found:
    """Look through a recipe folder (or at one script).

    Raises:
        RefusedInput: it does not exist, is empty, or none of its scripts was asked for.
    """
    if path.is_file():
        if path.suffix not in (*SCRIPT_SUFFIXES, ".py"):
            raise RefusedInput(
                f"{path}: neither a folder nor a launch script", "give the recipe's folder or a .sh file"
            )
        python = path.suffix == ".py"
        found = Found(path.parent, scripts=[] if python else [path], paths=[path], files=1)
        _scan([path], found, project)
        found.launchers, found.asked = [path] if python else [], True
        return found
    if not path.is_dir():
        raise RefusedInput(f"{path}: no such folder", "give the recipe's folder or a .sh file")
    found = Found(path)
    try:
        next(path.iterdir(), None)
    except OSError as error:
        raise RefusedInput(f"{path}: cannot be read ({error.strerror})", "check its permissions") from error
    files = list(walk(path))
    found.files, found.paths = len(files), files
    if not files:
        raise RefusedInput(f"{path}: the folder is empty", "give a folder with a verl launch script")
    _scan(files, found, project)
    if launches:
        found.asked = True
        _select(found, launches)
    return found


def _select(found: Found, launches: Sequence[str]) -> None:
    known = [*found.scripts, *found.launchers]
    chosen = []
    for name in launches:
        hits = [p for p in known if str(p.relative_to(found.root)) == name]
        hits = hits or [p for p in known if _matches(p, name, found.root)]
        hits = hits or [p for p in found.paths if p.suffix == ".py" and _matches(p, name, found.root)]
        if not hits:
            shown = ", ".join(str(p.relative_to(found.root)) for p in known[:8]) or "none"
            raise RefusedInput(f"no launch script {name} in {found.root}", f"scripts found: {shown}")
        chosen += hits
    found.scripts = [p for p in dict.fromkeys(chosen) if p.suffix != ".py"]
    found.launchers = [p for p in dict.fromkeys(chosen) if p.suffix == ".py"]


def _matches(path: Path, name: str, root: Path) -> bool:
    relative = str(path.relative_to(root))
    return name in (relative, path.name, path.stem, str(path)) or fnmatch.fnmatchcase(relative, name)


def _scan(files: Sequence[Path], found: Found, project: Path) -> None:
    digest = hashlib.sha256()
    for path in files:
        shown = show(path, project)
        try:
            info = path.lstat()
        except OSError:
            continue
        digest.update(f"{path.relative_to(found.root)}\0{info.st_size}\0".encode("utf-8", "surrogateescape"))
        is_script = path.suffix in SCRIPT_SUFFIXES
        if not stat.S_ISREG(path.stat().st_mode if path.exists() else info.st_mode):
            continue
        if path.suffix not in TEXT_SUFFIXES and not path.name.startswith(".env"):
            continue
        if info.st_size > MAX_TEXT_BYTES:
            if is_script:
                found.skipped.append(
                    Skipped(file=shown, reason=f"{info.st_size >> 20} MB: too large for a launch script")
                )
            continue
        try:
            data = path.read_bytes()
        except OSError as error:
            if is_script:
                found.skipped.append(Skipped(file=shown, reason=f"cannot be read ({error.strerror})"))
            continue
        digest.update(data)
        text = data.decode("utf-8", "replace")
        if path.suffix not in (".txt", ".json") or info.st_size < 64 << 10:
            found.secrets += find_secrets(text, shown)
        if is_script and path not in found.scripts:
            _script(path, text, shown, found)
        elif path.suffix == ".py" and _starts_verl(text, shown):
            found.launchers.append(path)
    found.digest = digest.hexdigest()


def _script(path: Path, text: str, shown: str, found: Found) -> None:
    if _STARTS_SOMETHING.search(text):
        found.scripts.append(path)
    else:
        found.skipped.append(Skipped(file=shown, reason="starts no program"))


def _starts_verl(text: str, shown: str) -> bool:
    """Whether a Python file of the recipe starts verl itself."""
    if _PARTS_OF_VERL.search(shown) or "def compute_score" in text:
        return False
    return bool(_LAUNCHES_FROM_PYTHON.search(text) and _STARTS_PROCESS.search(text))


def show(path: Path, project: Path) -> str:
    """A path as references show it: relative to the project."""
    return str(path.relative_to(project)) if path.is_relative_to(project) else path.name


def commit_of(project: Path) -> str | None:
    """The commit of a checkout, read from its files."""
    git = project / ".git"
    try:
        if git.is_file():
            git = (project / git.read_text("utf-8").removeprefix("gitdir:").strip()).resolve()
        head = (git / "HEAD").read_text("utf-8").strip()
        if not head.startswith("ref: "):
            return head if re.fullmatch(r"[0-9a-f]{40,64}", head) else None
        name = head[5:]
        ref = git / name
        if ref.is_file():
            return ref.read_text("utf-8").strip()
        for line in (git / "packed-refs").read_text("utf-8").splitlines():
            if line.endswith(f" {name}"):
                return line.split()[0]
    except OSError:
        return None
    return None
