"""How many seeded porting faults the frozen cases catch in the new reward."""

from __future__ import annotations

import ast
import json
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from migrate_tools.parity.faults import Fault, seed_faults
from migrate_tools.parity.frozen import FrozenCases
from migrate_tools.parity.newjob import Context, run_new
from migrate_tools.parity.sandbox_data import fresh_folder
from migrate_tools.parity.verdicts import judge

PLUMBING = frozenset(
    {"reward_func", "_report", "_Worker", "_serve", "_stop_workers", "_run", "_in_worker", "_scorer_loop", "_awaited"}
)
"""Functions of the generated module that only pass things on."""


def measure(
    context: Context,
    frozen: FrozenCases,
    job: dict[str, Any],
    cases: Sequence[dict[str, Any]],
    news: Sequence[dict[str, Any]],
    seconds: float,
    lines: Collection[int],
    converted: Path | None = None,
) -> dict[str, Any]:
    """Runs every fault on the cases that agreed, within `seconds`: caught, seeded, survivors with their line.

    Args:
        lines: lines of the module that the cases were seen to reach in its own process.
        converted: the rows as the example's converter wrote them; made again when None.
    """
    empty: dict[str, Any] = {"seeded": 0, "caught": 0, "not_run": 0, "survivors": []}
    relative = f"{job['module'].replace('.', '/')}.py"
    source = context.stage / relative
    if not source.is_file():
        return {**empty, "why": f"{relative} is not a file of the example"}
    text = source.read_text(encoding="utf-8")
    faults = seed_faults(text, lines=_reached(text, lines, frozen.meta["coverage"]["functions"]), skip=PLUMBING)
    if seconds <= 0:
        return {**empty, "why": "no time given"}
    if not faults:
        return {**empty, "why": "nothing in the module to change"}
    place = context.work / "parity" / frozen.meta["launch"] / "power"
    fresh_folder(place)
    if converted is not None and converted.is_dir():
        shutil.copytree(converted, place / "converted")
    for position, fault in enumerate(faults):
        _write_mutant(context, place, position, relative, fault)
    olds = frozen.outcomes()
    usable = [judge(old, new).kind in ("same", "declared") for old, new in zip(olds, news, strict=True)]
    baseline = [new if good and new["kind"] == "value" else None for new, good in zip(news, usable, strict=True)]
    power_job = {**job, "mutants": len(faults), "baseline": baseline, "total_seconds": seconds}
    inputs = [json.dumps({key: case[key] for key in ("row", "new", "length")}) for case in cases]
    answer = run_new(context, frozen, power_job, inputs, place)
    if "error" in answer:
        return {**empty, "why": answer["error"]}
    return _counted(faults, answer["mutants"])


def _reached(text: str, lines: Collection[int], functions: Collection[str]) -> set[int]:
    """Lines worth changing: those seen to run, and functions the original ran that another process hides."""
    reached = set(lines)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in functions:
            body = set(range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1))
            if not body & set(lines):
                reached |= body
    return reached


def _write_mutant(context: Context, place: Any, position: int, relative: str, fault: Fault) -> None:
    folder = place / "mutants" / str(position)
    package = (context.stage / relative).parent
    target = (folder / relative).parent
    shutil.copytree(package, target, ignore=shutil.ignore_patterns("__pycache__", "*.sh", "*.md"))
    for parent in [target, *target.parents]:
        if parent == folder:
            break
        (parent / "__init__.py").touch()
    (folder / relative).write_text(fault.source, encoding="utf-8")


def _counted(faults: Sequence[Fault], results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    caught = not_run = 0
    survivors: list[dict[str, Any]] = []
    operators: dict[str, list[int]] = {}
    for fault, result in zip(faults, results, strict=True):
        if result["kind"] == "skipped":
            not_run += 1
            continue
        found = result["kind"] != "survived"
        caught += found
        tally = operators.setdefault(fault.operator, [0, 0])
        tally[0] += found
        tally[1] += 1
        if not found:
            survivors.append({"operator": fault.operator, "line": fault.line})
    return {
        "seeded": len(faults) - not_run,
        "caught": caught,
        "not_run": not_run,
        "survivors": survivors,
        "operators": {name: f"{good}/{total}" for name, (good, total) in sorted(operators.items())},
    }
