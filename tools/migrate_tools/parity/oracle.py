"""Freezes the oracle: cases, and what the old reward answers, before any draft exists."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from migrate_tools.model import Launch, Recipe
from migrate_tools.packages import install_command
from migrate_tools.parity import directed, guided, managers, oldjob, texts, told
from migrate_tools.parity.balance import shares
from migrate_tools.parity.case import Case
from migrate_tools.parity.frozen import CASES, ORACLE, Budget, FrozenCases, close, load
from migrate_tools.parity.inputs import prepare, scored_as_logged, tool_names
from migrate_tools.parity.sandbox_data import fresh_folder
from migrate_tools.parity.sources import Sources
from migrate_tools.parity.supervise import JOB_SECONDS
from migrate_tools.parity.tape_settings import tape_settings
from migrate_tools.parity.values import same
from migrate_tools.sandbox import PYTHON, Job, Limits, Mount, Sandbox, python_env, python_mounts
from migrate_tools.verl.manager_added import told_keys

__all__ = ["Budget", "FrozenCases", "freeze", "load"]

CASE_SECONDS = 4.0
OWN_LIMIT_TRAITS = frozenset({"children", "signal", "import:math_verify"})
OWN_LIMIT_SECONDS = 20.0
"""Longest time for a case of a scorer that has limits of its own, so that these end it: verl's prime_code stops a
program after 6 s, then tries each test case for 11 s."""
WARM_TRAITS = frozenset({"process", "import:math_verify"})
"""Scorers that start processes on their first call, which may take long."""
JOB_MEMORY_MB = 3072
"""Memory of a sandbox job of either side; a worker that needs too much is ended before."""
UNSTABLE = {"random": "it draws random numbers", "time": "it reads the clock"}
"""Traits of a scorer that let two runs differ: the second one has other seeds and a later clock."""
WAITING_SECONDS = 0.03
"""Mean time of a call above which a scorer that may wait is taken to wait; one that only computes takes some
milliseconds, one that starts processes a tenth of a second."""
SEED_PERCENT = 50
"""Share of the cases that is made beforehand; the rest is found by running them on the old reward."""


def freeze(
    recipe: Recipe,
    launch: Launch,
    *,
    sandbox: Sandbox,
    work: Path,
    budget: Budget | None = None,
    logs: Sequence[Path] = (),
) -> FrozenCases:
    """Makes cases for the reward of one launch, records the old side's answers, and closes both.

    Args:
        work: folder of this run; the oracle goes to `parity/<launch>/oracle` below it. One that is already closed
            there is opened, not made again, and so is that of an earlier launch with the same reward and data
            (`meta["launch"]` then names it).
        logs: files or folders that verl logged responses to; they become cases beyond the budget.

    Raises:
        MachineError: the sandbox does not work.
        UsageError: a log cannot be read.
    """
    budget = budget or Budget()
    key = scorer_key(launch, logs)
    if (folder := closed_oracle(work, launch.name, key)) is not None:
        return load(folder)
    folder = work / "parity" / launch.name / "oracle"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sources = Sources(recipe, launch)
    meta: dict[str, Any] = {"version": 1, "launch": launch.name, "key": key, "rows": [], "reason": "", "missing": []}
    meta |= {"rollouts": {}, "cut": "", "made_rows": 0, "telling": []}
    if reason := oldjob.not_checkable(recipe, launch):
        return close(folder, {**meta, "reason": reason}, [], [])
    missing, meta["absent"] = sources.missing_packages()
    if missing:
        return close(folder, {**meta, "reason": missing_reason(missing), "missing": missing}, [], [])
    keys, seeds = told_keys(launch), budget.cases * SEED_PERCENT // 100
    given = prepare(launch, sources.mined, folder, cases=seeds, budget=budget.cases, logs=logs, keys=keys)
    tape = tape_settings(launch, sources.mined)
    meta |= {"rows": given.files, "rows_from": given.rows_from, "family": given.family.name, "tape": tape}
    meta |= {"allowed_seconds": budget.seconds, "row_count": len(given.rows), "made_rows": len(given.made)}
    tools = tool_names(launch)
    meta["told"] = {"names": [*keys], "tools": tools, "default": told.default(keys, tools)}
    meta |= {"imports": sources.imports(), "stand_ins": sources.beside(), "writes": sources.writes()}
    job = {**_old_job(recipe, launch, given.files, budget.seconds, tape), **_loading(meta), "salt": budget.salt}
    found = guided.search(
        sandbox,
        recipe,
        launch,
        job,
        folder,
        given,
        cases=max(budget.cases + len(given.logged), len(given.cases)),
        runs=max(budget.cases * sources.search_factor() // 2 + len(given.logged), len(given.cases)),
        functions=sources.functions(),
    )
    more = directed.search(
        sandbox,
        recipe,
        launch,
        job,
        folder,
        given,
        [case for case in found.cases if case in found.ended],
        code=sources.code,
        entry=sources.entry,
        budget=budget.cases,
        slow=bool(found.cut) or sources.is_slow and _waits(found),
        seconds=budget.seconds,
    )
    cases = [*found.cases, *more.cases]
    job["rows"] = meta["rows"] = [*given.files, *more.files]
    meta["made_rows"] += more.rows
    meta |= {"coverage": found.coverage, "cut": found.cut, "search": {"runs": found.runs, "seconds": found.seconds}}
    meta |= {"directed": more.counts}
    runs = run_old(sandbox, recipe, launch, job, folder, [case.line() for case in cases], folder.parent / "old")
    if not isinstance(runs, str) and model_reason(runs[0].get("manager_check")):
        meta["own_class"] = True  # a fork has changed the manager: the class itself says what it does
        job = _with_class(job)
        runs = run_old(sandbox, recipe, launch, job, folder, [case.line() for case in cases], folder.parent / "old")
    if isinstance(runs, str):
        return close(folder, {**meta, "reason": runs}, [case.line() for case in cases], [])
    if given.log:
        meta["rollouts"] = scored_as_logged(given, cases, runs[0]["records"])
    meta["telling"] = found.telling
    made = [*(variant.family == "fields" for variant in given.made), *[True] * more.rows]
    meta["strange"] = [len(given.rows) + number for number, strange in enumerate(made) if strange]
    return _closed(folder, meta, cases, runs, sources.traits)


def _waits(found: guided.Found) -> bool:
    """Whether a scorer that may wait, as its text says, did so on the inputs of this recipe."""
    return not found.runs or found.seconds / found.runs > WAITING_SECONDS


def scorer_key(launch: Launch, logs: Sequence[Path] = ()) -> str:
    """Hash over everything that decides the cases and the old answers: equal keys, equal oracles."""
    reward = launch.reward.model_dump(mode="json", exclude={"source", "manager_source"})
    family = texts.family_of(str(launch.get("actor_rollout_ref.model.path", ""))).name
    told_by = [*told_keys(launch), *tool_names(launch)]
    facts = [
        told_by,
        reward,
        launch.data.model_dump(mode="json"),
        family,
        launch.verl.root,
        launch.environment,
        *map(str, logs),
    ]
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def closed_oracle(work: Path, launch: str, key: str) -> Path | None:
    """The oracle folder of this launch, or of another launch with the same key; None when there is none yet."""
    own = work / "parity" / launch / "oracle"
    for folder in (own, *sorted(work.glob("parity/*/oracle"))):
        if (folder / ORACLE).is_file() and load(folder).meta.get("key") == key:
            return folder
    return None


def old_job(recipe: Recipe, launch: Launch, frozen: FrozenCases, *, seconds: float) -> dict[str, Any]:
    """The old side's job for other cases over the rows of an oracle: one run, no tracing."""
    job = _old_job(recipe, launch, frozen.row_files, seconds, frozen.meta["tape"])
    job = {**job, "repeat": False, "check": False, **_loading(frozen.meta)}
    return _with_class(job) if frozen.meta.get("own_class") else job


def _with_class(job: dict[str, Any]) -> dict[str, Any]:
    """The job with the manager's own class in place of what stands for it."""
    return {**job, "manager": {**job["manager"], "name": managers.CUSTOM}}


def _loading(meta: Mapping[str, Any]) -> dict[str, Any]:
    """What of the third-party packages is loaded before the first case, what only as a stand-in, what is not there;
    files it makes; what a rollout tells."""
    found = {name: meta.get(name, []) for name in ("imports", "stand_ins", "writes", "absent")}
    return {**found, "told": meta.get("told", told.NOTHING)}


def _old_job(recipe: Recipe, launch: Launch, rows: list[str], seconds: float, tape: Any) -> dict[str, Any]:
    return {
        "rows": rows,
        "cases": CASES,
        "reader": oldjob.row_reader(launch),
        "scorer": oldjob.scorer(recipe, launch),
        "manager": oldjob.manager_settings(launch),
        "real": _real(recipe, launch),
        **oldjob.import_paths(recipe),
        "verl_root": oldjob.VERL if Path(launch.verl.root, "verl").is_dir() else None,
        "environment": dict(oldjob.environment(launch)),
        "case_seconds": case_seconds(launch),
        "total_seconds": seconds,
        "tape": tape,
        "repeat": True,
        "check": True,
        "warm": bool(WARM_TRAITS & set(launch.reward.traits)),
    }


def case_seconds(launch: Launch) -> float:
    """Longest time for one case of the old reward, in seconds."""
    return OWN_LIMIT_SECONDS if OWN_LIMIT_TRAITS & set(launch.reward.traits) else CASE_SECONDS


def _real(recipe: Recipe, launch: Launch) -> dict[str, Any] | None:
    """The manager class itself, with the prompts and special tokens that its tokenizer knows."""
    made = oldjob.real_manager(recipe, launch)
    if made is None:
        return None
    family = texts.family_of(str(launch.get("actor_rollout_ref.model.path", "")))
    return {"class": made, "family": family.name, "prompt_key": launch.data.prompt_key}


def run_old(
    sandbox: Sandbox,
    recipe: Recipe,
    launch: Launch,
    job: dict[str, Any],
    rows_folder: Path,
    cases: Sequence[str],
    place: Path,
) -> list[dict[str, Any]] | str:
    """Both runs of the old side on `cases` (lines of JSON), or why there are none."""
    fresh_folder(place)
    for name in job["rows"]:
        shutil.copyfile(rows_folder / name, place / name)
    (place / CASES).write_text("".join(f"{line}\n" for line in cases), encoding="utf-8")
    (place / "job.json").write_text(json.dumps(job), encoding="utf-8")
    outcome = sandbox.run(
        Job(
            argv=(PYTHON, "-m", "migrate_tools.parity.old_side", "/work/job.json"),
            mounts=(
                *python_mounts(),
                *oldjob.source_mounts(recipe, launch, place, writes=job["writes"]),
                Mount(place, "/work", writable=True),
            ),
            env=python_env(),
            limits=Limits(seconds=job["total_seconds"] * 2 + JOB_SECONDS, memory_mb=JOB_MEMORY_MB),
        )
    )
    results = [place / f"old_{seed}.json" for seed in ((0, 1) if job["repeat"] else (0,))]
    if not all(result.is_file() for result in results):
        cause = "time" if outcome.timed_out else "memory" if outcome.out_of_memory else last_line(outcome.stderr)
        return f"the old reward could not be run: {cause}"
    return [json.loads(result.read_text(encoding="utf-8")) for result in results]


def last_line(stderr: bytes) -> str:
    """The last line of an error output."""
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else "no reason given"


def _closed(
    folder: Path, meta: dict[str, Any], cases: list[Case], runs: list[dict[str, Any]], traits: Sequence[str]
) -> FrozenCases:
    first, second = (run["records"] for run in runs)
    strange = frozenset(meta["strange"])
    kept: list[str] = []
    outcomes: list[dict[str, Any]] = []
    for case, one, other in zip(cases, first, second, strict=True):
        if "skipped" in (one["kind"], other["kind"]):
            continue
        kept.append(case.line())
        outcomes.append(of_both_runs(one, other, strange=case.row in strange))
    told = {case.line() for case in meta["telling"]}
    telling = [number for number, line in enumerate(kept) if line in told]
    meta |= {
        "telling": telling,
        "families": dict(sorted(Counter(case.family for case in cases).items())),
        "skipped": len(cases) - len(kept),
        "keys": sorted({key for record in outcomes for key in record.get("keys", ())}),
        "seconds": round(max(run["seconds"] for run in runs), 3),
        "groups": [record for record in runs[0].get("groups", ())],
        "manager_check": runs[0].get("manager_check"),
        **shares(outcomes),
    }
    reason, missing = model_reason(meta["manager_check"]), list[str]()
    if not reason:
        reason, missing = _whole_run_reason(outcomes, traits, made_up=meta["rows_from"] == "made_up")
    return close(folder, {**meta, "reason": reason, "missing": missing}, kept, outcomes)


def of_both_runs(one: dict[str, Any], other: dict[str, Any], *, strange: bool) -> dict[str, Any]:
    """The first run's record, with what the second says of it; `strange`: its row is one that the data cannot hold."""
    odd = {"strange": True} if strange and one["kind"] == "exception" else {}
    return {**one, "stable": agree(one, other), **odd}


def agree(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """True when both runs of the old side gave the same record, messages of exceptions aside."""
    if one["kind"] != other["kind"]:
        return False
    if one["kind"] != "value":
        return True
    keys, others = one["keys"], other["keys"]
    return (
        same(one["score"], other["score"])
        and keys.keys() == others.keys()
        and all(same(value, others[key]) for key, value in keys.items())
    )


def model_reason(checked: Mapping[str, Any] | None) -> str:
    """Why our model of the reward manager cannot be trusted, or empty."""
    if not checked or not checked["differences"]:
        return ""
    return f"what stands for the reward manager differs from {checked['class']}: {checked['differences'][0]}"


def _whole_run_reason(
    outcomes: Sequence[dict[str, Any]], traits: Sequence[str], *, made_up: bool
) -> tuple[str, list[str]]:
    """Why the run as a whole cannot serve as an oracle, and packages that are missing."""
    if not outcomes:
        return "no case was run within the time budget", []
    missing = sorted({name for record in outcomes if (name := _missing(record))})
    if missing:
        return missing_reason(missing), missing
    if outcomes[0]["kind"] == "setup":
        return f"the old reward does not load: {outcomes[0]['error']}", []
    if all(record["kind"] in ("exception", "died") for record in outcomes):
        error = outcomes[0]["error"]
        if made_up and not error.startswith("TypeError: "):  # a wrong call fails whatever the rows are
            return f"the data is not at hand, and the old reward raises on every made-up row: {error}", []
        return f"the old reward raises on every case, so it does not run in verl either: {error}", []
    if swallowed := _swallowed(outcomes):
        return f"in this verl every reward is 0.0: its manager turns {swallowed} into 0.0 on every case", []
    if all(record["kind"] == "timeout" for record in outcomes):
        return "the old reward ends on no case within the time limit", []
    loose = sum(not record["stable"] for record in outcomes)
    if loose > len(outcomes) / 2:
        causes = [text for trait, text in UNSTABLE.items() if trait in traits]
        why = f" ({', '.join(causes)})" if causes else ""
        return f"the old reward is not deterministic{why}: {loose} of {len(outcomes)} cases differ between two runs", []
    return "", []


def _swallowed(outcomes: Sequence[dict[str, Any]]) -> str:
    """The exception that the manager makes 0.0 of, where every case ends with it; else empty."""
    mark = "error became 0.0: "
    notes = [[note for note in record.get("notes", ()) if note.startswith(mark)] for record in outcomes]
    return notes[0][0].removeprefix(mark) if all(found and found == notes[0] for found in notes) else ""


def _missing(record: dict[str, Any]) -> str:
    error = str(record.get("error", ""))
    if record["kind"] == "missing":
        return error.partition(".")[0]
    marker = "ModuleNotFoundError: No module named '"
    if error.startswith(marker):
        name = error.removeprefix(marker).partition("'")[0].partition(".")[0]
        return "" if name in ("verl", "recipe") else name
    return ""


def missing_reason(names: Sequence[str]) -> str:
    """Names the packages and the command that installs them."""
    return f"the old reward needs {', '.join(names)}, not installed here: {install_command(names)}"
