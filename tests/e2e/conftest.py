"""Runs the whole command line on the synthetic recipes; each combination once a session, whichever process asks."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e_tools import RECIPES, SMALL, Migrate, Outcome
from migrate_agent.cli import run_cli
from migrate_tools.parity import compare, oracle

MEASURED = frozenset({"quickstart", "tools_checker", "user_quiz", "r02_signal_timeout", "r06_hanging", "r09_old_fork"})
"""Recipes whose parity check is measured with seeded faults too; that is most of a run, and has tests of its own."""


@pytest.fixture(scope="session")
def migrate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Migrate]:
    """`migrate(recipe, launch, *options)`: runs `migrate-agent run --json` into a folder of its own."""
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "migrated"
    shared.mkdir(exist_ok=True)
    before = os.environ.get("MIGRATE_AGENT_HOME")
    os.environ["MIGRATE_AGENT_HOME"] = str(tmp_path_factory.mktemp("home"))

    def call(recipe: str, launch: str = "", *options: str) -> Outcome:
        place = shared / hashlib.sha256(json.dumps([recipe, launch, *options]).encode()).hexdigest()[:16]
        place.mkdir(exist_ok=True)
        with (place / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (place / "said.json").exists():
                _run(place, recipe, launch, options)
        said = json.loads((place / "said.json").read_text())
        return Outcome(said["code"], said["document"], said["errors"], place / "out", recipe)

    yield call
    if before is None:
        del os.environ["MIGRATE_AGENT_HOME"]
    else:
        os.environ["MIGRATE_AGENT_HOME"] = before


def _run(place: Path, recipe: str, launch: str, options: tuple[str, ...]) -> None:
    chosen = ["--launch", launch] if launch else []
    # one recipe runs as a user would run it, the others where a job starts quickest
    chosen += [] if recipe == "quickstart" else SMALL
    arguments = ["run", str(RECIPES / recipe), "--json", "--out", str(place / "out"), *chosen, *options]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        if recipe not in MEASURED:
            _unmeasured(patch)
        code = run_cli(arguments)
    document = json.loads(out.getvalue()) if out.getvalue().startswith("{") else {}
    said = {"code": code, "document": document, "errors": err.getvalue()}
    (place / "said.json").write_text(json.dumps(said))


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in this process compare, but seed no faults."""
    _unmeasured(monkeypatch)


def _unmeasured(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compare, "POWER_SECONDS", 0.0)
    patch.setattr(oracle.directed, "search", lambda *_, **__: oracle.directed.Told())
