"""The converter keeps every row and column and puts truth and source where Relax reads them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from migrate_tools.data import convert as converter
from migrate_tools.data.convert import ConvertError, ConvertPlan, convert, convert_tree, main


def converted(source: Path, plan: ConvertPlan | None = None) -> list[dict[str, Any]]:
    target = source.parent.parent / "out" / source.name
    convert(plan or ConvertPlan(), source, target)
    result: list[dict[str, Any]] = pq.ParquetFile(target).read().to_pylist()
    return result


def with_truths(rows: list[dict[str, Any]], truths: list[Any]) -> list[dict[str, Any]]:
    return [
        {**row, "reward_model": {"style": "rule", "ground_truth": truth}}
        for row, truth in zip(rows, truths, strict=False)
    ]


@pytest.mark.parametrize(
    "truths",
    [
        ["72", "", "\\frac{1}{2}"],
        [1.5, -2.0, None],
        [["a", "b"], [], ["c"]],
        [{"target": ["x"], "n": 1}, {"target": [], "n": None}, None],
        [7, 8, 9],
    ],
    ids=["text", "float", "list", "dict", "int"],
)
def test_truth_of_any_type_comes_back(write_rows: Any, rows: Any, truths: list[Any]) -> None:
    source = write_rows(with_truths(rows, truths))
    assert [row["label"] for row in converted(source)] == truths


def test_source_and_ability_join_the_metadata_and_columns_stay(write_rows: Any, rows: Any) -> None:
    result = converted(write_rows(rows))
    assert result[3]["extra_info"] == {"index": 3, "split": "train", "data_source": "source_1", "ability": "math"}
    for before, after in zip(rows, result, strict=True):
        assert {key: after[key] for key in ("data_source", "ability", "reward_model", "prompt")} == {
            key: before[key] for key in ("data_source", "ability", "reward_model", "prompt")
        }


def test_raw_prompt_is_the_first_message_as_text(write_rows: Any, rows: Any) -> None:
    for index, row in enumerate(rows):
        row["prompt"] = [{"role": "user", "content": f"ask {index}"}, {"role": "user", "content": "not this"}]
    result = converted(write_rows(rows), ConvertPlan(raw_prompt=True))
    assert [row["prompt"] for row in result] == [f"ask {index}" for index in range(len(rows))]
    rows[1]["prompt"] = []
    with pytest.raises(ConvertError, match="row 1, column prompt: no first message"):
        converted(write_rows(rows), ConvertPlan(raw_prompt=True))


def test_absent_extra_info_becomes_a_struct(write_rows: Any, rows: Any) -> None:
    for row in rows:
        del row["extra_info"]
    assert converted(write_rows(rows))[0]["extra_info"] == {"data_source": "source_0", "ability": "math"}


def test_null_extra_info_has_empty_fields(write_rows: Any, rows: Any) -> None:
    rows[1]["extra_info"] = None
    result = converted(write_rows(rows))
    assert result[1]["extra_info"] == {"index": None, "split": None, "data_source": "source_1", "ability": "math"}


def test_keys_of_extra_info_win_and_ours_get_another_name(write_rows: Any, rows: Any) -> None:
    for row in rows:
        row["extra_info"] = {"data_source": "inner", "ability": "own"}
        del row["ability"]
    extra = converted(write_rows(rows))[0]["extra_info"]
    assert extra == {"data_source": "inner", "ability": "own", "verl_data_source": "source_0", "verl_ability": None}


def test_json_text_is_decoded_with_one_type_for_all_rows(write_rows: Any, rows: Any) -> None:
    for index, row in enumerate(rows):
        row["extra_info"] = json.dumps({"index": index} if index else {"name": "first"})
    result = converted(write_rows(rows, row_group_size=2))
    assert result[0]["extra_info"]["name"] == "first"
    assert [row["extra_info"]["index"] for row in result] == [None, 1, 2, 3, 4, 5, 6]


def test_mixed_types_in_json_name_the_place(write_rows: Any, rows: Any) -> None:
    for index, row in enumerate(rows):
        row["extra_info"] = json.dumps({"value": "text" if index == 5 else index})
    with pytest.raises(ConvertError, match=r"train\.parquet: row group 2, row 1, column extra_info: .*mixes types"):
        converted(write_rows(rows, row_group_size=2))


def test_many_row_groups_keep_their_order(write_rows: Any, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converter, "BATCH_ROWS", 2)
    source = write_rows(rows, row_group_size=5)
    assert [row["extra_info"]["index"] for row in converted(source)] == list(range(7))
    assert pq.ParquetFile(source.parent.parent / "out" / "train.parquet").num_row_groups >= 4


def test_empty_file(write_rows: Any, rows: Any) -> None:
    source = write_rows(pa.Table.from_pylist(rows).slice(0, 0))
    assert converted(source) == []
    assert {"label", "extra_info"} <= set(pq.read_schema(source.parent.parent / "out" / "train.parquet").names)


def test_dictionary_encoded_and_large_strings(write_rows: Any, rows: Any) -> None:
    table = pa.Table.from_pylist(rows)
    source = pa.array([row["data_source"] for row in rows]).dictionary_encode()
    ability = pa.array(["math"] * 7, type=pa.large_string())
    table = table.set_column(0, "data_source", source).set_column(2, "ability", ability)
    result = converted(write_rows(table))
    assert result[1]["data_source"] == result[1]["extra_info"]["data_source"] == "source_1"
    assert result[1]["extra_info"]["ability"] == "math"


def test_other_key_names(write_rows: Any, rows: Any) -> None:
    renamed = [
        {"question": row["prompt"], "origin": row["data_source"], "prompt": "raw", "label": 5,
         "reward_model": row["reward_model"]}
        for row in rows
    ]  # fmt: skip
    plan = ConvertPlan(prompt_key="question", reward_fn_key="origin")
    first = converted(write_rows(renamed), plan)[0]
    assert first["prompt"] == [{"role": "user", "content": "Question 0?"}]
    assert first["label"] == "0"
    assert first["extra_info"] == {"data_source": "source_0"}
    assert (first["verl_prompt"], first["verl_label"]) == ("raw", 5)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([{"bytes": b"x"}, None], [[{"bytes": b"x"}], []]),
        ([[{"bytes": b"x"}], None], [[{"bytes": b"x"}], []]),
        ([["/a.png"], []], [["/a.png"], []]),
        (["/a.png", None], [["/a.png"], []]),
        ([None, None], [[], []]),
    ],
    ids=["struct", "list of structs", "list of paths", "path", "nothing"],
)
def test_images_become_lists(write_rows: Any, rows: Any, values: list[Any], expected: list[Any]) -> None:
    for row, value in zip(rows[:2], values, strict=True):
        row["prompt"][0]["content"] = "<image> what?"
        row["images"] = value
    result = converted(write_rows(rows[:2]), ConvertPlan(image_columns=("images",)))
    assert [row["images"] for row in result] == expected


def test_relative_image_paths_are_resolved_beside_the_data(write_rows: Any, rows: Any, tmp_path: Path) -> None:
    picture = tmp_path / "in" / "rel.png"
    picture.parent.mkdir()
    picture.write_bytes(b"png")
    for row in rows:
        row["prompt"][0]["content"] = "<image>"
        row["images"] = [{"path": "rel.png"}]
    result = converted(write_rows(rows), ConvertPlan(image_columns=("images",)))
    assert result[0]["images"] == [{"path": str(picture.resolve())}]


def test_more_images_than_placeholders_name_the_row(write_rows: Any, rows: Any) -> None:
    for row in rows:
        row["prompt"][0]["content"] = "<image>"
        row["images"] = ["a"]
    rows[4]["images"] = ["a", "b"]
    with pytest.raises(ConvertError, match="row group 0, row 4: 2 images and 1 <image>"):
        converted(write_rows(rows), ConvertPlan(image_columns=("images",)))


def test_tools_need_a_list_in_every_row(write_rows: Any, rows: Any) -> None:
    for index, row in enumerate(rows):
        row["tools"] = None if index == 6 else ["search"]
    result = converted(write_rows(rows))
    assert "tools" not in result[0]
    assert result[0]["verl_tools"] == ["search"]


def test_raw_data_is_refused_with_advice(write_rows: Any) -> None:
    source = write_rows([{"question": "1+1?", "answer": "2"}])
    with pytest.raises(
        ConvertError, match=r"no column reward_model \(it has question, answer\); run the recipe's data"
    ):
        converted(source)


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match="no such file"):
        convert(ConvertPlan(), tmp_path / "none.parquet", tmp_path / "out.parquet")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"no parquet")
    with pytest.raises(ConvertError, match="not a readable parquet file"):
        convert(ConvertPlan(), broken, tmp_path / "out.parquet")


def test_nothing_is_left_after_a_failure(write_rows: Any, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_rows(rows)

    def fail(*_: Any) -> Any:
        raise ConvertError("boom")

    monkeypatch.setattr(converter, "_batches", fail)
    target = source.parent.parent / "out" / "x.parquet"
    with pytest.raises(ConvertError, match="boom"):
        convert(ConvertPlan(), source, target)
    assert list(target.parent.iterdir()) == []


def test_tree_keeps_names_and_refuses_two_of_one(write_rows: Any, rows: Any, tmp_path: Path) -> None:
    write_rows(rows, "a/train.parquet")
    write_rows(rows, "b/test.parquet")
    done = convert_tree(ConvertPlan(), [tmp_path / "in"], tmp_path / "out")
    assert [str(item.target.relative_to(tmp_path / "out")) for item in done] == ["a/train.parquet", "b/test.parquet"]
    with pytest.raises(ConvertError, match="two files would be written"):
        convert_tree(ConvertPlan(), [tmp_path / "in/a", tmp_path / "in/a/train.parquet"], tmp_path / "out")


def test_resume_skips_what_is_complete(write_rows: Any, rows: Any, tmp_path: Path) -> None:
    source = write_rows(rows)
    target = tmp_path / "out" / "train.parquet"
    assert not convert(ConvertPlan(), source, target, resume=True).skipped
    assert convert(ConvertPlan(), source, target, resume=True).skipped
    write_rows(rows[:3])
    again = convert(ConvertPlan(), source, target, resume=True)
    assert (again.skipped, again.rows) == (False, 3)


def test_converted_files_are_not_converted_again(write_rows: Any, rows: Any, tmp_path: Path) -> None:
    write_rows(rows)
    out = tmp_path / "in" / "relax"
    for _ in range(2):
        assert [item.source.name for item in convert_tree(ConvertPlan(), [tmp_path / "in"], out)] == ["train.parquet"]
    with pytest.raises(ConvertError, match="is converted already"):
        convert(ConvertPlan(), out / "train.parquet", tmp_path / "x.parquet")


def test_json_text_in_an_empty_file(write_rows: Any, rows: Any) -> None:
    for row in rows:
        row["reward_model"], row["extra_info"] = json.dumps(row["reward_model"]), json.dumps(row["extra_info"])
    assert converted(write_rows(pa.Table.from_pylist(rows).slice(0, 0))) == []
    assert converted(write_rows(rows))[2]["label"] == "2"


def test_unreadable_row_group_is_named(write_rows: Any, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_rows(rows, row_group_size=3)
    original = pq.ParquetFile.iter_batches

    def fail(self: Any, *args: Any, row_groups: list[int], **options: Any) -> Any:
        if row_groups == [1]:
            raise pa.ArrowNotImplementedError("Nested data conversions not implemented for chunked array outputs")
        return original(self, *args, row_groups=row_groups, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", fail)
    with pytest.raises(ConvertError, match=r"row group 1, row 0: .*nested columns prompt, reward_model, extra_info"):
        converted(source)


def test_input_is_never_overwritten(write_rows: Any, rows: Any) -> None:
    source = write_rows(rows)
    with pytest.raises(ConvertError, match="the same file"):
        convert(ConvertPlan(), source, source)


def test_command_line_splits(write_rows: Any, rows: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two, val = (write_rows(rows, name) for name in ("x.parquet", "y.parquet", "z.parquet"))
    out = tmp_path / "out"
    assert main(["--train", str(one), str(two), "--val", str(val), "--output-dir", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["train_0.parquet", "train_1.parquet", "val.parquet"]
    assert "7 rows" in capsys.readouterr().err


def test_dry_run_shows_and_writes_nothing(
    write_rows: Any, rows: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--train", str(write_rows(rows)), "--output-dir", str(tmp_path / "out"), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "label: string" in shown
    assert shown.count('"label": "') == 3
    assert not (tmp_path / "out").exists()


def test_one_line_and_code_2_on_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--input-dir", str(tmp_path), "--output-dir", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith("error: no parquet file in")


def test_memory_stays_bounded(write_rows: Any, tmp_path: Path) -> None:
    """120 MiB of text in one row group; the converter may add less than that over an empty run."""
    rows = [
        {"prompt": f"{index} " + "x" * 60_000, "reward_model": {"ground_truth": "1"}, "data_source": "s"}
        for index in range(2000)
    ]
    big = write_rows(rows, "big.parquet", compression="snappy", use_dictionary=False)
    small = write_rows(rows[:1], "small.parquet")
    script = (
        "import sys, resource; from pathlib import Path; from migrate_tools.data.convert import *;"
        "convert(ConvertPlan(), Path(sys.argv[1]), Path(sys.argv[2]));"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    )

    def peak(source: Path) -> int:
        command = [sys.executable, "-c", script, str(source), str(tmp_path / "out" / source.name)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert peak(big) - peak(small) < 110
