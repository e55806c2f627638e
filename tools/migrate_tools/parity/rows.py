"""Rows for parity: some of the recipe's own, a few of every data_source, images replaced by one-pixel ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from migrate_tools.model import DataSpec
from migrate_tools.parity.case import ground_truth

PER_SOURCE = 8
MOST = 48
READ_AT_MOST = 20_000
"""Rows looked at in each file."""
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8ffff3f0005fe02fe"
    "a735819e0000000049454e44ae426082"
)
"""A PNG of one pixel."""
MADE_UP_TRUTHS = ("72", "-3", "0.5", "\\frac{3}{4}", "1,234", "Paris", "B", "x^2+1")


def sample_rows(data: DataSpec) -> tuple[list[dict[str, Any]], str]:
    """Rows of every source, in file order, and where they come from: "files" or "made_up".

    Sampling is by position: the first rows of a source and then ever sparser ones, so that the same files
    give the same rows.
    """
    paths = [Path(file.path) for file in (*data.train, *data.val) if file.path]
    found: list[dict[str, Any]] = []
    for path in paths:
        found.extend(_thinned(_read(path, data), data.reward_fn_key, PER_SOURCE))
    found = _thinned(found, data.reward_fn_key, PER_SOURCE * max(1, min(len(paths), 3)))[:MOST]
    if found:
        return found, "files"
    made = [dict(row) for row in data.example_rows] or _minimal(data)
    return made, "made_up"


def _read(path: Path, data: DataSpec) -> Iterator[dict[str, Any]]:
    if path.suffix in (".jsonl", ".json"):
        yield from _read_json(path)
        return
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    images = set(data.multimodal) | {data.image_key}
    seen = 0
    for batch in file.iter_batches(
        batch_size=256 if images & set(file.schema_arrow.names) else 2048, use_threads=False
    ):
        for row in batch.to_pylist():
            yield {key: _small(value) if key in images else value for key, value in row.items()}
        seen += batch.num_rows
        if seen >= READ_AT_MOST:
            return


def _read_json(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines):
            if number >= READ_AT_MOST:
                return
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(row, dict):
                yield row


def _small(value: Any) -> Any:
    """The same shape with every picture one pixel large."""
    if isinstance(value, bytes):
        return PIXEL
    if isinstance(value, Mapping):
        return {key: _small(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_small(item) for item in value]
    return value


def _thinned(rows: Iterable[dict[str, Any]], source_key: str, per_source: int) -> list[dict[str, Any]]:
    """At most `per_source` rows of each source, with different ground truths before repeated ones."""
    kept: dict[str, list[dict[str, Any]]] = {}
    truths: dict[str, set[str]] = {}
    for row in rows:
        source = str(row.get(source_key))
        mine = kept.setdefault(source, [])
        truth = repr(ground_truth(row))
        if len(mine) < per_source and truth not in truths.setdefault(source, set()):
            mine.append(row)
            truths[source].add(truth)
    return [row for group in kept.values() for row in group]


def _minimal(data: DataSpec) -> list[dict[str, Any]]:
    """Rows for a recipe that says nothing about its data: verl's five columns."""
    sources = list(dict.fromkeys(source.name for source in data.sources)) or ["unknown"]
    rows = []
    for number, truth in enumerate(MADE_UP_TRUTHS):
        rows.append(
            {
                "data_source": sources[number % len(sources)],
                data.prompt_key: [{"role": "user", "content": f"Question {number}?"}],
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": truth},
                "extra_info": {"index": number, "split": "train", **{key: "" for key in data.extra_info_keys}},
            }
        )
    return rows


def write_rows(rows: Sequence[Mapping[str, Any]], folder: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """Writes rows.parquet (more files when Arrow cannot hold all rows in one schema).

    Returns:
        The file names, and the rows in the order of the files.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    groups: list[list[Mapping[str, Any]]] = []
    for row in (_storable(row) for row in rows):
        for group in groups:
            if _fits([*group, row]):
                group.append(row)
                break
        else:
            groups.append([row])
    names: list[str] = []
    ordered: list[dict[str, Any]] = []
    for number, group in enumerate(groups):
        names.append("rows.parquet" if number == 0 else f"rows_{number}.parquet")
        table = pa.Table.from_pylist([dict(row) for row in group])
        pq.write_table(table, folder / names[-1])
        ordered.extend(table.to_pylist())
    return names, ordered


def _fits(rows: Sequence[Mapping[str, Any]]) -> bool:
    import pyarrow as pa

    try:
        table = pa.Table.from_pylist([dict(row) for row in rows])
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return False
    kept = set(table.column_names)
    return all(key in kept for row in rows for key in row)


def _storable(value: Any) -> Any:
    """`value` with every empty dict as None: parquet has no struct without fields."""
    if isinstance(value, Mapping):
        return {key: _storable(item) for key, item in value.items()} or None
    return [_storable(item) for item in value] if isinstance(value, list) else value
