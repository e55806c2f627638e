"""Compares converted rows with their source; job on stdin, answer on stdout, both JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from migrate_tools.data.json_text import decoded

_MOST = 20
ROW_KEYS = ("agent_name", "ability", "tools_kwargs", "interaction_kwargs")
"""Columns that a data set class of the recipe may set."""


def main() -> None:
    """Read the job, compare every pair of files, print problems and facts."""
    job = json.load(sys.stdin)
    problems: list[str] = []
    files = [_pair(pair["source"], pair["output"], job, problems) for pair in job["pairs"]]
    print(json.dumps({"problems": problems[:_MOST], "files": files}))


def _pair(source: str, output: str, job: dict[str, Any], problems: list[str]) -> dict[str, Any]:
    name = Path(output).name
    old, new = _rows(source), _rows(output)
    columns = list(new[0]) if new else []
    if len(old) != len(new):
        problems.append(f"{name}: {len(new)} rows, the source has {len(old)}")
    wanted = [job["input_key"], job["label_key"], job["metadata_key"], *job["media_columns"]]
    lacking = [column for column in wanted if column and new and column not in columns]
    problems.extend(f"{name}: no column {column}, which the script names" for column in lacking)
    if not lacking:
        for number, (before, after) in enumerate(zip(old, new, strict=False)):
            found = list(_row(before, after, job))
            problems.extend(f"{name} row {number}: {text}" for text in found)
            if len(problems) >= _MOST:
                break
    return {"name": name, "rows": len(new), "columns": columns}


def _rows(path: str) -> list[dict[str, Any]]:
    if Path(path).is_dir():  # the converter writes JSON lines into a folder where parquet would change values
        return [row for file in sorted(Path(path).iterdir()) for row in _rows(str(file))]
    if path.endswith(".parquet"):
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            rows: list[dict[str, Any]] = file.read().to_pylist()
        return rows
    from migrate_tools.data.sources import open_part

    if Path(path).name.startswith("part-"):  # written by the converter
        return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    part = open_part(Path(path))  # as verl reads it: absent keys are None
    exact = bool(part.losses)
    return [row for chunk in part.read() for row in (chunk.rows if exact else chunk.batch.to_pylist())]


def _row(before: dict[str, Any], after: dict[str, Any], job: dict[str, Any]) -> Iterator[str]:
    metadata = after[job["metadata_key"]] if job["metadata_key"] else None
    if not isinstance(metadata, dict):
        yield f"{job['metadata_key']} is {type(metadata).__name__}, not a dict"
        metadata = {}
    truth = decoded(before.get("reward_model"))
    if job["label_key"] and isinstance(truth, dict) and "ground_truth" in truth:
        label = after[job["label_key"]]
        if not same(label, truth["ground_truth"]):
            yield f"the label is {label!r}, the ground truth {truth['ground_truth']!r}"
    prompt = before.get(job["source_prompt"])
    if isinstance(after[job["input_key"]], list):
        prompt = decoded(prompt)
    if job["raw_prompt"] and isinstance(prompt, list) and prompt:
        prompt = prompt[0]["content"]
    changed = {*ROW_KEYS, job["source_prompt"]} if job.get("rows_changed") else set()
    if not changed and not same(prompt, after[job["input_key"]]):
        yield "the prompt changed"
    info = decoded(before.get("extra_info"))
    for key, value in info.items() if isinstance(info, dict) else ():
        if not same(metadata.get(key), value):
            yield f"extra_info[{key!r}] changed from {value!r} to {metadata.get(key)!r}"
    said = metadata.get("verl_raw_prompt", metadata.get("raw_prompt"))
    if said is not None and not (isinstance(info, dict) and "raw_prompt" in info) and not same(prompt, said):
        yield "raw_prompt in the metadata is not the prompt"
    source = before.get("data_source")
    expected = isinstance(source, str) and isinstance(info, dict) and "data_source" not in info
    if expected and metadata.get("data_source") != source:
        yield "data_source did not reach the metadata"
    kept = set(before) - {job["source_prompt"], job["label_key"], job["metadata_key"], "extra_info"}
    for column in sorted(kept - changed):
        if column not in after:
            yield f"column {column} was dropped"
        elif not same(before[column], after[column]) and not same(decoded(before[column]), after[column]):
            yield f"column {column} changed"


def same(left: Any, right: Any) -> bool:
    """Equality that tells 1 from 1.0 and from True, and holds NaN equal to NaN."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return bool(left == right)


if __name__ == "__main__":
    main()
