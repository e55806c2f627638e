"""What the end-to-end tests share: where the recipes are, what a run did, what a script says."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECIPES = Path(__file__).parents[1] / "recipes"


@dataclass(frozen=True)
class Outcome:
    """What one command did."""

    code: int
    document: dict[str, Any]
    errors: str
    root: Path
    algo: str

    def text(self, name: str) -> str:
        """A written file of the example."""
        return (self.root / "examples" / self.algo / name).read_text()

    def check(self, rung: int) -> list[dict[str, Any]]:
        """Results of one rung."""
        return [item for item in self.document["checks"] if item["rung"] == rung]

    def setting(self, key: str) -> dict[str, Any]:
        """The one state that a setting ended in."""
        (found,) = [item for item in self.document["settings"] if item["key"] == key]
        return dict(found)


Migrate = Callable[..., Outcome]


def flags_of(script: str, mode: str = "sync") -> dict[str, list[str]]:
    """Flag -> its words in the arrays of a run script, comments apart."""
    words: dict[str, list[str]] = {}
    name = ""
    for line in script.splitlines():
        try:
            parts = shlex.split(line.strip(), comments=True)
        except ValueError:
            continue
        for part in parts:
            if part.startswith("--"):
                name = part
                words.setdefault(name, [])
            elif name and part not in {")", "\\"}:
                words[name].append(part)
        if line.strip() == ")":
            name = ""
    return words
