"""Writes the parquet files of the synthetic recipes; the files are committed.

python tests/recipes/make_data.py
"""

from __future__ import annotations

import runpy
import struct
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent


def row(source: str, truth: Any, index: int, question: str = "") -> dict[str, Any]:
    """One row as verl's preparation scripts write it."""
    return {
        "data_source": source,
        "prompt": [{"role": "user", "content": question or f"Question {index}?"}],
        "ability": "test",
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {"split": "train", "index": index},
    }


def png(width: int, height: int, seed: int) -> bytes:
    """A grey picture whose pixels all differ from their neighbours."""
    lines = (bytes([0, *((x * 3 + y * 5 + seed * 17) % 256 for x in range(width))]) for y in range(height))
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(b"".join(lines)))]
    chunks = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in [*parts, (b"IEND", b"")]
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def plain(source: str = "synthetic", count: int = 16) -> list[dict[str, Any]]:
    """Rows whose truth is a small number as text."""
    return [row(source, str(index * 3), index) for index in range(count)]


def templated(count: int = 16) -> list[dict[str, Any]]:
    """Rows of a fork: the prompt carries its chat markers, the truth is a dict."""
    text = "<|im_start|>user\nRiddle {}? Put it between <answer> tags.<|im_end|>\n<|im_start|>assistant\n"
    rows = [row("riddle", {"solution": str(index * 3)}, index, text.format(index)) for index in range(count)]
    return [{**item, "quiz": "a column that nobody reads"} for item in rows]


TRAPS: dict[str, list[dict[str, Any]]] = {
    "r01_mixed_returns": [row("src_a" if index % 2 else "src_b", str(index), index) for index in range(4)],
    "r02_signal_timeout": [row("math", text, i) for i, text in enumerate(["\\frac{1}{2}", "3", "x+1", "12"])],
    "r03_unmatched_source": plain("/home/me/data/gsm8k", 6) + plain("", 2) + plain("mirror/gsm8k", 3),
    "r04_parameters": plain(),
    "r05_async": plain(),
    "r06_hanging": [
        *plain(count=4),
        row("synthetic", "while True: pass", 4),
        row("synthetic", "import os\nos.system('sleep 3600.06')", 5),
    ],
    "r08_reward_key": plain(),
    "r09_special_tokens": plain(),
    "r09_old_fork": templated(),
    "r15_metadata": [
        row("exact", {"target": [str(index)]}, index)
        if index % 2
        else row("any_of", {"target": ["a", str(index)]}, index)
        for index in range(8)
    ],
    "r17_batch_units": plain(),
    "r18_comment": plain(),
    "r21_kl": plain(),
    "r21_kl_old": plain("openai/gsm8k"),
    "r22_prefixes": plain(),
    "r24_colliding_kwargs": plain(),
    "r30_schedule": plain(),
    "algorithms": plain(),
    "tools_checker": [
        {
            **row("synthetic", str(index), index),
            "extra_info": {
                "index": index,
                "tools_kwargs": {"check_answer": {"create_kwargs": {"ground_truth": str(index)}}},
            },
        }
        for index in range(16)
    ],
    "tools_zoom": [
        {
            **row("synthetic", str(index), index, "<image>What stands in the corner?"),
            "images": [{"bytes": png(120 + 8 * index, 90, index), "path": None}],
            "agent_name": "tool_agent",
        }
        for index in range(8)
    ],
    "user_quiz": [
        {
            **row("synthetic", str(index), index),
            "extra_info": {"index": index, "interaction_kwargs": {"name": "teacher", "ground_truth": str(index)}},
        }
        for index in range(16)
    ],
}


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """A parquet file whose bytes depend on the rows alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def main() -> None:
    """All files of all recipes; r23_quoting has none on purpose."""
    for name, rows in TRAPS.items():
        for split in ("train", "test"):
            write(HERE / name / "data" / f"{split}.parquet", rows)
    labels = HERE / "r15_metadata" / "data"
    write(labels / "strings.parquet", [row("exact_text", str(index), index) for index in range(8)])
    write(labels / "dicts.parquet", [row("any_of", {"target": ["a", str(index)]}, index) for index in range(8)])
    sums = [row("sums", str(2 * n), n, f"What is {n} + {n}? End with Answer: <number>.") for n in range(16)]
    write(HERE / "own_loop" / "data" / "train.parquet", [{**item, "hint": "It is even."} for item in sums])
    write(HERE / "graph_loop" / "data" / "train.parquet", sums)
    raw = [{"question": f"{index} times 3?", "answer": f"#### {index * 3}"} for index in range(4)]
    write(HERE / "r04_parameters" / "data" / "raw.parquet", raw)
    runpy.run_path(str(HERE / "quickstart" / "prepare_data.py"), run_name="__main__")


if __name__ == "__main__":
    main()
