"""Pictures in every container become lists that Relax opens."""

from __future__ import annotations

import base64
import pickle
import struct
import sys
import types
import zlib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from migrate_tools.data.convert import ConvertError, ConvertPlan, Options, convert

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
PLAN = ConvertPlan(media=(("images", "image"),))


def with_images(rows: Any, *values: Any, text: str = "<image> what?") -> list[dict[str, Any]]:
    made = []
    for row, value in zip(rows, values, strict=False):
        made.append({**row, "prompt": [{"role": "user", "content": text}], "images": value})
    return made


def images(source: Path, target: Path, plan: ConvertPlan = PLAN) -> list[Any]:
    return [row["images"] for row in pq.read_table(convert(plan, source, target).target).to_pylist()]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"bytes": PNG}, [{"bytes": PNG}]),
        ([{"bytes": PNG}], [{"bytes": PNG}]),
        ([{"path": "rel.png"}], [{"path": "{folder}/rel.png"}]),
        (["rel.png"], ["{folder}/rel.png"]),
        ([base64.b64encode(PNG).decode()], ["data:image/png;base64," + base64.b64encode(PNG).decode()]),
        (PNG, [PNG]),
        ('["rel.png"]', ["{folder}/rel.png"]),
    ],
    ids=["dict", "list of dicts", "list of dicts with paths", "paths", "base64", "bytes", "JSON text"],
)
def test_containers(rows: Any, write_rows: Any, tmp_path: Path, value: Any, expected: Any) -> None:
    source = write_rows(with_images(rows, value))
    (source.parent / "rel.png").write_bytes(PNG)
    folder = str(source.parent.resolve())
    for item in expected:
        if isinstance(item, dict) and "path" in item:
            item["path"] = item["path"].format(folder=folder)
    expected = [item.format(folder=folder) if isinstance(item, str) else item for item in expected]
    assert images(source, tmp_path / "out.parquet") == [expected]


def test_two_pictures_and_one_place_name_the_row(rows: Any, write_rows: Any, tmp_path: Path) -> None:
    source = write_rows(with_images(rows, ["a"], ["a", "b"], ["c"]))
    with pytest.raises(ConvertError, match=r"row 1, column images: 2 images and 1 <image>"):
        images(source, tmp_path / "out.parquet")
    done = convert(PLAN, source, tmp_path / "out.parquet", Options(on_error="skip"))
    assert (done.rows, done.bad) == (2, 1)
    none = write_rows(with_images(rows, ["a"], text="no place"))
    with pytest.raises(ConvertError, match=r"1 images and 0 <image>"):
        images(none, tmp_path / "out.parquet")


def test_fewer_pictures_than_places_are_counted(rows: Any, write_rows: Any, tmp_path: Path) -> None:
    done = convert(PLAN, write_rows(with_images(rows, ["http://x/a"], None)), tmp_path / "out.parquet")
    assert done.notes == ("column images: fewer items than <image> in the prompt (1 rows)",)


def test_structured_content_counts_too(rows: Any, write_rows: Any, tmp_path: Path) -> None:
    content = [{"type": "image", "text": None}, {"type": "text", "text": "what?"}]
    row = {**rows[0], "prompt": [{"role": "user", "content": content}], "images": ["http://x/a.png"]}
    assert images(write_rows([row]), tmp_path / "out.parquet") == [["http://x/a.png"]]


def test_missing_paths_are_counted_and_videos_of_frames_resolved(rows: Any, write_rows: Any, tmp_path: Path) -> None:
    made = [
        {**row, "prompt": [{"role": "user", "content": "<video>"}], "clips": [["1.png", "none.png"]]} for row in rows
    ]
    source = write_rows(made)
    (source.parent / "1.png").write_bytes(PNG)
    done = convert(ConvertPlan(media=(("clips", "video"),)), source, tmp_path / "out.parquet")
    first = pq.read_table(done.target).to_pylist()[0]["clips"]
    assert first == [[str((source.parent / "1.png").resolve()), "none.png"]]
    assert done.notes == ("column clips: a relative path names no file beside the data and was left as it is (7 rows)",)


def pil_pickle(mode: str, size: tuple[int, int], pixels: bytes, palette: Any = None) -> bytes:
    """What PIL writes for an image, without PIL: class name and the state of __getstate__."""
    module = types.ModuleType("PIL.Image")
    made = type(
        "Image", (), {"__getstate__": lambda self: [{}, mode, size, palette, pixels], "__module__": "PIL.Image"}
    )
    module.Image = made  # type: ignore[attr-defined]
    stand_ins = {"PIL": types.ModuleType("PIL"), "PIL.Image": module}
    with pytest.MonkeyPatch.context() as patch:
        for name, content in stand_ins.items():
            patch.setitem(sys.modules, name, content)
        return pickle.dumps(made(), protocol=4)


def pixels_of(png: bytes) -> tuple[int, int, bytes]:
    width, height = struct.unpack(">II", png[16:24])
    start = png.index(b"IDAT") + 4
    (length,) = struct.unpack(">I", png[start - 8 : start - 4])
    return width, height, zlib.decompress(png[start : start + length])


def test_pickled_pictures_become_png(rows: Any, write_rows: Any, tmp_path: Path) -> None:
    pickled = pil_pickle("RGB", (2, 1), b"\x01\x02\x03\x04\x05\x06")
    source = write_rows(with_images(rows, [{"bytes": PNG, "path": None}], [{"bytes": pickled, "path": None}]))
    (first,), (second,) = images(source, tmp_path / "out.parquet")
    assert first["bytes"] == PNG
    assert pixels_of(second["bytes"]) == (2, 1, b"\0\x01\x02\x03\x04\x05\x06")


class Other:
    pass


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pickle.dumps(Other()), "Other is no image"),
        (pickle.dumps({"a": 1}), "a pickle that is no PIL image"),
        (pil_pickle("CMYK", (1, 1), b"1234"), "mode CMYK"),
        (pil_pickle("L", (2, 2), b"1"), "do not fit"),
    ],
    ids=["class", "dict", "mode", "size"],
)
def test_other_pickles_are_named_and_not_run(
    rows: Any, write_rows: Any, tmp_path: Path, data: bytes, reason: str
) -> None:
    source = write_rows(with_images(rows, [{"bytes": PNG}], [{"bytes": data}]))
    with pytest.raises(ConvertError, match=rf"row 1, column images: .*{reason}"):
        images(source, tmp_path / "out.parquet")
