"""Converts verl training data to the columns that Relax reads, and keeps every column that was there.

Reads parquet, JSON lines, JSON, Arrow files and data sets saved to disk; writes parquet in small row groups, streaming,
so that memory stays bounded. A file appears under its name only when it is complete, its manifest beside it. Columns:

- prompt: the prompt column of the recipe; where verl applied no chat template, the text of its first message
- label: reward_model.ground_truth, of whatever type
- extra_info: a struct of the former extra_info and of data_source, ability, style, tools_kwargs, interaction_kwargs and
  agent_name where the file has them (called verl_data_source and so on where extra_info has such a key of its own)
- images, videos, audio: always a list of what Relax opens
- every other column unchanged; one whose name is needed above is kept as verl_<name>
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from migrate_tools.data.columns import transform
from migrate_tools.data.flow import Say
from migrate_tools.data.output import Converted, data_files_of, manifest_path, verify
from migrate_tools.data.pipeline import Options, complete_job, open_job, run_job
from migrate_tools.data.plan import ConvertError, ConvertPlan, Remarks
from migrate_tools.data.selection import Sample, masks
from migrate_tools.data.sharded import Runner, convert_sharded, local_runner, ray_runner
from migrate_tools.data.sources import find_files

__all__ = [
    "ConvertError",
    "ConvertPlan",
    "Converted",
    "Options",
    "check_folder",
    "convert",
    "convert_pairs",
    "convert_parts",
    "convert_tree",
    "local_runner",
    "main",
    "preview",
    "ray_runner",
    "tree_pairs",
    "verify",
]

Sources = Path | str | Sequence[Path | str]
Pair = tuple[Sources, Path]


DEFAULTS = Options()


def quiet(line: str) -> None:
    """Says nothing."""


def convert(
    plan: ConvertPlan,
    source: Sources,
    target: Path,
    options: Options = DEFAULTS,
    progress: Say = quiet,
    mask: bytearray | None = None,
) -> Converted:
    """Convert one source (a file, folder, pattern, or several of them in order) into one target.

    Args:
        mask: a byte for every row of the source, 1 where it is kept.

    Raises:
        ConvertError: it cannot be converted; nothing is left under `target` then.
    """
    if options.resume:
        earlier = complete_job(plan, sources_of(source), target, mask)
        if earlier is not None:
            return earlier
    return run_job(open_job(plan, sources_of(source), target, options.format, mask), options, progress)


def sources_of(source: Sources) -> list[Path | str]:
    """One source or several as a list."""
    return [source] if isinstance(source, str | Path) else list(source)


def convert_pairs(
    plan: ConvertPlan,
    pairs: Sequence[Pair],
    options: Options = DEFAULTS,
    *,
    progress: Say = quiet,
    workers: int = 1,
    kept: Sequence[bytearray | None] = (),
) -> list[Converted]:
    """Convert (source, target) pairs, several at a time; the results are in order.

    Args:
        kept: for every pair which rows, as `convert` takes them.

    Raises:
        ConvertError: one of them cannot be converted; those before it are complete.
    """
    done: list[Converted] = []
    with ThreadPoolExecutor(max(1, workers)) as pool:
        running = [
            pool.submit(convert, plan, source, target, options, progress, mask)
            for (source, target), mask in zip(pairs, kept or [None] * len(pairs), strict=True)
        ]
        try:
            for future in running:
                done.append(future.result())
                tell(done[-1], progress)
        finally:
            pool.shutdown(cancel_futures=True)
    return done


def tell(result: Converted, progress: Say) -> None:
    """Say what became of one source."""
    there = " (there already)" if result.skipped else ""
    progress(f"{result.source} -> {result.target}: {result.rows:,} rows{there}")
    for note in result.notes:
        progress(f"  note: {note}")


def convert_parts(
    plan: ConvertPlan,
    pairs: Sequence[Pair],
    options: Options = DEFAULTS,
    *,
    run: Runner,
    shards: int = 0,
    progress: Say = quiet,
) -> list[Converted]:
    """Convert (source, target) pairs whose parts `run` converts, here or elsewhere; the results are in order.

    Args:
        shards: most parts a target; 0 for one a GiB.

    Raises:
        ConvertError: one of them cannot be converted.
    """
    earlier: dict[int, Converted] = {}
    jobs = []
    for number, (source, target) in enumerate(pairs):
        sources = sources_of(source)
        found = complete_job(plan, sources, target) if options.resume else None
        if found is not None:
            earlier[number] = found
        else:
            jobs.append(open_job(plan, sources, target, options.format))
    fresh = iter(convert_sharded(jobs, options, shards, run, progress) if jobs else [])
    results = [earlier[number] if number in earlier else next(fresh) for number in range(len(pairs))]
    for result in results:
        tell(result, progress)
    return results


def convert_tree(
    plan: ConvertPlan,
    sources: Sequence[Path],
    output_dir: Path,
    options: Options = DEFAULTS,
    *,
    progress: Say = quiet,
    workers: int = 1,
) -> list[Converted]:
    """Convert every file below the sources; a file keeps its name relative to the folder it was found in.

    Raises:
        ConvertError: no such file, none found, two of one name, or one that cannot be converted.
    """
    return convert_pairs(plan, tree_pairs(sources, output_dir), options, progress=progress, workers=workers)


def preview(plan: ConvertPlan, source: Sources, rows: int = 3) -> tuple[Any, Any, list[dict[str, Any]]]:
    """Schema before, schema after and the first converted rows.

    Raises:
        ConvertError: it cannot be converted.
    """
    job = open_job(plan, sources_of(source), Path(os.devnull), "auto")
    layout = job.layouts[0]
    before, after = layout.part.schema, job.schema
    for chunk in layout.part.read():
        batch, _ = transform(layout, chunk, Remarks())
        return before, after, batch.slice(0, rows).to_pylist()
    return before, after, []


def tree_pairs(sources: Sequence[Path | str], output_dir: Path) -> list[Pair]:
    """(file, target) of every file below the sources.

    Raises:
        ConvertError: there is none, or two would get one name.
    """
    pairs: list[tuple[Path, Path]] = []
    for source in sources:
        files = find_files(source, output_dir)
        top = Path(source) if Path(source).is_dir() and files != [Path(source)] else None
        for file in files:
            inner = file.relative_to(top) if top else Path(file.name)
            pairs.append((file, output_dir / inner.with_name(f"{inner.stem}.parquet")))
    if not pairs:
        raise ConvertError(f"no parquet file in {', '.join(map(str, sources))}; run the data preparation first")
    targets = [target for _, target in pairs]
    twice = next((target for target in targets if targets.count(target) > 1), None)
    if twice is not None:
        raise ConvertError(f"two files would be written to {twice}; convert them into folders of their own")
    return list(pairs)


def split_pairs(train: Sequence[str], val: Sequence[str], output_dir: Path) -> list[Pair]:
    """train.parquet, or train_0.parquet, train_1.parquet ... when there are several; val likewise."""
    pairs: list[Pair] = []
    for split, entries in (("train", listed(train)), ("val", listed(val))):
        single = len(entries) == 1
        names = [f"{split}.parquet"] if single else [f"{split}_{index}.parquet" for index in range(len(entries))]
        pairs += [(entry, output_dir / name) for entry, name in zip(entries, names, strict=True)]
    return pairs


def listed(entries: Sequence[str]) -> list[str]:
    """Entries as they are; `[a, 'b']` as its items."""
    found: list[str] = []
    for entry in entries:
        text = entry.strip()
        if text.startswith("[") and text.endswith("]") and not Path(text).exists():
            items = [item.strip().strip("\"'").strip() for item in text[1:-1].split(",")]
            found += [item for item in items if item]
        else:
            found.append(text)
    return found


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    made.add_argument("--train", nargs="+", default=[], metavar="FILE", help="becomes train[_i].parquet")
    made.add_argument("--val", nargs="+", default=[], metavar="FILE", help="becomes val[_i].parquet")
    made.add_argument("--input-dir", nargs="+", default=[], metavar="DIR_OR_FILE", help="keep their names")
    made.add_argument("--output-dir", type=Path, required=True, metavar="DIR")
    made.add_argument("--resume", action="store_true", help="skip complete files whose source is unchanged")
    made.add_argument("--dry-run", action="store_true", help="show the schemas and three rows; write nothing")
    made.add_argument("--verify", action="store_true", help="check the files of --output-dir against their manifests")
    made.add_argument(
        "--on-error",
        choices=("stop", "skip", "quarantine"),
        default="stop",
        help="what a bad row does; quarantine keeps it in FILE.quarantine",
    )
    made.add_argument(
        "--format",
        choices=("auto", "parquet", "jsonl"),
        default="auto",
        help="auto: parquet, except where its types would change values",
    )
    made.add_argument("--train-max-samples", type=int, default=-1, metavar="N", help="rows kept of all --train files")
    made.add_argument("--val-max-samples", type=int, default=-1, metavar="N", help="rows kept of all --val files")
    made.add_argument("--draw-samples", action="store_true", help="draw them as verl does, instead of the first ones")
    made.add_argument("--sample-seed", type=int, metavar="N", help="data.seed of the recipe")
    made.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="files converted at a time")
    made.add_argument("--shards", type=int, metavar="N", help="cut a target into up to N files in a folder of its name")
    made.add_argument("--engine", choices=("local", "ray"), default="local", help="ray: a Ray Data job on a cluster")
    made.add_argument("--ray-address", metavar="ADDRESS", help="of the cluster; else one is started here")
    made.add_argument(
        "--no-row-function",
        action="store_true",
        help="leave rows as they are where the recipe changes them",
    )
    made.add_argument("--no-space-check", action="store_true", help="write even where the disk may run full")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns 0, 1 when --verify finds a fault, or 2 with one line on stderr."""
    arguments = parser()
    given = arguments.parse_args(argv)
    try:
        if given.verify:
            return check_folder(given.output_dir)
        pairs = split_pairs(given.train, given.val, given.output_dir)
        pairs += tree_pairs(given.input_dir, given.output_dir) if given.input_dir else []
        if not pairs:
            arguments.error("name the files with --train and --val, or a folder with --input-dir")
        plan = ConvertPlan(row_function=not given.no_row_function)
        if given.dry_run:
            show(plan, pairs)
            return 0
        limited = max(given.train_max_samples, given.val_max_samples) > 0
        if limited and (given.engine == "ray" or (given.shards or 1) > 1):
            raise ConvertError("a limit on the rows does not go with --shards or --engine ray; leave one of them away")
        if given.format == "jsonl":
            pairs = [(source, target.with_suffix(".jsonl")) for source, target in pairs]
        options = Options(given.resume, given.on_error, given.format, space_check=not given.no_space_check)
        if given.engine == "ray":
            run = ray_runner(given.ray_address)
            convert_parts(plan, pairs, options, run=run, shards=given.shards or 0, progress=say)
        elif (given.shards or 1) > 1:
            run = local_runner(given.workers)
            convert_parts(plan, pairs, options, run=run, shards=given.shards, progress=say)
        else:
            workers = min(given.workers, len(pairs))
            convert_pairs(plan, pairs, options, progress=say, workers=workers, kept=limits(given, pairs))
    except ConvertError as error:
        say(f"error: {error}")
        return 2
    return 0


def limits(given: argparse.Namespace, pairs: Sequence[Pair]) -> list[bytearray | None]:
    """Which rows of every pair are kept under --train-max-samples and --val-max-samples."""
    train, val = len(listed(given.train)), len(listed(given.val))
    found: list[bytearray | None] = []
    for count, rows in ((train, given.train_max_samples), (val, given.val_max_samples)):
        mine = [sources_of(source) for source, _ in pairs[len(found) : len(found) + count]]
        found += masks(mine, Sample(rows, given.draw_samples, given.sample_seed)) if rows > 0 else [None] * count
    return found + [None] * (len(pairs) - len(found))


def check_folder(folder: Path) -> int:
    """Verify every converted file of a folder; 0 when all hold, else 1."""
    manifests = sorted(folder.rglob("*.manifest.json"))
    if not manifests:
        raise ConvertError(f"{folder}: holds no converted file with a manifest; convert the data first")
    faults = 0
    for path in manifests:
        target = path.with_name(path.name.removesuffix(".manifest.json"))
        wrong = verify(target)
        faults += len(wrong)
        for line in wrong or [f"{target}: holds ({len(data_files_of(target))} file, {manifest_path(target).name})"]:
            print(line)
    return 1 if faults else 0


def show(plan: ConvertPlan, pairs: Sequence[Pair]) -> None:
    """Print the schemas and three rows of every pair."""
    for source, target in pairs:
        before, after, rows = preview(plan, source)
        print(f"# {source} -> {target}\n## before\n{before.remove_metadata()}\n## after\n{after}\n## first rows")
        for row in rows:
            print(json.dumps(row, ensure_ascii=False, default=repr)[:2000])


def say(line: str) -> None:
    """A line on stderr; one that ends in a carriage return gives way to the next on a terminal."""
    if not sys.stderr.isatty():
        print(line.rstrip("\r"), file=sys.stderr, flush=True)
    elif line.endswith("\r"):
        print(f"\r\x1b[K{line[:-1]}", end="", file=sys.stderr, flush=True)
    else:
        print(f"\r\x1b[K{line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
