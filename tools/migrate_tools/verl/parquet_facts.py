"""What a data file of a recipe holds: schema, rows, distinct data_source values, kinds of the nested values."""

from __future__ import annotations

import contextlib
import glob
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from migrate_tools.errors import RefusedInput
from migrate_tools.verl.known_data import TruthKind

if TYPE_CHECKING:
    import pyarrow as pa

CHAT_MARKERS = re.compile(
    r"<\|im_start\|>|<\|start_header_id\|>|\[INST\]|<start_of_turn>|<\|user\|>|<｜User｜>|<\|begin_of_text\|>|<\|assistant\|>"
)
BATCH_ROWS = 65_536
OTHER_KINDS = (".jsonl", ".json", ".arrow")
"""Read as the converter reads them, which is as verl's data set library does."""


@dataclass(frozen=True)
class FileFacts:
    """Facts of one entry of data.train_files: a file, or all parquet files of a folder."""

    files: tuple[Path, ...]
    rows: int
    columns: dict[str, str]
    sources: dict[str, int]
    """data_source -> rows; empty when the column is missing."""
    truth: TruthKind
    extra_info_keys: tuple[str, ...]
    prompt_form: str
    json_text: tuple[str, ...]
    """Columns that hold JSON text where verl expects a structure."""


def data_files(path: Path) -> tuple[Path, ...]:
    """The parquet files that a path stands for, sorted."""
    if path.is_dir():
        found = sorted(item for item in path.rglob("*") if item.is_file() and not item.name.startswith("."))
        for kind in (".parquet", *OTHER_KINDS):
            if matching := tuple(item for item in found if item.suffix == kind):
                return matching
        return ()
    if any(sign in path.name for sign in "*?["):
        return tuple(Path(item) for item in sorted(glob.glob(str(path))))  # noqa: PTH207 - the whole path may be a pattern
    return (path,)


def read_facts(path: Path, shown: str, *, prompt_key: str, source_key: str) -> FileFacts:
    """Facts of a file or folder; of parquet only the data_source column and one row are read.

    Raises:
        RefusedInput: a file is not readable.
    """
    files = data_files(path)
    if not files:
        raise RefusedInput(f"{shown}: holds no data file", "run the preparation script, or correct the path")
    rows = 0
    columns: dict[str, str] = {}
    sources: Counter[str] = Counter()
    kinds: set[TruthKind] = set()
    keys: dict[str, None] = {}
    forms: set[str] = set()
    json_text: dict[str, None] = {}
    for item in files:
        schema, count, counts, first = (_other if item.suffix in OTHER_KINDS else _parquet)(
            item, shown, prompt_key, source_key
        )
        rows += count
        columns.update({field.name: str(field.type) for field in schema if field.name not in columns})
        sources.update(counts)
        kinds.add(_truth(schema, first))
        keys.update(dict.fromkeys(_extra_keys(schema, first)))
        forms.add(_prompt_form(first.get(prompt_key)))
        for name in ("reward_model", "extra_info"):
            if isinstance(first.get(name), str):
                json_text[name] = None
    known = kinds - {"unknown"}
    return FileFacts(
        files,
        rows,
        columns,
        dict(sorted(sources.items())),
        "unknown" if not known else next(iter(known)) if len(known) == 1 else "mixed",
        tuple(keys),
        forms.pop() if len(forms) == 1 else "unknown",
        tuple(json_text),
    )


Found: TypeAlias = "tuple[pa.Schema, int, Counter[str], dict[str, Any]]"
"""Schema, rows, rows of every data_source, and the first row (of parquet only what is looked at)."""


def _parquet(path: Path, shown: str, prompt_key: str, source_key: str) -> Found:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            wanted = [name for name in (prompt_key, "reward_model", "extra_info") if name in schema.names]
            return schema, file.metadata.num_rows, _count(file, source_key), _first_row(file, wanted)
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())[:160]
        raise RefusedInput(f"{path.name} ({shown}): cannot be read as parquet: {reason}", "check the file") from None


def _other(path: Path, shown: str, prompt_key: str, source_key: str) -> Found:
    from migrate_tools.data.plan import ConvertError
    from migrate_tools.data.sources import open_part

    rows = 0
    counts: Counter[str] = Counter()
    first: dict[str, Any] = {}
    try:
        part = open_part(path)
        for chunk in part.read():
            rows += chunk.batch.num_rows
            if source_key in part.schema.names:
                values = chunk.batch.column(part.schema.get_field_index(source_key)).to_pylist()
                counts.update("" if value is None else str(value) for value in values)
            if not first and chunk.batch.num_rows:
                first = chunk.batch.slice(0, 1).to_pylist()[0]
    except ConvertError as error:
        raise RefusedInput(f"{shown}: {error}", "check the file") from None
    return part.schema, rows, counts, first


def _count(file: Any, column: str) -> Counter[str]:
    import pyarrow.compute as pc

    counts: Counter[str] = Counter()
    if column not in file.schema_arrow.names:
        return counts
    for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=[column]):
        for pair in pc.value_counts(batch.column(0)):
            value = pair["values"].as_py()
            counts["" if value is None else str(value)] += pair["counts"].as_py()
    return counts


def _first_row(file: Any, columns: list[str]) -> dict[str, Any]:
    for batch in file.iter_batches(batch_size=1, columns=columns):
        if batch.num_rows:
            row: dict[str, Any] = batch.slice(0, 1).to_pylist()[0]
            return row
    return {}


def _truth(schema: pa.Schema, first: dict[str, Any]) -> TruthKind:
    import pyarrow as pa

    if "reward_model" not in schema.names:
        return "none"
    kind = schema.field("reward_model").type
    if not pa.types.is_struct(kind):
        return _json_truth(first.get("reward_model"))
    if kind.get_field_index("ground_truth") < 0:
        return "none"
    inner = kind.field(kind.get_field_index("ground_truth")).type
    return _arrow_kind(inner)


def _arrow_kind(kind: pa.DataType) -> TruthKind:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "string"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return "number"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return "list"
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return "dict"
    return "none" if pa.types.is_null(kind) else "unknown"


def _json_truth(value: object) -> TruthKind:
    loaded = _load_json(value)
    if not isinstance(loaded, dict) or "ground_truth" not in loaded:
        return "unknown"
    truth = loaded["ground_truth"]
    kinds: Iterable[tuple[type, TruthKind]] = (
        (str, "string"),
        (bool, "number"),
        (int, "number"),
        (float, "number"),
        (list, "list"),
        (dict, "dict"),
    )
    return next((kind for of, kind in kinds if isinstance(truth, of)), "none")


def _extra_keys(schema: pa.Schema, first: dict[str, Any]) -> tuple[str, ...]:
    import pyarrow as pa

    if "extra_info" not in schema.names:
        return ()
    kind = schema.field("extra_info").type
    if pa.types.is_struct(kind):
        return tuple(kind.field(index).name for index in range(kind.num_fields))
    loaded = _load_json(first.get("extra_info"))
    return tuple(loaded) if isinstance(loaded, dict) else ()


def _load_json(value: object) -> object:
    import json

    if not isinstance(value, str):
        return None
    try:
        return json.loads(value)
    except ValueError:
        return None


def _prompt_form(prompt: object) -> str:
    if isinstance(prompt, str) and prompt.lstrip().startswith("["):
        import json

        with contextlib.suppress(ValueError):
            prompt = json.loads(prompt)  # JSON text of messages, which the converter decodes
    if isinstance(prompt, str):
        return "templated" if CHAT_MARKERS.search(prompt) else "string"
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], dict):
        text = " ".join(str(message.get("content", "")) for message in prompt)
        return "templated" if CHAT_MARKERS.search(text) else "chat"
    return "unknown"
