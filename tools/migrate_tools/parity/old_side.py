"""The old reward inside the sandbox: the recipe's scorer under its reward manager, on every case.

`python -m migrate_tools.parity.old_side /work/job.json` starts the run twice with different hash and random seeds
(to find what is not deterministic) and writes one JSON object with both. Only the standard library, and pyarrow or
pandas to read the rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from migrate_tools.parity import absent, children, clock, manager_check, managers, stubs, supervise, told
from migrate_tools.parity.moved import load_file
from migrate_tools.parity.probes import Notes, compile_probed
from migrate_tools.parity.sandbox_data import load_cases, load_rows

SEEDS = (0, 1)
CLOCK_STEP = 41.4 * 24 * 3600
"""Seconds by which the clock of the second run is ahead: another month, weekday and hour."""
PROBES: Notes | None = None
"""Set where inputs are looked for: parts of a module that are compiled here get probes too."""


def main(argv: list[str]) -> None:
    """Both runs; or, with a second argument, the run with that seed."""
    job_path = argv[1]
    if len(argv) > 2:
        _one_run(job_path, int(argv[2]))
        return
    job = json.loads(Path(job_path).read_text(encoding="utf-8"))
    seeds = SEEDS if job.get("repeat", True) else SEEDS[:1]
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "migrate_tools.parity.old_side", job_path, str(seed)],
            env={**os.environ, "PYTHONHASHSEED": str(seed + 1)},
            stdout=subprocess.DEVNULL,
        )
        for seed in seeds
    ]
    codes = [run.wait() for run in runs]
    if any(codes):
        sys.exit(f"the old side ended with {codes}")


def _one_run(job_path: str, seed: int) -> None:
    job = json.loads(Path(job_path).read_text(encoding="utf-8"))
    folder = Path(job_path).parent
    rows = load_rows(folder, job["rows"], job["reader"])
    cases = load_cases(folder / job["cases"])
    began = time.monotonic()
    records = supervise.run_items(
        range(len(cases)),
        lambda: make_runner(job, rows, cases, seed),
        item_seconds=job["case_seconds"],
        total_seconds=job["total_seconds"],
    )
    answer: dict[str, Any] = {
        "seed": seed,
        "seconds": time.monotonic() - began,
        "records": [records[i] for i in range(len(cases))],
    }
    if seed == 0 and job["manager"]["name"] == "batch":
        answer["groups"] = _groups(job, rows, cases)
    if seed == 0 and job.get("check") and job.get("real") and job["manager"]["name"] != managers.CUSTOM:
        answer["manager_check"] = manager_check.check(job, rows, cases, answer["records"])
    (folder / f"old_{seed}.json").write_text(json.dumps(answer), encoding="utf-8")


def make_runner(job: Mapping[str, Any], rows: list[Any], cases: list[dict[str, Any]], seed: int) -> supervise.Runner:
    """Loads the scorer in this process; the runner scores one case."""
    if seed:
        clock.shift(CLOCK_STEP)
    missed = absent.Watch(job.get("absent", ()))
    function, manager, loop = prepare(job)
    own = manager_check.runner(job, function, loop) if manager.name == managers.CUSTOM else None
    tape = None
    if job.get("tape"):
        from migrate_tools.parity import clients

        tape = clients.install(job["tape"])

    def run(index: int) -> dict[str, Any]:
        case = cases[index]
        random.seed(1000 * seed + index)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(1000 * seed + index)
        stubs.used.clear()
        missed.begin()
        if tape is not None:
            tape.begin()
        call = managers.Call(rows[case["row"]], case["old"], case["length"], told.read(case["told"]))
        try:
            scored = managers.score(manager, function, call, loop) if own is None else own(rows[case["row"]], case)
            record = {"kind": "value", **scored}
        except stubs.StandInUsed as error:
            record = {"kind": "missing", "error": str(error)}
        except Exception as error:
            record = {"kind": "exception", "error": supervise.describe(error)}
        if name := missed.asked() or next(iter(stubs.used), ""):
            record = {"kind": "missing", "error": name}
        if tape is not None:
            record["requests"] = tape.seen()
        return record

    if job.get("warm") and cases:
        run(0)  # a scorer that starts processes of its own does so here, so that no case pays for it
    return run


def prepare(job: Mapping[str, Any]) -> tuple[Callable[..., Any], managers.Manager, asyncio.AbstractEventLoop]:
    """The scorer of a job, the settings of its manager, and a loop, ready in this process."""
    prepare_imports(job)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    settings = job["manager"]
    function = _loaded(job["scorer"])
    for name in job.get("imports", ()):
        with contextlib.suppress(Exception, stubs.StandInUsed):
            importlib.import_module(name)  # else the first case pays for it
    stubs.used.clear()
    return function, managers.Manager(**settings), loop


def _loaded(scorer: Mapping[str, Any]) -> Callable[..., Any]:
    """The scorer; frameworks that its file needs to load are real where they are installed."""
    stubs.loading.append(scorer["function"])
    try:
        return load_function(scorer)
    except stubs.StandInUsed:
        if not stubs.give_real():
            raise
        return load_function(scorer)
    finally:
        stubs.loading.clear()


def prepare_imports(job: Mapping[str, Any]) -> None:
    """Environment, stand-ins and folders under which the recipe's modules are imported."""
    os.environ.update(job["environment"])
    if job.get("tape"):
        from migrate_tools.parity import clients

        clients.install(job["tape"])
    stubs.install(job["verl_root"])
    if job["verl_root"]:
        children.pass_on("PARITY_VERL", job["verl_root"])  # a pool that spawns imports verl anew
    for folder in reversed(job["paths"]):
        sys.path.insert(0, folder)
    stubs.prefer(job.get("stand_ins", ()), [*job["paths"], *([job["verl_root"]] if job["verl_root"] else [])])
    for name, folders in job.get("aliases", {}).items():
        stubs.alias_package(name, folders)
    os.chdir(job["paths"][0] if job["paths"] else "/")


def load_function(scorer: Mapping[str, Any]) -> Callable[..., Any]:
    """The scorer, imported the way verl imports it: a file by path, or a module of verl's own by name."""
    if scorer.get("module"):
        module: Any = importlib.import_module(scorer["module"])
    elif scorer.get("fragment"):
        module = fragment(Path(scorer["file"]))
    else:
        module = load_file("custom_module", Path(scorer["file"]))
    function = getattr(module, scorer["function"])
    if not callable(function):
        raise TypeError(f"{scorer['function']} is not callable")
    return function  # type: ignore[no-any-return]


def fragment(path: Path, *, classes: bool = False) -> Any:
    """The functions of a module whose other parts (a trainer) cannot be imported: what fails to run is left out.

    Args:
        classes: the classes as well.
    """
    import ast
    import types

    module = types.ModuleType("custom_module")
    module.__file__ = str(path)
    kinds: tuple[type, ...] = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.Assign)
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, (*kinds, ast.ClassDef) if classes else kinds):
            continue
        try:
            exec(_compiled(ast.Module([node], []), str(path)), module.__dict__)
        except (ImportError, NameError, AttributeError, stubs.StandInUsed):
            continue
    stubs.used.clear()
    return module


def _compiled(tree: Any, path: str) -> Any:
    return compile(tree, path, "exec") if PROBES is None else compile_probed(tree, path, PROBES)


def _groups(job: Mapping[str, Any], rows: list[Any], cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A batch function called with eight rows at a time: does a score depend on its neighbours, is the count right?"""
    size, groups = 8, range(min(8, len(cases) // 8))

    def make() -> supervise.Runner:
        function, manager, _ = prepare(job)

        def run(group: int) -> dict[str, Any]:
            random.seed(group)
            calls = [
                managers.Call(rows[c["row"]], c["old"], c["length"], told.read(c["told"]))
                for c in cases[size * group : size * group + size]
            ]
            return {"kind": "value", "scores": managers.score_group(manager, function, calls)}

        return run

    records = supervise.run_items(
        groups, make, item_seconds=job["case_seconds"] * 2, total_seconds=job["total_seconds"]
    )
    return [records[group] for group in groups]


if __name__ == "__main__":
    main(sys.argv)
