"""Images, videos and audio: one list a row, in a form that Relax opens."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from migrate_tools.data.pickled import looks_pickled, png_of_pickle
from migrate_tools.data.plan import BadRow, ConvertError, Remarks, is_bytes, is_list, is_text

PLACEHOLDERS = {"image": "<image>", "video": "<video>", "audio": "<audio>"}
BASE64_STARTS = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR")
BASE64 = re.compile(r"[A-Za-z0-9+/\s]+=*\s*")
PATH_LIMIT = 1024


def media_lists(column: Any, folder: Path, name: str, remarks: Remarks) -> tuple[Any, list[BadRow]]:
    """One list of items a row, empty where there is none; relative paths made absolute, pickles made PNG.

    Raises:
        ConvertError: the column holds something else.
    """
    if pa.types.is_null(column.type):
        return pa.array([[]] * len(column), type=pa.list_(pa.null())), []
    if pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    if is_list(column.type):
        values, lengths = column.flatten(), pc.fill_null(pc.list_value_length(column), 0)
    else:
        values, lengths = column.drop_null(), column.is_valid().cast(pa.int32())
    ends = pc.cumulative_sum(lengths.cast(pa.int64()))
    values, bad_items = _items(values, folder, name, remarks)
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
    large = len(offsets) and (offsets[-1].as_py() or 0) >= 1 << 31
    offsets = offsets if large or pa.types.is_large_list(column.type) else offsets.cast(pa.int32())
    kind = pa.ListArray if offsets.type == pa.int32() else pa.LargeListArray
    bad = []
    if bad_items:
        row, limits = 0, ends.to_pylist()
        for index, reason in bad_items:
            while limits[row] <= index:
                row += 1
            bad.append(BadRow(row, name, reason))
    return kind.from_arrays(offsets, values), bad


def _items(values: Any, folder: Path, name: str, remarks: Remarks) -> tuple[Any, list[tuple[int, str]]]:
    """Items in their final form, and (index, reason) of those that have none."""
    kind = values.type
    if is_text(kind):
        return pa.array([_address(text, folder, name, remarks) for text in values.to_pylist()], type=kind), []
    if is_bytes(kind):
        return _without_pickles(values)
    if is_list(kind) and (is_text(kind.value_type) or pa.types.is_struct(kind.value_type)):
        inner, wrong = _items(values.flatten(), folder, name, remarks)
        lengths = pc.fill_null(pc.list_value_length(values), 0)
        offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths.cast(pa.int64()))])
        return pa.LargeListArray.from_arrays(offsets, inner), wrong
    if not pa.types.is_struct(kind):
        if pa.types.is_null(kind):
            return values, []
        raise ConvertError(f"column {name} holds {kind}, neither bytes, a path nor a struct of them; prepare it again")
    children = [pc.struct_field(values, [index]) for index in range(kind.num_fields)]
    bad: list[tuple[int, str]] = []
    for index in range(kind.num_fields):
        if kind.field(index).name == "path" and is_text(children[index].type):
            texts = [_address(text, folder, name, remarks) for text in children[index].to_pylist()]
            children[index] = pa.array(texts, type=children[index].type)
        elif kind.field(index).name == "bytes" and is_bytes(children[index].type):
            children[index], found = _without_pickles(children[index])
            bad += found
    if not kind.num_fields:
        return values, bad
    mask = values.is_null() if values.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask), bad


def _without_pickles(values: Any) -> tuple[Any, list[tuple[int, str]]]:
    if pa.types.is_fixed_size_binary(values.type):
        values = values.cast(pa.binary())
    marked = pc.equal(pc.binary_slice(values, 0, 1), pa.scalar(b"\x80", values.type))
    suspects = pc.indices_nonzero(pc.fill_null(marked, False)).to_pylist()
    suspects = [index for index in suspects if looks_pickled(values[index].as_py())]
    if not suspects:
        return values, []
    items, bad = values.to_pylist(), []
    for index in suspects:
        try:
            items[index] = png_of_pickle(items[index])
        except ValueError as error:
            bad.append((index, str(error)))
    return pa.array(items, type=values.type), bad


def _address(text: str | None, folder: Path, name: str, remarks: Remarks) -> str | None:
    """A path or address that opens from anywhere; base64 text as a data: address."""
    if not text or "://" in text[:16] or text.startswith("data:"):
        return text
    if text.startswith(BASE64_STARTS) and len(text) > 64 and BASE64.fullmatch(text):
        try:
            start = base64.b64decode(text[:16])
        except binascii.Error:
            start = b""
        return f"data:{_mime(start)};base64,{text}"
    if len(text) > PATH_LIMIT or text.startswith("/"):
        return text
    path = folder / text
    if path.is_file():
        return str(path.resolve())
    remarks.count(f"column {name}: a relative path names no file beside the data and was left as it is", 1)
    return text


def _mime(start: bytes) -> str:
    if start.startswith(b"RIFF"):
        return {b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}.get(start[8:12], "image/webp")
    return {b"\x89PN": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF": "image/gif"}.get(start[:3], "image/png")


def check_placeholders(prompts: Any, lists: Any, column: str, kind: str, remarks: Remarks) -> list[BadRow]:
    """Rows with more items than places in the prompt, where Relax stops; rows with fewer are counted."""
    mark = PLACEHOLDERS[kind]
    counts = pc.list_value_length(lists)
    places = placeholders(prompts, mark, kind)
    more = pc.greater(counts.cast(pa.int64()), places)
    remarks.count(
        f"column {column}: fewer items than {mark} in the prompt", pc.sum(pc.less(counts, places)).as_py() or 0
    )
    if not pc.any(more).as_py():
        return []
    return [
        BadRow(row, column, f"{counts[row]} {kind}s and {places[row]} {mark} in the prompt; Relax needs one each")
        for row in pc.indices_nonzero(more).to_pylist()
    ]


def placeholders(prompts: Any, mark: str, kind: str) -> Any:
    """Places for an item in each prompt."""
    if is_text(prompts.type):
        return pc.fill_null(pc.count_substring(prompts, mark), 0).cast(pa.int64())
    item: Any = prompts.type.value_type if is_list(prompts.type) else pa.null()
    index = item.get_field_index("content") if pa.types.is_struct(item) else -1
    if index < 0 or not is_text(item.field(index).type):
        return pa.array([_count(prompt, mark, kind) for prompt in prompts.to_pylist()], type=pa.int64())
    contents = pc.struct_field(prompts.flatten(), [index])
    return row_sums(pc.fill_null(pc.count_substring(contents, mark), 0), prompts)


def row_sums(values: Any, lists: Any) -> Any:
    """Sums of flattened values, a row of `lists` each."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int64())
    ends = pc.cumulative_sum(lengths)
    sums = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(values.cast(pa.int64()))])
    return pc.subtract(sums.take(ends), sums.take(pc.subtract(ends, lengths)))


def _count(prompt: Any, mark: str, kind: str) -> int:
    """Text marks and structured items, as Relax counts them (redai-studio/Relax relax/utils/data/data_utils.py)."""
    messages: Sequence[Any] = prompt if isinstance(prompt, list) else [{"content": prompt}]
    total = 0
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list):
            total += sum(isinstance(item, dict) and str(item.get("type")).startswith(kind) for item in content)
        elif content is not None:
            total += (content if isinstance(content, str) else json.dumps(content, default=str)).count(mark)
    return total
