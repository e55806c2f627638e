"""Bad input: one clear line, the right exit code, nothing half written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from e2e_tools import SMALL
from migrate_agent.cli import run_cli

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("unmeasured")]

COMMAND = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_files=train.parquet "
    "actor_rollout_ref.rollout.n=4 "
)
CUSTOM = "reward.custom_reward_function.path=reward.py reward.custom_reward_function.name=compute_score "
REWARD = "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n    return 1.0\n"


def write(folder: Path, **files: str | bytes) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


def empty(folder: Path) -> None:
    pass


def no_command(folder: Path) -> None:
    write(folder, run__sh="echo hello\n")


def sft_only(folder: Path) -> None:
    write(folder, run__sh="torchrun -m verl.trainer.fsdp_sft_trainer data.train_files=x\n")


def broken_python(folder: Path) -> None:
    write(folder, run__sh=COMMAND + CUSTOM, reward__py="def compute_score(:\n")


def missing_reward(folder: Path) -> None:
    write(folder, run__sh=COMMAND + CUSTOM)


def missing_function(folder: Path) -> None:
    write(folder, run__sh=COMMAND + CUSTOM, reward__py="def other():\n    return 1\n")


def broken_yaml(folder: Path) -> None:
    (folder / "config").mkdir()
    (folder / "config" / "mine.yaml").write_text("a: [1,\n")
    write(folder, run__sh=COMMAND + "--config-path=config --config-name=mine\n")


def cyclic_sourcing(folder: Path) -> None:
    write(folder, run__sh="source ./b.sh\n", b__sh="source ./run.sh\n")


def bad_override(folder: Path) -> None:
    write(folder, run__sh=COMMAND + "trainer.nnodes=[1\n")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (empty, "is empty"),
        (no_command, "no"),
        (sft_only, "sft"),
        (broken_python, "reward.py"),
        (missing_reward, "reward.py"),
        (missing_function, "compute_score"),
        (broken_yaml, "mine"),
        (cyclic_sourcing, ""),
    ],
)
@pytest.mark.parametrize("command", ["run", "inspect"])
def test_bad_recipes_are_refused_in_one_line(
    command: str,
    make: Callable[[Path], None],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "recipe"
    folder.mkdir()
    make(folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MIGRATE_AGENT_HOME", str(tmp_path / "home"))
    code = run_cli([command, str(folder)])
    captured = capsys.readouterr()
    errors = [line for line in captured.err.splitlines() if "error: " in line or "refused: " in line]
    assert code == 2, captured
    assert len(errors) == 1 or command == "inspect"
    assert said.lower() in (captured.err + captured.out).lower()
    assert sorted(path.name for path in tmp_path.iterdir()) in (["home", "recipe"], ["recipe"])


def test_a_broken_override_is_named_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad_override(tmp_path)
    run_cli(["inspect", str(tmp_path)])
    captured = capsys.readouterr()
    said = captured.out + captured.err
    assert "trainer.nnodes" in said
    assert "run.sh:1" in said


def test_odd_files_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "recipe"
    folder.mkdir()
    write(folder, run__sh=COMMAND + CUSTOM + "\n", reward__py=REWARD, notes__txt=b"\xff\xfe\x00latin \xe9")
    (folder / "README.md").write_bytes(b"\xe9t\xe9\n")
    with (folder / "weights.bin").open("wb") as stream:
        stream.truncate(1 << 30)
    (folder / "loop").symlink_to(folder)
    (folder / "escape").symlink_to("/etc/passwd")
    monkeypatch.setenv("MIGRATE_AGENT_HOME", str(tmp_path / "home"))
    code = run_cli(["run", str(folder), "--out", str(tmp_path / "out"), *SMALL])
    captured = capsys.readouterr()
    assert code in {0, 1}, captured
    assert (tmp_path / "out" / "examples" / "recipe" / "run_recipe.sh").is_file()


def test_a_secret_is_named_and_never_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-" + "a1B2" * 12
    folder = tmp_path / "recipe"
    folder.mkdir()
    write(
        folder,
        run__sh=f"export OPENAI_API_KEY={key}\nexport WANDB_API_KEY={'0123456789abcdef' * 2}12345678\n"
        + COMMAND
        + CUSTOM,
        reward__py=f'KEY = "{key}"\n\n\n' + REWARD.replace("1.0", "float(len(KEY) > 3)"),
    )
    monkeypatch.setenv("MIGRATE_AGENT_HOME", str(tmp_path / "home"))
    out = tmp_path / "out"
    assert run_cli(["run", str(folder), "--out", str(out), *SMALL]) in {0, 1}
    for path in out.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert key.encode() not in content, path
            assert b"0123456789abcdef" * 2 not in content, path
    page = (out / "examples" / "recipe" / "migration" / "MIGRATION.md").read_text()
    assert "run.sh:1" in page
