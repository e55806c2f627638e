"""What a run was asked to do: the options as one value, and the run id made from them."""

from __future__ import annotations

import hashlib
import keyword
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from migrate_tools import __version__
from migrate_tools.errors import UsageError
from migrate_tools.folders import PYTHON_CACHE, TOOL_FOLDERS
from migrate_tools.model import Frozen, Mode
from migrate_tools.verl.secrets import redact, redact_variable

from migrate_agent.llm_settings import LlmSettings

HASHED_WHOLE = 8 << 20
"""Files up to this many bytes count with their content; larger ones with size, head and tail."""
SKIPPED_FOLDERS = TOOL_FOLDERS | {PYTHON_CACHE}


class RunRequest(Frozen):
    """Options of `migrate-agent run` that can change the result, and where the result goes."""

    recipe: str
    """Absolute path of the recipe folder."""
    algo: str
    launches: tuple[str, ...] = ()
    variables: dict[str, str] = {}
    """Shell variables that the scripts expect from outside."""
    destination: str
    """Absolute path of the Relax root (or the new folder) that the example is installed into."""
    relax_root: str | None = None
    verl_root: str | None = None
    verl_version: str | None = None
    mode_default: Mode = "sync"
    batch_policy: Literal["on-policy", "faithful"] = "on-policy"
    sandbox: Literal["auto", "docker", "bubblewrap"] = "auto"
    smoke: Literal["auto", "off", "required"] = "auto"
    relax_version: str = "latest"
    """A Relax version, or the path of a contract that was read from a checkout (see relax_contract.choose)."""
    parity_cases: int | None = None
    parity_seconds: float | None = None
    rollouts: tuple[str, ...] = ()
    """Absolute paths of files or folders with responses that verl logged."""
    model_configs: dict[str, dict[str, Any]] = {}
    """Contents of the config.json given with --model-config, by model name; "" stands for every model."""
    llm: LlmSettings = LlmSettings()
    repairs: int = 3
    """Attempts of a model at one thing that is left."""
    ask: bool = False
    """Whether the run stops for decisions that change training."""


def algo_name(text: str) -> str:
    """A Python identifier made from a folder name: "Char-Count 2" becomes "char_count_2".

    Raises:
        UsageError: nothing usable is left.
    """
    name = re.sub(r"[^0-9a-zA-Z]+", "_", text).strip("_").lower()
    if name and name[0].isdigit():
        name = "r" + name
    if not name or keyword.iskeyword(name):
        raise UsageError(f"no Python name can be made from {text!r}", "choose one with --name ALGO")
    return name


def checked_algo_name(text: str) -> str:
    """The name given with --name, unchanged.

    Raises:
        UsageError: it is not a plain lower-case Python identifier (it becomes a module and a file name).
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", text) or keyword.iskeyword(text):
        raise UsageError(f"--name {text!r} is not a lower-case Python identifier", f"try --name {algo_name(text)}")
    return text


def existing_rollouts(paths: Sequence[Path]) -> tuple[str, ...]:
    """Logs of responses as absolute paths.

    Raises:
        UsageError: one does not exist.
    """
    for path in paths:
        if not path.exists():
            hint = "give the files that verl wrote to trainer.rollout_data_dir or trainer.validation_data_dir"
            raise UsageError(f"--rollouts {path}: no such file or folder", hint)
    return tuple(str(path.resolve()) for path in paths)


def shell_variable(text: str) -> tuple[str, str]:
    """Name and value of one --set NAME=VALUE.

    Raises:
        UsageError: it has no such form, or is a credential (no script needs one to be read).
    """
    name, sign, value = text.partition("=")
    if not sign or not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise UsageError(f"--set {text.partition('=')[0]!r} has not the form NAME=VALUE", "for example --set NNODES=4")
    if redact_variable(name, value) != value or redact(value) != value:
        raise UsageError(f"--set {name}: this looks like a credential", "leave it out: scripts are read without it")
    return name, value


def run_id(request: RunRequest) -> str:
    """Sixteen hex digits over the recipe's files, the options and our version; budgets may grow when a run goes on."""
    digest = hashlib.sha256()
    options = request.model_dump_json(exclude={"llm": {"limits", "replay"}})
    digest.update(f"{__version__}\n{options}\n".encode())
    digest.update(fingerprint(Path(request.recipe)).encode())
    for path in map(Path, request.rollouts):
        digest.update(fingerprint(path).encode() if path.is_dir() else _content_mark(path))
    return digest.hexdigest()[:16]


def fingerprint(folder: Path) -> str:
    """SHA-256 over the names and contents of the files below `folder` (see HASHED_WHOLE); unreadable files by name."""
    digest = hashlib.sha256()
    found: list[Path] = []
    for place, names, files in os.walk(folder):
        names[:] = [name for name in names if name not in SKIPPED_FOLDERS]
        found += (Path(place, name) for name in files)
    for path in sorted(found):
        if path.is_symlink() or not path.is_file():
            continue
        digest.update(f"{path.relative_to(folder).as_posix()}\0".encode(errors="surrogateescape"))
        digest.update(_content_mark(path))
    return digest.hexdigest()


def _content_mark(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            if size <= HASHED_WHOLE:
                return hashlib.sha256(stream.read()).digest()
            head = stream.read(1 << 16)
            stream.seek(-(1 << 16), 2)
            return hashlib.sha256(str(size).encode() + head + stream.read()).digest()
    except OSError:
        return b"unreadable"
