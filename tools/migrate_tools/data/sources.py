"""Where rows come from: parquet, JSON lines, JSON, Arrow files and data sets saved to disk, a batch at a time."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from migrate_tools.data.plan import BATCH_BYTES, BATCH_ROWS, ConvertError, unique_fields
from migrate_tools.data.shape import Shape, arrow_values

MARK = {b"migrate-agent": b"converted"}
KINDS = (".parquet", ".jsonl", ".arrow", ".json")
JSON_LIMIT = 1 << 30
SNAPPY = 0.5
"""Share of its plain size that text takes with the codec of the output."""
FRAMES = (".pkl", ".pickle")
HUB_NAME = re.compile(r"[\w][\w.-]*/[\w][\w.-]*(@[\w.-]+)?")
UNREADABLE = (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowCapacityError, OSError)


@dataclass(frozen=True)
class Chunk:
    """Some rows in their order; `bad` are lines that hold no row."""

    group: int
    row: int
    """Of its first row, inside the group."""
    batch: Any
    bad: tuple[tuple[int, str, Any], ...] = ()
    """(row, reason, what stood there)."""
    numbers: tuple[int, ...] = ()
    """Row numbers, when they are not consecutive from `row`."""
    rows: tuple[Any, ...] = ()
    """The rows as they were, where the source has no types of its own."""

    def number(self, offset: int) -> int:
        """Row inside the group of a row of the batch."""
        return self.numbers[offset] if self.numbers else self.row + offset


@dataclass
class Part:
    """One file of rows."""

    path: Path
    schema: Any
    rows: int | None
    """None where only reading tells."""
    size: int
    """Bytes that its rows take in the output, about."""
    groups: int
    read: Callable[..., Iterator[Chunk]]
    """(columns or None, groups or None) -> chunks."""
    files: tuple[Path, ...] = ()
    losses: list[str] = field(default_factory=list)
    """Values that Arrow cannot hold as they are."""

    def at(self, group: int, row: int) -> str:
        return f"{self.path}: row {row}" if group < 0 else f"{self.path}: row group {group}, row {row}"


def find_files(entry: str | Path, beside: Path | None = None) -> list[Path]:
    """The files that a path, folder or pattern stands for, in a fixed order.

    Args:
        beside: output folder, whose files are left out.

    Raises:
        ConvertError: there is none, or it is of a kind that cannot be read.
    """
    text = os.path.expandvars(str(entry)).strip()
    path = Path(text).expanduser()
    if path.is_dir() and _marker(path) is None:
        return _folder(path, beside)
    if path.exists():
        return [path]
    if any(sign in text for sign in "*?["):
        found = [Path(item) for item in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207
        if found:
            return found
        raise ConvertError(f"{text}: no file matches this pattern; pass the verl data files or a folder with them")
    if "://" in text:
        raise ConvertError(f"{text}: is on another machine; copy it here first and pass the copy")
    if HUB_NAME.fullmatch(text) and path.suffix not in KINDS:
        name, _, split = text.partition("@")
        folder = f"data/{name.rpartition('/')[2]}"
        what = f" (split {split})" if split else ""
        command = f"hf download {name} --repo-type dataset --local-dir {folder}"
        raise ConvertError(
            f"{text}: is no file here; if it is a name on the hub, run `{command}` and pass its files{what}"
        )
    raise ConvertError(f"{text}: no such file; pass the verl data file or a folder with such files")


def _folder(path: Path, beside: Path | None) -> list[Path]:
    saved = sorted(item.parent for item in path.rglob("state.json") if _marker(item.parent) == "state.json")
    if saved:
        return saved
    for kind in KINDS:
        found = sorted(item for item in path.rglob(f"*{kind}") if item.is_file() and not item.name.startswith("."))
        found = [item for item in found if not (beside and item.is_relative_to(beside)) and not _is_ours(item)]
        if found:
            return found
    return []


def _is_ours(path: Path) -> bool:
    return path.name.endswith(".manifest.json") or path.name in ("dataset_info.json", "dataset_infos.json")


def _marker(path: Path) -> str | None:
    """The file that tells a data set saved to disk, None for a plain folder.

    Raises:
        ConvertError: it is a set of such data sets.
    """
    if (path / "dataset_dict.json").is_file():
        splits = sorted(item.name for item in path.iterdir() if item.is_dir())
        raise ConvertError(
            f"{path}: holds the splits {', '.join(splits)}; pass one of them, for example {path / splits[0]}"
        )
    state = path / "state.json"
    return "state.json" if state.is_file() and "_data_files" in state.read_text(encoding="utf-8") else None


def open_part(path: Path) -> Part:
    """Open one file.

    Raises:
        ConvertError: it cannot be read; says why and what to do.
    """
    if path.is_dir():
        return _saved_data_set(path)
    if path.suffix in FRAMES:
        call = f"import pandas; pandas.read_pickle({path.name!r}).to_parquet({path.with_suffix('.parquet').name!r})"
        raise ConvertError(
            f"{path}: a pickled frame runs code of its maker when it is opened, so it is not; where you trust it run "
            f'python -c "{call}" and pass the parquet file'
        )
    if path.suffix == ".jsonl":
        return _lines(path)
    if path.suffix == ".json":
        return _json(path)
    if path.suffix in (".arrow", ".feather", ".ipc"):
        return _arrow(path, (path,))
    if path.suffix not in (".parquet", ".parq", ".pq", ""):
        raise ConvertError(f"{path}: {path.suffix} files are not read; write it as parquet or JSON lines")
    return _parquet(path)


# ---------------------------------------------------------------- parquet


def _parquet(path: Path) -> Part:
    try:
        # Without pre_buffer=False whole column chunks are held in memory, whatever the buffer size.
        file = pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise ConvertError(f"{path}: not a readable parquet file ({error}); make it again") from error
    schema = file.schema_arrow
    if MARK.items() <= (schema.metadata or {}).items():
        raise ConvertError(f"{path}: is converted already; pass the verl file")
    unique_fields(schema, str(path))
    meta = file.metadata

    def read(columns: list[str] | None = None, groups: range | None = None) -> Iterator[Chunk]:
        for group in range(meta.num_row_groups) if groups is None else groups:
            yield from _row_group(path, file, group, columns)

    plain = sum(meta.row_group(group).total_byte_size for group in range(meta.num_row_groups))
    size = max(path.stat().st_size, int(plain * SNAPPY))
    return Part(path, schema, meta.num_rows, size, meta.num_row_groups, read, (path,))


def _row_group(path: Path, file: Any, group: int, columns: list[str] | None) -> Iterator[Chunk]:
    """Batches of about BATCH_BYTES; smaller ones once a batch was larger than expected or could not be read."""
    meta = file.metadata.row_group(group)
    rows = max(1, meta.num_rows)
    size = max(1, min(BATCH_ROWS, BATCH_BYTES * rows // max(1, meta.total_byte_size)))
    done = 0
    while True:
        start = 0
        try:
            for batch in file.iter_batches(size, row_groups=[group], columns=columns, use_threads=False):
                end = start + batch.num_rows
                if end > done:
                    fresh = batch.slice(max(0, done - start))
                    yield Chunk(group, end - fresh.num_rows, fresh)
                    done = end
                    if fresh.nbytes > 2 * BATCH_BYTES and fresh.num_rows > 1:
                        raise _TooLarge(max(1, fresh.num_rows * BATCH_BYTES // fresh.nbytes))
                start = end
            return
        except _TooLarge as smaller:
            size = smaller.rows
        except UNREADABLE as error:
            if size > 1 and not isinstance(error, OSError):
                size = max(1, size // 8)
                continue
            nested = ", ".join(item.name for item in file.schema_arrow if pa.types.is_nested(item.type))
            lost = _unreadable_columns(file, group, columns)
            what = f"column {lost}" if lost else f"nested columns {nested}"
            raise ConvertError(
                f"{path}: row group {group}, row {done}: cannot be read ({error}); {what}: "
                "write the file again with smaller row groups"
            ) from error


class _TooLarge(Exception):
    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.rows = rows


def _unreadable_columns(file: Any, group: int, columns: list[str] | None) -> str:
    lost = []
    for name in columns or file.schema_arrow.names:
        try:
            for _ in file.iter_batches(1024, row_groups=[group], columns=[name], use_threads=False):
                pass
        except UNREADABLE:
            lost.append(name)
    return ", ".join(lost) if len(lost) < len(columns or file.schema_arrow.names) else ""


# ---------------------------------------------------------------- Arrow files and saved data sets


def _arrow(path: Path, files: tuple[Path, ...]) -> Part:
    schema = _ipc(files[0]).schema if files else pa.schema([])
    unique_fields(schema, str(path))

    def read(columns: list[str] | None = None, groups: range | None = None) -> Iterator[Chunk]:
        number = -1
        for file in files if groups is None or len(groups) else ():
            try:
                for batch in _ipc_batches(file):
                    number += 1
                    size = max(1, min(BATCH_ROWS, BATCH_BYTES * batch.num_rows // max(1, batch.nbytes)))
                    picked = batch.select(columns) if columns else batch
                    for start in range(0, batch.num_rows, size):
                        yield Chunk(number, start, picked.slice(start, size))
            except (pa.ArrowInvalid, OSError) as error:
                raise ConvertError(f"{file}: batch {number + 1} cannot be read ({error}); save it again") from error

    size = sum(file.stat().st_size for file in files)
    return Part(path, schema, None, size, 1, read, files)


def _ipc(file: Path) -> Any:
    try:
        return pa.ipc.open_file(pa.memory_map(str(file)))
    except pa.ArrowInvalid:
        try:
            return pa.ipc.open_stream(pa.memory_map(str(file)))
        except pa.ArrowInvalid as error:
            raise ConvertError(f"{file}: not a readable Arrow file ({error}); save it again") from error


def _ipc_batches(file: Path) -> Iterator[Any]:
    reader = _ipc(file)
    if hasattr(reader, "num_record_batches"):
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)
    else:
        yield from reader


def _saved_data_set(path: Path) -> Part:
    state = json.loads((path / "state.json").read_text(encoding="utf-8"))
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise ConvertError(f"{path}: holds rows in another order; save it once more after dataset.flatten_indices()")
    return _arrow(path, tuple(path / item["filename"] for item in state["_data_files"]))


# ---------------------------------------------------------------- JSON


def _lines(path: Path) -> Part:
    def raw() -> Iterator[tuple[int, Any, str]]:
        with path.open("rb") as lines:
            for number, line in enumerate(lines):
                if line.strip():
                    yield number, *_row_of(line)

    return python_part(path, raw)


def _row_of(line: bytes) -> tuple[Any, str]:
    try:
        row = json.loads(line)
    except ValueError as error:
        return line.decode(errors="replace").rstrip("\n"), f"not JSON ({error})"
    return row, "" if isinstance(row, dict) else f"a JSON {type(row).__name__} where an object is needed"


def _starts_with_a_row(path: Path) -> bool:
    with path.open("rb") as lines:
        return not _row_of(lines.readline())[1]


def _json(path: Path) -> Part:
    if path.stat().st_size > JSON_LIMIT:
        raise ConvertError(f"{path}: more than 1 GiB of JSON in one value; write it as JSON lines")
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        line = getattr(error, "lineno", 0)
        if line > 1 and _starts_with_a_row(path):
            return _lines(path)
        raise ConvertError(f"{path}: not JSON ({error}); make it again") from error
    if isinstance(content, dict):
        lists = [value for value in content.values() if isinstance(value, list)]
        if len(lists) == len(content) and content and len({len(item) for item in lists}) == 1:
            content = [dict(zip(content, values, strict=True)) for values in zip(*lists, strict=True)]
        else:
            content = lists[0] if len(lists) == 1 else [content]
    if not isinstance(content, list):
        raise ConvertError(f"{path}: a JSON {type(content).__name__} where a list of rows is needed")

    def raw() -> Iterator[tuple[int, Any, str]]:
        for number, row in enumerate(content):
            wrong = "" if isinstance(row, dict) else f"a JSON {type(row).__name__} where an object is needed"
            yield number, row, wrong

    return python_part(path, raw)


def python_part(path: Path, raw: Callable[[], Iterator[tuple[int, Any, str]]], group: int = 0) -> Part:
    """Rows that are Python values, as a source.

    Two passes: types first, then rows. verl reads JSON through Arrow too, so that absent keys are None there.

    Args:
        raw: makes (row number, row, what is wrong with it) for every row, each time the same.
        group: row group that errors name; -1 for none.
    """
    shape, rows = Shape(), 0
    for _, row, wrong in raw():
        rows += 1
        if not wrong:
            shape.add(row)
    fields = shape.fields if shape.dicts else {}
    schema = pa.schema([(name, item.type()) for name, item in fields.items()])

    def read(columns: list[str] | None = None, groups: range | None = None) -> Iterator[Chunk]:
        pending: list[Any] = []
        numbers: list[int] = []
        bad: list[tuple[int, str, Any]] = []
        volume = 0

        def chunk() -> Chunk:
            arrays = [arrow_values(item, [row.get(name) for row in pending]) for name, item in fields.items()]
            batch = pa.RecordBatch.from_arrays(arrays, schema=schema) if fields else pa.RecordBatch.from_pylist([])
            picked = batch.select(columns) if columns else batch
            return Chunk(group, numbers[0] if numbers else 0, picked, tuple(bad), tuple(numbers), tuple(pending))

        for number, row, wrong in raw() if groups is None or len(groups) else ():
            if wrong:
                bad.append((number, wrong, row))
                continue
            pending.append(row)
            numbers.append(number)
            volume += _volume(row)
            if len(pending) >= BATCH_ROWS or volume >= BATCH_BYTES:
                yield chunk()
                pending, numbers, bad, volume = [], [], [], 0
        if pending or bad:
            yield chunk()

    losses = [line for name, item in fields.items() for line in item.losses(name, absent=False)]
    return Part(path, schema, rows, path.stat().st_size, 1, read, (path,), losses)


def _volume(value: Any) -> int:
    if isinstance(value, dict):
        return 32 + sum(map(_volume, value.values()))
    if isinstance(value, list):
        return 16 + sum(map(_volume, value))
    return len(value) if isinstance(value, str) else 8
