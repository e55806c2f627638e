"""The conservation ledger: everything that the recipe holds ends in exactly one state.

Areas: settings, branches and imports of the reward, data columns, environment variables, side effects of the scripts.
What was read is counted apart from what came out; a difference is named and keeps the verdict at "partial".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from migrate_tools.model import Conserved, DataSpec, Frozen, Launch, Recipe, SourceRef, Status, Translation

STATUSES: tuple[Status, ...] = get_args(Status)
AREAS = {
    "reward_branch": "reward branches",
    "import": "imports of the reward",
    "column": "columns",
    "environment": "environment",
    "shell": "side effects of scripts",
}
SETTINGS = "settings"
PLAIN = frozenset(
    {
        "kept", "copied", "unused", "in_settings", "read_by_reward", "read_by_tools", "prompt", "label", "metadata",
        "media",
    }
)  # fmt: skip
"""States that nobody needs to read about one by one."""


class LedgerLine(Frozen):
    """Counts of one launch and area: `read` things went in, `counts` by state came out."""

    launch: str
    area: str = SETTINGS
    read: int
    counts: dict[str, int]
    difference: tuple[str, ...] = ()
    """What does not balance, each thing by name."""


class LedgerItem(Conserved):
    """A thing besides a setting, with the launch it belongs to."""

    launch: str


def balance(recipe: Recipe, translations: tuple[Translation, ...]) -> tuple[LedgerLine, ...]:
    """The lines of the settings, one a launch."""
    by_launch: dict[str, list[Translation]] = {}
    for item in translations:
        by_launch.setdefault(item.launch, []).append(item)
    lines = [_settings(launch, by_launch.pop(launch.name, [])) for launch in recipe.launches]
    lines += [
        LedgerLine(
            launch=name, read=0, counts=_counts(items), difference=(f"launch {name} was not read from the recipe",)
        )
        for name, items in by_launch.items()
    ]
    return tuple(lines)


def _settings(launch: Launch, found: Sequence[Translation]) -> LedgerLine:
    if not found:
        return LedgerLine(
            launch=launch.name,
            read=len(launch.settings),
            counts=_counts(()),
            difference=(f"launch {launch.name} was read and not translated",),
        )
    wanted = Counter(_entry(item.key, item.source) for item in launch.settings)
    got = Counter(_entry(item.key, item.source) for translation in found for item in translation.settings)
    difference = [f"setting {key} at {place} has no state" for key, place in wanted - got]
    difference += [f"setting {key} at {place} has a state too many" for key, place in got - wanted]
    return LedgerLine(
        launch=launch.name, read=len(launch.settings), counts=_counts(found), difference=tuple(difference)
    )


def _counts(found: Iterable[Translation]) -> dict[str, int]:
    counts = Counter(item.status for translation in found for item in translation.settings)
    return {status: counts[status] for status in STATUSES}


def _entry(key: str, source: SourceRef | None) -> tuple[str, str]:
    return key, f"{source.file}:{source.line}" if source else "?"


def other_items(recipe: Recipe, rewards: Mapping[str, Sequence[Conserved]]) -> tuple[LedgerItem, ...]:
    """Everything besides the settings, launch by launch.

    Args:
        rewards: launch -> branches and imports of its reward, of the launches whose reward was extracted.
    """
    from migrate_tools.mapping.environment import environment_items

    found: list[LedgerItem] = []
    for launch in recipe.launches:
        items = [*rewards.get(launch.name, ()), *column_items(launch.data), *environment_items(launch)]
        found += [LedgerItem(launch=launch.name, **item.model_dump()) for item in items]
    found += [
        LedgerItem(
            launch="", area="shell", name=note.text, state="not_carried", reason="never run and not carried over",
            source=note.source,
        )
        for note in recipe.shell_features
    ]  # fmt: skip
    return tuple(found)


def column_items(data: DataSpec) -> tuple[Conserved, ...]:
    """Each column of the data and where Relax finds it."""
    roles = {data.prompt_key: "prompt", "reward_model": "label", data.reward_fn_key: "metadata"}
    roles |= {"extra_info": "metadata", "ability": "metadata"} | dict.fromkeys(data.multimodal, "media")
    return tuple(
        Conserved(area="column", name=f"{name}: {kind}", state=roles.get(name, "kept"))
        for name, kind in data.columns.items()
    )


def other_lines(items: Iterable[LedgerItem]) -> tuple[LedgerLine, ...]:
    """Counts by launch and area; a lost thing is a difference."""
    groups: dict[tuple[str, str], list[LedgerItem]] = {}
    for item in items:
        groups.setdefault((item.launch, AREAS[item.area]), []).append(item)
    return tuple(
        LedgerLine(
            launch=launch,
            area=area,
            read=len(group),
            counts=dict(sorted(Counter(item.state for item in group if item.state != "lost").items())),
            difference=tuple(
                f"{item.name}{_place(item.source)}: {item.reason}" for item in group if item.state == "lost"
            ),
        )
        for (launch, area), group in groups.items()
    )


def _place(source: SourceRef | None) -> str:
    return f" ({source.file}:{source.line})" if source and source.line else f" ({source.file})" if source else ""


def differences(ledger: Iterable[LedgerLine]) -> tuple[str, ...]:
    """What does not balance, as sentences."""
    return tuple(f"ledger of {line.area}: {text}" for line in ledger for text in line.difference)
