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
from migrate_tools.parity.inputs import Inputs
from migrate_tools.parity.sandbox_data import fresh_folder
from migrate_tools.parity.supervise import JOB_SECONDS
from migrate_tools.sandbox import PYTHON, Job, Limits, Mount, Sandbox, python_env, python_mounts

PROBED = (f"{oldjob.PROJECT}/", f"{oldjob.VERL}/verl/utils/reward_score/")
"""Folders whose modules count as the scorer's own."""


@dataclass(frozen=True)
class Found:
    """What the search gave."""

    cases: list[Case]
    """The given cases and the chosen ones of those made from them, in the order in which they were run."""
    coverage: dict[str, Any] = field(default_factory=dict)
    cut: str = ""
    """Why fewer cases were made than wanted, or empty."""
    seconds: float = 0.0
    runs: int = 0
    """Inputs that were tried."""
    telling: frozenset[Case] = frozenset()
    """Cases that did something that none before them did."""
    ended: frozenset[Case] = frozenset()
    """Cases that were run and ended."""


def search(
    sandbox: Sandbox,
    recipe: Recipe,
    launch: Launch,
    job: dict[str, Any],
    rows_folder: Path,
    inputs: Inputs,
    *,
    cases: int,
    runs: int,
    functions: Sequence[str],
) -> Found:
    """Runs the given inputs and others made from them on the old reward; the given ones alone when it cannot run.

    Args:
        job: the old side's job, which names rows and scorer.
        cases: so many inputs are kept.
        runs: so many are tried.
        functions: "file:function" as named inside the sandbox, counted in the coverage even when nothing ran.
    """
    place = rows_folder.parent / "explore"
    fresh_folder(place)
    for name in job["rows"]:
        shutil.copyfile(rows_folder / name, place / name)
    (place / CASES).write_text("".join(f"{case.line()}\n" for case in inputs.cases), encoding="utf-8")
    spec, mined = launch.reward, inputs.mined
    search_job = {
        **job,
        "budget": cases,
        "runs": runs,
        "decoding": {"text": spec.text, "skip_special_tokens": spec.skip_special_tokens},
        "prompt_key": launch.data.prompt_key,
        "prompt_form": launch.data.prompt_form,
        "family": inputs.family.name,
        "mined": {
            "literals": list(mined.literals),
            "numbers": list(mined.numbers),
            "tokens": list(inputs.family.tokens[:4]),
        },
        "choices": inputs.choices,
        "own_rows": len(inputs.rows),
        "probed": list(PROBED),
        "functions": list(functions),
    }
    (place / "job.json").write_text(json.dumps(search_job), encoding="utf-8")
    sandbox.run(
        Job(
            argv=(PYTHON, "-m", "migrate_tools.parity.explore", "/work/job.json"),
            mounts=(
                *python_mounts(),
                *oldjob.source_mounts(recipe, launch, place, writes=job["writes"]),
                Mount(place, "/work", writable=True),
            ),
            env={**python_env(), "PYTHONHASHSEED": "0"},
            limits=Limits(seconds=job["total_seconds"] * 2 + JOB_SECONDS),
        )
    )
    return _found(place, inputs.cases, runs)


def _found(place: Path, given: Sequence[Case], runs: int) -> Found:
    path, log = place / explore.RESULT, place / explore.LOG
    if not path.is_file() or not log.is_file():
        return Found(list(given), cut="" if path.is_file() else "the search for inputs ended without a result")
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    logged = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    ran = [Case(**entry["case"]) for entry in logged if "case" in entry]
    pairs = zip(logged, [*logged[1:], {"case": None}], strict=True)
    ended = frozenset(Case(**one["case"]) for one, after in pairs if "case" in one and "case" not in after)
    cut = "" if len(ran) >= runs else f"time ended the search for inputs after {len(ran)} of {runs}"
    chosen = [ran[number] for number in result["chosen"]]
    telling = frozenset(ran[number] for number in result["telling"])
    return Found([*chosen, *given[len(ran) :]], result["coverage"], cut, result["seconds"], len(ran), telling, ended)
