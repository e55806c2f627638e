"""The new reward inside the sandbox, called as Relax calls it, on every case.

`python -m migrate_tools.parity.new_side /work/job.json` converts the rows with the generated script, loads them as
Relax does, builds Samples and calls the named hook: an `async def` in a loop that runs in a background thread, a plain
`def` in the main thread of a worker with pickled arguments. Standard library and pyarrow only.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import importlib
import inspect
import json
import os
import pickle
import random
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from migrate_tools.parity import coverage, probes, supervise, texts, told, watch
from migrate_tools.parity.sandbox_data import load_cases, load_rows
from migrate_tools.parity.values import encode, same

GROUP = 8
GROUP_SECONDS = 60.0
"""Longest time for a list of samples, each of which ended within the limit of a case: only a deadlock takes longer."""
MEMORY_MB = 2200
"""Memory of a worker with the worker processes of the written reward."""
WARM_SECONDS = 150.0
"""Longest time for loading a reward, with the start of a worker process of its own."""
COVERED = 160
COVERED_SECONDS = 5.0
"""Cases that are run once more, with probes, and the seconds for that, at most."""
FAMILIES = {family.name: family for family in texts.ALL}


def main(argv: list[str]) -> None:
    """Writes new.json beside the job: {"error": ...} or {"records": [...], "groups": [...]}."""
    job_path = Path(argv[1])
    job = json.loads(job_path.read_text(encoding="utf-8"))
    answer = _answer(job, job_path.parent)
    (job_path.parent / "new.json").write_text(json.dumps(answer), encoding="utf-8")


def _answer(job: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    began = time.monotonic()
    names, problem = convert(job, folder)
    if problem:
        return {"error": problem}
    rows = load_rows(folder / "converted", names, "python")
    cases = load_cases(folder / job["cases"])
    needed = 1 + max((case["row"] for case in cases), default=-1)
    if len(rows) < needed:
        return {"error": f"the converter kept {len(rows)} of {needed} rows"}
    if job.get("versions"):
        from migrate_tools.parity.power_side import run_versions

        return run_versions(job, folder, rows, cases)
    records = supervise.run_items(
        range(len(cases)),
        lambda: _single_runner(job, rows, cases),
        item_seconds=job["case_seconds"],
        total_seconds=job["total_seconds"],
        setup_seconds=WARM_SECONDS,
        memory_mb=MEMORY_MB,
    )
    usable = [i for i in job.get("comparable", range(len(cases))) if records[i]["kind"] == "value"]
    groups = min(job.get("groups", 12), len(usable) // GROUP)
    grouped = supervise.run_items(
        range(groups),
        lambda: _group_runner(job, rows, cases, usable, groups),
        item_seconds=GROUP_SECONDS,
        total_seconds=job["total_seconds"] / 4,
        memory_mb=MEMORY_MB,
    )
    covered = supervise.run_items([0], lambda: _covered(job, rows, cases), item_seconds=8.0, total_seconds=10.0)[0]
    return {
        "coverage": covered.get("coverage", {}),
        "seconds": time.monotonic() - began,
        "records": [records[i] for i in range(len(cases))],
        "groups": [grouped[i] for i in range(groups)],
    }


def convert(job: Mapping[str, Any], folder: Path) -> tuple[list[str], str]:
    """Runs the generated converter over the frozen rows; the names of its files, or what went wrong.

    Rows that an earlier run of the same example converted are taken as they are.
    """
    target = folder / "converted"
    if job.get("versions") and all((target / name).exists() for name in job["rows"]):
        return list(job["rows"]), ""
    target.mkdir(exist_ok=True)
    command = [sys.executable, job["converter"], "--input-dir", str(folder / "rows"), "--output-dir", str(target)]
    command += job.get("converter_options", ())  # the function only sets what no reward reads
    done = subprocess.run(command, capture_output=True, timeout=120, text=True, errors="replace")
    missing = [name for name in job["rows"] if not (target / name).exists()]
    if done.returncode or missing:
        lines = done.stderr.strip().splitlines()
        return [], f"the converter failed (exit {done.returncode}): {lines[-1] if lines else f'no {missing}'}"
    return list(job["rows"]), ""


class Caller:
    """The reward hook of one example, called the way Relax calls it."""

    def __init__(self, job: Mapping[str, Any], extra_path: str = "") -> None:
        os.environ.update(job["environment"])
        watch.install(job.get("old_modules", ()))
        for folder in (*reversed(job["paths"]), extra_path):
            if folder:
                sys.path.insert(0, folder)
        os.chdir(job["paths"][0])
        self._tape = None
        if job.get("tape"):
            from migrate_tools.parity import clients

            self._tape = clients.install(job["tape"])
        self._args = Namespace(**job["args"])
        self._family = FAMILIES[job["family"]]
        self._sample_class = importlib.import_module("relax.utils.types").Sample
        try:
            self._module = importlib.import_module(job["module"])
        except BaseException as error:
            if watch.broken:
                raise watch.BrokenRule(watch.broken[0]) from error
            raise
        self._function: Callable[..., Any] = getattr(self._module, job["function"])
        self._loop = asyncio.new_event_loop()
        if self.is_async:
            threading.Thread(target=self._loop.run_forever, daemon=True).start()

    @property
    def is_async(self) -> bool:
        """Relax awaits real coroutine functions and sends everything else to a worker process."""
        return inspect.iscoroutinefunction(self._function)

    @property
    def starts_workers(self) -> bool:
        """The module starts a process of its own on the first call, which may take long on a busy machine."""
        return hasattr(self._module, "START_SECONDS")

    def warm(self, subject: Any) -> None:
        """One call that does not count, so that no case pays for the start; how it ends does not matter."""
        if self._tape is not None:
            self._tape.begin()
        if self.is_async:
            call = asyncio.run_coroutine_threadsafe(self._function(self._args, subject), self._loop)
            with contextlib.suppress(Exception):
                call.result(timeout=WARM_SECONDS - 30)

    @property
    def floor(self) -> float:
        """What the module returns when the scorer fails."""
        return float(getattr(self._module, "FLOOR", 0.0))

    def sample(self, row: Mapping[str, Any], case: Mapping[str, Any]) -> Any:
        """One Sample as Relax's data source and generate leave it."""
        args = self._args
        metadata = dict(row.get(args.metadata_key) or {})
        if case["told"]:
            metadata[told.COLUMN] = told.read(case["told"])
        prompt = row.get(args.input_key)
        if not isinstance(prompt, str):
            prompt = texts.flat_prompt(prompt, self._family)
        elif getattr(args, "apply_chat_template", False) and not texts.is_templated(prompt, self._family):
            prompt = texts.flat_prompt([{"role": "user", "content": prompt}], self._family)
        return self._sample_class(
            prompt=prompt,
            response=case["new"],
            response_length=case["length"],
            tokens=[0] * (case["length"] + 4),
            label=copy.deepcopy(row[args.label_key]),
            metadata=copy.deepcopy(metadata),
        )

    def arguments(self, sample: Any) -> Any:
        """What a reward may read and must leave as it is, encoded; only the reason of an error may be added."""
        metadata = {key: value for key, value in sample.metadata.items() if key != "reward_error"}
        return encode([sample.label, metadata, sample.response, sample.prompt])

    def call(self, subject: Any) -> Any:
        """The raw reward of a Sample or a list of them.

        Raises:
            Exception: whatever the hook raises, and TypeError for a plain function that returns an awaitable.
        """
        if self._tape is not None:
            self._tape.begin()
        if self.is_async:
            return asyncio.run_coroutine_threadsafe(self._function(self._args, subject), self._loop).result()
        args, sent = pickle.loads(pickle.dumps((self._args, subject)))
        result = self._function(args, sent)
        if inspect.isawaitable(result):
            raise TypeError("a plain reward function returned an awaitable")
        return result

    def requests(self) -> list[Any] | None:
        """Requests that the last call sent, when HTTP is taped."""
        return None if self._tape is None else self._tape.seen()

    def record(self, sample: Any, raw: Any) -> dict[str, Any]:
        """What Relax would train on, from the raw reward of a sample."""
        sample.reward = raw
        value = sample.get_reward_value(self._args)
        record: dict[str, Any] = {"kind": "value", "score": encode(value), "type": type(value).__name__}
        if type(value) is not float:
            record = {"kind": "bad_return", "error": f"the reward is a {type(value).__name__}, not a Python float"}
        record["keys"] = {str(key): encode(item) for key, item in raw.items()} if isinstance(raw, dict) else {}
        if sample.metadata.get("reward_error"):
            record["reward_error"] = str(sample.metadata["reward_error"])[:300]
            record["at_floor"] = same(encode(value), encode(self.floor))
        return record


def _single_runner(job: Mapping[str, Any], rows: list[Any], cases: list[dict[str, Any]]) -> supervise.Runner:
    caller = Caller(job)
    if cases and caller.starts_workers:
        first = cases[next(iter(job.get("comparable", ())), 0)]
        caller.warm(caller.sample(rows[first["row"]], first))

    def run(index: int) -> dict[str, Any]:
        case = cases[index]
        random.seed(index)
        sample = caller.sample(rows[case["row"]], case)
        before = caller.arguments(sample)
        watch.broken.clear()
        try:
            record = caller.record(sample, caller.call(sample))
        except Exception as error:
            record = {"kind": "exception", "error": supervise.describe(error)}
        if watch.broken:
            return {"kind": "broken_rule", "error": watch.broken[0]}
        if caller.arguments(sample) != before:
            record["mutated"] = ["label or metadata"]
        requests = caller.requests()
        return record if requests is None else {**record, "requests": requests}

    return run


def _group_runner(
    job: Mapping[str, Any], rows: list[Any], cases: list[dict[str, Any]], usable: list[int], groups: int
) -> supervise.Runner:
    """The list form, eight samples a call, spread over the usable cases."""
    caller = Caller(job)
    stride = max(1, len(usable) // (GROUP * max(1, groups)))

    def run(group: int) -> dict[str, Any]:
        indexes = [usable[(group * GROUP + k) * stride] for k in range(GROUP)]
        samples = [caller.sample(rows[cases[i]["row"]], cases[i]) for i in indexes]
        raw = caller.call(samples)
        if not isinstance(raw, list) or len(raw) != len(samples):
            return {"kind": "bad_return", "error": "the list form returned another number of rewards", "cases": indexes}
        records = [caller.record(sample, one) for sample, one in zip(samples, raw, strict=True)]
        return {"kind": "value", "cases": indexes, "records": records}

    return run


def _covered(job: Mapping[str, Any], rows: list[Any], cases: list[dict[str, Any]]) -> supervise.Runner:
    """Lines and branches of the hook's module that run on the cases that showed something new in the old reward, and on
    a spread of the others."""
    notes = probes.install([str(Path(job["paths"][0], *job["module"].split("."))) + ".py"])
    caller = Caller(job)

    def run(_: int) -> dict[str, Any]:
        usable = list(job.get("comparable", range(len(cases))))
        spread = usable[:: max(1, len(usable) // COVERED)]
        deadline = time.monotonic() + COVERED_SECONDS
        seen: set[str] = set()
        for index in dict.fromkeys([*(index for index in job.get("telling", ()) if index in set(usable)), *spread]):
            if time.monotonic() > deadline:
                break
            notes.begin()
            with contextlib.suppress(Exception):
                caller.call(caller.sample(rows[cases[index]["row"]], cases[index]))
            seen.update(f"{coverage.site_name(notes.sites[site])}={what}" for site, what in set(notes.seen))
        return {"kind": "value", "coverage": coverage.counted(notes.sites, seen)}

    return run


if __name__ == "__main__":
    main(sys.argv)
