"""Converts verl parquet to the columns that Relax reads, and keeps every column that was there.

Streams a batch at a time, so memory stays bounded; the output has small row groups and appears under its name only when
it is complete. One module of the standard library and pyarrow, because every example gets a copy of it as its own
conversion script. Columns, per file:

- prompt: the prompt column of the recipe; where verl applied no chat template, the text of its first message
- label: reward_model.ground_truth, of whatever type
- extra_info: a struct of the former extra_info and of the columns data_source and ability (called verl_data_source,
  verl_ability where extra_info has such a key of its own)
- image columns: always a list
- every other column unchanged; one whose name is needed above is kept as verl_<name>
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

PROMPT_KEY = "prompt"
REWARD_FN_KEY = "data_source"
IMAGE_COLUMNS: tuple[str, ...] = ()
RAW_PROMPT = False

BATCH_BYTES = 32 << 20
BATCH_ROWS = 4096
PLACEHOLDER = "<image>"
NEEDED = ("prompt", "label", "extra_info")
MARK = {b"migrate-agent": b"converted"}


class ConvertError(Exception):
    """What is wrong and where, in one line, and what to do."""


@dataclass(frozen=True)
class ConvertPlan:
    """What the recipe calls its columns."""

    prompt_key: str = PROMPT_KEY
    reward_fn_key: str = REWARD_FN_KEY
    image_columns: tuple[str, ...] = IMAGE_COLUMNS
    raw_prompt: bool = RAW_PROMPT
    """verl took the content of the first message as it is."""


@dataclass(frozen=True)
class Converted:
    """One file that was written (or skipped, because it was complete already)."""

    source: Path
    target: Path
    rows: int
    skipped: bool = False
    notes: tuple[str, ...] = ()


@dataclass
class _File:
    """One source file and what a first look at it told."""

    path: Path
    plan: ConvertPlan
    parquet: Any
    decoded: dict[str, Any] = field(default_factory=dict)
    """Column with JSON text -> Arrow type of its values."""
    bad_tools: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def schema(self) -> Any:
        return self.parquet.schema_arrow

    def at(self, group: int, row: int) -> str:
        return f"{self.path}: row group {group}, row {row}"


def convert(plan: ConvertPlan, source: Path, target: Path, *, resume: bool = False) -> Converted:
    """Convert one file.

    Raises:
        ConvertError: the file cannot be converted; nothing is left under `target` then.
    """
    file = _open(plan, source)
    rows = file.parquet.metadata.num_rows
    if target.exists() and target.resolve() == source.resolve():
        raise ConvertError(f"{source}: output and input are the same file; choose another --output-dir")
    if resume and _is_complete(target, rows):
        return Converted(source, target, rows, skipped=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        _write(file, partial)
        written = pq.read_metadata(partial).num_rows
        if written != rows:
            raise ConvertError(f"{source}: {rows} rows went in and {written} came out; report this")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return Converted(source, target, rows, notes=tuple(file.notes))


def convert_tree(
    plan: ConvertPlan,
    sources: Sequence[Path],
    output_dir: Path,
    *,
    resume: bool = False,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Converted]:
    """Convert every parquet file below the sources; a file keeps its name relative to the folder it was found in.

    Raises:
        ConvertError: no such file, none found, two of one name, or one that cannot be converted.
    """
    return convert_pairs(plan, _targets(sources, output_dir), resume=resume, progress=progress)


def convert_pairs(
    plan: ConvertPlan, pairs: Sequence[tuple[Path, Path]], *, resume: bool, progress: Callable[[str], None]
) -> list[Converted]:
    """Convert (source, target) pairs in order.

    Raises:
        ConvertError: one of them cannot be converted; those before it are complete.
    """
    done: list[Converted] = []
    for source, target in pairs:
        result = convert(plan, source, target, resume=resume)
        progress(f"{source} -> {target}: {result.rows:,} rows{' (there already)' if result.skipped else ''}")
        for note in result.notes:
            progress(f"  note: {note}")
        done.append(result)
    return done


def preview(plan: ConvertPlan, source: Path, rows: int = 3) -> tuple[Any, Any, list[dict[str, Any]]]:
    """Schema before, schema after and the first converted rows of a file.

    Raises:
        ConvertError: the file cannot be converted.
    """
    file = _open(plan, source)
    after = _empty(file).schema
    for group, start, batch in _batches(file):
        return file.schema, after, _transform(file, batch.slice(0, rows), group, start).to_pylist()
    return file.schema, after, []


def _open(plan: ConvertPlan, source: Path) -> _File:
    if not source.is_file():
        raise ConvertError(f"{source}: no such file; pass the verl parquet file or a folder with such files")
    try:
        file = _File(source, plan, pq.ParquetFile(source, buffer_size=1 << 20))
    except (pa.ArrowInvalid, OSError) as error:
        raise ConvertError(f"{source}: not a readable parquet file ({error}); make it again") from error
    names = file.schema.names
    if MARK.items() <= (file.schema.metadata or {}).items():
        raise ConvertError(f"{source}: is converted already; pass the verl file")
    if "reward_model" not in names:
        advice = "it is converted already" if "label" in names else "run the recipe's data preparation script first"
        raise ConvertError(f"{source}: no column reward_model (it has {', '.join(names)}); {advice}")
    if plan.prompt_key not in names:
        raise ConvertError(f"{source}: no column {plan.prompt_key!r} for the prompt (it has {', '.join(names)})")
    for name in ("reward_model", "extra_info"):
        if name in names and _is_text(file.schema.field(name).type):
            file.decoded[name] = _json_type(file, name)
    truth = file.decoded.get("reward_model") or file.schema.field("reward_model").type
    if not pa.types.is_struct(truth) or truth.get_field_index("ground_truth") < 0:
        raise ConvertError(f"{source}: reward_model is {truth}, without a field ground_truth; prepare the data again")
    extra = file.decoded.get("extra_info") or (file.schema.field("extra_info").type if "extra_info" in names else None)
    if extra is not None and not (pa.types.is_struct(extra) or pa.types.is_null(extra)):
        raise ConvertError(f"{source}: extra_info is {extra}, not a struct; Relax needs a dictionary per row")
    file.bad_tools = "tools" in names and not _tools_are_lists(file)
    if file.bad_tools:
        file.notes.append("column tools is kept as verl_tools: Relax needs a list in every row and some have none")
    return file


def _write(file: _File, path: Path) -> None:
    schema = _empty(file).schema.with_metadata(MARK)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for group, start, batch in _batches(file):
            writer.write_batch(_transform(file, batch, group, start).cast(schema.remove_metadata()))


def _batches(file: _File, columns: list[str] | None = None) -> Iterator[tuple[int, int, Any]]:
    """(row group, first row inside it, batch), of about BATCH_BYTES each."""
    for group in range(file.parquet.num_row_groups):
        meta = file.parquet.metadata.row_group(group)
        each = max(1, meta.total_byte_size // max(1, meta.num_rows))
        size = max(1, min(BATCH_ROWS, BATCH_BYTES // each))
        start = 0
        try:
            for batch in file.parquet.iter_batches(size, row_groups=[group], columns=columns, use_threads=False):
                yield group, start, batch
                start += batch.num_rows
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, OSError) as error:
            nested = [item.name for item in file.schema if pa.types.is_nested(item.type)]
            raise ConvertError(
                f"{file.at(group, start)}: cannot be read ({error}); nested columns {', '.join(nested)}: "
                "write the file again with smaller row groups"
            ) from error


def _empty(file: _File) -> Any:
    """The converted form of no rows: it has the schema of all."""
    arrays = [pa.array([], type=item.type) for item in file.schema]
    return _transform(file, pa.RecordBatch.from_arrays(arrays, names=file.schema.names), 0, 0)


def _transform(file: _File, batch: Any, group: int, start: int) -> Any:
    plan = file.plan
    columns = {name: batch.column(index) for index, name in enumerate(batch.schema.names)}
    reward = _struct(file, columns["reward_model"], "reward_model")
    new = {
        "prompt": _prompt(file, columns[plan.prompt_key], group, start),
        "label": _plain(pc.struct_field(reward, "ground_truth")),
        "extra_info": _extra_info(file, columns, batch.num_rows),
    }
    for name in plan.image_columns:
        if name in columns:
            new[name] = _image_list(columns[name], file.path.parent)
            _check_placeholders(file, new["prompt"], new[name], group, start)
    for name, column in columns.items():
        if name == "extra_info" or name in plan.image_columns or (name == "prompt" and plan.prompt_key == "prompt"):
            continue
        new[f"verl_{name}" if name in NEEDED or (name == "tools" and file.bad_tools) else name] = column
    return pa.RecordBatch.from_arrays(list(new.values()), names=list(new))


def _prompt(file: _File, column: Any, group: int, start: int) -> Any:
    if not file.plan.raw_prompt or not _is_list(column.type):
        return column
    texts = []
    for offset, messages in enumerate(column.to_pylist()):
        if not messages or not isinstance(messages[0].get("content"), str):
            where = f"{file.at(group, start + offset)}, column {file.plan.prompt_key}"
            raise ConvertError(f"{where}: no first message with text; verl would stop here too")
        texts.append(messages[0]["content"])
    return pa.array(texts, type=pa.string())


def _extra_info(file: _File, columns: dict[str, Any], rows: int) -> Any:
    """The former extra_info with the added columns in it; a missing value becomes one with empty fields."""
    fields: dict[str, Any] = {}
    former = _struct(file, columns["extra_info"], "extra_info") if "extra_info" in columns else None
    if former is not None and not pa.types.is_null(former.type):
        fields = {item.name: pc.struct_field(former, [index]) for index, item in enumerate(former.type)}
    own = frozenset(fields)
    for name, column in (("data_source", file.plan.reward_fn_key), ("ability", "ability")):
        value = columns.get(column)
        if value is None and name not in own and name != "data_source":
            continue
        key = f"verl_{name}" if name in own else name
        fields[key] = pa.nulls(rows, pa.string()) if value is None else _plain(value)
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields))


def _struct(file: _File, column: Any, name: str) -> Any:
    """The column as a struct; JSON text is decoded."""
    if name not in file.decoded:
        return column
    values = [None if text is None else json.loads(text) for text in column.to_pylist()]
    return pa.array(values, type=file.decoded[name])


def _json_type(file: _File, name: str) -> Any:
    """The struct type that all JSON texts of a column share."""
    shared: Any = None
    for group, start, batch in _batches(file, [name]):
        for offset, text in enumerate(batch.column(0).to_pylist()):
            where = f"{file.at(group, start + offset)}, column {name}"
            try:
                value = None if text is None else json.loads(text)
                kind = pa.array([value]).type
                merged = pa.schema([("value", kind)])
                if shared is not None:
                    merged = pa.unify_schemas([shared, merged], promote_options="permissive")
            except ValueError as error:
                raise ConvertError(f"{where}: not JSON, or mixes types ({error}); write one type") from error
            except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
                raise ConvertError(f"{where}: mixes types with the rows before ({error}); write one type") from error
            if value is not None and not isinstance(value, dict):
                raise ConvertError(f"{where}: a JSON {type(value).__name__} where an object is needed")
            shared = merged
    if shared is None or pa.types.is_null(shared.field(0).type):
        return pa.struct([("ground_truth", pa.string())]) if name == "reward_model" else pa.null()
    return shared.field(0).type


def _tools_are_lists(file: _File) -> bool:
    for _, _, batch in _batches(file, ["tools"]):
        column = batch.column(0)
        if column.null_count or not (_is_list(column.type) or _is_text(column.type)):
            return False
        if _is_text(column.type) and not all(text.lstrip().startswith("[") for text in column.to_pylist()):
            return False
    return True


def _image_list(column: Any, folder: Path) -> Any:
    """One list of images a row, empty where there is none; relative paths made absolute."""
    if pa.types.is_null(column.type):
        return pa.array([[]] * len(column), type=pa.list_(pa.string()))
    if _is_list(column.type):
        kind = pa.LargeListArray if pa.types.is_large_list(column.type) else pa.ListArray
        return kind.from_arrays(column.offsets, _resolved(column.values, folder))
    counts = pa.array([0, *(int(flag) for flag in column.is_valid().to_pylist())], type=pa.int32())
    return pa.ListArray.from_arrays(pc.cumulative_sum(counts), _resolved(column.drop_null(), folder))


def _resolved(values: Any, folder: Path) -> Any:
    """Images with relative paths that exist beside the data file made absolute."""
    if _is_text(values.type):
        return pa.array([_absolute(text, folder) for text in values.to_pylist()], type=values.type)
    index = values.type.get_field_index("path") if pa.types.is_struct(values.type) else -1
    if index < 0 or not _is_text(values.type.field(index).type):
        return values
    children = [pc.struct_field(values, [number]) for number in range(values.type.num_fields)]
    children[index] = pa.array(
        [_absolute(text, folder) for text in children[index].to_pylist()], type=values.type.field(index).type
    )
    return pa.StructArray.from_arrays(children, fields=list(values.type))


def _absolute(text: str | None, folder: Path) -> str | None:
    if not text or len(text) > 1024 or text.startswith("/") or "://" in text or text.startswith("data:"):
        return text
    path = folder / text
    return str(path.resolve()) if path.is_file() else text


def _check_placeholders(file: _File, prompts: Any, images: Any, group: int, start: int) -> None:
    counts = pc.list_value_length(images).to_pylist()
    for offset, (prompt, count) in enumerate(zip(prompts.to_pylist(), counts, strict=True)):
        places = json.dumps(prompt, default=str).count(PLACEHOLDER)
        if count > places > 0 or (count and isinstance(prompt, str) and not places):
            raise ConvertError(
                f"{file.at(group, start + offset)}: {count} images and {places} {PLACEHOLDER} in the prompt; "
                "Relax needs one placeholder an image"
            )


def _plain(column: Any) -> Any:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_complete(target: Path, rows: int) -> bool:
    try:
        meta = pq.ParquetFile(target)
    except (OSError, pa.ArrowInvalid):
        return False
    return meta.metadata.num_rows == rows and {"label", "extra_info"} <= set(meta.schema_arrow.names)


def _targets(sources: Sequence[Path], output_dir: Path) -> list[tuple[Path, Path]]:
    pairs: list[tuple[Path, Path]] = []
    for source in sources:
        if source.is_dir():
            found = sorted(path for path in source.rglob("*.parquet") if not path.is_relative_to(output_dir))
            pairs += [(path, output_dir / path.relative_to(source)) for path in found]
        else:
            pairs.append((source, output_dir / source.name))
    if not pairs:
        raise ConvertError(f"no parquet file in {', '.join(map(str, sources))}; run the data preparation first")
    targets = [target for _, target in pairs]
    twice = next((target for target in targets if targets.count(target) > 1), None)
    if twice is not None:
        raise ConvertError(f"two files would be written to {twice}; convert them into folders of their own")
    return pairs


def _split_targets(train: Sequence[Path], val: Sequence[Path], output_dir: Path) -> list[tuple[Path, Path]]:
    """train.parquet, or train_0.parquet, train_1.parquet ... when there are several; val likewise."""
    pairs: list[tuple[Path, Path]] = []
    for split, files in (("train", train), ("val", val)):
        names = [f"{split}.parquet"] if len(files) == 1 else [f"{split}_{index}.parquet" for index in range(len(files))]
        pairs += [(path, output_dir / name) for path, name in zip(files, names, strict=True)]
    return pairs


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns 0, or 2 with one line on stderr."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--train", nargs="+", type=Path, default=[], metavar="FILE", help="becomes train[_i].parquet")
    parser.add_argument("--val", nargs="+", type=Path, default=[], metavar="FILE", help="becomes val[_i].parquet")
    parser.add_argument("--input-dir", nargs="+", type=Path, default=[], metavar="DIR_OR_FILE", help="keep their names")
    parser.add_argument("--output-dir", type=Path, required=True, metavar="DIR")
    parser.add_argument("--resume", action="store_true", help="skip files that are complete already")
    parser.add_argument("--dry-run", action="store_true", help="show the schemas and three rows; write nothing")
    options = parser.parse_args(argv)
    try:
        pairs = _split_targets(options.train, options.val, options.output_dir)
        pairs += _targets(options.input_dir, options.output_dir) if options.input_dir else []
        if not pairs:
            parser.error("name the files with --train and --val, or a folder with --input-dir")
        if options.dry_run:
            _show(pairs)
        else:
            convert_pairs(ConvertPlan(), pairs, resume=options.resume, progress=_say)
    except ConvertError as error:
        _say(f"error: {error}")
        return 2
    return 0


def _show(pairs: Sequence[tuple[Path, Path]]) -> None:
    for source, target in pairs:
        before, after, rows = preview(ConvertPlan(), source)
        print(f"# {source} -> {target}\n## before\n{before.remove_metadata()}\n## after\n{after}\n## first rows")
        for row in rows:
            print(json.dumps(row, ensure_ascii=False, default=repr)[:2000])


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
