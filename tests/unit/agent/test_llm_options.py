"""--llm, the budgets and --replay on the command line, over a scripted engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent_fakes import OpenedByCommand, ScriptedEngine, tree
from llm_server import llm_server, said
from migrate_agent.cli import run_cli
from migrate_agent.llm_settings import TAPE, Limits
from migrate_agent.runs import open_run, runs_home


class Engine(OpenedByCommand, ScriptedEngine):
    """The scripted engine where the command line opens the real one."""


@pytest.fixture
def recipe(toy_recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("migrate_agent.local_engine.LocalEngine", lambda say, kind: Engine())
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "MIGRATE_AGENT_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MIGRATE_AGENT_CACHE", str(tmp_path / "cache"))
    return toy_recipe


def run_ids() -> list[str]:
    return sorted(path.name for path in runs_home().iterdir())


def test_budgets_reach_the_request_and_grow_when_a_run_goes_on(recipe: Path) -> None:
    budgets = ["--budget-usd", "0.5", "--budget-tokens", "1000", "--budget-seconds", "60", "--budget-calls", "3"]
    assert run_cli(["run", str(recipe), *budgets]) == 0
    (name,) = run_ids()
    assert open_run(name).request().llm.limits == Limits(usd=0.5, tokens=1000, seconds=60, calls=3)
    assert run_cli(["run", "--resume", name, "--budget-calls", "9"]) == 0
    assert open_run(name).request().llm.limits == Limits(usd=0.5, tokens=1000, seconds=60, calls=9)


def test_budgets_are_no_part_of_the_run_id_and_off_is(recipe: Path) -> None:
    run_cli(["run", str(recipe)])
    run_cli(["run", str(recipe), "--budget-calls", "7"])
    assert len(run_ids()) == 1
    run_cli(["run", str(recipe), "--llm", "off"])
    assert len(run_ids()) == 2


def test_a_configured_model_is_opened_and_a_replay_gives_the_same_bytes(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with llm_server(said("{}")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("MIGRATE_AGENT_MODEL", "stand-in")
        assert run_cli(["run", str(recipe), "--out", "first"]) == 0
        assert "model stand-in at 127.0.0.1" in capsys.readouterr().err
    (name,) = run_ids()
    assert json.loads((open_run(name).root / TAPE).read_text())["model"] == "stand-in"
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("MIGRATE_AGENT_MODEL")
    assert run_cli(["run", "--replay", name, "--out", "second"]) == 0
    assert run_ids() == [name, f"{name}-replay"]
    assert (open_run(name).root / TAPE).is_file()
    assert tree(tmp_path / "first") == tree(tmp_path / "second")


def test_a_tape_with_answers_is_part_of_the_evidence(tmp_path: Path) -> None:
    from migrate_agent.commands.run import tape_evidence

    assert tape_evidence(tmp_path) == {}
    (tmp_path / TAPE).write_text('{"tape": 1, "model": "m"}\n')
    assert tape_evidence(tmp_path) == {}
    (tmp_path / TAPE).write_text('{"tape": 1, "model": "m"}\n{"number": 1}\n')
    assert tape_evidence(tmp_path) == {TAPE: '{"tape": 1, "model": "m"}\n{"number": 1}\n'}


def test_half_an_endpoint_stops_the_run_with_3_and_off_does_not_look(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MIGRATE_AGENT_MODEL", "m")
    assert run_cli(["run", str(recipe)]) == 3
    assert "neither OPENAI_API_KEY nor OPENAI_BASE_URL" in capsys.readouterr().err
    assert run_cli(["run", str(recipe), "--llm", "off"]) == 0


def test_a_key_without_a_model_is_said_once_and_not_used(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-program")
    assert run_cli(["run", str(recipe)]) == 0
    assert capsys.readouterr().err.count("MIGRATE_AGENT_MODEL names none") == 1


def test_a_replay_of_a_changed_recipe_is_refused(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_cli(["run", str(recipe)])
    (name,) = run_ids()
    (recipe / "run_a.sh").write_text("python3 -m verl.trainer.main_ppo a=2\n")
    assert run_cli(["run", "--replay", name]) == 2
    assert "changed since run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said_so"),
    [
        (["--replay", "0" * 16, "--resume", "0" * 16], "exclude each other"),
        (["{recipe}", "--replay", "0" * 16], "takes the recipe"),
        (["--replay", "0" * 16], "there is no run"),
        (["{recipe}", "--budget-calls", "-1"], "budget-calls"),
        (["{recipe}", "--llm", "on"], "--llm"),
    ],
)
def test_wrong_usage(recipe: Path, arguments: list[str], said_so: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["run", *(item.replace("{recipe}", str(recipe)) for item in arguments)]) == 2
    assert said_so in capsys.readouterr().err


def test_a_spent_budget_ends_with_4_and_names_the_run(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from migrate_agent.llm.errors import BudgetSpent

    def broke(*arguments: Any, **options: Any) -> None:
        raise BudgetSpent("the budget of 1 calls for the model is spent", "go on with --resume RUN_ID")

    monkeypatch.setattr("migrate_agent.commands.run.run_graph", broke)
    assert run_cli(["run", str(recipe)]) == 4
    (name,) = run_ids()
    assert f"go on with --resume {name}" in capsys.readouterr().err
