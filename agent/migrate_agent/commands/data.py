"""`migrate-agent convert-data`: the parquet converter alone."""

from __future__ import annotations

from pathlib import Path

from migrate_tools.errors import RefusedInput, UsageError

from migrate_agent.console import progress


def convert_data(
    source: Path, destination: Path, *, prompt_key: str, reward_fn_key: str, image_keys: tuple[str, ...] = ()
) -> int:
    """Converts a file into a file, or a folder into a folder with the same names below it.

    Raises:
        UsageError: source and destination do not go together.
        RefusedInput: a file is not verl data.
    """
    from migrate_tools.data.convert import ConvertError, ConvertPlan, convert_pairs, convert_tree
    from migrate_tools.data.plan import MEDIA_COLUMNS

    if not source.exists():
        raise UsageError(f"{source} does not exist", "give a verl parquet file or a folder with such files")
    media = tuple((name, "image") for name in image_keys) or MEDIA_COLUMNS
    plan = ConvertPlan(prompt_key, reward_fn_key, media)
    is_one = source.is_file() and destination.suffix == ".parquet"
    try:
        with progress() as say:
            if is_one:
                done = convert_pairs(plan, [(source, destination)], progress=say)
            else:
                done = convert_tree(plan, [source], destination, progress=say)
    except ConvertError as error:
        raise RefusedInput(str(error)) from error
    for item in done:
        print(f"{item.target}: {item.rows} rows")
    return 0
