"""convert-data on one file, on a folder, and on what is no verl data."""

from __future__ import annotations

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
    assert run_cli(["convert-data", str(tmp_path / "none"), str(tmp_path / "out")]) == 2
    assert "does not exist" in capsys.readouterr().err
