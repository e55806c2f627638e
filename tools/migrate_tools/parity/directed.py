"""Inputs that tell faulty versions of the old scorer from the right one, made before anything is drafted.

The faults are those of the catalogue that also measures power, more of each than are measured. So the measured share is
not an independent figure; the hand-written faulty ports in benchmarks/ are.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from migrate_tools.model import Launch, Recipe
from migrate_tools.parity import oldjob
from migrate_tools.parity.case import Case
from migrate_tools.parity.directed_side import FOUND, VERSIONS
from migrate_tools.parity.faults import seed_faults
from migrate_tools.parity.frozen import CASES
from migrate_tools.parity.inputs import Inputs
from migrate_tools.parity.sandbox_data import fresh_folder
from migrate_tools.sandbox import PYTHON, Job, Limits, Mount, Sandbox, python_env, python_mounts

EACH = 8
MOST = 160
SECONDS = 60.0
"""Wall limit, far above the few seconds of a usual scorer."""


def search(
    sandbox: Sandbox,
    recipe: Recipe,
    launch: Launch,
    job: dict[str, Any],
    rows_folder: Path,
    given: Inputs,
    cases: Sequence[Case],
    *,
    code: str,
    entry: str,
) -> tuple[list[Case], dict[str, int]]:
    """Further cases, and how many faulty versions were known, found, missed, unreached or cut off by the time limit.

    Args:
        job: the old side's job, which names rows and manager.
        code: the reward as one module; nothing is looked for when it is empty or when it asks a server.
        entry: the function in it.
        given: rows and what the scorer looks for.
        cases: those that are there already.
    """
    if not code or not entry or job["tape"] is not None:
        return [], {}
    faults = [fault for fault in seed_faults(code, each=EACH, most=MOST) if not fault.equivalent]
    if not faults:
        return [], {}
    place = rows_folder.parent / "directed"
    fresh_folder(place)
    for name in job["rows"]:
        shutil.copyfile(rows_folder / name, place / name)
    (place / CASES).write_text("".join(f"{case.line()}\n" for case in cases), encoding="utf-8")
    lines = [json.dumps({"source": fault.source, "lines": fault.lines}) for fault in faults]
    (place / VERSIONS).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    spec = launch.reward
    search_job = {
        **job,
        "code": code,
        "entry": entry,
        "decoding": {"text": spec.text, "skip_special_tokens": spec.skip_special_tokens},
        "prompt_key": launch.data.prompt_key,
        "family": given.family.name,
        "mined": {"literals": list(given.mined.literals), "numbers": list(given.mined.numbers)},
        "total_seconds": SECONDS,
    }
    (place / "job.json").write_text(json.dumps(search_job), encoding="utf-8")
    sandbox.run(
        Job(
            argv=(PYTHON, "-m", "migrate_tools.parity.directed_side", "/work/job.json"),
            mounts=(
                *python_mounts(),
                Mount(Path(recipe.project_root), oldjob.PROJECT),
                Mount(Path(launch.verl.root), oldjob.VERL),
                Mount(place, "/work", writable=True),
            ),
            env={**python_env(), "PYTHONHASHSEED": "0"},
            limits=Limits(seconds=SECONDS * 2 + 60),
        )
    )
    log, result = place / FOUND, place / "directed.json"
    found = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    counts: dict[str, int] = json.loads(result.read_text(encoding="utf-8")) if result.is_file() else {}
    return [Case(**json.loads(line)) for line in found], counts
