"""Writes the parquet files that benchmarks/convert.py measures: text, nested chats, pictures; always the same bytes.

    python benchmarks/convert_data.py FOLDER [--scale 1.0] [--only text,chat,images,large]

At scale 1: text has 1,000,000 rows, chat 200,000, images 2 GB; `large` (on demand) is one file of 10 GB of pictures
in row groups of 1 GB.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = {"text": 1_000_000, "chat": 200_000}
PICTURE = 100_000
BYTES = {"images": 2_000_000_000, "large": 10_000_000_000}
GROUP = {"text": 100_000, "chat": 20_000, "images": 2_000, "large": 10_000}
WORDS = [f"{start}{end}" for start in ("ba", "ne", "ko", "ti", "su", "ra") for end in ("n", "s", "r", "lt", "mp", "nd")]


def main() -> None:
    """Write the files that are not there yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", default="text,chat,images")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for kind in options.only.split(","):
        path = options.folder / f"{kind}.parquet"
        if not path.exists():
            write(kind, path, options.scale)
        print(f"{path}: {pq.read_metadata(path).num_rows:,} rows, {path.stat().st_size / 1e6:,.0f} MB")


def write(kind: str, path: Path, scale: float) -> None:
    """Write one file, a row group at a time."""
    make: Callable[[random.Random, int, int], pa.Table] = {"text": text, "chat": chat}.get(kind, pictures)
    total = int(ROWS[kind] * scale) if kind in ROWS else int(BYTES[kind] * scale / PICTURE)
    dice = random.Random(kind)
    writer: pq.ParquetWriter | None = None
    partial = path.with_suffix(".part")
    for start, count in _groups(total, GROUP[kind]):
        table = make(dice, start, count)
        writer = writer or pq.ParquetWriter(partial, table.schema, compression="snappy")
        writer.write_table(table, row_group_size=count)
    if writer is not None:
        writer.close()
    partial.rename(path)


def _groups(total: int, size: int) -> Iterator[tuple[int, int]]:
    for start in range(0, total, size):
        yield start, min(size, total - start)


def sentence(dice: random.Random, words: int) -> str:
    """Text that compresses about as well as prose."""
    return " ".join(dice.choices(WORDS, k=words))


def text(dice: random.Random, start: int, count: int) -> pa.Table:
    """Short questions with a number as the answer, as in GSM8K."""
    return pa.Table.from_pylist(
        [
            {
                "data_source": "openai/gsm8k",
                "prompt": [{"role": "user", "content": sentence(dice, 60)}],
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": str(dice.randrange(10_000))},
                "extra_info": {"split": "train", "index": start + offset, "answer": sentence(dice, 30)},
            }
            for offset in range(count)
        ]
    )


def chat(dice: random.Random, start: int, count: int) -> pa.Table:
    """Several turns, a dictionary as ground truth, arguments of tools three levels deep."""
    return pa.Table.from_pylist(
        [
            {
                "data_source": dice.choice(["search", "code"]),
                "prompt": [
                    {"role": role, "content": sentence(dice, 50)} for role in ("system", "user", "assistant", "user")
                ],
                "ability": "agent",
                "reward_model": {
                    "style": "rule",
                    "ground_truth": {"target": [sentence(dice, 2) for _ in range(dice.randrange(1, 4))]},
                },
                "extra_info": {
                    "index": start + offset,
                    "need_tools_kwargs": True,
                    "tools_kwargs": {"search": {"create_kwargs": {"question": sentence(dice, 10), "ids": [1, 2, 3]}}},
                },
                "agent_name": "tool_agent",
            }
            for offset in range(count)
        ]
    )


def pictures(dice: random.Random, start: int, count: int) -> pa.Table:
    """One picture a row, of bytes that do not compress, as PNG and JPEG do not."""
    return pa.Table.from_pylist(
        [
            {
                "data_source": "hiyouga/geometry3k",
                "prompt": [{"role": "user", "content": f"<image>{sentence(dice, 30)}"}],
                "images": [{"bytes": dice.randbytes(PICTURE), "path": None}],
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": sentence(dice, 1)},
                "extra_info": {"split": "train", "index": start + offset},
            }
            for offset in range(count)
        ],
        schema=PICTURES,
    )


PICTURES = pa.schema(
    [
        ("data_source", pa.string()),
        ("prompt", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
        ("images", pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())]))),
        ("ability", pa.string()),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
        ("extra_info", pa.struct([("split", pa.string()), ("index", pa.int64())])),
    ]
)


if __name__ == "__main__":
    main()
