"""Fixtures of the agent's tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from migrate_agent.request import RunRequest


@pytest.fixture
def toy_recipe(tmp_path: Path) -> Path:
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / "run_a.sh").write_text("python3 -m verl.trainer.main_ppo a=1\n")
    return folder


@pytest.fixture
def request_value(toy_recipe: Path, tmp_path: Path) -> RunRequest:
    return RunRequest(recipe=str(toy_recipe), algo="toy", destination=str(tmp_path / "out"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIGRATE_AGENT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
