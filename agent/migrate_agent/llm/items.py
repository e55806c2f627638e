"""What is left for a model, one item at a time and always in the same order.

First what fails (by rung), then pieces that the engine could not write, then settings that stand in no table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from migrate_tools.model import CheckResult, Frozen, Note, Recipe, SourceRef, Translation

from migrate_agent.verdict import is_refused

Kind = Literal["check", "piece", "setting"]
PIECES = frozenset(
    {
        "multi-turn", "dataset-class", "reward-manager-custom", "reward-manager-unknown", "entry-own-trainer",
        "rollout-correction", "loss-agg-mode", "lr-schedule", "optimizer",
    }
)  # fmt: skip
"""Codes of notes that name a piece of the recipe which the engine did not write."""


class Item(Frozen):
    """One thing that is left, with an identifier that stays the same from draft to draft."""

    kind: Kind
    name: str
    """The check, the sentence that names the piece, or the key."""
    launch: str = ""
    text: str = ""
    """What is known about it, in one sentence."""
    source: SourceRef | None = None
    value: str = ""
    """The recipe's value of a setting."""

    @property
    def id(self) -> str:
        """Kind and name, and of a long name its hash."""
        return f"{self.kind}:{self.name if len(self.name) <= 80 else short_hash(self.name)}"


def items(recipe: Recipe, translations: Sequence[Translation], checks: Sequence[CheckResult]) -> tuple[Item, ...]:
    """Everything that is left of these translations after these checks."""
    kept = [item for item in translations if not is_refused(item)]
    notes = {launch.name: launch.notes for launch in recipe.launches}
    return (*_checks(checks), *_pieces(kept, notes), *_settings(kept))


def _checks(checks: Sequence[CheckResult]) -> list[Item]:
    failed = [item for item in checks if item.status == "failed" and not _is_too_weak(item)]
    failed.sort(key=lambda item: (item.rung, item.name))
    return [
        Item(kind="check", name=item.name, launch=item.name.partition(":")[2], text=item.summary) for item in failed
    ]


def _is_too_weak(check: CheckResult) -> bool:
    """Whether nothing differs, but the cases would not see enough faults: more cases help there, no edit does."""
    return bool(check.evidence.get("power")) and check.evidence.get("mismatches") == 0


def _pieces(translations: Sequence[Translation], launches: Mapping[str, Sequence[Note]]) -> list[Item]:
    found: dict[str, Item] = {}
    for translation in translations:
        for note in (*launches.get(translation.launch, ()), *translation.notes):
            if note.code in PIECES:
                item = Item(
                    kind="piece", name=f"{note.code}: {note.text}", launch=translation.launch, text=note.text,
                    source=note.source,
                )  # fmt: skip
                found.setdefault(item.name, item)
    return [found[name] for name in sorted(found)]


def _settings(translations: Sequence[Translation]) -> list[Item]:
    found: dict[str, Item] = {}
    for translation in translations:
        for setting in translation.settings:
            if setting.status == "unknown":
                value = json.dumps(setting.value, default=str, sort_keys=True)[:200]
                item = Item(
                    kind="setting",
                    name=setting.key,
                    launch=translation.launch,
                    text=setting.reason,
                    source=setting.source,
                    value=value,
                )
                found.setdefault(setting.key, item)
    return [found[key] for key in sorted(found)]


def fingerprint(item: Item, checks: Sequence[CheckResult]) -> str:
    """The same text for the same failure of an item: what is measured in seconds does not count."""
    evidence = next((check.evidence for check in checks if item.kind == "check" and check.name == item.name), {})
    return short_hash(json.dumps([item.id, item.text, stable(evidence)], sort_keys=True, default=str))


def stable(value: Any) -> Any:
    """Evidence without what is measured: it must be the same when the same draft is checked again."""
    if isinstance(value, dict):
        return {key: stable(item) for key, item in value.items() if not _is_measured(str(key))}
    return [stable(item) for item in value] if isinstance(value, list | tuple) else value


def _is_measured(key: str) -> bool:
    return "second" in key or key in ("power", "search", "cut")


def short_hash(text: str) -> str:
    """Sixteen hex digits of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
