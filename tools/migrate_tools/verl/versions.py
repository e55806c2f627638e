"""Which verl release a recipe was written for: from its pins and from the style of its keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

RELEASES = (
    "0.9.1", "0.9.0", "0.8.0", "0.7.1", "0.7.0", "0.6.1", "0.6.0", "0.5.0", "0.4.1", "0.4.0",
    "0.3.0.post1", "0.2.0.post2", "0.1",
)  # fmt: skip
"""Releases on the package index, newest first (only the last post release of each)."""
NEWEST = RELEASES[0]

_NEW_KEYS = re.compile(
    r"^(?:reward\.|trainer\.(?:use_v1|v1\.)|model_engine$|actor_rollout_ref\.model_engine|distillation\.|transfer_queue\.)"
)
_MIDDLE_KEYS = re.compile(
    r"^(?:custom_reward_function\.|reward_model\.|trainer\.use_legacy_worker_impl|critic\.model\.fsdp_config)"
)
_OLD_KEYS = re.compile(r"\.(?:ppo_micro_batch_size|log_prob_micro_batch_size)$|^data\.return_raw_input_ids$")
_ROLLING = ("rolling", "rolling_with_baseline")


@dataclass(frozen=True)
class Hint:
    """A version and why it is believed; `pinned` when the recipe names it itself."""

    version: str
    reason: str
    pinned: bool
    told: bool = True
    """False when nothing names a version."""


def pin_of(folders: Iterable[Path], root: Path) -> Hint | None:
    """The version that REQUIRED_VERL.txt, a requirements file or pyproject names, nearest folder first."""
    for folder in folders:
        for path in sorted(folder.glob("REQUIRED_VERL*")):
            hint = _required(path, root)
            if hint:
                return hint
        for pattern in ("requirements*.txt", "pyproject.toml", "setup.py", "environment*.y*ml"):
            for path in sorted(folder.glob(pattern)):
                hint = _requirement(path, root)
                if hint:
                    return hint
    return None


def style_of(keys: Iterable[str]) -> Hint:
    """The version that the names of the keys suggest."""
    keys = list(keys)
    for pattern, version in ((_NEW_KEYS, NEWEST), (_MIDDLE_KEYS, "0.7.1")):
        example = next((key for key in keys if pattern.search(key)), None)
        if example:
            return Hint(version, f"keys such as {example} belong to this generation", False)
    example = next((key for key in keys if _OLD_KEYS.search(key)), None)
    if example:
        return Hint("0.4.1", f"keys such as {example} belong to this generation", False)
    return Hint(NEWEST, "nothing in the recipe names a version, so the newest release is used", False, told=False)


def neighbours(version: str, releases: Sequence[str] = RELEASES) -> list[str]:
    """The other releases, nearest first; of two equally near ones the newer."""
    base = _version(version)
    ordered = list(releases)
    place = next((i for i, item in enumerate(ordered) if base is None or _version(item) <= base), len(ordered) - 1)  # type: ignore[operator]
    others = [item for item in ordered if item != version]
    return sorted(others, key=lambda item: (abs(ordered.index(item) - place), ordered.index(item)))


def nearest_release(text: str) -> str | None:
    """The release for a version text such as "v0.6.1", "0.7.0.dev" or "0.6"; None when it is no version."""
    version = _version(text)
    if version is None:
        return None
    if text.lstrip("v") in RELEASES:
        return text.lstrip("v")
    known = [item for item in RELEASES if _version(item) >= version]  # type: ignore[operator]
    return known[-1] if known else NEWEST


def _version(text: str) -> Version | None:
    try:
        return Version(text.lstrip("v"))
    except InvalidVersion:
        return None


def _required(path: Path, root: Path) -> Hint | None:
    fields = dict(
        line.split("=", 1) for line in read_small(path).splitlines() if "=" in line and not line.startswith("#")
    )
    shown = _shown(path, root)
    tag = fields.get("TAG") or (re.search(r"verl==([\w.]+)", fields.get("PIP_INSTALL", "")) or [None, None])[1]
    if tag and (version := nearest_release(tag)):
        return Hint(version, f"{shown} pins {tag.lstrip('v')}", True)
    mode = fields.get("MODE", "")
    if mode in _ROLLING:
        commit = fields.get("VERL_COMMIT") or fields.get("ROLLING_VERL_COMMIT") or ""
        at = f" (last checked at commit {commit[:8]})" if commit else ""
        return Hint(NEWEST, f"{shown} says {mode}{at}; the newest release stands for it", False)
    return None


def _requirement(path: Path, root: Path) -> Hint | None:
    for line in read_small(path).splitlines():
        match = re.search(r"""(?:^|["'\s-])verl(?:\[[\w,\s-]*\])?\s*(==|~=|>=|<=|<)\s*v?([0-9][\w.]*)""", line)
        if match and not line.lstrip().startswith("#") and (version := nearest_release(match[2])):
            return Hint(version, f"{_shown(path, root)} asks for verl{match[1]}{match[2]}", match[1] == "==")
        match = re.search(r"verl(?:\.git)?@v([0-9][\w.]*)", line)
        if match and (version := nearest_release(match[1])):
            return Hint(version, f"{_shown(path, root)} asks for tag v{match[1]}", True)
    return None


def read_small(path: Path, limit: int = 1 << 20) -> str:
    """The start of a text file; empty when it cannot be read."""
    try:
        with path.open("rb") as stream:
            return stream.read(limit).decode("utf-8", "replace")
    except OSError:
        return ""


def _shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else path.name
