"""The overlong penalty of the dapo manager: three generations of keys, some of which a given verl never reads."""

from __future__ import annotations

import re
from pathlib import Path

from migrate_tools.model import Note, Overlong
from migrate_tools.verl.config_view import ConfigView

FORMS = (
    (
        "reward.reward_kwargs.overlong_buffer_cfg",
        r"(?<!_)reward(\.get\(|\[)[\"']reward_kwargs|config\.reward\.reward_kwargs",
    ),
    ("reward_model.reward_kwargs.overlong_buffer_cfg", r"reward_model(\.get\(|\[|\.)[\"']?reward_kwargs"),
    ("reward_model.overlong_buffer", r"reward_model(\.get\(|\[|\.)[\"']?overlong_buffer"),
)
"""Key, and what the source of a verl that reads it contains."""
READERS = ("verl/trainer/main_ppo.py", "verl/trainer/ppo/reward.py", "verl/experimental/reward_loop")


def read_overlong(
    view: ConfigView, manager: str, verl_root: Path, entry_file: Path | None
) -> tuple[Overlong | None, list[Note]]:
    """The penalty that is in force, and a note for every form that is written but never read."""
    source = _reader_text(verl_root, entry_file)
    notes: list[Note] = []
    active: Overlong | None = None
    for key, pattern in FORMS:
        if view.get(f"{key}.enable") is not True:
            continue
        where = view.source(f"{key}.enable") or view.source(f"{key}.len")
        if manager != "dapo":
            text = f"{key} is set, but only the dapo manager reads it and the manager is {manager}: no penalty"
        elif not re.search(pattern, source):
            text = f"{key} is set, but this verl never reads that key: no penalty is applied there, and none here"
        else:
            active = active or _penalty(view, key)
            continue
        notes.append(Note(code="overlong-ignored", text=text, source=where))
    return active, notes


def _penalty(view: ConfigView, key: str) -> Overlong:
    kwargs = key.rpartition(".")[0]
    longest = view.get(f"{kwargs}.max_resp_len") if kwargs.endswith("reward_kwargs") else None
    return Overlong(
        max_resp_len=int(longest or view.get("data.max_response_length", 0)),
        buffer_len=int(view.get(f"{key}.len", 0)),
        penalty_factor=float(view.get(f"{key}.penalty_factor", 1.0)),
    )


def _reader_text(verl_root: Path, entry_file: Path | None) -> str:
    files: list[Path] = []
    for item in READERS:
        path = verl_root / item
        files += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    if entry_file is not None:
        files.append(entry_file)
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files if path.is_file())
