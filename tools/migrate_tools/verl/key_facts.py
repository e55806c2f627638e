"""What is known of verl's configuration keys: which releases have them, where, and how many public scripts set them.

The facts are data (`skill/mapping/verl_keys.tsv`), measured by `benchmarks/key_facts.py` on releases and checkouts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from migrate_tools.resources import resource_dir

NAME = "verl_keys.tsv"
COLUMNS = ("key", "versions", "place", "recipe", "examples", "other")
MEASURED = (
    "0.1", "0.2", "0.3", "0.4.0", "0.4.1", "0.5", "0.6.0", "0.6.1", "0.7.0", "0.7.1", "0.8", "0.9.0", "0.9.1", "0.10",
)  # fmt: skip
"""Versions whose trees were read, oldest first; "0.10" is the checkout of verl's main branch."""


@dataclass(frozen=True)
class KeyFact:
    """One key. `place` is `file:line@version` in the newest version that declares it, or a script that sets it."""

    key: str
    versions: str
    """Ranges of releases whose configuration declares it; "recipe" or "fork" when only those do; empty: set with +."""
    place: str
    recipe: int = 0
    examples: int = 0
    other: int = 0

    @property
    def scripts(self) -> int:
        """Public scripts that set it."""
        return self.recipe + self.examples + self.other


def ranges(present: Iterable[str], order: Sequence[str] = MEASURED) -> str:
    """Runs of versions as text: "0.2-0.6.1, 0.8-"; a run that reaches the newest version stays open."""
    have = set(present)
    runs: list[list[str]] = []
    for before, version in zip((None, *order), order, strict=False):
        if version not in have:
            continue
        if before is not None and before in have and runs:
            runs[-1].append(version)
        else:
            runs.append([version])
    parts = []
    for run in runs:
        if run[-1] == order[-1]:
            parts.append(f"{run[0]}-")
        else:
            parts.append(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ", ".join(parts)


def in_ranges(version: str, text: str, order: Sequence[str] = MEASURED) -> bool:
    """Whether a measured version lies in the ranges."""
    place = order.index(version)
    for part in text.split(", "):
        first, dash, last = part.partition("-")
        if first not in order:
            continue
        end = order.index(last) if last else (len(order) - 1 if dash else order.index(first))
        if order.index(first) <= place <= end:
            return True
    return False


def read_facts(path: Path) -> dict[str, KeyFact]:
    """The facts of a file, by key."""
    found: dict[str, KeyFact] = {}
    for line in path.read_text("utf-8").splitlines():
        if line and not line.startswith("#") and not line.startswith("key\t"):
            key, versions, place, *counts = line.split("\t")
            found[key] = KeyFact(key, versions, place, *(int(count) for count in counts))
    return found


def write_facts(facts: Iterable[KeyFact], path: Path, head: str) -> None:
    """Write the facts, sorted by key, under a comment."""
    lines = [f"# {line}" for line in head.splitlines()] + ["\t".join(COLUMNS)]
    for fact in sorted(facts, key=lambda item: item.key):
        lines.append("\t".join(str(getattr(fact, name)) for name in COLUMNS))
    path.write_text("\n".join(lines) + "\n", "utf-8")


@cache
def key_facts() -> dict[str, KeyFact]:
    """The shipped facts, by key."""
    return read_facts(resource_dir("skill") / "mapping" / NAME)


def key_versions(key: str) -> str:
    """The verl versions that declare a key, as text ("0.2-0.6.1"); empty when none is known to."""
    fact = key_facts().get(key)
    return fact.versions if fact else ""
