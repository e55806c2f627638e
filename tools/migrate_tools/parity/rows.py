"""Rows for parity: some of the recipe's own, a few of every data_source, images replaced by one-pixel ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from migrate_tools.model import DataSpec
from migrate_tools.parity.case import ground_truth
from migrate_tools.parity.variants import Variant

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


def every_row(data: DataSpec) -> Iterator[dict[str, Any]]:
    """The rows of all files, at most READ_AT_MOST of each."""
    for file in (*data.train, *data.val):
        if file.path:
            yield from _read(Path(file.path), data)


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


class Written(NamedTuple):
    """Rows as they are in the files."""

    files: list[str]
    rows: list[dict[str, Any]]
    """In the order of the files."""
    made: list[Variant]
    """Likewise; they are numbered on from `rows`."""
    place: dict[int, int]
    """Number of a row when it was given -> its place in `rows`."""


def write_rows(rows: Sequence[Mapping[str, Any]], made: Sequence[Variant], folder: Path) -> Written:
    """Writes rows.parquet (more files when Arrow cannot hold all rows in one schema), the made rows apart."""
    plain = [_storable(row) for row in rows]
    groups = [[*range(len(plain))]] if _fits(plain) else _grouped(plain)
    order = [number for group in groups for number in group]
    files = [[plain[number] for number in group] for group in groups]
    apart = _apart([replace(variant, base=order.index(variant.base), row=_storable(variant.row)) for variant in made])
    names: list[str] = []
    written: list[dict[str, Any]] = []
    for number, group_rows in enumerate([*files, *([variant.row for variant in group] for group in apart)]):
        names.append("rows.parquet" if number == 0 else f"rows_{number}.parquet")
        written += _write(group_rows, folder / names[-1])
    kept = [variant for group in apart for variant in group]
    back = [replace(variant, row=row) for variant, row in zip(kept, written[len(order) :], strict=True)]
    return Written(names, written[: len(order)], back, {number: place for place, number in enumerate(order)})


def append_rows(made: Sequence[dict[str, Any]], folder: Path, files: int) -> tuple[list[str], list[int | None]]:
    """Writes further rows into files of their own, numbered on from `files`.

    Returns:
        The names, and for each row its place among the further ones; None for one that no file holds as it is.
    """
    numbered = [Variant(number, _storable(row), "directed", strict=True) for number, row in enumerate(made)]
    groups = _apart(numbered)
    names = [f"rows_{files + number}.parquet" for number in range(len(groups))]
    places: list[int | None] = [None] * len(made)
    for name, group in zip(names, groups, strict=True):
        _write([variant.row for variant in group], folder / name)
    for place, variant in enumerate(variant for group in groups for variant in group):
        places[variant.base] = place
    return names, places


def _grouped(rows: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    groups: list[list[int]] = []
    for number, row in enumerate(rows):
        for group in groups:
            if _fits([*(rows[index] for index in group), row]):
                group.append(number)
                break
        else:
            groups.append([number])
    return groups


def _write(rows: Sequence[Mapping[str, Any]], path: Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist([dict(row) for row in rows])
    pq.write_table(table, path)
    back: list[dict[str, Any]] = table.to_pylist()
    return back


def _apart(made: Sequence[Variant]) -> list[list[Variant]]:
    """The made rows in groups that one file each holds without changing any of them; one that no file holds is left."""
    groups: list[list[Variant]] = []
    for variant in made:
        for group in groups:
            if _unchanged([*(item.row for item in group), variant.row]):
                group.append(variant)
                break
        else:
            if _unchanged([variant.row]):
                groups.append([variant])
    return groups


def _unchanged(rows: Sequence[Mapping[str, Any]]) -> bool:
    """True when Arrow gives these rows back as they are: no missing key becomes a null, no int a float."""
    import pyarrow as pa

    try:
        back = pa.Table.from_pylist([dict(row) for row in rows]).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return False
    return repr([_sorted(row) for row in back]) == repr([_sorted(row) for row in rows])


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return sorted((key, _sorted(item)) for key, item in value.items())
    return [_sorted(item) for item in value] if isinstance(value, list) else value


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
