"""From a checked example to what the new side needs: which hook, with which arguments, run where."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from migrate_tools.model import Example, Flag, Launch, Recipe, Translation
from migrate_tools.parity import guard, own_copy, told
from migrate_tools.parity.frozen import CASES, FrozenCases
from migrate_tools.parity.oracle import JOB_MEMORY_MB, case_seconds, last_line
from migrate_tools.parity.sandbox_data import fresh_folder
from migrate_tools.parity.supervise import JOB_SECONDS
from migrate_tools.sandbox import PYTHON, Job, Limits, Mount, Sandbox, python_env, python_mounts

STAGE = "/stage"
VERSIONS = "versions.jsonl"
"""Changed versions of the reward, in the folder of a run that measures power."""
STANDIN = "/tools/migrate_tools/rehearsal/standin"
"""Folder inside the sandbox that gives `relax.utils.types`."""
DEFAULTS = {"reward_key": "score", "input_key": "prompt", "label_key": "label", "metadata_key": "extra_info"}


class Context(Protocol):
    """What the parity check reads from the ladder's context."""

    @property
    def recipe(self) -> Recipe: ...
    @property
    def translations(self) -> Sequence[Translation]: ...
    @property
    def example(self) -> Example: ...
    @property
    def stage(self) -> Path: ...
    @property
    def sandbox(self) -> Sandbox: ...
    @property
    def work(self) -> Path: ...
    @property
    def by_rules(self) -> Mapping[str, str]: ...


def build_job(context: Context, launch: Launch, frozen: FrozenCases, seconds: float) -> dict[str, Any]:
    """The new side's job for the frozen cases."""
    translation = next((item for item in context.translations if item.launch == launch.name), None)
    args = hook_args(translation)
    algo = context.example.algo
    hook = str(args.get("custom_rm_path") or f"examples.{algo}.reward_{algo}.reward_func")
    module, _, function = hook.rpartition(".")
    return {
        "rows": frozen.row_files,
        "cases": CASES,
        "converter": f"{STAGE}/{_converter(context)}",
        "converter_options": ["--no-row-function"] if launch.data.row_code else [],
        "module": module,
        "function": function,
        "args": args,
        "paths": [STAGE, STANDIN],
        "environment": dict(launch.reward.environment),
        "family": frozen.meta["family"],
        "case_seconds": case_seconds(launch) * 1.5,
        "total_seconds": seconds,
        "tape": frozen.meta["tape"],
        "told": frozen.meta.get("told", told.NOTHING),
        "groups": 12,
        "old_modules": sorted(guard.old_modules(old_files(launch))),
    }


def old_files(launch: Launch) -> tuple[str, ...]:
    """Files of the old scorer, as the recipe names them."""
    return (launch.reward.path,) if launch.reward.path else ()


def _converter(context: Context) -> str:
    algo = context.example.algo
    names = [file.path for file in context.example.files if file.path.startswith("scripts/tools/process_")]
    wanted = f"scripts/tools/process_{algo}.py"
    return wanted if wanted in names or not names else names[0]


def hook_args(translation: Translation | None) -> dict[str, Any]:
    """The namespace a hook receives: the script's flags, and the keys of the YAML file over them."""
    values: dict[str, Any] = {**DEFAULTS}
    for flag in translation.flags if translation else ():
        values[flag.name.lstrip("-").replace("-", "_")] = _typed(flag)
    return {**values, **(translation.config_yaml if translation else {})}


def _typed(flag: Flag) -> Any:
    if flag.value is None:
        return True
    text = flag.value.strip().strip("\"'")
    try:
        return json.loads(text) if text[:1] in "-0123456789" else text
    except json.JSONDecodeError:
        return text


def run_new(
    context: Context, frozen: FrozenCases, job: dict[str, Any], cases: Sequence[str], place: Path
) -> dict[str, Any]:
    """The new side's answer; {"error": ...} when it could not be run.

    Args:
        cases: lines of JSON; only inputs, the oracle's answers are never mounted.
        place: folder for this run; one with changed versions of the reward in it is kept as it is.
    """
    if not (place / VERSIONS).is_file():
        fresh_folder(place)
    rows = place / "rows"
    shutil.rmtree(rows, ignore_errors=True)
    rows.mkdir()
    for name in frozen.row_files:
        shutil.copyfile(frozen.folder / name, rows / name)
    (place / CASES).write_text("".join(f"{line}\n" for line in cases), encoding="utf-8")
    (place / "job.json").write_text(json.dumps(job), encoding="utf-8")
    outcome = context.sandbox.run(
        Job(
            argv=(PYTHON, "-m", "migrate_tools.parity.new_side", "/work/job.json"),
            mounts=(
                *python_mounts(),
                *own_copy.writable_mounts(context.stage, STAGE, place.with_name(f"{place.name}_stage")),
                Mount(place, "/work", writable=True),
            ),
            env=python_env(),
            limits=Limits(seconds=job["total_seconds"] * 2 + JOB_SECONDS, memory_mb=JOB_MEMORY_MB),
        )
    )
    result = place / "new.json"
    if not result.is_file():
        cause = "time" if outcome.timed_out else "memory" if outcome.out_of_memory else last_line(outcome.stderr)
        return {"error": f"the new reward could not be run: {cause}"}
    answer: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return answer
