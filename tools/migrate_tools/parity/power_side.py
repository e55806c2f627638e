"""Changed versions of the new reward, run inside the sandbox on the cases: many in one process, each on the cases that
reach its lines.

The unchanged module runs first, the same way, and must give the answers that the comparison saw; that run also tells
which case reaches which line. Standard library only.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import mmap
import os
import random
import sys
import threading
import time
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from migrate_tools.parity import inline, supervise
from migrate_tools.parity.new_side import GROUP, Caller
from migrate_tools.parity.values import identical, same
from migrate_tools.parity.verdicts import METRIC_KEYS

VERSIONS = "versions.jsonl"
BASE_SECONDS = 120.0
"""Longest time for the unchanged module on all cases, where half of that for all versions is less."""
ONE_SECONDS = 20.0
"""Longest time for one changed module: far more than it needs, so that the load of the machine decides nothing."""
SLOWER = 3.0
"""A changed module has at least so many times what the unchanged one took, or a slow survivor would pass for caught."""
MORE_SECONDS = 10.0
"""Longest time for the mutants, which only inform."""
AGAIN_SHARE = 1 / 3
"""Share of the time that the second look at survivors has in any case; else what the first one left."""
GROUPS = 3
Record = dict[str, Any]


def run_versions(
    job: Mapping[str, Any], folder: Path, rows: Sequence[Any], cases: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """{"versions": [...]}, a record for each changed module: caught (with the case), survived, unreached or not run.

    `versions.jsonl` in `folder` has the changed modules: their text, and the lines of which one must run.
    {"error": ...} when the unchanged module does not answer as it did in the comparison.
    """
    versions = [json.loads(line) for line in (folder / VERSIONS).read_text(encoding="utf-8").splitlines()]
    base = _run_base(job, rows, cases)
    if job.get("inline") and (base["kind"] != "value" or base["other"]):
        job = {**job, "inline": False}  # its processes do more than compute
        base = _run_base(job, rows, cases)
    if base["kind"] != "value":
        return {"error": f"the unchanged reward could not be run again: {base.get('error', base['kind'])}"}
    if base["other"]:
        return {
            "error": f"the unchanged reward answers {base['other']} of {base['run']} cases otherwise in a second run"
        }
    reached = {int(line): frozenset(indexes) for line, indexes in base["reached"].items()}
    plans = [_cases_of(version, reached, base["usable"]) for version in versions]
    began = time.monotonic()
    results: dict[int, Record] = {}
    for part, seconds in ((range(job["first"]), job["total_seconds"]), (range(job["first"], len(plans)), MORE_SECONDS)):
        results |= supervise.run_items(
            [position for position in part if plans[position]],
            lambda: _runner(job, rows, cases, versions, plans, base["groups"]),
            item_seconds=max(ONE_SECONDS, SLOWER * base["seconds"]),
            total_seconds=seconds,
        )
    lost = [
        position
        for position in range(job["first"])
        if results.get(position, {}).get("kind") == "survived" or plans[position] and "whole" in versions[position]
    ]
    if lost and job.get("mined"):
        from migrate_tools.parity.survivors import look_again

        left = max(AGAIN_SHARE * job["total_seconds"], job["total_seconds"] - (time.monotonic() - began))
        again = look_again(job, rows, cases, versions, {place: plans[place] for place in lost}, left)
        for position, record in again.items():
            results[position] = {"kind": "survived", **record} if "tried" in record else {"kind": "skipped"}
    return {"versions": [results.get(position, {"kind": "unreached"}) for position in range(len(versions))]}


def _run_base(job: Mapping[str, Any], rows: Sequence[Any], cases: Sequence[Mapping[str, Any]]) -> Record:
    seconds = max(BASE_SECONDS, job["total_seconds"] / 2)
    return supervise.run_items([0], lambda: _base(job, rows, cases), item_seconds=seconds, total_seconds=seconds)[0]


def _cases_of(version: Mapping[str, Any], reached: Mapping[int, frozenset[int]], usable: Sequence[int]) -> list[int]:
    """Cases that can tell a version apart, in order; every case where nothing is known of its lines."""
    lines = version["lines"]
    if not lines:
        return list(usable)
    touched = frozenset[int]().union(*(reached.get(line, frozenset()) for line in lines))
    return [index for index in usable if index in touched]


class Versions(Caller):
    """Calls any version of the module, in this thread where that is possible: no hop between threads or processes."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        if job.get("inline"):
            inline.install()
        super().__init__(job)
        self._job, self._process = job, os.getpid()
        self.original = self._module
        self.file = str(self.original.__file__)

    def use(self, module: types.ModuleType) -> None:
        """Makes a module the one that is called."""
        self._module = module
        self._function = getattr(module, self._job["function"])
        attempt = getattr(module, "_attempt", None)
        self._direct = False
        if attempt is not None and hasattr(module, "_run") and not inspect.iscoroutinefunction(attempt):

            async def run(request: dict[str, Any]) -> Any:
                return attempt(request)

            module._run = run  # type: ignore[attr-defined]
            self._direct = True

    @property
    def source(self) -> str:
        """The text of the unchanged module."""
        return Path(self.file).read_text(encoding="utf-8")

    def load(self, source: str, names: Mapping[str, Any] | None = None) -> types.ModuleType:
        """A module object made from a changed text, with further names in it.

        Raises:
            Exception: whatever loading it raises.
        """
        module = types.ModuleType(self._job["module"])
        module.__file__ = self.file
        module.__package__ = self._job["module"].rpartition(".")[0]
        sys.modules[self._job["module"]] = module
        module.__dict__.update(names or {})
        exec(compile(source, self.file, "exec"), module.__dict__)
        return module

    def call(self, subject: Any) -> Any:
        """The raw reward of a Sample or a list of them."""
        if self._tape is not None:
            self._tape.begin()
        if not self.is_async:
            return self._function(self._args, subject)
        coroutine = self._function(self._args, subject)
        if self._direct and not isinstance(subject, list):
            try:
                coroutine.send(None)
            except StopIteration as done:
                return done.value
            coroutine.close()
            raise RuntimeError("the reward waits for something")
        return _in_main_loop(coroutine)

    def outcome(self, row: Mapping[str, Any], case: Mapping[str, Any], index: int) -> Record:
        """The record of one case; an exception is a record too."""
        random.seed(index)
        sample = self.sample(row, case)
        try:
            record = self.record(sample, self.call(sample))
        except Exception as error:
            return {"kind": "exception", "error": supervise.describe(error)}
        finally:
            supervise.end_copies(self._process)
        requests = self.requests()
        return record if requests is None else {**record, "requests": requests}

    def group(self, samples: list[Any]) -> list[Record] | None:
        """The records of the list form; None when it does not give one reward for each sample."""
        raw = self.call(samples)
        if not isinstance(raw, list) or len(raw) != len(samples):
            return None
        return [self.record(sample, one) for sample, one in zip(samples, raw, strict=True)]


_LOOP: list[asyncio.AbstractEventLoop] = []


def _in_main_loop(coroutine: Any) -> Any:
    if not _LOOP:
        _LOOP.append(asyncio.new_event_loop())
    return _LOOP[0].run_until_complete(coroutine)


class _Lines:
    """Numbers of lines that ran, in this process or in one that was forked from it since."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._memory = mmap.mmap(-1, size)  # anonymous and shared with every child

    def add(self, line: int) -> None:
        self._memory[line] = 1

    def clear(self) -> None:
        self._memory[:] = bytes(self._size)

    def found(self) -> list[int]:
        return [line for line, ran in enumerate(self._memory[:]) if ran]


def _base(job: Mapping[str, Any], rows: Sequence[Any], cases: Sequence[Mapping[str, Any]]) -> supervise.Runner:
    """The unchanged module on every case that agreed: does it answer the same, and which lines does it reach."""
    caller = Versions(job)
    seen = _Lines(caller.source.count("\n") + 2)

    def local(frame: Any, event: str, _: Any) -> Any:
        if event == "line":
            seen.add(frame.f_lineno)
        return local

    def trace(frame: Any, event: str, _: Any) -> Any:
        return local if frame.f_code.co_filename == caller.file else None

    def run(_: int) -> Record:
        began = time.monotonic()
        caller.use(caller.load(caller.source))
        expected: Sequence[Record | None] = job["baseline"]
        reached: dict[int, list[int]] = {}
        usable = [index for index, record in enumerate(expected) if record is not None]
        other = 0
        threading.settrace(trace)
        for index in usable:
            seen.clear()
            sys.settrace(trace)
            record = caller.outcome(rows[cases[index]["row"]], cases[index], index)
            sys.settrace(None)
            other += differs(record, expected[index] or {})
            for line in seen.found():
                reached.setdefault(line, []).append(index)
        picked = _groups(usable, expected)
        samples = [[caller.sample(rows[cases[i]["row"]], cases[i]) for i in group] for group in picked]
        seen.clear()
        sys.settrace(trace)
        groups = [
            {"cases": group, "records": _group_records(caller, one)} for group, one in zip(picked, samples, strict=True)
        ]
        sys.settrace(None)
        for line in seen.found():
            reached.setdefault(line, list(usable) if line not in reached else reached[line])
        return {
            "kind": "value",
            "seconds": time.monotonic() - began,
            "other": other,
            "run": len(usable),
            "usable": usable,
            "reached": reached,
            "groups": groups,
        }

    return run


def _group_records(caller: Versions, samples: list[Any]) -> list[Record] | None:
    try:
        return caller.group(samples)
    except Exception as error:
        return [{"kind": "exception", "error": supervise.describe(error)}]


def _groups(usable: Sequence[int], expected: Sequence[Record | None]) -> list[list[int]]:
    """A few groups of cases whose rewards differ as much as they can: sorted by reward, every n-th one."""
    count = min(GROUPS, len(usable) // GROUP)
    ordered = sorted(usable, key=lambda index: json.dumps((expected[index] or {}).get("score")))
    last = len(ordered) - 1
    steps = [last * place // (GROUP - 1) for place in range(GROUP)]
    return [[ordered[max(0, step - offset)] for step in steps] for offset in range(count)]


def _runner(
    job: Mapping[str, Any],
    rows: Sequence[Any],
    cases: Sequence[Mapping[str, Any]],
    versions: Sequence[Mapping[str, Any]],
    plans: Sequence[Sequence[int]],
    groups: Sequence[Mapping[str, Any]],
) -> supervise.Runner:
    caller = Versions(job)
    base: Sequence[Record | None] = job["baseline"]
    turns = _turns(base)

    def run(position: int) -> Record:
        try:
            caller.use(caller.load(versions[position]["source"]))
        except Exception as error:
            return {"kind": "caught", "case": 0, "by": f"it does not load: {supervise.describe(error)}"}
        for index in _killers_first(sorted(plans[position], key=turns.__getitem__), killers):
            record = caller.outcome(rows[cases[index]["row"]], cases[index], index)
            if differs(record, base[index] or {}):
                killers[index] = killers.get(index, 0) + 1
                return {"kind": "caught", "case": index, "by": record.get("error", "another value"), "record": record}
        if versions[position]["lists"] and (place := _other_group(caller, rows, cases, groups, base)) is not None:
            return {"kind": "caught", "case": place, "by": "a list of samples"}
        return {"kind": "survived"}

    killers: dict[int, int] = {}
    return run


def _turns(base: Sequence[Record | None]) -> list[tuple[int, int]]:
    """When a case's turn is: of every different reward the first ones before more of the commonest.

    A scorer that takes a second a call cannot be asked about all cases for every version.
    """
    before: dict[str, int] = {}
    turns = []
    for index, record in enumerate(base):
        said = json.dumps((record or {}).get("score"), default=repr)
        turns.append((before.get(said, 0), index))
        before[said] = before.get(said, 0) + 1
    return turns


def _killers_first(plan: Sequence[int], killers: Mapping[int, int]) -> list[int]:
    """The cases of a plan, those first that told other versions apart: most are caught after a few calls."""
    known = sorted((index for index in killers if index in set(plan)), key=lambda index: -killers[index])
    return [*known, *(index for index in plan if index not in killers)]


def _other_group(
    caller: Versions,
    rows: Sequence[Any],
    cases: Sequence[Mapping[str, Any]],
    groups: Sequence[Mapping[str, Any]],
    base: Sequence[Record | None],
) -> int | None:
    """The first case of a list whose rewards are not those of the unchanged module."""
    for group in groups:
        records = _group_records(caller, [caller.sample(rows[cases[i]["row"]], cases[i]) for i in group["cases"]])
        expected = group["records"]
        if records is None or expected is None or len(records) != len(expected):
            return int(group["cases"][0])
        for index, one, other in zip(group["cases"], records, expected, strict=False):
            if differs(one, {**other, **asked(base[index])}):
                return int(index)
    return None


def differs(record: Mapping[str, Any], base: Mapping[str, Any]) -> bool:
    """True when the comparison would not let a record pass that lets the unchanged module's record `base` pass.

    Args:
        base: with what the comparison asks of the case: `old_kind`, `old_keys`, `zeroed` (verl's manager turns an
            exception into 0.0) and `strange` (a row that the data cannot hold). Where the old side raises, only the
            floor and the class of the error count; on a strange row the floor alone.
    """
    if record["kind"] != base["kind"]:
        return True
    said, wanted = str(record.get("reward_error") or ""), str(base.get("reward_error") or "")
    if base["old_kind"] == "exception":
        other_class = said.partition(":")[0] != wanted.partition(":")[0]
        return not record.get("at_floor") or not said or other_class and not base.get("strange")
    if said and not base["zeroed"] or not identical(record.get("score"), base.get("score")):
        return True
    if "requests" in base and sorted(map(repr, base["requests"])) != sorted(map(repr, record.get("requests", ()))):
        return True
    keys, others = record.get("keys", {}), base.get("keys", {})
    return any(_other(name, keys, others) for name in base["old_keys"] if name != "score" and name in others)


def asked(base: Mapping[str, Any] | None) -> Record:
    """What the comparison asks of a case beside the values."""
    return {name: (base or {}).get(name) for name in ("old_kind", "old_keys", "zeroed", "strange")}


def _other(name: str, keys: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    if name not in keys:
        return name not in METRIC_KEYS
    same_type = name == "acc" or identical(keys[name], others[name])
    return not same_type or not same(keys[name], others[name])
