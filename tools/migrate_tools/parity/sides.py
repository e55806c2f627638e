"""Runs one side of a comparison of tools or loops in the sandbox."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from migrate_tools.parity.newjob import STAGE, Context
from migrate_tools.parity.oracle import last_line
from migrate_tools.sandbox import PYTHON, Job, Limits, Mount, python_env, python_mounts

Side = Literal["old", "new"]


def run_side(
    context: Context,
    module: str,
    side: Side,
    place: Path,
    *,
    old: Sequence[Mount],
    seconds: float,
    beside: Sequence[Mount] = (),
) -> dict[str, Any]:
    """What `python -m module SIDE /work/job.json` wrote to SIDE.json; {"error": ...} when it wrote nothing.

    Args:
        place: folder with the job, /work inside.
        old: what the old side sees; the new side sees the example alone.
        beside: what both see.
        seconds: wall limit.
    """
    outcome = context.sandbox.run(
        Job(
            argv=(PYTHON, "-m", module, side, "/work/job.json"),
            mounts=(
                *python_mounts(),
                Mount(place, "/work", writable=True),
                *beside,
                *(old if side == "old" else (Mount(context.stage, STAGE),)),
            ),
            cwd="/project" if side == "old" else "/work",
            env=python_env(),
            limits=Limits(seconds=seconds, memory_mb=4096, processes=256),
        )
    )
    answer = place / f"{side}.json"
    if not answer.is_file():
        return {"error": "time" if outcome.timed_out else last_line(outcome.stderr)}
    found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    answer.unlink()  # a second run that ends without an answer must not find the first one's
    return found
