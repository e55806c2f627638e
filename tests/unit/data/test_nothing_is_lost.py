"""For random nested rows, every value that goes in comes out, or a note names it."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from migrate_tools.data.convert import Converted, ConvertPlan, Options, convert

BESIDE = ("data_source", "ability", "style", "tools_kwargs", "interaction_kwargs", "agent_name")
QUIET = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

names = st.sampled_from(
    ["a", "b.c", "d-e", "f g", "é", "ground_truth", "style", "label", "index", "tools", "verl_label", "content", "0"]
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
numbers = st.integers(-(1 << 63), (1 << 63) - 1)
floats = st.floats(allow_nan=False)
leaf_types = st.sampled_from(
    [pa.string(), pa.large_string(), pa.int64(), pa.int32(), pa.float64(), pa.bool_(), pa.binary(),
     pa.decimal128(10, 2), pa.timestamp("us"), pa.date32(), pa.dictionary(pa.int32(), pa.string())]
)  # fmt: skip
MADE = {
    "string": texts, "large_string": texts, "int64": numbers, "int32": st.integers(-5, 5), "double": floats,
    "bool": st.booleans(), "binary": st.binary(max_size=4), "decimal128(10, 2)": st.decimals(-99, 99, places=2),
    "timestamp[us]": st.datetimes(), "date32[day]": st.dates(),
    "dictionary<values=string, indices=int32, ordered=0>": texts,
}  # fmt: skip


def nested(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    structs = st.dictionaries(names, below, min_size=1, max_size=3).map(lambda fields: pa.struct(list(fields.items())))
    return structs | st.builds(pa.list_, below) | st.builds(pa.large_list, below)


plain_leaves = leaf_types.filter(lambda kind: not pa.types.is_dictionary(kind))
types = st.recursive(plain_leaves, nested, max_leaves=5) | leaf_types


def values(kind: Any) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        fields = {kind.field(index).name: values(kind.field(index).type) for index in range(kind.num_fields)}
        return st.none() | st.fixed_dictionaries(fields)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return st.none() | st.lists(values(kind.value_type), max_size=3)
    return st.none() | MADE[str(kind)]


@st.composite
def tables(draw: Any) -> Any:
    """verl rows whose ground truth, extra_info and further columns are of random types."""
    count = draw(st.integers(1, 4))
    fields = draw(st.dictionaries(names, types, min_size=1, max_size=3))
    kinds = {
        "data_source": pa.string(),
        "prompt": pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())])),
        "reward_model": pa.struct([("style", pa.string()), ("ground_truth", draw(types))]),
        "extra_info": pa.struct(list(fields.items())),
        **{
            name: kind
            for name, kind in draw(st.dictionaries(names, types, max_size=3)).items()
            if name not in ("tools", "style")
        },
    }
    content = {name: st.lists(values(kind), min_size=count, max_size=count) for name, kind in kinds.items()}
    rows = draw(st.fixed_dictionaries(content))
    rows["prompt"] = [[{"role": "user", "content": f"q{number}"}] for number in range(count)]
    arrays = [pa.array(rows[name], type=_without_dictionaries(kind)).cast(kind) for name, kind in kinds.items()]
    return pa.table(arrays, names=list(kinds))


def _without_dictionaries(kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def differences(before: Any, after: Any, path: str) -> Iterator[str]:
    """Paths whose value is not the same, types included."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            if (key in before) != (key in after):
                yield f"{path} lacks {key}"
            else:
                yield from differences(before[key], after[key], f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for old, new in zip(before, after, strict=True):
            yield from differences(old, new, f"{path}[]")
    elif type(before) is not type(after) or not (before == after or (before != before and after != after)):
        yield path


def in_metadata(row: dict[str, Any]) -> dict[str, Any]:
    """The former extra_info inside the converted one."""
    return {key: value for key, value in row["extra_info"].items() if key.removeprefix("verl_") not in BESIDE}


def rows_of(done: Converted) -> list[dict[str, Any]]:
    if done.target.is_dir():
        lines = (done.target / "part-00000.jsonl").read_text(encoding="utf-8", errors="surrogatepass").split("\n")
        return [json.loads(line) for line in lines if line]
    rows: list[dict[str, Any]] = pq.ParquetFile(done.target).read().to_pylist()
    return rows


def converted(table: Any, **options: Any) -> tuple[list[dict[str, Any]], Converted]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "train.parquet"
        pq.write_table(table, source, row_group_size=2)
        done = convert(ConvertPlan(media=()), source, Path(folder) / "out" / "train.parquet", Options(**options))
        return rows_of(done), done


@QUIET
@given(tables())
def test_parquet(table: Any) -> None:
    before = table.to_pylist()
    after, done = converted(table)
    assert done.notes == ()
    assert len(after) == len(before)
    for old, new in zip(before, after, strict=True):
        truth = old["reward_model"]["ground_truth"] if old["reward_model"] is not None else None
        assert not list(differences(truth, new["label"], "label"))
        own = old["extra_info"] or dict.fromkeys(item.name for item in table.schema.field("extra_info").type)
        for key, value in own.items():
            assert not list(differences(value, new["extra_info"][key], key))
        for name in set(old) - {"extra_info"}:
            found = (
                new[name] if name != "label" else new["verl_label" if "verl_label" not in old else "verl_verl_label"]
            )
            assert not list(differences(old[name], found, name))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | floats | texts,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(names, below, max_size=3),
    max_leaves=6,
)
json_rows = st.lists(
    st.fixed_dictionaries(
        {
            "reward_model": st.fixed_dictionaries({"ground_truth": json_values}),
            "extra_info": st.dictionaries(names, json_values, max_size=3),
        }
    ),
    min_size=1,
    max_size=4,
)


def as_text(rows: list[dict[str, Any]]) -> Any:
    made = [{**{name: json.dumps(row[name]) for name in row}, "prompt": "q", "data_source": "s"} for row in rows]
    return pa.Table.from_pylist(made)


@QUIET
@given(json_rows)
def test_json_text_is_exact(rows: list[dict[str, Any]]) -> None:
    after, _ = converted(as_text(rows))
    for old, new in zip(rows, after, strict=True):
        assert not list(differences(old["reward_model"]["ground_truth"], new["label"], "label"))
        assert not list(differences(_without(old["extra_info"]), in_metadata(new), "extra_info"))


def _without(info: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in info.items() if key.removeprefix("verl_") not in BESIDE}


@QUIET
@given(json_rows)
def test_what_parquet_cannot_hold_is_named(rows: list[dict[str, Any]]) -> None:
    after, done = converted(as_text(rows), format="parquet")
    notes = "\n".join(done.notes)
    for old, new in zip(rows, after, strict=True):
        found = list(differences(old["reward_model"]["ground_truth"], new["label"], "reward_model.ground_truth"))
        found += differences(_without(old["extra_info"]), in_metadata(new), "extra_info")
        for path in found:
            place, _, key = path.partition(" lacks ")
            assert place in notes, (path, notes)
            assert key in notes, (path, notes)


def test_numbers_that_floats_cannot_hold_are_kept() -> None:
    rows = [{"reward_model": {"ground_truth": value}, "extra_info": {}} for value in ((1 << 53) + 1, 0.5, math.inf)]
    after, done = converted(as_text(rows))
    assert [row["label"] for row in after] == [(1 << 53) + 1, 0.5, math.inf]
    assert "reward_model.ground_truth has float, int values" in done.notes[0]
