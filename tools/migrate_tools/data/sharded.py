"""One target in several files: converted side by side on this machine, or as a Ray Data job on several.

A target of more than one part is a folder of its name with part-00000.parquet and so on, which Relax reads like a file
(redai-studio/Relax relax/utils/data/data_utils.py expands folders, sorted).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from migrate_tools.data.columns import Layout
from migrate_tools.data.flow import Say
from migrate_tools.data.output import Converted, check_space, hash_file, source_facts
from migrate_tools.data.pipeline import (
    GROWTH,
    SPARE,
    Job,
    Options,
    Written,
    finish,
    remove,
    result_of,
    write_groups,
)
from migrate_tools.data.plan import ConvertError, ConvertPlan, Remarks
from migrate_tools.data.rowmap import ROW_FUNCTION, mapped
from migrate_tools.data.shape import Shape
from migrate_tools.data.sources import open_part

SHARD_BYTES = 1 << 30


@dataclass(frozen=True)
class Task:
    """Some row groups of the sources of a target, for a process that has nothing open yet."""

    plan: ConvertPlan
    files: tuple[str, ...]
    decoded: tuple[dict[str, Shape], ...]
    lines: tuple[tuple[str, ...], ...]
    """Remarks of the first look."""
    schemas: tuple[Any, ...]
    schema: Any
    as_lines: bool
    groups: tuple[tuple[int, int], ...]
    """First row group and the one after the last, for every source."""
    path: str
    options: Options


Runner = Callable[[Sequence[Task]], Iterable[Written]]


def convert_sharded(jobs: Sequence[Job], options: Options, shards: int, run: Runner, say: Say) -> list[Converted]:
    """Convert several targets, each cut into at most `shards` parts (0: one for every GiB).

    Raises:
        ConvertError: one of them cannot be converted; nothing is left under its name then.
    """
    partials = [job.target.with_name(f".{job.target.name}.parts") for job in jobs]
    tasks: list[Task] = []
    counts: list[int] = []
    try:
        for job, partial in zip(jobs, partials, strict=True):
            job.target.parent.mkdir(parents=True, exist_ok=True)
            size = sum(layout.part.size for layout in job.layouts)
            if options.space_check:
                needed = int(size * GROWTH) + SPARE
                check_space(job.target.parent, needed, lambda folder: shutil.disk_usage(folder).free)
            remove(partial)
            partial.mkdir()
            made = plan_tasks(job, options, shards or -(-size // SHARD_BYTES), partial)
            tasks += made
            counts.append(len(made))
        written = iter(sorted(run(tasks), key=lambda item: order[item.name]) if (order := _order(tasks)) else ())
        results = []
        for job, partial, count in zip(jobs, partials, counts, strict=True):
            parts = [next(written) for _ in range(count)]
            results.append(_put(job, partial, parts, say))
    finally:
        for partial in partials:
            remove(partial)
    return results


def _order(tasks: Sequence[Task]) -> dict[str, int]:
    return {task.path: index for index, task in enumerate(tasks)}


def _put(job: Job, partial: Path, parts: list[Written], say: Say) -> Converted:
    read = sum(item.read for item in parts)
    if job.rows is not None and read != job.rows:
        raise ConvertError(f"{job.files[0]}: {job.rows} rows were there and {read} were read; report this")
    facts = source_facts(job.files)
    for item in facts:
        path = Path(item["path"])
        files = sorted(path.glob("*.arrow")) if path.is_dir() else [path]
        item["sha256"] = ",".join(hash_file(file) for file in files)
    whole = partial / Path(parts[0].name).name if len(parts) == 1 and not job.lines else partial
    names = [job.target.name if whole != partial else Path(item.name).name for item in parts]
    parts = [replace(item, name=name) for item, name in zip(parts, names, strict=True)]
    finish(job, parts, facts, whole, say)
    return result_of(job, parts)


def plan_tasks(job: Job, options: Options, shards: int, folder: Path) -> list[Task]:
    """Cut the row groups of all sources, in order, into runs of about equal length."""
    places = [(index, group) for index, layout in enumerate(job.layouts) for group in range(layout.part.groups)]
    count = max(1, min(shards, len(places)))
    tasks = []
    for number in range(count):
        run = places[len(places) * number // count : len(places) * (number + 1) // count]
        groups = []
        for index in range(len(job.layouts)):
            mine = [group for place, group in run if place == index]
            groups.append((mine[0], mine[-1] + 1) if mine else (0, 0))
        name = f"part-{number:05}.{'jsonl' if job.lines else 'parquet'}"
        tasks.append(
            Task(
                plan=job.plan,
                files=tuple(str(layout.part.path) for layout in job.layouts),
                decoded=tuple(layout.decoded for layout in job.layouts),
                lines=tuple(tuple(layout.remarks.lines) for layout in job.layouts),
                schemas=tuple(layout.schema for layout in job.layouts),
                schema=job.schema,
                as_lines=job.lines,
                groups=tuple(groups),
                path=str(folder / name),
                options=options,
            )
        )
    return tasks


def run_task(task: Task) -> Written:
    """Convert the row groups of a task into its file.

    Raises:
        ConvertError: a row is bad, or a source cannot be read.
    """
    layouts = []
    for path, decoded, lines, schema in zip(task.files, task.decoded, task.lines, task.schemas, strict=True):
        part = mapped(open_part(Path(path)), ROW_FUNCTION if task.plan.row_function else None)
        names = part.schema.names
        media = tuple(pair for pair in task.plan.media if pair[0] in names or task.plan.media_always)
        layouts.append(Layout(part, task.plan, decoded, Remarks(dict.fromkeys(lines)), [], media, schema))
    job = Job(task.plan, Path(task.path), tuple(map(Path, task.files)), layouts, task.schema, task.as_lines)
    groups = [range(start, stop) for start, stop in task.groups]
    return write_groups(job, Path(task.path), task.path, task.options, groups=groups)


def local_runner(workers: int) -> Runner:
    """Tasks in threads of this process; Arrow works outside Python's lock."""

    def run(tasks: Sequence[Task]) -> Iterable[Written]:
        with ThreadPoolExecutor(max(1, workers)) as pool:
            yield from pool.map(run_task, tasks)

    return run


def ray_runner(address: str | None) -> Runner:
    """Tasks as a Ray Data job; sources and output must lie on storage that every machine mounts at the same path.

    Raises:
        ConvertError: Ray is not installed.
    """
    try:
        import ray
        import ray.data
        from ray import cloudpickle
    except ImportError as error:
        raise ConvertError("--engine ray needs Ray: pip install 'ray[data]'") from error

    def packed(row: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"result": cloudpickle.dumps(run_task(cloudpickle.loads(row["task"])))}
        except ConvertError as error:
            return {"result": cloudpickle.dumps(str(error))}

    def run(tasks: Sequence[Task]) -> Iterable[Written]:
        if not ray.is_initialized():
            ray.init(address=address, log_to_driver=False, logging_level=40)
        ray.data.DataContext.get_current().enable_progress_bars = False
        items = [{"task": cloudpickle.dumps(task)} for task in tasks]
        data = ray.data.from_items(items, override_num_blocks=len(items))
        for row in data.map(packed).take_all():
            found = cloudpickle.loads(row["result"])
            if isinstance(found, str):
                raise ConvertError(found)
            yield found

    return run
