"""Runs a generated script in the sandbox against the stand-in Relax."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from migrate_tools.model import Example, Launch, Mode, Translation
from migrate_tools.rehearsal.converted import Converted
from migrate_tools.rehearsal.runtime.bpe import FILES
from migrate_tools.rehearsal.stage import build_commands, build_tree, fresh
from migrate_tools.rehearsal.words import complaint
from migrate_tools.relax.run_script import script_name
from migrate_tools.sandbox import Job, Limits, Mount, Sandbox, empty_folders, python_env, python_mounts

REPORT = "report.json"
CONTRACT = "contract.json"
DEBUG_DATA = "rollout/0.pt"
"""The rehearsed samples, below the run's folder, as Relax's --load-debug-rollout-data reads them."""
EMPTY = "empty"
SECONDS = 300.0
DRILLED: Mode = "sync"
"""The mode in which a rollout of the example's own is drilled; it is the same code in both."""
ANY_MODEL = "qwen3-8B"
"""Model script for examples that leave the choice to the user (MODEL_CONFIG)."""


@dataclass(frozen=True)
class RehearsalRun:
    """One run of one script in one mode."""

    mode: Mode
    script: str
    report: dict[str, Any] | None
    """What the stand-in trainer wrote; None when the script never reached it."""
    returncode: int | None
    cause: str
    """One line: the last thing that the script said, or which limit ended it."""
    seconds: float

    @property
    def argv(self) -> tuple[str, ...] | None:
        """Arguments that the trainer got, None when it was not started."""
        return tuple(self.report["argv"]) if self.report is not None else None

    @property
    def failures(self) -> list[str]:
        """What the trainer found wrong."""
        return list(self.report["failures"]) if self.report is not None else []

    @property
    def warnings(self) -> list[str]:
        """What the trainer found doubtful."""
        return list(self.report["warnings"]) if self.report is not None else []


def script_path(example: Example, translation: Translation) -> str:
    """Path of a launch's run script below the Relax root."""
    return f"examples/{example.algo}/{script_name(translation)}"


def rehearse(
    example: Example,
    translation: Translation,
    mode: Mode,
    data: Converted,
    *,
    sandbox: Sandbox,
    place: Path,
    version: str = "latest",
    tape: Mapping[str, Any] | None = None,
    calls: Sequence[str] = (),
    folders: Sequence[str] = (),
    model: Path | None = None,
) -> RehearsalRun:
    """Run `bash run_<algo>.sh <mode>` on converted rows.

    Args:
        place: folder for this run; emptied first. The report stays in it.
        version: Relax version, or the file of a saved contract.
        tape: settings of the taped HTTP answers, when the reward asks a server.
        calls: texts with tool calls that the engine answers with, for an example with tools.
        folders: folders with data that tools name; empty ones stand in for them.
        model: a folder of the model on this machine: its tokenizer and chat template are used.
    """
    fresh(place)
    build_tree(place / "relax", example)
    build_commands(place / "bin")
    (place / "save").mkdir()
    _copy_tokenizer(model, fresh(place / "models" / (translation.model_dir_name or "model")), example)
    if version.endswith(".json"):
        shutil.copyfile(version, place / CONTRACT)
        version = f"/work/{CONTRACT}"
    script = script_path(example, translation)
    per_node = translation.gpus.per_node if translation.gpus else 8
    outcome = sandbox.run(
        Job(
            argv=("bash", script, mode),
            mounts=(
                *python_mounts(),
                Mount(place, "/work", writable=True),
                Mount(data.folder / "data", "/data"),
                *empty_folders(folders, place / EMPTY),
            ),
            cwd="/work/relax",
            env={
                **python_env(),
                "PATH": "/work/bin:/usr/local/bin:/usr/bin:/bin",
                "MODEL_DIR": "/work/models",
                "DATA_DIR": "/data",
                "SAVE_DIR": "/work/save",
                "MODEL_CONFIG": f"/work/relax/scripts/models/{ANY_MODEL}.sh",
                "NUM_GPUS": str(per_node),
                "MIGRATE_REHEARSAL_REPORT": f"/work/{REPORT}",
                "MIGRATE_REHEARSAL_RELAX": version,
                "MIGRATE_REHEARSAL_DEBUG_DATA": f"/work/{DEBUG_DATA}",
                **({"MIGRATE_REHEARSAL_DRILLS": "1"} if mode == DRILLED else {}),
                **({"MIGRATE_REHEARSAL_TAPE": json.dumps(tape)} if tape else {}),
                **({"MIGRATE_REHEARSAL_CALLS": json.dumps(list(calls))} if calls else {}),
            },
            limits=Limits(seconds=SECONDS, memory_mb=4096, processes=256),
        )
    )
    report = place / REPORT
    cause = "time" if outcome.timed_out else "memory" if outcome.out_of_memory else _last_line(complaint(outcome, 8000))
    return RehearsalRun(
        mode=mode,
        script=script,
        report=json.loads(report.read_text(encoding="utf-8")) if report.is_file() else None,
        returncode=outcome.returncode,
        cause=cause,
        seconds=outcome.seconds,
    )


def local_model(launch: Launch, translation: Translation) -> Path | None:
    """The folder of the launch's model on this machine: where the recipe names it, else in MODEL_DIR; None: nowhere."""
    named = str(
        launch.get("actor_rollout_ref.model.tokenizer_path") or launch.get("actor_rollout_ref.model.path") or ""
    )
    home = os.environ.get("MODEL_DIR")
    places = [Path(named)] if Path(named).is_absolute() else []
    places += [Path(home) / translation.model_dir_name] if home and translation.model_dir_name else []
    return next((path for path in places if (path / FILES[0]).is_file()), None)


def _copy_tokenizer(model: Path | None, target: Path, example: Example) -> None:
    """The files of a model's tokenizer, and over them the chat template that the example wants in its folder."""
    for name in FILES if model is not None else ():
        if model is not None and (model / name).is_file():
            shutil.copyfile(model / name, target / name)
    own = next((item for item in example.files if item.path == f"examples/{example.algo}/{FILES[-1]}"), None)
    if own is not None:
        (target / FILES[-1]).write_text(own.text, encoding="utf-8")


def _last_line(text: str) -> str:
    """The last line that is not bash's own trace (`set -x`)."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    spoken = [line for line in lines if not line.startswith("+")]
    return (spoken or lines or [""])[-1][:500]
