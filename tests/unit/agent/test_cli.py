"""The command line: one line an error, the right exit code, nothing heavy for --help."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from migrate_agent.cli import run_cli
from migrate_tools import __version__


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["--version"]) == 0
    assert capsys.readouterr().out == f"migrate-agent {__version__}\n"


def test_help_names_every_command_and_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["--help"]) == 0
    text = capsys.readouterr().out
    for name in ("run", "inspect", "verify", "convert-data", "smoke", "contract", "doctor", "mcp"):
        assert f" {name} " in text
    assert "serve" not in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run"], "no recipe was given"),
        (["run", "{tmp}/none"], "does not exist"),
        (["run", "{tmp}/file.sh"], "is not a folder"),
        (["inspect", "{tmp}/none"], "does not exist"),
        (["run", "{tmp}", "--name", "../x"], "not a lower-case Python identifier"),
        (["run", "{tmp}", "--out", "a", "--relax-root", "b"], "exclude each other"),
        (["run", "{tmp}", "--verl-root", "a", "--verl-version", "0.9.1"], "exclude each other"),
        (["run", "{tmp}", "--relax-root", "{tmp}"], "not a Relax checkout"),
        (["run", "--resume", "0000"], "there is no run"),
        (["run", "{tmp}", "--batch-policy", "fast"], "batch-policy"),
        (["run", "{tmp}", "--nonsense"], "--nonsense"),
        (["serve"], "serve"),
        (["contract", "{tmp}"], "not a Relax checkout"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file.sh").write_text("")
    code = run_cli([argument.replace("{tmp}", str(tmp_path)) for argument in arguments])
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if not line.startswith("migrate-agent: run ")]
    assert code == 2
    assert len(lines) == 1
    assert lines[0].startswith("migrate-agent: error: ")
    assert said in lines[0]
    assert " -- " in lines[0]
    assert captured.out == ""


def test_an_unexpected_error_is_one_line_with_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*arguments: object, **options: object) -> int:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr("migrate_agent.commands.contract.contract", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run_cli(["contract", str(tmp_path)]) == 70
    (line,) = capsys.readouterr().err.splitlines()
    log = next(tmp_path.glob("migrate-agent-*.log"))
    assert "ZeroDivisionError: boom" in line
    assert str(log) in line
    assert "Traceback" in log.read_text()
    with pytest.raises(ZeroDivisionError):
        run_cli(["contract", str(tmp_path), "--debug"])


def test_help_imports_nothing_heavy() -> None:
    heavy = ["langgraph", "pandas", "pyarrow", "libcst", "hydra", "docker", "openai", "jinja2", "jsonschema", "numpy"]
    code = (
        "import sys; from migrate_agent.cli import run_cli; run_cli(['run', '--help']); "
        f"print([n for n in {heavy} if n in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
