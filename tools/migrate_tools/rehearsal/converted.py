"""The recipe's rows through the example's own converter, in the sandbox."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from migrate_tools.model import DataFile, DataSpec, Example, Launch
from migrate_tools.rehearsal.stage import build_tree, fresh
from migrate_tools.sandbox import PYTHON, Job, Limits, Mount, Outcome, Sandbox, python_env, python_mounts

HEAD_ROWS = 1000
"""Of a longer file only so many rows are converted and rehearsed."""
SECONDS = 120.0
_BARE_ROW = {
    "data_source": "unknown",
    "prompt": [{"role": "user", "content": "What is 1 + 1?"}],
    "reward_model": {"style": "rule", "ground_truth": "2"},
    "extra_info": {"index": 0},
}


@dataclass(frozen=True)
class Source:
    """One input file of the converter."""

    split: str
    name: str
    """File name below `source/`."""
    output: str
    """File name that the converter must write."""
    made_up: bool
    head_only: bool


@dataclass(frozen=True)
class Converted:
    """What the converter made of the rows."""

    folder: Path
    """Holds `source/` and `data/<algo>/`."""
    sources: tuple[Source, ...]
    script: str
    outcome: Outcome | None
    """None when the example has no conversion script."""

    @property
    def ok(self) -> bool:
        """Whether the converter ended well and wrote every file."""
        return self.outcome is not None and self.outcome.returncode == 0 and not self.missing

    @property
    def missing(self) -> tuple[str, ...]:
        """Files that should have been written and were not."""
        algo = self.script.removeprefix("scripts/tools/process_").removesuffix(".py")
        return tuple(item.output for item in self.sources if not (self.folder / "data" / algo / item.output).exists())

    @property
    def made_up(self) -> bool:
        """Whether the rows are ours, because the recipe has none at hand."""
        return any(item.made_up for item in self.sources)


def convert_data(example: Example, launch: Launch, *, sandbox: Sandbox, place: Path) -> Converted:
    """Run scripts/tools/process_<algo>.py on the launch's files (their first rows when long), or on made-up rows.

    Args:
        place: folder for this launch; emptied first.
    """
    fresh(place)
    script = f"scripts/tools/process_{example.algo}.py"
    sources = _sources(launch.data, fresh(place / "source"))
    if all(item.path != script for item in example.files):
        return Converted(place, sources, script, None)
    build_tree(place / "relax", example)
    (place / "data").mkdir()
    argv = [PYTHON, script]
    for split in ("train", "val"):
        names = [f"/work/source/{item.name}" for item in sources if item.split == split]
        argv += [f"--{split}", *names] if names else []
    argv += ["--output-dir", f"/work/data/{example.algo}"]
    if launch.data.row_code and any(item.made_up for item in sources):
        argv.append("--no-row-function")  # made-up rows are as the trainer sees them
    outcome = sandbox.run(
        Job(
            argv=tuple(argv),
            mounts=(*python_mounts(), Mount(place, "/work", writable=True)),
            cwd="/work/relax",
            env=python_env(),
            limits=Limits(seconds=SECONDS, memory_mb=4096),
        )
    )
    return Converted(place, sources, script, outcome)


def _sources(data: DataSpec, folder: Path) -> tuple[Source, ...]:
    """Input files below `folder`; where the recipe has none at hand, made-up ones."""
    found: list[Source] = []
    for split, files in (("train", data.train), ("val", data.val)):
        wanted: Sequence[DataFile | None] = files or ([None] if split == "train" else [])
        for number, file in enumerate(wanted):
            stem = split if len(wanted) == 1 else f"{split}_{number}"
            local = Path(file.path) if file is not None and file.path else None
            name = stem + (local.suffix if local is not None else ".parquet")
            if local is None:
                _write_rows(data.example_rows or (_BARE_ROW,), folder / name)
                head = False
            else:
                head = _copy_head(local, folder / name)
            found.append(Source(split, name, f"{stem}.parquet", local is None, head))
    return tuple(found)


def _copy_head(source: Path, target: Path) -> bool:
    """Copy a file, a long parquet file only its first rows; whether it was cut."""
    if source.suffix == ".jsonl":
        with source.open("rb") as lines, target.open("wb") as out:
            for number, line in enumerate(lines):
                if number >= HEAD_ROWS:
                    return True
                out.write(line)
        return False
    if source.suffix != ".parquet":
        shutil.copyfile(source, target)
        return False
    import pyarrow.parquet as pq

    with pq.ParquetFile(source) as file:
        if file.metadata.num_rows <= HEAD_ROWS:
            shutil.copyfile(source, target)
            return False
        with pq.ParquetWriter(target, file.schema_arrow) as writer:
            left = HEAD_ROWS
            for batch in file.iter_batches(batch_size=HEAD_ROWS):
                writer.write_batch(batch.slice(0, left))
                left -= min(left, batch.num_rows)
                if not left:
                    break
    return True


def _write_rows(rows: Sequence[dict[str, Any]], target: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(list(rows)), target)
