"""Looks for inputs that tell faulty versions of the old scorer from the right one, inside the sandbox.

`python -m migrate_tools.parity.directed_side /work/job.json` takes each faulty version that the given cases do not tell
apart, changes cases that reach the fault (the response, and the row where that helps), and writes those that tell to
found.jsonl. How many are tried depends on counts alone; the wall limit ends a version that hangs. Standard library and
pyarrow only.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from migrate_tools.parity import hanging, inline, managers, old_side, supervise, swap, texts, told
from migrate_tools.parity.case import Case, make_case
from migrate_tools.parity.hunt import FINE, Candidate, Hunt, Result
from migrate_tools.parity.row_changes import RowChange, applied, split, told_after
from migrate_tools.parity.sandbox_data import as_read, load_cases, load_rows
from migrate_tools.parity.values import number

VERSIONS, FOUND, HANGS = "versions.jsonl", "found.jsonl", "hangs.jsonl"
FIRST_PASS = 0.2
"""Share of the tries of a version that it has before every other version had as many."""
CPU_SECONDS = 30.0
"""Processor time of one worker: a slow scorer's last versions are left out, whatever else the machine does."""
START_SECONDS = 0.02
"""What a process that the scorer starts counts for."""
TRY_SECONDS = 1.0
"""Processor time of one call."""
KNOWN_SECONDS = 10.0
"""Processor time of a known case: the first ones load packages, all are traced, and all ended before."""
MOST_HANGING = 6
"""After so many versions that do not end the search stops."""
LEARN_SECONDS = 20.0
"""Time in which a worker runs the known cases first; a scorer that waits has learnt from some of them by then."""
FILE = "<scorer>"
FAMILIES = {family.name: family for family in texts.ALL}


def main(argv: list[str]) -> None:
    """Runs one job."""
    path = Path(argv[1])
    job, folder = json.loads(path.read_text(encoding="utf-8")), path.parent
    cases = [Case(**case) for case in load_cases(folder / job["cases"])]
    rows = load_rows(folder, job["rows"], job["reader"])
    plain = rows if job["reader"] == "python" else load_rows(folder, job["rows"], "python")
    versions = [json.loads(line) for line in (folder / VERSIONS).read_text(encoding="utf-8").splitlines()]
    count = len(versions)
    records = supervise.run_items(
        range(2 * count),
        lambda: Search(job, folder, rows, plain, cases, versions).run,
        item_seconds=job["one_seconds"],
        total_seconds=job["total_seconds"],
        most_timeouts=MOST_HANGING,
    )
    kinds = [_last(records[index]["kind"], records[count + index]["kind"]) for index in range(count)]
    result = {"kinds": {kind: kinds.count(kind) for kind in sorted(set(kinds))}, "each": kinds}
    (folder / "directed.json").write_text(json.dumps(result), encoding="utf-8")


def _last(first: str, second: str) -> str:
    """What became of a version in both passes."""
    return first if second in ("done", "skipped") else second


class Search:
    """The search in one worker; a fresh worker goes on with what the one before found."""

    def __init__(
        self,
        job: Mapping[str, Any],
        folder: Path,
        rows: Sequence[Any],
        plain: Sequence[Any],
        cases: Sequence[Case],
        versions: Sequence[Mapping[str, Any]],
    ) -> None:
        self._job, self._versions = job, versions
        self._rows, self._plain = [*rows], [*plain]
        self._told: dict[str, Any] = job["told"]["default"]
        for row in self._plain if self._told else ():
            row[told.COLUMN] = self._told
        self._markers = FAMILIES[job["family"]]
        self._decoding = SimpleNamespace(**job["decoding"])
        self._started, self._process = 0, os.getpid()
        sys.addaudithook(self._audit)
        hanging.install()
        old_side.prepare_imports(job)
        if inline.fits(job["code"]):
            inline.install()
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._manager = managers.Manager(**job["manager"])
        self._swap = swap.Versions(job["code"], job["entry"], file=FILE)
        self._pair: swap.Pair | None = None
        mined = job["mined"]
        self._hunt = Hunt(self._plain, mined["keys"], mined["literals"], mined["numbers"], self._run)
        log = folder / FOUND
        self._left: int = job["tries"]
        self._missed: set[int] = set()
        self._reached: list[frozenset[int]] = []
        self._killers: dict[int, int] = {}
        self._hangs: set[int] = set()
        self._hang_log, self._learns = folder / HANGS, False
        hung = self._hang_log.read_text(encoding="utf-8").split() if self._hang_log.is_file() else ()
        self._hung = frozenset(map(int, hung))
        enough = time.monotonic() + LEARN_SECONDS
        for case in itertools.takewhile(lambda _: time.monotonic() < enough, cases):
            self._learn(case)
        for line in log.read_text(encoding="utf-8").splitlines() if log.is_file() else ():
            entry = json.loads(line)
            for change in entry["rows"]:
                self._keep_row(change["base"], [RowChange(tuple(path), value) for path, value in change["changes"]])
            self._learn(Case(**entry["case"]))
        self._log = log.open("a", encoding="utf-8")

    def _audit(self, event: str, _: tuple[Any, ...]) -> None:
        if event in ("os.fork", "subprocess.Popen"):
            self._started += 1

    def _keep_row(self, base: int, changes: Sequence[RowChange]) -> int:
        plain = applied(self._plain[base], changes)
        self._plain.append(plain)
        self._rows.append(self._read(plain))
        return self._hunt.add_row(plain)

    def _read(self, plain: Mapping[str, Any]) -> dict[str, Any]:
        """A row as the old side reads it."""
        return as_read({key: value for key, value in plain.items() if key != told.COLUMN}, self._job["reader"])

    def _run(self, candidate: Candidate, which: str) -> Result:
        """What the right or the faulty version in question makes of an input."""
        row, (own, _) = self._rows[candidate.row], split(candidate.changes)
        if own:
            row = self._read(applied(self._plain[candidate.row], own))
        case = self._case(candidate)
        call = managers.Call(row, case.old, case.length, told.read(case.told))
        random.seed(len(candidate.raw))
        if self._pair is None:
            return Result(self._outcome(self._swap.entry, call), ())
        outcome, seen = self._swap.run(self._pair, which, lambda function: self._outcome(function, call))
        return Result(outcome, seen, tuple(self._swap.compared), self._pair.noting)

    def _case(self, candidate: Candidate, row: int | None = None) -> Case:
        prompt = self._plain[candidate.row].get(self._job["prompt_key"])
        place = candidate.row if row is None else row
        length, said = candidate.length or None, told_after(self._told, candidate.told, split(candidate.changes)[1])
        return make_case(
            place, "directed", candidate.raw, prompt, self._decoding, self._markers, length=length, told=said
        )

    def _outcome(self, function: Any, call: managers.Call) -> tuple[Any, ...]:
        started = self._started
        try:
            with hanging.within(KNOWN_SECONDS if self._learns else TRY_SECONDS):
                record = managers.score(self._manager, function, call, self._loop, watched=False)
        except hanging.Hanging:
            if self._started > started:
                if self._learns:
                    with self._hang_log.open("a", encoding="utf-8") as log:
                        log.write(f"{len(self._reached)}\n")
                os._exit(1)  # what the call started still runs: it ends with this worker
            return hanging.OUTCOME
        except Exception as error:
            return ("exception", type(error).__name__)
        finally:
            supervise.end_copies(self._process)
        score = number(record["score"])
        return ("value", repr(record["score"]), repr(sorted(record["keys"].items())), score is not None and score > 0)

    def _learn(self, case: Case) -> None:
        """The right outcome of a case, and the lines it reaches; one that ended an earlier worker is not run again."""
        seen: set[int] = set()

        def local(frame: Any, event: str, _: Any) -> Any:
            if event == "line":
                seen.add(frame.f_lineno)
            return local

        self._pair = None
        if len(self._reached) in self._hung:
            self._hangs.add(len(self._reached))
            self._reached.append(frozenset())
            self._hunt.add(Candidate(case.row, case.raw, (), case.length, case.told), hanging.OUTCOME)
            return
        self._learns = True
        sys.settrace(lambda frame, event, _: local if frame.f_code.co_filename == FILE else None)
        try:
            known = Candidate(case.row, case.raw, (), case.length, case.told)
            result = self._run(known, "right")
        finally:
            sys.settrace(None)
            self._learns = False
        if result.outcome == hanging.OUTCOME:
            self._hangs.add(len(self._reached))
        self._reached.append(frozenset(seen))
        self._hunt.add(known, result.outcome)

    def run(self, item: int) -> dict[str, Any]:
        """One version: told apart already, told apart by a new input, or not.

        Every version has a short first pass; what that misses has a long second one while there are tries left.
        """
        again, position = divmod(item, len(self._versions))
        if again and position not in self._missed:
            return {"kind": "done"}
        record = self._one(position, 1.0 if again else FIRST_PASS)
        if not again and record["kind"] == "missed":
            self._missed.add(position)
        return record

    def _one(self, position: int, share: float) -> dict[str, Any]:
        if self._left <= 0:
            return {"kind": "skipped"}
        if time.process_time() + START_SECONDS * self._started > CPU_SECONDS:
            return {"kind": "skipped"}
        version = self._versions[position]
        lines = frozenset(version["lines"])
        usable = [pair for pair in enumerate(self._reached) if pair[0] not in self._hangs]
        places = [place for place, seen in usable if not lines or lines & seen]
        reached, effort = bool(places), share * (FINE if version["fine"] or not places else 1.0)
        if not reached:
            places = [place for place, _ in usable]
        self._pair = None
        try:
            self._pair = self._swap.pair(version)
        except Exception:
            return {"kind": "known"}
        order = sorted(places, key=lambda place: -self._killers.get(place, 0))
        killer = self._hunt.killer(order) if reached else None
        if killer is not None:
            self._killers[killer] = self._killers.get(killer, 0) + 1
            return {"kind": "known"}
        found = self._hunt.look(places, version["focus"], Random(position + int(1000 * share)), effort)
        self._left -= self._hunt.tried
        if found is None and not reached:
            return {"kind": "unreached"}
        if found is None:
            return {"kind": "missed", "tried": self._hunt.tried, "other": self._hunt.infected}
        self._keep(found)
        return {"kind": "found"}

    def _keep(self, found: Candidate) -> None:
        rows = []
        row, (own, _) = found.row, split(found.changes)
        if own:
            row = self._keep_row(found.row, own)
            rows = [{"base": found.row, "changes": [[list(path), value] for path, value in own]}]
        case = self._case(found, row)
        self._learn(case)
        self._killers[len(self._reached) - 1] = 1
        self._log.write(json.dumps({"case": asdict(case), "rows": rows}) + "\n")
        self._log.flush()


if __name__ == "__main__":
    main(sys.argv)
