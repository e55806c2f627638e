"""Options of `migrate-agent convert-data`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class OnError(StrEnum):
    """What a row does that cannot be converted."""

    stop = "stop"
    skip = "skip"
    quarantine = "quarantine"


class DataFormat(StrEnum):
    """What is written."""

    auto = "auto"
    parquet = "parquet"
    jsonl = "jsonl"


class Engine(StrEnum):
    """Where rows are converted."""

    local = "local"
    ray = "ray"


def convert_data(
    source: Annotated[str, typer.Argument(help="verl data: file, folder or pattern.", show_default=False)],
    destination: Annotated[Path, typer.Argument(help="File or folder to write.", show_default=False)],
    prompt_key: Annotated[str, typer.Option(help="Column with the prompt.")] = "prompt",
    reward_fn_key: Annotated[str, typer.Option(help="Column that names the data source.")] = "data_source",
    image_key: Annotated[list[str] | None, typer.Option(help="Column with images; repeatable.")] = None,
    video_key: Annotated[list[str] | None, typer.Option(help="Column with videos; repeatable.")] = None,
    audio_key: Annotated[list[str] | None, typer.Option(help="Column with audio; repeatable.")] = None,
    raw_prompt: Annotated[bool, typer.Option("--raw-prompt", help="Text of the first message, no template.")] = False,
    flat_label: Annotated[bool, typer.Option("--flat-label", help="Labels as text, for built-in rewards.")] = False,
    on_error: Annotated[OnError, typer.Option(help="What a bad row does.")] = OnError.stop,
    format: Annotated[DataFormat, typer.Option(help="auto: parquet, where it holds the values.")] = DataFormat.auto,
    resume: Annotated[bool, typer.Option("--resume", help="Skip complete files of unchanged sources.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show schemas and three rows.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Check DST against its manifests; SRC is not read.")] = False,
    workers: Annotated[int | None, typer.Option(help="Files at a time; else one a core.")] = None,
    shards: Annotated[int, typer.Option(help="Most files that one target is cut into.")] = 1,
    engine: Annotated[Engine, typer.Option(help="ray: a Ray Data job.")] = Engine.local,
    ray_address: Annotated[str | None, typer.Option(help="Address of the Ray cluster.")] = None,
) -> int:
    """Convert verl data to the columns that Relax reads."""
    from migrate_agent.commands import data as command

    media = [(name, "image") for name in image_key or ()]
    media += [(name, "video") for name in video_key or ()]
    media += [(name, "audio") for name in audio_key or ()]
    request = command.Request(
        source=source,
        destination=destination,
        prompt_key=prompt_key,
        reward_fn_key=reward_fn_key,
        media=tuple(media),
        raw_prompt=raw_prompt,
        flat_label=flat_label,
        on_error=on_error.value,
        format=format.value,
        resume=resume,
        workers=workers,
        shards=shards,
        ray=engine is Engine.ray,
        ray_address=ray_address,
    )
    if verify:
        return command.verify_data(destination)
    return command.preview_data(request) if dry_run else command.convert_data(request)
