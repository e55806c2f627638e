"""A simple preparation script becomes one that writes Relax's columns; others are left alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from migrate_tools.model import DataSpec
from migrate_tools.relax.prepare_script import render_prepare
from migrate_tools.relax.process_script import render_process

SCRIPT = '''\
# Licence line
"""Makes sums."""

import argparse
import os

import pandas as pd

from verl.utils.hdfs_io import copy, makedirs


def rows(split, count):
    for index in range(count):
        yield {
            "data_source": "me/sums",
            "prompt": [{"role": "user", "content": f"{index} + 1?"}],
            "reward_model": {"style": "rule", "ground_truth": str(index + 1)},
            "extra_info": {"split": split, "index": index},
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_dir")
    parser.add_argument("--hdfs_dir", default=None)
    args = parser.parse_args()
    makedirs(args.local_dir)
    pd.DataFrame(rows("train", 5)).to_parquet(os.path.join(args.local_dir, "train.parquet"), index=False)
    pd.DataFrame(rows("test", 2)).to_parquet(os.path.join(args.local_dir, "test.parquet"), index=False)
    if args.hdfs_dir is not None:
        copy(args.local_dir, args.hdfs_dir)
'''


def prepared(folder: Path, text: str) -> str | None:
    (folder / "make_sums.py").write_text(text)
    return render_prepare("sums", [DataSpec(prep_script="make_sums.py")], [folder / "none", folder])


def test_it_writes_converted_files(tmp_path: Path) -> None:
    text = prepared(tmp_path, SCRIPT)
    assert text is not None
    assert "from verl" not in text
    assert text.index("own make_sums.py") < text.index("# Licence line") < text.index("process_sums")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "prepare_sums.py").write_text(text)
    (tools / "process_sums.py").write_text(render_process("sums", []))
    command = [sys.executable, str(tools / "prepare_sums.py"), "--local_dir", str(tmp_path / "data")]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    names = sorted(path.name for path in (tmp_path / "data").iterdir())
    assert [name for name in names if name.endswith(".parquet")] == ["test.parquet", "train.parquet"]
    rows = pq.read_table(tmp_path / "data" / "train.parquet").to_pylist()
    assert [row["label"] for row in rows] == ["1", "2", "3", "4", "5"]
    assert rows[4]["extra_info"] == {"split": "train", "index": 4, "data_source": "me/sums", "style": "rule"}
    refused = subprocess.run([*command, "--hdfs_dir", "hdfs://x/y"], capture_output=True, text=True, timeout=120)
    assert "hdfs://x/y: copy" in refused.stderr


@pytest.mark.parametrize(
    "text",
    [
        SCRIPT.replace("from verl.utils.hdfs_io import copy, makedirs", "from verl.utils.reward_score import math"),
        SCRIPT.replace("from verl.utils.hdfs_io import copy, makedirs", "from .helpers import copy, makedirs"),
        SCRIPT.replace("to_parquet", "to_json"),
        SCRIPT.replace("import copy, makedirs", "import copy, makedirs, exists"),
        "def broken(:\n",
    ],
    ids=["verl scorer", "relative", "writes JSON", "other helper", "broken"],
)
def test_what_is_not_simple(tmp_path: Path, text: str) -> None:
    assert prepared(tmp_path, text) is None


def test_no_or_several_scripts(tmp_path: Path) -> None:
    assert render_prepare("sums", [DataSpec()], [tmp_path]) is None
    specs = [DataSpec(prep_script="a.py"), DataSpec(prep_script="b.py")]
    assert render_prepare("sums", specs, [tmp_path]) is None
