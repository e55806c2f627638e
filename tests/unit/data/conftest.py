"""Small verl parquet files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

Rows = list[dict[str, Any]]
WriteRows = Callable[..., Path]


@pytest.fixture
def write_rows(tmp_path: Path) -> WriteRows:
    """Writes rows (or a table) under a name below tmp_path/in."""

    def write(rows: Any, name: str = "train.parquet", **options: Any) -> Path:
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows), path, **options)
        return path

    return write


@pytest.fixture
def rows() -> Rows:
    return [
        {
            "data_source": f"source_{index % 2}",
            "prompt": [{"role": "user", "content": f"Question {index}?"}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(index)},
            "extra_info": {"index": index, "split": "train"},
        }
        for index in range(7)
    ]
