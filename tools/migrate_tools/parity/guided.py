"""The search for inputs, seen from outside the sandbox: starts it, and reads what it found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from migrate_tools.model import Launch, Recipe
from migrate_tools.parity import explore, oldjob
from migrate_tools.parity.case import Case
from migrate_tools.parity.frozen import CASES
from migrate_tools.parity.mine import Mined
from migrate_tools.parity.sandbox_data import fresh_folder
from migrate_tools.sandbox import PYTHON, Job, Limits, Mount, Sandbox, python_env, python_mounts

PROBED = (f"{oldjob.PROJECT}/", f"{oldjob.VERL}/verl/utils/reward_score/")
"""Folders whose modules count as the scorer's own."""


@dataclass(frozen=True)
class Found:
    """What the search gave."""

    cases: list[Case]
    """The given cases and those made from them, in the order in which they were run."""
    coverage: dict[str, Any] = field(default_factory=dict)
    cut: str = ""
    """Why fewer cases were made than wanted, or empty."""
    seconds: float = 0.0


def search(
    sandbox: Sandbox,
    recipe: Recipe,
    launch: Launch,
    job: dict[str, Any],
    rows_folder: Path,
    seeds: Sequence[Case],
    mined: Mined,
    *,
    cases: int,
    own_rows: int,
    family: str,
    functions: Sequence[str],
) -> Found:
    """Runs `seeds` and cases made from them, `cases` in all, on the old reward; the seeds alone when it cannot run.

    Args:
        job: the old side's job, which names rows and scorer.
        own_rows: that many rows at the front are the recipe's own.
        family: name of the model family.
        functions: "file:function" as named inside the sandbox, counted in the coverage even when nothing ran.
    """
    place = rows_folder.parent / "explore"
    fresh_folder(place)
    for name in job["rows"]:
        shutil.copyfile(rows_folder / name, place / name)
    (place / CASES).write_text("".join(f"{case.line()}\n" for case in seeds), encoding="utf-8")
    spec = launch.reward
    facts = {"literals": list(mined.literals), "numbers": list(mined.numbers), "tags": list(mined.tags)}
    search_job = {
        **job,
        "budget": cases,
        "decoding": {"text": spec.text, "skip_special_tokens": spec.skip_special_tokens},
        "prompt_key": launch.data.prompt_key,
        "family": family,
        "mined": facts,
        "own_rows": own_rows,
        "probed": list(PROBED),
        "functions": list(functions),
    }
    (place / "job.json").write_text(json.dumps(search_job), encoding="utf-8")
    sandbox.run(
        Job(
            argv=(PYTHON, "-m", "migrate_tools.parity.explore", "/work/job.json"),
            mounts=(
                *python_mounts(),
                Mount(Path(recipe.project_root), oldjob.PROJECT),
                Mount(Path(launch.verl.root), oldjob.VERL),
                Mount(place, "/work", writable=True),
            ),
            env={**python_env(), "PYTHONHASHSEED": "0"},
            limits=Limits(seconds=job["total_seconds"] * 2 + 60),
        )
    )
    return _found(place, seeds, cases)


def _found(place: Path, seeds: Sequence[Case], wanted: int) -> Found:
    path = place / explore.RESULT
    if not path.is_file():
        return Found(list(seeds), cut="the search for further cases ended without a result")
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    log = place / explore.LOG
    logged = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.is_file() else []
    ran = [Case(**entry["case"]) for entry in logged if "case" in entry]
    cut = "" if result["setup"] or len(ran) >= wanted else f"time ended the search after {len(ran)} of {wanted} cases"
    return Found([*ran, *seeds[len(ran) :]], result["coverage"], cut, result["seconds"])
