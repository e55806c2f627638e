"""Every kind of source gives the same rows; what cannot be read is refused with advice."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from migrate_tools.data import sources
from migrate_tools.data.convert import ConvertError, ConvertPlan, Options, convert, main


def result(source: Any, target: Path, **options: Any) -> list[dict[str, Any]]:
    done = convert(ConvertPlan(), source, target, Options(**options))
    rows: list[dict[str, Any]] = pq.read_table(done.target).to_pylist()
    return rows


def save_to_disk(rows: Any, folder: Path, **state: Any) -> Path:
    """The layout of Dataset.save_to_disk: Arrow streams and a state.json."""
    folder.mkdir(parents=True)
    names = []
    for number, part in enumerate((rows[:4], rows[4:])):
        names.append({"filename": f"data-{number:05}-of-00002.arrow"})
        table = pa.Table.from_pylist(part)
        with (
            pa.OSFile(str(folder / names[-1]["filename"]), "wb") as out,
            pa.ipc.new_stream(out, table.schema) as writer,
        ):
            writer.write_table(table, max_chunksize=3)
    (folder / "state.json").write_text(json.dumps({"_data_files": names, **state}))
    return folder


def test_all_kinds_give_the_same_rows(rows: Any, tmp_path: Path, write_rows: Any) -> None:
    expected = result(write_rows(rows), tmp_path / "parquet.parquet")
    lines = tmp_path / "rows.jsonl"
    lines.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    array = tmp_path / "rows.json"
    array.write_text(json.dumps(rows))
    wrapped = tmp_path / "wrapped.json"
    wrapped.write_text(json.dumps({"version": "1", "data": rows}, indent=1))
    columnar = tmp_path / "columnar.json"
    columnar.write_text(json.dumps({key: [row[key] for row in rows] for key in rows[0]}))
    arrow = tmp_path / "rows.arrow"
    table = pa.Table.from_pylist(rows)
    with pa.OSFile(str(arrow), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    saved = save_to_disk(rows, tmp_path / "saved")
    for source in (lines, array, wrapped, columnar, arrow, saved):
        assert result(source, tmp_path / "out" / f"{source.name}.parquet") == expected, source


def test_a_folder_or_pattern_is_one_source_in_order(rows: Any, tmp_path: Path, write_rows: Any) -> None:
    write_rows(rows[:3], "shard-00001.parquet")
    write_rows(rows[3:], "shard-00002.parquet")
    expected = [row["extra_info"]["index"] for row in rows]
    for source in (tmp_path / "in", f"{tmp_path}/in/shard-*.parquet"):
        done = result(source, tmp_path / "out.parquet")
        assert [row["extra_info"]["index"] for row in done] == expected
    with pytest.raises(ConvertError, match="no file matches this pattern"):
        result(f"{tmp_path}/in/none-*.parquet", tmp_path / "x.parquet")


def test_files_with_other_columns_go_into_one(rows: Any, tmp_path: Path, write_rows: Any) -> None:
    for row in rows[:3]:
        row["extra_info"]["level"] = 1
        row["prompt"][0]["content"] = "<image>"
        row["images"] = [{"bytes": b"x"}]
    for row in rows[3:]:
        row["note"] = "n"
        row["extra_info"]["level"] = 2.5
    sources = [write_rows(rows[:3], "a.parquet"), write_rows(rows[3:], "b.parquet")]
    plan = ConvertPlan(media_always=True)
    done = pq.read_table(convert(plan, sources, tmp_path / "out.parquet").target).to_pylist()
    assert [row["extra_info"]["level"] for row in done] == [1.0, 1.0, 1.0, 2.5, 2.5, 2.5, 2.5]
    assert [row["note"] for row in done] == [None] * 3 + ["n"] * 4
    assert [row["images"] for row in done] == [[{"bytes": b"x"}]] * 3 + [[]] * 4
    rows[3]["extra_info"]["level"] = "high"
    other = write_rows([rows[3]], "c.parquet")
    with pytest.raises(ConvertError, match=r"c\.parquet: its columns do not go together with those of .*a\.parquet"):
        convert(plan, [sources[0], other], tmp_path / "x.parquet")


def test_a_file_named_twice_stays_twice(rows: Any, tmp_path: Path, write_rows: Any) -> None:
    source = write_rows(rows)
    done = result([source, source], tmp_path / "out.parquet")
    assert [row["extra_info"]["index"] for row in done] == [*range(7), *range(7)]
    assert main(["--train", f"['{source}', '{source}' ]", "--output-dir", str(tmp_path / "o")]) == 0
    assert sorted(path.name for path in (tmp_path / "o").glob("*.parquet")) == ["train_0.parquet", "train_1.parquet"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("org/math@train", r"hf download org/math --repo-type dataset --local-dir data/math.*split train"),
        ("hdfs://host/x.parquet", "on another machine"),
        ("missing/x.parquet", "no such file"),
    ],
)
def test_what_is_not_here(entry: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match=message):
        convert(ConvertPlan(), entry, tmp_path / "out.parquet")


class Trap:
    def __reduce__(self) -> Any:
        return (Path("/tmp/opened_a_pickle").touch, ())  # pragma: no cover - must never run


def test_pickled_frames_are_refused_unopened(tmp_path: Path) -> None:
    frame = tmp_path / "train.pkl"
    frame.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ConvertError, match=r"runs code .* pandas.read_pickle\('train.pkl'\).to_parquet"):
        convert(ConvertPlan(), frame, tmp_path / "out.parquet")
    assert not Path("/tmp/opened_a_pickle").exists()


def test_other_files_and_split_folders_are_refused_by_name(tmp_path: Path, rows: Any) -> None:
    other = tmp_path / "rows.csv"
    other.write_text("a,b")
    with pytest.raises(ConvertError, match=r"\.csv files are not read"):
        convert(ConvertPlan(), other, tmp_path / "out.parquet")
    save_to_disk(rows, tmp_path / "all" / "train")
    save_to_disk(rows, tmp_path / "all" / "test")
    (tmp_path / "all" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(ConvertError, match=r"holds the splits test, train; pass one of them, for example .*all/test"):
        convert(ConvertPlan(), tmp_path / "all", tmp_path / "out.parquet")
    shuffled = save_to_disk(rows, tmp_path / "shuffled", _indices_data_files=[{"filename": "indices.arrow"}])
    with pytest.raises(ConvertError, match="flatten_indices"):
        convert(ConvertPlan(), shuffled, tmp_path / "out.parquet")


def test_a_broken_line_is_named_or_left_out(tmp_path: Path, rows: Any, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.dumps(row) for row in rows]
    lines[2] = lines[2][:-5]
    lines[5] = "[1]"
    source = tmp_path / "rows.jsonl"
    source.write_text("\n".join(lines))
    with pytest.raises(ConvertError, match=r"rows\.jsonl: row group 0, row 2: not JSON"):
        convert(ConvertPlan(), source, tmp_path / "x.parquet")
    code = main(["--train", str(source), "--output-dir", str(tmp_path / "o"), "--on-error", "quarantine"])
    assert code == 0
    assert "2 bad rows were left out" in capsys.readouterr().err
    kept = pq.read_table(tmp_path / "o" / "train.parquet").to_pylist()
    assert [row["extra_info"]["index"] for row in kept] == [0, 1, 3, 4, 6]
    quarantined = [json.loads(line) for line in (tmp_path / "o/train.parquet.quarantine").read_text().splitlines()]
    assert [item["reason"] for item in quarantined] == [
        quarantined[0]["reason"],
        "a JSON list where an object is needed",
    ]
    assert quarantined[0]["row"] == lines[2]


def test_json_lines_with_types_that_differ_by_row(tmp_path: Path, rows: Any) -> None:
    for row, truth in zip(rows, ["a", 1, {"target": ["x"]}, None, [1], True, 2.5], strict=True):
        row["reward_model"]["ground_truth"] = truth
    source = tmp_path / "rows.jsonl"
    source.write_text("\n".join(map(json.dumps, rows)))
    done = convert(ConvertPlan(), source, tmp_path / "train.parquet")
    written = [json.loads(line) for line in (done.target / "part-00000.jsonl").read_text().splitlines()]
    assert [row["label"] for row in written] == ["a", 1, {"target": ["x"]}, None, [1], True, 2.5]
    assert [row["reward_model"] for row in written] == [row["reward_model"] for row in rows]
    assert "reward_model.ground_truth has bool, dict, float, int, list, str values" in done.notes[0]


def test_one_huge_row_group_is_read_in_pieces(write_rows: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A text that repeats is tiny in the file and large in memory: batches shrink once the first was too large."""
    monkeypatch.setattr(sources, "BATCH_BYTES", 1 << 20)
    rows = [
        {"prompt": "x" * 20_000, "reward_model": {"ground_truth": str(index)}, "data_source": "s"}
        for index in range(1500)
    ]
    part = sources.open_part(write_rows(rows))
    sizes = [(chunk.row, chunk.batch.num_rows, chunk.batch.nbytes) for chunk in part.read()]
    assert [start for start, _, _ in sizes] == [
        sum(count for _, count, _ in sizes[:index]) for index in range(len(sizes))
    ]
    assert sum(count for _, count, _ in sizes) == 1500
    assert all(size < 3 << 20 for _, _, size in sizes[1:])
