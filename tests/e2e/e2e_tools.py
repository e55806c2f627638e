"""What the end-to-end tests share: where the recipes are, what a run did, what a script says."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from migrate_agent.cli import run_cli

RECIPES = Path(__file__).parents[1] / "recipes"
SMALL = ["--parity-cases", "40", "--sandbox", "bubblewrap"]
"""The fewest cases with which parity sees enough, and the sandbox whose jobs start quickest."""


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

    @property
    def is_rehearsed(self) -> bool:
        """Every check that can run here passed."""
        return (self.code, self.document["verdict"]) == (0, "rehearsed")

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


@dataclass(frozen=True)
class Plan:
    """What `inspect --json` says about the only launch that was asked for."""

    code: int
    read: dict[str, Any]
    translation: dict[str, Any]

    @property
    def flags(self) -> dict[str, str | None]:
        """Flag -> its value as the script has it."""
        return {item["name"]: item["value"] for item in self.translation["flags"]}

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """Key -> the state it ended in."""
        return {item["key"]: item for item in self.translation["settings"]}


def planned(recipe: str, launch: str = "", *options: str) -> Plan:
    """What would become of one launch."""
    chosen = ["--launch", launch] if launch else []
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = run_cli(["inspect", str(RECIPES / recipe), "--json", *chosen, *options])
    (found,) = json.loads(out.getvalue())["launches"]
    return Plan(code, found["read"], found["translation"])
