"""Inputs that tell faulty versions of the old scorer from the right one, made before anything is drafted.

The faults are those of the catalogue that also measures power, and finer ones. So the measured share is not an
independent figure; the hand-written faulty ports in benchmarks/ are.
"""

from __future__ import annotations

import ast
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from migrate_tools.model import Launch, Recipe
from migrate_tools.parity import inline, oldjob
from migrate_tools.parity.case import Case, answers_of
from migrate_tools.parity.directed_side import FOUND, VERSIONS
from migrate_tools.parity.equivalent import rule
from migrate_tools.parity.faults import seed_faults
from migrate_tools.parity.focus import focus
from migrate_tools.parity.frozen import CASES
from migrate_tools.parity.inputs import Inputs
from migrate_tools.parity.mutants import seed_mutants
from migrate_tools.parity.mutants_fine import FINE_OPERATORS
from migrate_tools.parity.mutation import Code, Fault, changed_versions
from migrate_tools.parity.row_changes import RowChange, applied
from migrate_tools.parity.rows import append_rows
from migrate_tools.parity.sandbox_data import fresh_folder, load_rows
from migrate_tools.sandbox import PYTHON, Job, Limits, Mount, Sandbox, python_env, python_mounts

COMPARED = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
EACH = 60
MOST = 900
"""Versions that inputs are looked for, at most."""
TRIES_A_CASE, FEWEST_TRIES, MOST_TRIES = 120, 2_000, 90_000
"""Inputs tried for one case of the budget; in all, at least and at most."""
PARTS, SPLIT_TRIES = 2, 12_000
"""With so many tries the versions are shared between two jobs at once, each with its part of the tries."""
SLOWER, SLOW_SECONDS, SLOW_ONE_SECONDS = 10, 1.0, 6.0
"""For a scorer that waits: so many times fewer tries; wall limits in all (times the user's), and for one version."""
SLOWER_INLINE = 3
"""Likewise for one whose processes run in the worker of the search."""
ONE_SECONDS, SECONDS = 15.0, 600.0
"""Wall limits, far above the processor time that the search may use: the load of the machine decides nothing."""


@dataclass(frozen=True)
class Told:
    """What the search gave."""

    cases: list[Case] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    """Names of row files that were added."""
    rows: int = 0
    """Rows in them."""
    counts: dict[str, int] = field(default_factory=dict)
    """Versions known, found, missed, unreached or cut off by the time limit."""


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
    budget: int,
    slow: bool = False,
    seconds: float = 20.0,
) -> Told:
    """Further cases, with rows of their own where another right answer is needed.

    Args:
        job: the old side's job, which names rows and manager.
        rows_folder: the row files; further ones are written into it.
        given: rows and what the scorer looks for.
        cases: those that are there already.
        code: the reward as one module; nothing is looked for when it is empty or when it asks a server.
        entry: the function in it.
        budget: cases that are wanted in all, which decides how many inputs are tried.
        slow: a call of the reward may wait for something, so that fewer are tried and the wall limit is short.
        seconds: wall time that the user gives for all cases.
    """
    if not code or not entry or job["tape"] is not None:
        return Told()
    values = [answer for row in given.rows[:6] for answer in answers_of(row)[:1]]
    lines = list(versions(code, values))
    if not lines:
        return Told()
    spec, mined = launch.reward, given.mined
    tries = min(MOST_TRIES, max(FEWEST_TRIES, TRIES_A_CASE * budget))
    parts = PARTS if tries >= SPLIT_TRIES and not slow else 1
    search_job = {
        **job,
        "code": code,
        "entry": entry,
        "decoding": {"text": spec.text, "skip_special_tokens": spec.skip_special_tokens},
        "prompt_key": launch.data.prompt_key,
        "family": given.family.name,
        "mined": {"literals": list(mined.literals), "numbers": list(mined.numbers), "keys": list(mined.keys)},
        "total_seconds": SLOW_SECONDS * seconds if slow else SECONDS,
        "one_seconds": SLOW_ONE_SECONDS if slow else ONE_SECONDS,
        "tries": tries // (SLOWER_INLINE if inline.fits(code) else SLOWER) if slow else tries // parts,
    }
    places = [_placed(part, rows_folder, search_job, cases, lines[part::parts]) for part in range(parts)]
    mounts = (
        *python_mounts(),
        Mount(Path(recipe.project_root), oldjob.PROJECT),
        Mount(Path(launch.verl.root), oldjob.VERL),
    )
    with ThreadPoolExecutor(parts) as pool:
        list(pool.map(lambda place: sandbox.run(_sandbox_job(place, mounts)), places))
    return _told(places, rows_folder, job["rows"])


def _placed(
    part: int, rows_folder: Path, job: dict[str, Any], cases: Sequence[Case], lines: Sequence[dict[str, Any]]
) -> Path:
    """The folder of one part of the search, with what it reads."""
    place = rows_folder.parent / (f"directed_{part}" if part else "directed")
    fresh_folder(place)
    for name in job["rows"]:
        shutil.copyfile(rows_folder / name, place / name)
    (place / CASES).write_text("".join(f"{case.line()}\n" for case in cases), encoding="utf-8")
    (place / VERSIONS).write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    (place / "job.json").write_text(json.dumps(job), encoding="utf-8")
    return place


def _sandbox_job(place: Path, mounts: Sequence[Mount]) -> Job:
    return Job(
        argv=(PYTHON, "-m", "migrate_tools.parity.directed_side", "/work/job.json"),
        mounts=(*mounts, Mount(place, "/work", writable=True)),
        env={**python_env(), "PYTHONHASHSEED": "0"},
        limits=Limits(seconds=SECONDS * 2 + 60),
    )


def versions(code: str, values: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What the search needs of each faulty version of a scorer, the catalogue that measures power first."""
    whole = Code(code)
    found: list[Fault] = [*seed_faults(whole, each=EACH, most=MOST), *seed_mutants(whole, each=EACH, most=MOST)]
    seen: set[str] = set()
    measured = len(found)
    found += changed_versions(whole, FINE_OPERATORS, rule, each=EACH * 2, most=MOST)
    for number, fault in enumerate(found):
        if fault.equivalent or fault.source in seen or len(seen) >= MOST:
            continue
        seen.add(fault.source)
        yield {
            "span": whole.span(fault.node),
            "text": fault.after,
            "probe": whole.probe(fault.node),
            "operands": _operands(whole, fault.node),
            "lines": fault.lines,
            "fine": number >= measured and fault.operator != "relation",
            "focus": focus(whole, fault.node, fault.after, values),
        }


def _operands(code: Code, node: ast.AST) -> list[str]:
    """Texts of what a comparison of order or equality compares; none for anything else."""
    if not isinstance(node, ast.Compare) or not all(isinstance(sign, COMPARED) for sign in node.ops):
        return []
    parts = [node.left, *node.comparators]
    once = any(isinstance(item, (ast.Await, ast.NamedExpr, ast.Yield)) for part in parts for item in ast.walk(part))
    return [] if once else [code.operand(part) for part in parts]


def _told(places: Sequence[Path], rows_folder: Path, files: Sequence[str]) -> Told:
    """What the parts found, together; each numbers the rows that it made from the end of the given ones."""
    counts: Counter[str] = Counter()
    given = load_rows(rows_folder, files, "python")
    first, made = len(given), list[dict[str, Any]]()
    cases: dict[Case, None] = {}
    for place in places:
        log, result = place / FOUND, place / "directed.json"
        entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.is_file() else []
        counts.update(json.loads(result.read_text(encoding="utf-8"))["kinds"] if result.is_file() else {})
        rows, before = [*given], len(made)
        for change in (change for entry in entries for change in entry["rows"]):
            changes = [RowChange(tuple(path), value) for path, value in change["changes"]]
            rows.append(applied(rows[change["base"]], changes))
        made += rows[first:]
        found = (Case(**entry["case"]) for entry in entries)
        cases |= {case if case.row < first else replace(case, row=case.row + before): None for case in found}
    names, kept = append_rows(made, rows_folder, len(files))
    moved = {first + number: first + place for number, place in enumerate(kept) if place is not None}
    placed = [
        replace(case, row=moved.get(case.row, case.row)) for case in cases if case.row < first or case.row in moved
    ]
    return Told(placed, names, len(moved), dict(sorted(counts.items())))
