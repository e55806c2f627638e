"""convert-data on one file, on a folder, and on what is no verl data."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from migrate_agent.cli import run_cli


def rows(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    row = {
        "data_source": "s",
        "prompt": [{"role": "user", "content": "q"}],
        "reward_model": {"style": "rule", "ground_truth": "7"},
        "extra_info": {"index": 1},
    }
    pq.write_table(pa.Table.from_pylist([row]), path)


def test_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows(tmp_path / "a.parquet")
    assert run_cli(["convert-data", str(tmp_path / "a.parquet"), str(tmp_path / "out" / "b.parquet")]) == 0
    (row,) = pq.read_table(tmp_path / "out" / "b.parquet").to_pylist()
    assert row["label"] == "7"
    assert row["extra_info"] == {"index": 1, "data_source": "s", "style": "rule"}
    assert capsys.readouterr().out == f"{tmp_path / 'out' / 'b.parquet'}: 1 rows\n"


def test_a_folder_keeps_its_names(tmp_path: Path) -> None:
    rows(tmp_path / "in" / "x" / "a.parquet")
    rows(tmp_path / "in" / "b.parquet")
    assert run_cli(["convert-data", str(tmp_path / "in"), str(tmp_path / "out")]) == 0
    found = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.parquet"))
    assert found == ["b.parquet", "x/a.parquet"]


def test_other_parquet_is_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"question": ["q"]}), tmp_path / "a.parquet")
    assert run_cli(["convert-data", str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")]) == 2
    assert "no column reward_model" in capsys.readouterr().err
    assert not (tmp_path / "b.parquet").exists()


def test_a_missing_source_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["convert-data", str(tmp_path / "none.parquet"), str(tmp_path / "out")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_bad_rows_dry_run_and_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows(tmp_path / "a.parquet")
    (row,) = pq.read_table(tmp_path / "a.parquet").to_pylist()
    pq.write_table(pa.Table.from_pylist([row, {**row, "prompt": None}]), tmp_path / "a.parquet")
    command = ["convert-data", str(tmp_path / "*.parquet"), str(tmp_path / "out")]
    assert run_cli(command) == 2
    assert "row group 0, row 1, column prompt: no prompt" in capsys.readouterr().err
    assert run_cli([*command, "--dry-run"]) == 0
    assert "label: string" in capsys.readouterr().out
    assert not (tmp_path / "out" / "a.parquet").exists()
    assert run_cli([*command, "--on-error", "skip"]) == 0
    assert "1 rows, 1 bad rows left out" in capsys.readouterr().out
    assert run_cli([*command, "--verify"]) == 0
    (tmp_path / "out" / "a.parquet").write_bytes(b"")
    assert run_cli([*command, "--verify"]) == 1
    assert "was changed after it was written" in capsys.readouterr().out


def test_json_lines_and_flat_labels(tmp_path: Path) -> None:
    rows(tmp_path / "a.parquet")
    (row,) = pq.read_table(tmp_path / "a.parquet").to_pylist()
    row["reward_model"]["ground_truth"] = [1, 2]
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    command = ["convert-data", str(tmp_path / "a.parquet"), str(tmp_path / "out.jsonl")]
    assert run_cli([*command, "--format", "jsonl", "--flat-label"]) == 0
    assert json.loads((tmp_path / "out.jsonl").read_text())["label"] == "[1, 2]"
