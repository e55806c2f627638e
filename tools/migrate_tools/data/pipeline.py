"""One conversion: read, convert and write at the same time, in bounded memory."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from migrate_tools.data.columns import Layout, first_bad, python_rows, read_layout, transform
from migrate_tools.data.flow import Meter, Say, prefetch
from migrate_tools.data.output import (
    QUARANTINE,
    VERSION,
    Converted,
    LinesTarget,
    ParquetTarget,
    check_space,
    hash_file,
    is_complete,
    manifest_path,
    quarantine_line,
    source_facts,
    write_manifest,
)
from migrate_tools.data.plan import BadRow, ConvertError, ConvertPlan
from migrate_tools.data.rowmap import ROW_FUNCTION, mapped
from migrate_tools.data.selection import keep_rows, mark_of, rows_of
from migrate_tools.data.sources import Chunk, Part, find_files, open_part

SPARE = 64 << 20
GROWTH = 1.2
"""Output bytes for a byte of input, at most, when the disk is checked."""


@dataclass(frozen=True)
class Options:
    """How to convert."""

    resume: bool = False
    """Leave files alone that are complete and unchanged."""
    on_error: Literal["stop", "skip", "quarantine"] = "stop"
    format: Literal["auto", "parquet", "jsonl"] = "auto"
    """auto: parquet, except where its types would change values."""
    space_check: bool = True


@dataclass
class Job:
    """A target, opened sources and the schema of the result."""

    plan: ConvertPlan
    target: Path
    files: tuple[Path, ...]
    layouts: list[Layout]
    schema: Any
    lines: bool
    """Written as JSON lines."""
    notes: list[str] = field(default_factory=list)
    kept: str | None = None
    """Name of the choice of rows, None for all."""

    @property
    def rows(self) -> int | None:
        """Rows of the sources where they tell."""
        known = [layout.part.rows for layout in self.layouts]
        return None if any(item is None for item in known) else sum(item or 0 for item in known)


@dataclass(frozen=True)
class Written:
    """What one run over some row groups wrote."""

    name: str
    rows: int
    read: int
    bad: int
    row_groups: int
    size: int
    sha256: str
    remarks: tuple[str, ...]
    counts: tuple[tuple[str, int], ...]
    quarantined: str = ""
    """File with the bad rows, when they are kept."""


def open_job(
    plan: ConvertPlan, sources: Sequence[str | Path], target: Path, form: str, mask: bytearray | None = None
) -> Job:
    """Open all sources of a target; equal paths stay as often as they are named.

    Args:
        mask: a byte for every row of the sources together, 1 where it is kept.

    Raises:
        ConvertError: one of them cannot be converted, or their columns do not go together.
    """
    files = [file for source in sources for file in find_files(source)]
    if not files:
        raise ConvertError(f"no parquet file in {', '.join(map(str, sources))}; run the data preparation first")
    if any(target.exists() and target.resolve() == file.resolve() for file in files):
        raise ConvertError(f"{target}: output and input are the same file; choose another --output-dir")
    layouts = [read_layout(plan, part) for part in _parts(plan, files, mask)]
    schema = layouts[0].schema
    for layout in layouts[1:]:
        try:
            schema = pa.unify_schemas([schema, layout.schema], promote_options="permissive")
        except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
            raise ConvertError(
                f"{layout.part.path}: its columns do not go together with those of {layouts[0].part.path} ({error}); "
                "convert them as files of their own"
            ) from error
    media = {name for layout in layouts for name, _ in layout.media}
    schema = pa.schema([_typed(item) if item.name in media else item for item in schema])
    losses = list(dict.fromkeys(line for layout in layouts for line in layout.losses))
    lines = form == "jsonl" or (form == "auto" and bool(losses))
    notes = losses if not lines else []
    if lines and form == "auto":
        what = "; ".join(losses)
        notes = [f"written as JSON lines in a folder of this name, which Relax reads like a file; in parquet, {what}"]
    return Job(plan, target, tuple(files), layouts, schema, lines, notes, mark_of(mask))


def _parts(plan: ConvertPlan, files: Sequence[Path], mask: bytearray | None) -> Iterator[Part]:
    start = 0
    for file in files:
        part = open_part(file)
        if mask is not None:
            stop = start + rows_of(file)
            part, start = keep_rows(part, mask[start:stop]), stop
        yield mapped(part, ROW_FUNCTION if plan.row_function else None)


def _typed(item: Any) -> Any:
    """A media column of which no file has an item still needs a type."""
    return item.with_type(pa.list_(pa.string())) if item.type == pa.list_(pa.null()) else item


def run_job(job: Job, options: Options, say: Say) -> Converted:
    """Convert and put the result and its manifest in place.

    Raises:
        ConvertError: it could not be done; nothing is left under the target's name then.
    """
    target = job.target
    target.parent.mkdir(parents=True, exist_ok=True)
    size = sum(layout.part.size for layout in job.layouts)
    if options.space_check:
        check_space(target.parent, int(size * GROWTH) + SPARE, lambda folder: shutil.disk_usage(folder).free)
    facts = source_facts(job.files)
    folder = target.suffix == ".parquet" and job.lines
    partial = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}.part")
    hashes = ThreadPoolExecutor(1)
    known = {file: hashes.submit(hash_file, file) for file in dict.fromkeys(_real_files(job.files))}
    try:
        if folder:
            partial.mkdir()
        path = partial / "part-00000.jsonl" if folder else partial
        meter = Meter(target.name, job.rows, say)
        done = write_groups(job, path, path.name if folder else target.name, options, meter=meter)
        if job.rows is not None and done.read != job.rows:
            raise ConvertError(f"{job.files[0]}: {job.rows} rows were there and {done.read} were read; report this")
        for item in facts:
            item["sha256"] = _hash_of(Path(item["path"]), known)
        finish(job, [done], facts, partial, say)
    finally:
        hashes.shutdown(wait=True, cancel_futures=True)
        remove(partial)
    return result_of(job, [done])


def finish(job: Job, parts: Sequence[Written], facts: list[dict[str, Any]], partial: Path, say: Say) -> None:
    """Rename the complete result and write its manifest."""
    target = job.target
    manifest_path(target).unlink(missing_ok=True)
    quarantine = target.with_name(target.name + QUARANTINE)
    quarantine.unlink(missing_ok=True)
    texts = [Path(item.quarantined) for item in parts if item.quarantined]
    if texts:
        with quarantine.open("wb") as out:
            for text in texts:
                with text.open("rb") as rows:
                    shutil.copyfileobj(rows, out)
                text.unlink()
    if target.is_dir() or (target.exists() and partial.is_dir()):
        remove(target)
    partial.replace(target)
    result = result_of(job, parts)
    manifest = {
        "version": VERSION,
        "plan": json.loads(json.dumps(asdict(job.plan))),
        "kept": job.kept,
        "sources": facts,
        "files": [
            {"name": item.name, "rows": item.rows, "row_groups": item.row_groups, "bytes": item.size,
             "sha256": item.sha256}
            for item in parts
        ],
        "rows_read": sum(item.read for item in parts),
        "rows": result.rows,
        "bad": result.bad,
        "quarantine": quarantine.name if texts else None,
        "schema_before": [{item.name: str(item.type) for item in layout.part.schema} for layout in job.layouts],
        "schema": {item.name: str(item.type) for item in job.schema},
        "notes": list(result.notes),
    }  # fmt: skip
    write_manifest(target, manifest)


def result_of(job: Job, parts: Sequence[Written]) -> Converted:
    """The parts of a target together."""
    counts: dict[str, int] = {}
    for item in parts:
        for line, rows in item.counts:
            counts[line] = counts.get(line, 0) + rows
    lines = dict.fromkeys((*job.notes, *(line for item in parts for line in item.remarks)))
    notes = (*lines, *(f"{line} ({rows:,} rows)" for line, rows in sorted(counts.items())))
    rows, bad = sum(item.rows for item in parts), sum(item.bad for item in parts)
    if bad:
        notes = (*notes, f"{bad:,} bad rows were left out")
    return Converted(job.files[0], job.target, rows, notes=notes, bad=bad)


def write_groups(
    job: Job,
    path: Path,
    name: str,
    options: Options,
    *,
    groups: Sequence[range | None] = (),
    meter: Meter | None = None,
) -> Written:
    """Convert some row groups of every source (all of them when none are named) into one file.

    Raises:
        ConvertError: a row is bad and `on_error` is stop, or a source cannot be read.
    """
    target: Any = LinesTarget(path) if job.lines else ParquetTarget(path, job.schema)
    read = bad_rows = 0
    aside = path.with_name(f".{path.name}.bad")
    aside.unlink(missing_ok=True)
    try:
        for layout, wanted in zip(job.layouts, groups or [None] * len(job.layouts), strict=True):
            chunks = prefetch(layout.part.read(None, wanted))
            for chunk, batch, bad in prefetch(_converted(job, layout, chunk) for chunk in chunks):
                if (bad or chunk.bad) and options.on_error == "stop":
                    raise ConvertError(_first(layout, chunk, bad))
                read += chunk.batch.num_rows + len(chunk.bad)
                if bad or chunk.bad:
                    bad_rows += len({item.offset for item in bad}) + len(chunk.bad)
                    if options.on_error == "quarantine":
                        with aside.open("a", encoding="utf-8") as out:
                            out.writelines(_quarantine(layout, chunk, bad))
                target.write(batch)
                if meter is not None:
                    meter.add(chunk.batch.num_rows)
        digest = target.close()
    except BaseException:
        target.abandon()
        aside.unlink(missing_ok=True)
        raise
    remarks = [line for layout in job.layouts for line in layout.remarks.lines]
    counts: dict[str, int] = {}
    for layout in dict((id(item), item) for item in job.layouts).values():
        for line, rows in layout.remarks.counts.items():
            counts[line] = counts.get(line, 0) + rows
    return Written(
        name, target.rows, read, bad_rows, target.row_groups, path.stat().st_size, digest,
        tuple(dict.fromkeys(remarks)), tuple(counts.items()), str(aside) if aside.exists() else "",
    )  # fmt: skip


def _converted(job: Job, layout: Layout, chunk: Chunk) -> tuple[Chunk, Any, list[BadRow]]:
    """The rows of a chunk in their final form, without the bad ones."""
    batch, bad = transform(layout, chunk)
    rows: Any = python_rows(layout, chunk, batch) if job.lines else conform(batch, job.schema)
    if bad:
        lost = {item.offset for item in bad}
        if job.lines:
            rows = [row for offset, row in enumerate(rows) if offset not in lost]
        else:
            rows = rows.filter(pa.array([offset not in lost for offset in range(rows.num_rows)]))
    return chunk, rows, bad


def conform(batch: Any, schema: Any) -> Any:
    """The batch with the columns and types of `schema`; what it lacks is empty."""
    columns = []
    for item in schema:
        index = batch.schema.get_field_index(item.name)
        if index < 0:
            columns.append(pa.nulls(batch.num_rows, item.type))
        else:
            column = batch.column(index)
            columns.append(column if column.type == item.type else column.cast(item.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _first(layout: Layout, chunk: Chunk, bad: Sequence[BadRow]) -> str:
    if chunk.bad and (not bad or chunk.bad[0][0] < chunk.number(bad[0].offset)):
        number, reason, _ = chunk.bad[0]
        return f"{layout.part.at(chunk.group, number)}: {reason}"
    return first_bad(layout, chunk, bad)


def _quarantine(layout: Layout, chunk: Chunk, bad: Sequence[BadRow]) -> Iterator[str]:
    for number, reason, text in chunk.bad:
        yield quarantine_line(layout.part.at(chunk.group, number), "", reason, text)
    for item in {item.offset: item for item in reversed(bad)}.values():
        where = layout.part.at(chunk.group, chunk.number(item.offset))
        row = chunk.batch.slice(item.offset, 1).to_pylist()[0]
        yield quarantine_line(where, item.column, item.reason, row)


def complete_job(
    plan: ConvertPlan, sources: Sequence[str | Path], target: Path, mask: bytearray | None = None
) -> Converted | None:
    """The earlier result, when it is complete and its sources are unchanged."""
    files = [file for source in sources for file in find_files(source)]
    manifest = is_complete(target, plan, files, mark_of(mask))
    return Converted(files[0], target, manifest["rows"], skipped=True, bad=manifest["bad"]) if manifest else None


def _real_files(files: Sequence[Path]) -> Iterator[Path]:
    for path in files:
        yield from sorted(path.glob("*.arrow")) if path.is_dir() else (path,)


def _hash_of(path: Path, known: dict[Path, Any]) -> str:
    if path in known:
        return str(known[path].result())
    return ",".join(str(known[file].result()) for file in sorted(path.glob("*.arrow")))


def remove(path: Path) -> None:
    """Delete a file or folder that may be there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
