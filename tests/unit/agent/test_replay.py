"""A whole run whose reward a model mends, and its repetition from the tape: the same files, no server, no key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agent_fakes import OpenedByCommand, tree
from llm_server import llm_server
from migrate_agent.cli import run_cli
from migrate_agent.llm_settings import TAPE
from migrate_agent.runs import open_run, runs_home
from test_consult import REWARD, JudgingEngine
from test_kill_in_call import reply


class Engine(OpenedByCommand, JudgingEngine):
    """The scripted engine where the command line opens the real one."""


@pytest.fixture
def recipe(toy_recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(
        "migrate_agent.local_engine.LocalEngine", lambda say, kind: Engine(python="x = (wrong, wrong)\n")
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MIGRATE_AGENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MIGRATE_AGENT_MODEL", "stand-in")
    for name in ("OPENAI_API_KEY", "MIGRATE_AGENT_PRICES"):
        monkeypatch.delenv(name, raising=False)
    return toy_recipe


def test_a_replay_of_a_mended_run_gives_the_same_bytes(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with llm_server(reply) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert run_cli(["run", str(recipe), "--out", "first"]) == 0
        assert len(server.requests) == 3
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("MIGRATE_AGENT_MODEL")
    (name,) = (path.name for path in runs_home().iterdir())
    assert run_cli(["run", "--replay", name, "--out", "second"]) == 0
    first, second = tree(tmp_path / "first"), tree(tmp_path / "second")
    assert first[REWARD] == b"x = (0, 1)\n"
    assert len(first[f"examples/toy/migration/{TAPE}"].splitlines()) == 4
    assert second == first


def test_a_replay_stops_with_4_where_the_budget_stopped_the_run_and_goes_on_with_more(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with llm_server(reply) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert run_cli(["run", str(recipe), "--out", "first", "--budget-calls", "2"]) == 4
        (name,) = (path.name for path in runs_home().iterdir())
        assert f"--resume {name}" in capsys.readouterr().err
        first = tree(tmp_path / "first")
        assert first[REWARD] == b"x = (wrong, 1)\n"
        assert f"--resume {name}".encode() in first["examples/toy/migration/migration.json"]
        assert run_cli(["run", "--replay", name, "--out", "second"]) == 4
        assert tree(tmp_path / "second") == tree(tmp_path / "first")
        assert run_cli(["run", "--resume", name, "--budget-calls", "9", "--force"]) == 0
        assert len(server.requests) == 3
    assert tree(tmp_path / "first")[REWARD] == b"x = (0, 1)\n"
    assert run_cli(["run", "--replay", name, "--out", "third"]) == 0
    assert tree(tmp_path / "third") == tree(tmp_path / "first")


def test_a_changed_question_is_a_named_mismatch(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with llm_server(reply) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert run_cli(["run", str(recipe), "--out", "first"]) == 0
    (name,) = (path.name for path in runs_home().iterdir())
    tape = open_run(name).root / TAPE
    lines = tape.read_text().splitlines()
    exchange = json.loads(lines[2])
    lines[2] = json.dumps({**exchange, "sha256": "0" * 64})
    tape.write_text("\n".join(lines) + "\n")
    assert run_cli(["run", "--replay", name, "--out", "second"]) == 2
    assert "holds no answer to this question" in capsys.readouterr().err
    assert not Path("second").exists()
