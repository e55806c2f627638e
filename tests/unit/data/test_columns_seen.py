"""Columns as they are found in public recipes (names and shapes only; the rows are ours)."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from migrate_tools.data.convert import ConvertError, ConvertPlan, Options, convert, main

SOLUTION = "First add 2 and 2.\nThen $x = 4$, so \\boxed{4}."


def rows_of(source: Any, target: Path, plan: ConvertPlan | None = None, **options: Any) -> list[dict[str, Any]]:
    done = convert(plan or ConvertPlan(), source, target, Options(**options))
    found: list[dict[str, Any]] = pq.read_table(done.target).to_pylist()
    return found


@pytest.mark.parametrize(
    ("truth", "flat"),
    [
        ("72", "72"),
        (72.5, "72.5"),
        ({"names": ["Ann"], "roles": ["knight"]}, '{"names": ["Ann"], "roles": ["knight"]}'),
        (["Paris", "paris"], '["Paris", "paris"]'),
        ('{"inputs": ["1"], "outputs": ["2"]}', '{"inputs": ["1"], "outputs": ["2"]}'),
        ("Paris<|answer_split|>City of Paris", "Paris<|answer_split|>City of Paris"),
        ({"answer": None, "options": ["A"]}, '{"answer": null, "options": ["A"]}'),
        (SOLUTION, SOLUTION),
        (True, "true"),
        (None, None),
    ],
)
def test_ground_truths(rows: Any, write_rows: Any, tmp_path: Path, truth: Any, flat: str | None) -> None:
    for row in rows:
        row["reward_model"]["ground_truth"] = truth
    source = write_rows(rows)
    assert [row["label"] for row in rows_of(source, tmp_path / "any.parquet")] == [truth] * 7
    found = rows_of(source, tmp_path / "flat.parquet", ConvertPlan(flat_label=True))
    assert [row["label"] for row in found] == [flat] * 7


def test_everything_nested_as_json_text(rows: Any, write_rows: Any, tmp_path: Path) -> None:
    texts = [{key: value if key == "data_source" else json.dumps(value) for key, value in row.items()} for row in rows]
    found = rows_of(write_rows(texts), tmp_path / "out.parquet")
    assert found[3]["prompt"] == rows[3]["prompt"]
    assert found[3]["label"] == "3"
    assert found[3]["extra_info"]["index"] == 3
    assert found[3]["extra_info"]["data_source"] == "source_1"


def test_no_reward_model_column(rows: Any, write_rows: Any, tmp_path: Path) -> None:
    for row in rows:
        del row["reward_model"]
    done = convert(ConvertPlan(), write_rows(rows), tmp_path / "out.parquet")
    assert [row["label"] for row in pq.read_table(done.target).to_pylist()] == [None] * 7
    assert done.notes == ("no column reward_model: the label is empty in every row",)


def test_misspelt_style_and_columns_beside(rows: Any, write_rows: Any, tmp_path: Path) -> None:
    for row in rows:
        row["reward_model"] = {"stype": "rule", "ground_truth": "1"}
        row["agent_name"] = "tool_agent"
        row["tools_kwargs"] = {"search": {"create_kwargs": {"k": 1}}}
        row["extra.info"] = {"a.b": 1, "c-d": {"e.f": [2]}}
        row["extra_info"]["x.y-z"] = "kept"
    first = rows_of(write_rows(rows), tmp_path / "out.parquet")[0]
    assert first["reward_model"] == {"stype": "rule", "ground_truth": "1"}
    assert first["extra.info"] == {"a.b": 1, "c-d": {"e.f": [2]}}
    assert first["extra_info"] == {
        "index": 0, "split": "train", "x.y-z": "kept", "data_source": "source_0", "ability": "math",
        "tools_kwargs": {"search": {"create_kwargs": {"k": 1}}}, "agent_name": "tool_agent",
    }  # fmt: skip


def test_prompt_column_with_a_dot_and_names_that_are_taken(rows: Any, write_rows: Any, tmp_path: Path) -> None:
    for row in rows:
        row["question.text"] = json.dumps(row.pop("prompt"))
        row["label"], row["verl_label"] = 1, 2
    first = rows_of(write_rows(rows), tmp_path / "out.parquet", ConvertPlan(prompt_key="question.text"))[0]
    assert first["prompt"] == [{"role": "user", "content": "Question 0?"}]
    assert (first["label"], first["verl_label"], first["verl_verl_label"]) == ("0", 2, 1)


@pytest.mark.parametrize(
    ("prompt", "expected", "note"),
    [
        ("What is 1 + 1?", "What is 1 + 1?", ""),
        ('["not", "a chat"]', '["not", "a chat"]', ""),
        ("[1] is a footnote", "[1] is a footnote", ""),
        ("<|im_start|>user\nhi<|im_end|>", "<|im_start|>user\nhi<|im_end|>", "<|im_start|> in it: leave --apply-chat"),
        ({"role": "user", "content": "hi"}, [{"role": "user", "content": "hi"}], "it became a list of one"),
    ],
    ids=["text", "a JSON list", "brackets", "templated", "one message"],
)
def test_prompts_are_told_apart(
    rows: Any, write_rows: Any, tmp_path: Path, prompt: Any, expected: Any, note: str
) -> None:
    done = convert(ConvertPlan(), write_rows([{**row, "prompt": prompt} for row in rows]), tmp_path / "out.parquet")
    assert pq.read_table(done.target).to_pylist()[0]["prompt"] == expected
    assert note in " ".join(done.notes)
    assert bool(done.notes) == bool(note)


def test_prompts_of_another_type_are_refused(rows: Any, write_rows: Any, tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match="column prompt is int64, neither text nor a list of messages"):
        rows_of(write_rows([{**row, "prompt": 3} for row in rows]), tmp_path / "out.parquet")


def test_exact_types_stay(rows: Any, tmp_path: Path, write_rows: Any) -> None:
    moment = datetime.datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=datetime.UTC)
    for row in rows:
        row["price"], row["when"] = decimal.Decimal("1.10"), moment
        row["extra_info"]["when"] = moment
    table = pa.Table.from_pylist(rows)
    fields = [*table.schema.field("extra_info").type, pa.field("map", pa.map_(pa.string(), pa.int64()))]
    for row in rows:
        row["extra_info"]["map"] = [("k", 1)]
    info = pa.array([row["extra_info"] for row in rows], type=pa.struct(fields))
    first = rows_of(write_rows(table.set_column(4, "extra_info", info)), tmp_path / "out.parquet")[0]
    assert (first["price"], first["when"], first["extra_info"]["when"]) == (decimal.Decimal("1.10"), moment, moment)
    assert first["extra_info"]["map"] == [("k", 1)]


def test_extra_info_as_a_map_becomes_a_dictionary(rows: Any, tmp_path: Path, write_rows: Any) -> None:
    table = pa.Table.from_pylist(rows)
    maps = pa.array([[("level", "hard"), ("split", "train")]] * 7, type=pa.map_(pa.string(), pa.string()))
    first = rows_of(write_rows(table.set_column(4, "extra_info", maps)), tmp_path / "out.parquet")[0]
    assert first["extra_info"] == {
        "level": "hard", "split": "train", "data_source": "source_0", "ability": "math", "style": "rule"
    }  # fmt: skip


@pytest.mark.parametrize("count", [1, 16])
def test_tiny_files(rows: Any, write_rows: Any, tmp_path: Path, count: int) -> None:
    assert len(rows_of(write_rows((rows * 3)[:count]), tmp_path / "out.parquet")) == count


def test_a_list_of_shards_written_by_hand(rows: Any, write_rows: Any, tmp_path: Path) -> None:
    """One number is missing, and there is a blank before the closing bracket."""
    names = [str(write_rows(rows[index : index + 1], f"shard_{index}.parquet")) for index in (0, 1, 3)]
    assert main(["--train", "[" + ",".join(names) + " ]", "--output-dir", str(tmp_path / "o")]) == 0
    found = [pq.read_table(tmp_path / "o" / f"train_{number}.parquet").to_pylist() for number in range(3)]
    assert [part[0]["extra_info"]["index"] for part in found] == [0, 1, 3]


def test_a_column_twice_is_refused(tmp_path: Path) -> None:
    table = pa.table([pa.array(["q"]), pa.array(["r"])], names=["prompt", "prompt"])
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(ConvertError, match="has the column prompt more than once"):
        convert(ConvertPlan(), tmp_path / "x.parquet", tmp_path / "out.parquet")


def test_a_full_disk_is_seen_before(rows: Any, write_rows: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("U", (), {"free": 1000})())
    with pytest.raises(ConvertError, match=r"0.0 GB are free and the output may need 0.1 GB"):
        convert(ConvertPlan(), write_rows(rows), tmp_path / "out.parquet")
