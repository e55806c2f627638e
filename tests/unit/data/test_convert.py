"""The converter keeps every row and column and puts truth and source where Relax reads them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from migrate_tools.data import flow, output, sources
from migrate_tools.data.convert import ConvertError, ConvertPlan, Options, convert, convert_tree, main, verify
from migrate_tools.data.flow import Meter


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
    assert result[3]["extra_info"] == {
        "index": 3, "split": "train", "data_source": "source_1", "ability": "math", "style": "rule"
    }  # fmt: skip
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
    assert converted(write_rows(rows))[0]["extra_info"] == {
        "data_source": "source_0", "ability": "math", "style": "rule"
    }  # fmt: skip


def test_null_extra_info_has_empty_fields(write_rows: Any, rows: Any) -> None:
    rows[1]["extra_info"] = None
    result = converted(write_rows(rows))
    assert result[1]["extra_info"] == {
        "index": None, "split": None, "data_source": "source_1", "ability": "math", "style": "rule"
    }  # fmt: skip


def test_keys_of_extra_info_win_and_ours_get_another_name(write_rows: Any, rows: Any) -> None:
    for row in rows:
        row["extra_info"] = {"data_source": "inner", "ability": "own"}
        del row["ability"]
    extra = converted(write_rows(rows))[0]["extra_info"]
    assert extra == {
        "data_source": "inner", "ability": "own", "verl_data_source": "source_0", "verl_ability": None, "style": "rule"
    }  # fmt: skip


def test_json_text_is_decoded(write_rows: Any, rows: Any) -> None:
    for index, row in enumerate(rows):
        row["extra_info"] = json.dumps({"index": index, "deep": {"list": [index]}})
        row["reward_model"] = json.dumps(row["reward_model"])
        row["prompt"] = json.dumps(row["prompt"])
    result = converted(write_rows(rows, row_group_size=2))
    assert [row["label"] for row in result] == ["0", "1", "2", "3", "4", "5", "6"]
    assert result[5]["extra_info"] == {
        "index": 5, "deep": {"list": [5]}, "data_source": "source_1", "ability": "math", "style": "rule"
    }  # fmt: skip
    assert result[3]["prompt"] == [{"role": "user", "content": "Question 3?"}]


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "part-00000.jsonl").read_text().splitlines()]


def test_keys_that_some_json_texts_lack_stay_absent(write_rows: Any, rows: Any, tmp_path: Path) -> None:
    for index, row in enumerate(rows):
        row["extra_info"] = json.dumps({"index": index} if index else {"name": None})
    source = write_rows(rows, row_group_size=2)
    done = convert(ConvertPlan(), source, tmp_path / "out" / "train.parquet")
    beside = {"ability": "math", "style": "rule"}
    result = lines_of(done.target)
    assert result[0]["extra_info"] == {"name": None, "data_source": "source_0", **beside}
    assert result[3]["extra_info"] == {"index": 3, "data_source": "source_1", **beside}
    assert "extra_info lacks name, index in some rows" in done.notes[0]
    assert verify(done.target) == []
    forced = convert(ConvertPlan(), source, tmp_path / "flat.parquet", Options(format="parquet"))
    assert pq.read_table(forced.target).to_pylist()[0]["extra_info"]["index"] is None
    assert "extra_info lacks name, index in some rows: there they come back as None" in forced.notes


def test_truths_of_two_types_stay_what_they_are(write_rows: Any, rows: Any, tmp_path: Path) -> None:
    truths = ["text", {"target": ["a", "b"]}, 3, None, [1], 2.5, True]
    for row, truth in zip(rows, truths, strict=True):
        row["reward_model"] = json.dumps({"style": "rule", "ground_truth": truth})
    done = convert(ConvertPlan(), write_rows(rows), tmp_path / "train.parquet")
    assert [row["label"] for row in lines_of(done.target)] == truths
    assert [row["extra_info"]["data_source"] for row in lines_of(done.target)][:2] == ["source_0", "source_1"]


def test_broken_json_names_the_place(write_rows: Any, rows: Any) -> None:
    for index, row in enumerate(rows):
        row["extra_info"] = "{'index': 5}" if index == 5 else json.dumps({"index": index})
    with pytest.raises(ConvertError, match=r"train\.parquet: row group 2, row 1, column extra_info: not JSON"):
        converted(write_rows(rows, row_group_size=2))


def test_many_row_groups_keep_their_order(write_rows: Any, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BATCH_ROWS", 2)
    monkeypatch.setattr(output, "BATCH_ROWS", 2)
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
    assert first["extra_info"] == {"data_source": "source_0", "style": "rule"}
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
    result = converted(write_rows(rows[:2]), ConvertPlan(media=(("images", "image"),)))
    assert [row["images"] for row in result] == expected


def test_relative_image_paths_are_resolved_beside_the_data(write_rows: Any, rows: Any, tmp_path: Path) -> None:
    picture = tmp_path / "in" / "rel.png"
    picture.parent.mkdir()
    picture.write_bytes(b"png")
    for row in rows:
        row["prompt"][0]["content"] = "<image>"
        row["images"] = [{"path": "rel.png"}]
    result = converted(write_rows(rows), ConvertPlan(media=(("images", "image"),)))
    assert result[0]["images"] == [{"path": str(picture.resolve())}]


def test_more_images_than_placeholders_name_the_row(write_rows: Any, rows: Any) -> None:
    for row in rows:
        row["prompt"][0]["content"] = "<image>"
        row["images"] = ["a"]
    rows[4]["images"] = ["a", "b"]
    with pytest.raises(ConvertError, match="row group 0, row 4, column images: 2 images and 1 <image>"):
        converted(write_rows(rows), ConvertPlan(media=(("images", "image"),)))


def test_tools_need_a_list_in_every_row(write_rows: Any, rows: Any) -> None:
    for index, row in enumerate(rows):
        row["tools"] = None if index == 6 else ["search"]
    result = converted(write_rows(rows))
    assert [row["tools"] for row in result[5:]] == [["search"], []]
    for row in rows:
        row["tools"] = {"name": "search"}
    result = converted(write_rows(rows))
    assert "tools" not in result[0]
    assert result[0]["verl_tools"] == {"name": "search"}


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

    monkeypatch.setattr(sources, "_row_group", fail)
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
    assert not convert(ConvertPlan(), source, target, Options(resume=True)).skipped
    assert convert(ConvertPlan(), source, target, Options(resume=True)).skipped
    write_rows(rows[:3])
    again = convert(ConvertPlan(), source, target, Options(resume=True))
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
    names = ["train_0.parquet", "train_1.parquet", "val.parquet"]
    assert sorted(path.name for path in out.iterdir() if path.suffix != ".json") == names
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


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(write_rows: Any, tmp_path: Path) -> None:
    """Row groups of 24 MiB and of 96 MiB, in batches of 2 MiB: the second may take a few batches more, not 72 MiB."""
    rows = [
        {"prompt": f"{index} " + "x" * 60_000, "reward_model": {"ground_truth": "1"}, "data_source": "s"}
        for index in range(1600)
    ]
    options = {"compression": "none", "use_dictionary": False, "write_batch_size": 16}
    big = write_rows(rows, "big.parquet", **options)
    small = write_rows(rows[:400], "small.parquet", **options)
    script = (
        "import sys; from pathlib import Path; from migrate_tools.data.convert import *;"
        "from migrate_tools.data import output, sources; sources.BATCH_BYTES = output.BATCH_BYTES = 2 << 20;"
        "convert(ConvertPlan(), Path(sys.argv[1]), Path(sys.argv[2]));"
        "status = Path('/proc/self/status').read_text();"
        "print(int(status.partition('VmHWM:')[2].split()[0]) // 1024)"
    )

    def peak(source: Path) -> int:
        command = [sys.executable, "-c", script, str(source), str(tmp_path / "out" / source.name)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    grown = peak(big) - peak(small)
    assert grown < 40, grown


def test_meter_says_rows_speed_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([100.0, 105.0, 120.0, 130.0])
    monkeypatch.setattr(flow, "time", SimpleNamespace(monotonic=lambda: next(now)))  # other threads keep their clock
    lines: list[str] = []
    meter = Meter("train.parquet", 1000, lines.append)
    meter.add(100)
    meter.add(300)
    meter.add(200)
    assert lines == [
        "train.parquet: [########............] 400 of 1,000 rows, 20 rows/s, 30 s left\r",
        "train.parquet: [############........] 600 of 1,000 rows, 20 rows/s, 20 s left\r",
    ]
