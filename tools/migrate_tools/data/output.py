"""Converted files: written under another name first, hashed on the way, described by a manifest that can be checked."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from migrate_tools.data.plan import BATCH_BYTES, BATCH_ROWS, ConvertError, ConvertPlan, is_bytes, is_list
from migrate_tools.data.sources import MARK

MANIFEST = ".manifest.json"
QUARANTINE = ".quarantine"
VERSION = 1
PIECE = 4 << 20


@dataclass(frozen=True)
class Converted:
    """One file that was written (or skipped, because it was complete already)."""

    source: Path
    target: Path
    rows: int
    skipped: bool = False
    notes: tuple[str, ...] = ()
    bad: int = 0
    """Rows that were left out."""


class HashingFile:
    """A binary file that hashes what is written to it, in a thread of its own."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._digest = hashlib.sha256()
        self._queue: queue.Queue[bytes | None] = queue.Queue(maxsize=2)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        self.closed = False

    def _work(self) -> None:
        while (data := self._queue.get()) is not None:
            self._digest.update(data)

    def write(self, data: Any) -> int:
        """Write bytes."""
        piece = bytes(data)
        self._queue.put(piece)
        return self._file.write(piece)

    def tell(self) -> int:
        """Bytes written."""
        return self._file.tell()

    def flush(self) -> None:
        """Hand the bytes to the system."""
        self._file.flush()

    def close(self) -> None:
        """Close the file and finish the hash."""
        if not self.closed:
            self.closed = True
            self._queue.put(None)
            self._thread.join()
            self._file.close()

    def hexdigest(self) -> str:
        """SHA-256 of what was written; call it after `close`."""
        return self._digest.hexdigest()


class ParquetTarget:
    """Writes batches of one schema as row groups of moderate size."""

    def __init__(self, path: Path, schema: Any) -> None:
        self.schema = schema
        self.file = HashingFile(path)
        media = [name for name, kind in leaves(schema) if is_bytes(kind)]
        codec: Any = "snappy"
        if media:
            codec = {name: "none" if name in media else "snappy" for name, _ in leaves(schema)}
        few = [name for name, kind in leaves(schema) if not is_bytes(kind) and not name.startswith("prompt.")]
        # The size of a page is looked at after every write batch: pictures would fill one with a hundred megabytes.
        self.writer = pq.ParquetWriter(
            self.file,
            schema.with_metadata(MARK),
            compression=codec,
            use_dictionary=few or False,
            write_batch_size=16 if media else 1024,
        )
        self.rows = self.row_groups = 0
        self._pending: list[Any] = []
        self._pending_rows = self._pending_bytes = 0

    def write(self, batch: Any) -> None:
        """Add a batch; row groups are written as they fill."""
        if not batch.num_rows:
            return
        if self._pending_rows and self._pending_rows + batch.num_rows > BATCH_ROWS:
            self._flush()
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        self._pending_bytes += batch.nbytes
        if self._pending_rows >= BATCH_ROWS or self._pending_bytes >= BATCH_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            self.writer.write_table(pa.Table.from_batches(self._pending, schema=self.schema))
            self.rows += self._pending_rows
            self.row_groups += 1
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def close(self) -> str:
        """Finish the file; its SHA-256."""
        self._flush()
        self.writer.close()
        self.file.close()
        return self.file.hexdigest()

    def abandon(self) -> None:
        """Let go of a file that will not be finished."""
        with contextlib.suppress(pa.ArrowException, OSError):
            self.writer.close()
        self.file.close()


class LinesTarget:
    """Writes rows as JSON lines, for values that one Arrow type per column cannot hold."""

    def __init__(self, path: Path) -> None:
        self.file = HashingFile(path)
        self.rows = 0
        self.row_groups = 1

    def write(self, rows: Iterable[dict[str, Any]]) -> None:
        """Add rows."""
        for row in rows:
            self.file.write(
                json.dumps(row, ensure_ascii=False, default=jsonable).encode("utf-8", "surrogatepass") + b"\n"
            )
            self.rows += 1

    def close(self) -> str:
        """Finish the file; its SHA-256."""
        self.file.close()
        return self.file.hexdigest()

    abandon = close


def jsonable(value: Any) -> Any:
    """Bytes as base64 text, everything else that JSON does not know as text."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def leaves(schema: Any) -> list[tuple[str, Any]]:
    """(path in the parquet file, Arrow type) of every leaf column."""
    found: list[tuple[str, Any]] = []

    def walk(path: str, kind: Any) -> None:
        if pa.types.is_struct(kind) and kind.num_fields:
            for index in range(kind.num_fields):
                walk(f"{path}.{kind.field(index).name}", kind.field(index).type)
        elif is_list(kind) or pa.types.is_fixed_size_list(kind):
            walk(f"{path}.list.element", kind.value_type)
        elif pa.types.is_map(kind):
            walk(f"{path}.key_value.key", kind.key_type)
            walk(f"{path}.key_value.value", kind.item_type)
        else:
            found.append((path, kind))

    for item in schema:
        walk(item.name, item.type)
    return found


# ---------------------------------------------------------------- manifest


def hash_file(path: Path) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def source_facts(files: Sequence[Path]) -> list[dict[str, Any]]:
    """What tells whether sources have changed."""
    stats = [(path, path.stat()) for path in files]
    return [{"path": str(path), "bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns} for path, stat in stats]


def manifest_path(target: Path) -> Path:
    """Beside the file; a name that Relax does not take for data."""
    return target.with_name(target.name + MANIFEST)


def write_manifest(target: Path, manifest: dict[str, Any]) -> None:
    """Write it in one step."""
    path = manifest_path(target)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    partial.write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(path)


def read_manifest(target: Path) -> dict[str, Any] | None:
    """The manifest of a converted file, None when there is none."""
    try:
        found = json.loads(manifest_path(target).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("version") == VERSION else None


def is_complete(target: Path, plan: ConvertPlan, files: Sequence[Path], kept: str | None) -> dict[str, Any] | None:
    """The manifest, when the target is there and was made with this plan from these files as they are now."""
    manifest = read_manifest(target)
    if manifest is None or manifest["plan"] != json.loads(json.dumps(asdict(plan))) or manifest["kept"] != kept:
        return None
    before, now = manifest["sources"], source_facts(files)
    if [item["path"] for item in before] != [item["path"] for item in now]:
        return None
    for old, new in zip(before, now, strict=True):
        changed = old["bytes"] != new["bytes"] or old["mtime_ns"] != new["mtime_ns"]
        if changed and (old["bytes"] != new["bytes"] or old["sha256"] != hash_file(Path(new["path"]))):
            return None
    data = data_files_of(target)
    sizes = [item["bytes"] for item in manifest["files"]]
    return manifest if [path.stat().st_size for path in data if path.is_file()] == sizes else None


def data_files_of(target: Path) -> list[Path]:
    """The data files of a target: itself, or those inside when it is a folder."""
    if target.is_dir():
        return sorted(path for path in target.rglob("*") if path.suffix in (".parquet", ".jsonl"))
    return [target]


def verify(target: Path) -> list[str]:
    """What is wrong with a converted file or its manifest, a line each; empty when all holds."""
    manifest = read_manifest(target)
    if manifest is None:
        return [f"{target}: has no manifest {manifest_path(target).name}; convert it again"]
    wrong: list[str] = []
    rows = 0
    files = data_files_of(target)
    if [path.name for path in files] != [item["name"] for item in manifest["files"]]:
        return [f"{target}: the files are not those of the manifest; convert it again"]
    for path, facts in zip(files, manifest["files"], strict=True):
        if not path.is_file():
            wrong.append(f"{path}: is missing")
            continue
        if path.stat().st_size != facts["bytes"] or hash_file(path) != facts["sha256"]:
            wrong.append(f"{path}: was changed after it was written (its hash is another)")
            continue
        found, problems = _content(path, manifest)
        rows += found
        wrong += problems
    if not wrong and rows != manifest["rows"]:
        wrong.append(f"{target}: holds {rows} rows, the manifest says {manifest['rows']}")
    if manifest["rows"] + manifest["bad"] != manifest["rows_read"]:
        wrong.append(f"{target}: {manifest['rows_read']} rows were read, {manifest['rows']} written")
    for item in manifest["sources"]:
        path = Path(item["path"])
        if path.is_file() and (path.stat().st_size != item["bytes"] or hash_file(path) != item["sha256"]):
            wrong.append(f"{path}: has changed since it was converted; convert it again")
    return wrong


def _content(path: Path, manifest: dict[str, Any]) -> tuple[int, list[str]]:
    """Rows of a file, and where it is not what Relax loads."""
    if path.suffix == ".jsonl":
        with path.open("rb") as lines:
            return sum(1 for _ in lines), []
    wrong = []
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        return 0, [f"{path}: not readable ({error})"]
    schema = {item.name: str(item.type) for item in file.schema_arrow}
    if schema != manifest["schema"]:
        wrong.append(f"{path}: its schema is not that of the manifest")
    for name in ("prompt", "label", "extra_info"):
        if name not in schema:
            wrong.append(f"{path}: has no column {name}")
    return file.metadata.num_rows, wrong


def quarantine_line(where: str, column: str, reason: str, row: Any) -> str:
    """A bad row as JSON: where it was, why it is bad, and its values."""
    content = {"at": where, "column": column, "reason": reason, "row": row}
    return json.dumps(content, ensure_ascii=False, default=jsonable) + "\n"


def check_space(folder: Path, needed: int, free: Callable[[Path], int]) -> None:
    """Stop before a disk runs full.

    Raises:
        ConvertError: fewer bytes are free than the output may need.
    """
    left = free(folder)
    if left < needed:
        raise ConvertError(
            f"{folder}: {left / 1e9:.1f} GB are free and the output may need {needed / 1e9:.1f} GB; "
            "choose another folder"
        )
