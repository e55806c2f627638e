"""Runs the whole command line on the synthetic recipes; each combination once a session."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator

import pytest
from e2e_tools import RECIPES, Migrate, Outcome
from migrate_agent.cli import run_cli


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
            # one recipe runs as a user would run it, the others where a job starts quickest
            chosen += [] if recipe == "quickstart" else ["--parity-cases", "160", "--sandbox", "bubblewrap"]
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
