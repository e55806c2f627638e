"""Runs the whole command line on the synthetic recipes; each combination once a session."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from migrate_agent.cli import run_cli

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


@pytest.fixture(scope="session")
def migrate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Migrate]:
    """`migrate(recipe, launch, *options)`: runs `migrate-agent run --json` into a folder of its own."""
    home = tmp_path_factory.mktemp("home")
    done: dict[tuple[str, ...], Outcome] = {}
    before = os.environ.get("MIGRATE_AGENT_HOME")
    os.environ["MIGRATE_AGENT_HOME"] = str(home)

    def call(recipe: str, launch: str = "", *options: str) -> Outcome:
        key = (recipe, launch, *options)
        if key not in done:
            root = tmp_path_factory.mktemp(recipe)
            chosen = ["--launch", launch] if launch else []
            arguments = ["run", str(RECIPES / recipe), "--json", "--out", str(root), *chosen, *options]
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run_cli(arguments)
            document = json.loads(out.getvalue()) if out.getvalue().startswith("{") else {}
            done[key] = Outcome(code, document, err.getvalue(), root, recipe)
        return done[key]

    yield call
    if before is None:
        del os.environ["MIGRATE_AGENT_HOME"]
    else:
        os.environ["MIGRATE_AGENT_HOME"] = before


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
