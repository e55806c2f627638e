"""A target in several parts holds what one file would; on threads, and as a Ray Data job."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from migrate_tools.data.convert import (
    ConvertError,
    ConvertPlan,
    Options,
    convert,
    convert_parts,
    local_runner,
    main,
    verify,
)
from migrate_tools.relax.process_script import render_process


def parts_of(folder: Path) -> list[list[dict[str, Any]]]:
    return [pq.read_table(path).to_pylist() for path in sorted(folder.glob("part-*.parquet"))]


def test_parts_hold_all_rows_in_order(write_rows: Any, rows: Any, tmp_path: Path) -> None:
    source = write_rows(rows, row_group_size=2)
    whole = convert(ConvertPlan(), source, tmp_path / "whole.parquet")
    run = local_runner(2)
    (done,) = convert_parts(ConvertPlan(), [(source, tmp_path / "train.parquet")], run=run, shards=3)
    parts = parts_of(done.target)
    assert [len(part) for part in parts] == [2, 2, 3]
    assert [row for part in parts for row in part] == pq.read_table(whole.target).to_pylist()
    assert verify(done.target) == []
    again = convert_parts(ConvertPlan(), [(source, done.target)], Options(resume=True), run=lambda tasks: [], shards=3)
    assert again[0].skipped
    (done.target / "part-00001.parquet").write_bytes(b"x")
    assert "its hash is another" in verify(done.target)[0]


def test_one_part_is_a_file_and_several_sources_are_cut_across(write_rows: Any, rows: Any, tmp_path: Path) -> None:
    sources = [write_rows(rows[:3], "a.parquet", row_group_size=1), write_rows(rows[3:], "b.parquet", row_group_size=1)]
    run = local_runner(1)
    (one,) = convert_parts(ConvertPlan(), [(sources, tmp_path / "one.parquet")], run=run, shards=1)
    assert one.target.is_file()
    (two,) = convert_parts(ConvertPlan(), [(sources, tmp_path / "two.parquet")], run=run, shards=2)
    numbers = [[row["extra_info"]["index"] for row in part] for part in parts_of(two.target)]
    assert numbers == [[0, 1, 2], [3, 4, 5, 6]]
    assert verify(one.target) == verify(two.target) == []


def test_a_bad_row_leaves_nothing(write_rows: Any, rows: Any, tmp_path: Path) -> None:
    rows[5]["prompt"] = None
    source = write_rows(rows, row_group_size=2)
    with pytest.raises(ConvertError, match="row group 2, row 1, column prompt: no prompt"):
        convert_parts(ConvertPlan(), [(source, tmp_path / "o" / "x.parquet")], run=local_runner(2), shards=4)
    assert list((tmp_path / "o").iterdir()) == []


def test_command_line_shards(write_rows: Any, rows: Any, tmp_path: Path) -> None:
    source = write_rows(rows, row_group_size=2)
    assert main(["--train", str(source), "--output-dir", str(tmp_path / "o"), "--shards", "2"]) == 0
    assert len(parts_of(tmp_path / "o" / "train.parquet")) == 2


@pytest.mark.ray
def test_ray_on_two_workers_gives_the_same_rows(write_rows: Any, rows: Any, tmp_path: Path) -> None:
    """The generated script, which no worker can import, on a Ray of its own."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("ray is not installed: pip install 'ray[data]'")
    for index, row in enumerate(rows):
        row["extra_info"] = json.dumps({"index": index})
    script = tmp_path / "process_demo.py"
    script.write_text(render_process("demo", []))
    sources = [write_rows(rows, f"{name}.parquet", row_group_size=2) for name in "ab"]
    starter = (
        "import ray, runpy, sys; ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, "
        "object_store_memory=100 << 20); sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    options = ["--output-dir", str(tmp_path / "o"), "--engine", "ray", "--shards", "2"]
    command = [sys.executable, "-c", starter, str(script), "--train", *map(str, sources), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    whole = convert(ConvertPlan(), sources[0], tmp_path / "whole.parquet")
    expected = pq.read_table(whole.target).to_pylist()
    for number in range(2):
        target = tmp_path / "o" / f"train_{number}.parquet"
        parts = parts_of(target)
        assert [len(part) for part in parts] == [4, 3]
        assert [row for part in parts for row in part] == expected
        assert verify(target) == []


def numbers_in(folder: Path, *names: str) -> list[list[int]]:
    return [[row["extra_info"]["index"] for row in pq.read_table(folder / name).to_pylist()] for name in names]


def test_first_rows_over_all_files(write_rows: Any, rows: Any, tmp_path: Path) -> None:
    sources = [str(write_rows(rows[:3], "a.parquet")), str(write_rows(rows[3:], "b.parquet", row_group_size=1))]
    out = ["--output-dir", str(tmp_path / "o"), "--train-max-samples", "5", "--val-max-samples", "1", "--resume"]
    assert main(["--train", *sources, "--val", sources[1], *out]) == 0
    assert numbers_in(tmp_path / "o", "train_0.parquet", "train_1.parquet", "val.parquet") == [[0, 1, 2], [3, 4], [3]]
    assert verify(tmp_path / "o" / "train_1.parquet") == []
    out[3] = "6"
    assert main(["--train", *sources, *out]) == 0
    assert numbers_in(tmp_path / "o", "train_1.parquet") == [[3, 4, 5]]


def test_drawn_rows_are_those_of_verl(write_rows: Any, rows: Any, tmp_path: Path) -> None:
    """verl: numpy.random.default_rng(seed).choice(total, size, replace=False)."""
    import numpy as np

    source = write_rows(rows, row_group_size=2)
    options = ["--train-max-samples", "4", "--draw-samples", "--sample-seed", "7", "--output-dir", str(tmp_path / "o")]
    assert main(["--train", str(source), *options]) == 0
    expected = sorted(np.random.default_rng(7).choice(7, size=4, replace=False).tolist())
    assert numbers_in(tmp_path / "o", "train.parquet") == [expected]
    assert expected != [0, 1, 2, 3]
