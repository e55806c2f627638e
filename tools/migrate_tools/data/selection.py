"""Only some rows of the sources, the ones that verl would train on under data.train_max_samples.

verl takes the first rows over all files, or, where it shuffles, those that numpy.random.default_rng(seed).choice draws
(verl 0.9.1 verl/utils/dataset/rl_dataset.py:185). The same rows are kept here, in the order of the files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from migrate_tools.data.plan import ConvertError
from migrate_tools.data.sources import Chunk, Part, find_files, open_part


@dataclass(frozen=True)
class Sample:
    """How many rows of a split, and whether they are drawn."""

    rows: int
    drawn: bool = False
    seed: int | None = None


def masks(sources: Sequence[Sequence[str | Path]], sample: Sample) -> list[bytearray | None]:
    """For every target, a byte a row: 1 where it is kept; None where all of it is.

    Args:
        sources: what each target of the split is made of, in order.

    Raises:
        ConvertError: a source cannot be read, or rows are to be drawn and numpy is missing.
    """
    counts = [sum(rows_of(file) for source in target for file in find_files(source)) for target in sources]
    total = sum(counts)
    if sample.rows <= 0 or sample.rows >= total:
        return [None] * len(counts)
    whole = bytearray(total)
    if sample.drawn:
        for number in _drawn(total, sample):
            whole[number] = 1
    else:
        whole[: sample.rows] = b"\1" * sample.rows
    starts = [sum(counts[:index]) for index in range(len(counts))]
    return [whole[start : start + count] for start, count in zip(starts, counts, strict=True)]


def _drawn(total: int, sample: Sample) -> list[int]:
    try:
        import numpy as np
    except ImportError as error:
        raise ConvertError("rows are drawn as numpy does it, which is not installed: pip install numpy") from error
    dice = np.random.default_rng(sample.seed if sample.seed is not None else 0)
    return [int(number) for number in dice.choice(total, size=sample.rows, replace=False)]


def rows_of(file: Path) -> int:
    """Rows of a source; read through where it does not tell."""
    part = open_part(file)
    if part.rows is not None and file.suffix != ".jsonl":
        return part.rows
    return sum(chunk.batch.num_rows for chunk in part.read())


def keep_rows(part: Part, mask: bytearray) -> Part:
    """The source with only the rows that the mask keeps."""
    last = mask.rfind(1)

    def read(columns: list[str] | None = None, groups: range | None = None) -> Iterator[Chunk]:
        if groups is not None:
            raise ConvertError("a limit on the rows does not go with parts of a file")
        start = 0
        for chunk in part.read(columns):
            if start > last:
                return
            wanted = mask[start : start + chunk.batch.num_rows]
            start += chunk.batch.num_rows
            offsets = [offset for offset, kept in enumerate(wanted) if kept]
            if len(offsets) == chunk.batch.num_rows:
                yield replace(chunk, bad=())
            elif offsets:
                batch = chunk.batch.filter(pa.array([bool(kept) for kept in wanted]))
                rows = tuple(chunk.rows[offset] for offset in offsets) if chunk.rows else ()
                numbers = tuple(chunk.number(offset) for offset in offsets)
                yield Chunk(chunk.group, numbers[0], batch, numbers=numbers, rows=rows)

    return replace(part, rows=mask.count(1), read=read)


def mark_of(mask: bytearray | None) -> str | None:
    """A short name for a choice of rows."""
    return None if mask is None else hashlib.sha256(mask).hexdigest()[:16]
