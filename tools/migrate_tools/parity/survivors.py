"""A second look at seeded faults that no case told apart: a longer search for an input that shows each of them.

Runs inside the sandbox, on the new reward alone: the unchanged module against the faulty one. Standard library only.
"""

from __future__ import annotations

import json
import random
import time
import types
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from migrate_tools.parity import hanging, supervise
from migrate_tools.parity.hunt import Candidate, Hunt, Result
from migrate_tools.parity.power_side import Versions
from migrate_tools.parity.row_changes import applied, split, told_after
from migrate_tools.parity.swap import NOTED, noting
from migrate_tools.parity.told import COLUMN
from migrate_tools.parity.values import number

EFFORT = 1.2
"""Tries for one survivor, in those that the search before the comparison gives a version."""
ONE_SECONDS = 60.0
TRY_SECONDS = 2.0
"""Processor time of one call."""
WHOLE = "whole"
CPU_SECONDS, CPU_SHARE = 60.0, 0.75
"""Processor time for all survivors of one worker, or this share of the seconds, if that is more; those after it are not
run."""
Record = dict[str, Any]


def look_again(
    job: Mapping[str, Any],
    rows: Sequence[Any],
    cases: Sequence[Mapping[str, Any]],
    versions: Sequence[Mapping[str, Any]],
    plans: Mapping[int, Sequence[int]],
    seconds: float,
) -> dict[int, Record]:
    """For each version its record, none where time ran out.

    Returns:
        `tried` inputs that ran the changed line, on `other` of them the value there was another one, and `input`, one
        that shows the fault, or None.

    Args:
        versions: changed modules with `span`, `text`, `probe` and `focus` of the change; where the change is one step
            on the way to another module, that one's text (`whole`) and the `effort`.
        plans: position of a version -> cases that reach its lines.
    """
    return supervise.run_items(
        sorted(plans),
        lambda: _Survivors(job, rows, cases, versions, plans, max(CPU_SECONDS, CPU_SHARE * seconds)).run,
        item_seconds=ONE_SECONDS,
        total_seconds=seconds,
    )


class _Survivors:
    def __init__(
        self,
        job: Mapping[str, Any],
        rows: Sequence[Any],
        cases: Sequence[Mapping[str, Any]],
        versions: Sequence[Mapping[str, Any]],
        plans: Mapping[int, Sequence[int]],
        cpu_seconds: float,
    ) -> None:
        self._cpu_seconds = cpu_seconds
        self._versions, self._plans, self._rows, self._cases = versions, plans, rows, cases
        self._label, self._metadata = job["args"]["label_key"], job["args"]["metadata_key"]
        self._caller = Versions(job)
        hanging.install()
        self._source = self._caller.source.encode()
        self._notes: list[str] = []
        self._noted = False
        self._modules: dict[str, Any] = {"right": self._caller.load(self._caller.source)}
        asked = {name for record in job["baseline"] if record for name in record["old_keys"]}
        self._keys = asked - {"score"}
        mined, self._least = job["mined"], job["least"]
        self._told: dict[str, Any] = job["told"]["default"]
        self._plain = [self._as_old(row) for row in rows]
        self._hunt = Hunt(self._plain, mined["keys"], mined["literals"], mined["numbers"], self._run)
        self._place: dict[int, int] = {}
        for index in sorted({index for plan in plans.values() for index in plan}):
            case = cases[index]
            self._place[index] = len(self._place)
            candidate = Candidate(case["row"], case["new"], (), case["length"], case["told"])
            self._hunt.add(candidate, self._run(candidate, "right").outcome)

    def run(self, position: int) -> Record:
        """The record of one survivor."""
        if time.process_time() > self._cpu_seconds:
            return {"left": "no time"}
        version = self._versions[position]
        self._modules["right"], self._modules["faulty"] = self._both(version)
        self._modules[WHOLE] = self._caller.load(version["whole"]) if "whole" in version else None
        places = [self._place[index] for index in self._plans[position]]
        wanted = "faulty" if self._modules.get(WHOLE) is None else WHOLE
        effort = version.get("effort", EFFORT)
        found = self._hunt.look(places, version["focus"], Random(position), effort, wanted, self._least)
        shown = None
        if found is not None:
            changes = [[list(path), value] for path, value in found.changes]
            shown = {"row": found.row, "raw": found.raw, "changes": changes, "length": found.length, "told": found.told}
        return {"tried": self._hunt.reached, "other": self._hunt.infected, "input": shown}

    def _both(self, version: Mapping[str, Any]) -> tuple[types.ModuleType, types.ModuleType]:
        """The unchanged module and the changed one, both noting the value at the change where that is possible."""
        (start, end), text, probe = version["span"], version["text"].encode(), version["probe"]
        if probe:
            forms = [
                self._source[: probe[0]] + NOTED + self._source[probe[0] : start] + middle
                + self._source[end : probe[1]] + b")" + self._source[probe[1] :]
                for middle in (self._source[start:end], text)
            ]  # fmt: skip
            try:
                both = self._noting(forms[0].decode()), self._noting(forms[1].decode())
            except SyntaxError:
                both = None
            self._noted = both is not None
            if both is not None:
                return both
        self._noted = False
        return self._caller.load(self._caller.source), self._caller.load(version["source"])

    def _noting(self, source: str) -> types.ModuleType:
        return self._caller.load(source, noting(self._notes))

    def _run(self, candidate: Candidate, which: str) -> Result:
        row, (own, told) = self._rows[candidate.row], split(candidate.changes)
        if own:
            changed = applied(self._plain[candidate.row], own)
            model, extra = changed.get("reward_model") or {}, changed.get("extra_info")
            row = {**row, self._label: model.get("ground_truth"), self._metadata: extra}
        length = candidate.length or max(1, len(candidate.raw) // 4) + 1
        self._caller.use(self._modules[which])
        self._notes.clear()
        random.seed(len(candidate.raw))
        said = told_after(self._told, candidate.told, told)
        try:
            with hanging.within(TRY_SECONDS):
                record = self._caller.outcome(row, {"new": candidate.raw, "length": length, "told": said}, 0)
        except hanging.Hanging:
            return Result(hanging.OUTCOME, ())
        return Result(self._outcome(record), self._notes.copy(), (), self._noted and which == "right")

    def _as_old(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Label and metadata under the names that the rows of verl have."""
        told = {COLUMN: self._told} if self._told else {}
        extra = row.get(self._metadata) or {}
        return {"reward_model": {"ground_truth": row.get(self._label)}, "extra_info": extra, **told}

    def _outcome(self, record: Mapping[str, Any]) -> tuple[Any, ...]:
        """What the comparison would look at."""
        said = str(record.get("reward_error") or record.get("error") or "").partition(":")[0]
        keys = {name: value for name, value in record.get("keys", {}).items() if name in self._keys}
        if "acc" in keys:
            keys["acc"] = number(keys["acc"]) if number(keys["acc"]) is not None else keys["acc"]
        score = number(record["score"]) if record["kind"] == "value" else None
        shown = json.dumps(keys, sort_keys=True, default=repr)
        return (record["kind"], repr(record.get("score")), shown, score is not None and score > 0, said)
