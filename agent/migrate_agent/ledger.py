"""The conservation ledger: everything the recipe sets ends in exactly one state, or the run fails."""

from __future__ import annotations

from collections import Counter
from typing import get_args

from migrate_tools.model import Frozen, Launch, Recipe, SourceRef, Status, Translation

STATUSES: tuple[Status, ...] = get_args(Status)


class LedgerError(Exception):
    """Something of the recipe was lost or counted twice: a fault of this program, never of the recipe."""


class LedgerLine(Frozen):
    """Counts of one launch: `read` settings went in, `counts` by status came out."""

    launch: str
    read: int
    counts: dict[str, int]


def balance(recipe: Recipe, translations: tuple[Translation, ...]) -> tuple[LedgerLine, ...]:
    """One line a launch.

    Raises:
        LedgerError: a launch or a setting has no state, or has two; the message names the first of them.
    """
    by_launch = {translation.launch: translation for translation in translations}
    lost = [launch.name for launch in recipe.launches if launch.name not in by_launch]
    if lost or len(by_launch) != len(translations) or len(translations) != len(recipe.launches):
        raise LedgerError(f"launches read and translated differ: {lost or sorted(by_launch)}")
    return tuple(_line(launch, by_launch[launch.name]) for launch in recipe.launches)


def _line(launch: Launch, translation: Translation) -> LedgerLine:
    wanted = Counter(_entry(item.key, item.source) for item in launch.settings)
    got = Counter(_entry(item.key, item.source) for item in translation.settings)
    for difference, what in ((wanted - got, "has no state"), (got - wanted, "has a state too many")):
        for entry in difference:
            raise LedgerError(f"launch {launch.name}: setting {entry[0]} at {entry[1]} {what}")
    counts = Counter(item.status for item in translation.settings)
    return LedgerLine(
        launch=launch.name, read=len(launch.settings), counts={status: counts[status] for status in STATUSES}
    )


def _entry(key: str, source: SourceRef | None) -> tuple[str, str]:
    return key, f"{source.file}:{source.line}" if source else "?"
