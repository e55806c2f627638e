"""What a recipe without RL training of verl holds instead, in the one line that refuses it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from migrate_tools.errors import RefusedInput
from migrate_tools.model import Skipped
from migrate_tools.verl.commands import Kind
from migrate_tools.verl.discover import Found as Folder
from migrate_tools.verl.foreign import foreign_files
from migrate_tools.verl.pylaunch import ADVICE


def nothing_to_train(
    path: Path, found: Folder, project: Path, skipped: Sequence[Skipped], kinds: Sequence[tuple[str, Kind]]
) -> RefusedInput:
    """What the folder holds instead of RL training with verl, and what to do about that kind of recipe."""
    told = [(file, kind) for file, kind in kinds if kind.advice]
    told = [item for item in told if item[1].name == "dialect"] or told
    told = told or ([] if found.asked else foreign_files(found.paths, project))
    launchers = [f"{item.file}: {item.reason}" for item in skipped if item.reason.startswith("Python launcher:")]
    if launchers and not any(kind.name == "dialect" for _, kind in told):
        listed = "; ".join(text.removesuffix(f"; {ADVICE}") for text in launchers[:3])
        return RefusedInput(f"{path}: no RL training command of verl in it (found: {listed})", ADVICE)
    if told:
        first = max(told, key=lambda item: sum(kind.advice == item[1].advice for _, kind in told))
        shown = list(dict.fromkeys([first[1].reason, *(kind.reason for _, kind in told)]))[:4]
        more = len({kind.reason for _, kind in told}) - len(shown)
        listed = "; ".join(shown) + (f"; {more} more" if more > 0 else "")
        return RefusedInput(f"{path}: no RL training command of verl in it (found: {listed})", first[1].advice)
    reasons = Counter(item.reason for item in skipped)
    telling = [
        reason for reason, _ in reasons.most_common() if not reason.startswith(("starts no", "no training command"))
    ]
    plain = [reason for reason in reasons if reason.startswith("no training command was")]
    started = [reason.partition("; ")[2] for reason in reasons if "; it starts" in reason]
    shown = (telling or plain or list(dict.fromkeys(started)))[:4]
    if not shown:
        shown = [f"{found.files} file(s), {len(skipped)} script(s)" if found.files else f"{len(skipped)} script(s)"]
    return RefusedInput(
        f"{path}: no RL training command of verl in it (found: {'; '.join(shown)})",
        "give a folder whose scripts start verl.trainer.main_ppo or a trainer of its own",
    )
