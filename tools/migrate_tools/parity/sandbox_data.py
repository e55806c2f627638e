"""Rows and cases for the sandbox: its folder, and how they are read there, rows as that side's framework reads them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def fresh_folder(place: Path) -> None:
    """An empty folder that the sandbox's own user may write to."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    place.chmod(0o777)


def load_rows(folder: Path, names: Sequence[str], reader: str) -> list[dict[str, Any]]:
    """All rows of several parquet files.

    Args:
        reader: "python" gives Python values (HF datasets, Relax); "pandas" gives what `DataFrame.iloc[i]` gives: numpy
            arrays for lists (verl before it read through HF datasets).
    """
    rows: list[dict[str, Any]] = []
    for name in names:
        rows.extend(_pandas_rows(folder / name) if reader == "pandas" else _python_rows(folder / name))
    return rows


def _python_rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    if path.is_dir():  # the converter writes JSON lines into a folder where parquet would change values
        lines = [line for file in sorted(path.glob("*.jsonl")) for line in file.read_text("utf-8").splitlines()]
        return [json.loads(line) for line in lines]
    rows: list[dict[str, Any]] = pq.ParquetFile(path).read(use_threads=False).to_pylist()
    return rows


def _pandas_rows(path: Path) -> list[dict[str, Any]]:
    import pandas as pd
    import pyarrow.parquet as pq

    frame: pd.DataFrame = pq.ParquetFile(path).read(use_threads=False).to_pandas(use_threads=False)
    return [frame.iloc[position].to_dict() for position in range(len(frame))]


def as_read(row: dict[str, Any], reader: str) -> dict[str, Any]:
    """One row, given as Python values, as the reader would give it."""
    if reader != "pandas":
        return row
    import pyarrow as pa

    read: dict[str, Any] = pa.Table.from_pylist([row]).to_pandas(use_threads=False).iloc[0].to_dict()
    return read


def load_cases(path: Path) -> list[dict[str, Any]]:
    """One object a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
