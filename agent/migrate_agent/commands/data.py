"""`migrate-agent convert-data`: the converter alone."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from migrate_tools.errors import RefusedInput, UsageError

from migrate_agent.console import progress


@dataclass(frozen=True)
class Request:
    """What to convert, and how."""

    source: str
    destination: Path
    prompt_key: str = "prompt"
    reward_fn_key: str = "data_source"
    media: tuple[tuple[str, str], ...] = ()
    """(column, kind); empty for verl's own names."""
    raw_prompt: bool = False
    flat_label: bool = False
    on_error: Any = "stop"
    format: Any = "auto"
    resume: bool = False
    workers: int | None = None
    shards: int = 1
    ray: bool = False
    ray_address: str | None = None


def convert_data(request: Request) -> int:
    """Converts a file into a file, or a folder or pattern into a folder with the same names below it.

    Raises:
        UsageError: source and destination do not go together.
        RefusedInput: a file is not verl data.
    """
    from migrate_tools.data import convert as converter

    pairs = _pairs(request)
    plan = _plan(request)
    options = converter.Options(request.resume, request.on_error, request.format)
    workers = max(1, min(request.workers or os.cpu_count() or 1, len(pairs)))
    try:
        with progress() as say:
            if request.ray or request.shards > 1:
                run = (
                    converter.ray_runner(request.ray_address)
                    if request.ray
                    else converter.local_runner(request.workers or os.cpu_count() or 1)
                )
                shards = 0 if request.ray and request.shards == 1 else request.shards
                done = converter.convert_parts(plan, pairs, options, run=run, shards=shards, progress=say)
            else:
                done = converter.convert_pairs(plan, pairs, options, progress=say, workers=workers)
    except converter.ConvertError as error:
        raise RefusedInput(str(error)) from error
    for item in done:
        print(f"{item.target}: {item.rows} rows" + (f", {item.bad} bad rows left out" if item.bad else ""))
        for note in item.notes:
            print(f"  {note}")
    return 0


def preview_data(request: Request) -> int:
    """Prints the schemas before and after and three converted rows of every file.

    Raises:
        UsageError: source and destination do not go together.
        RefusedInput: a file is not verl data.
    """
    from migrate_tools.data import convert as converter

    for source, target in _pairs(request):
        try:
            before, after, rows = converter.preview(_plan(request), source)
        except converter.ConvertError as error:
            raise RefusedInput(str(error)) from error
        print(f"# {source} -> {target}\n## before\n{before.remove_metadata()}\n## after\n{after}\n## first rows")
        for row in rows:
            print(json.dumps(row, ensure_ascii=False, default=repr)[:2000])
    return 0


def verify_data(target: Path) -> int:
    """Checks converted files against their manifests; 0 when all hold, else 1.

    Raises:
        RefusedInput: there is no manifest.
    """
    from migrate_tools.data import convert as converter

    try:
        if (target.parent / f"{target.name}.manifest.json").is_file():
            wrong = converter.verify(target)
            print("\n".join(wrong) if wrong else f"{target}: holds")
            return 1 if wrong else 0
        return converter.check_folder(target)
    except converter.ConvertError as error:
        raise RefusedInput(str(error)) from error


def _pairs(request: Request) -> list[Any]:
    from migrate_tools.data import convert as converter

    path = Path(request.source).expanduser()
    if not path.exists() and not any(sign in request.source for sign in "*?[@") and path.suffix:
        raise UsageError(f"{request.source} does not exist", "give verl data: a file, a folder or a pattern")
    suffix = ".jsonl" if request.format == "jsonl" else ".parquet"
    try:
        if request.destination.suffix in (".parquet", ".jsonl"):
            return [(request.source, request.destination)]
        pairs = converter.tree_pairs([request.source], request.destination)
        return [(source, target.with_suffix(suffix)) for source, target in pairs]
    except converter.ConvertError as error:
        raise RefusedInput(str(error)) from error


def _plan(request: Request) -> Any:
    from migrate_tools.data.plan import MEDIA_COLUMNS, ConvertPlan

    return ConvertPlan(
        prompt_key=request.prompt_key,
        reward_fn_key=request.reward_fn_key,
        media=request.media or MEDIA_COLUMNS,
        raw_prompt=request.raw_prompt,
        flat_label=request.flat_label,
    )
