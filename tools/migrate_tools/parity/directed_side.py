"""Looks for inputs that tell faulty versions of the old scorer from the right one, inside the sandbox.

`python -m migrate_tools.parity.directed_side /work/job.json` takes each faulty version that the given cases do not tell
apart, changes cases that reach the fault, and writes those that tell to found.jsonl. How many are tried depends on
counts alone; the wall limit ends a version that hangs. Standard library and pyarrow only.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from migrate_tools.parity import managers, old_side, supervise, texts
from migrate_tools.parity.case import Case, answers_of, make_case
from migrate_tools.parity.directed_edits import Material, changed
from migrate_tools.parity.sandbox_data import load_cases, load_rows
from migrate_tools.parity.values import number

VERSIONS, FOUND = "versions.jsonl", "found.jsonl"
TRIES = 1500
"""Changed inputs tried for one version."""
BASES = 40
LONGEST = 20_000
ONE_SECONDS = 8.0
FILE = "<scorer>"
FAMILIES = {family.name: family for family in texts.ALL}
Outcome = tuple[Any, ...]


def main(argv: list[str]) -> None:
    """Runs one job."""
    path = Path(argv[1])
    job, folder = json.loads(path.read_text(encoding="utf-8")), path.parent
    cases = [Case(**case) for case in load_cases(folder / job["cases"])]
    rows = load_rows(folder, job["rows"], job["reader"])
    plain = rows if job["reader"] == "python" else load_rows(folder, job["rows"], "python")
    versions = [json.loads(line) for line in (folder / VERSIONS).read_text(encoding="utf-8").splitlines()]
    records = supervise.run_items(
        range(len(versions)),
        lambda: Search(job, folder, rows, plain, cases, versions).run,
        item_seconds=ONE_SECONDS,
        total_seconds=job["total_seconds"],
    )
    kinds = [records[index]["kind"] for index in range(len(versions))]
    (folder / "directed.json").write_text(
        json.dumps({kind: kinds.count(kind) for kind in set(kinds)}), encoding="utf-8"
    )


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
        self._job, self._folder, self._rows, self._versions = job, folder, rows, versions
        self._prompts = [row.get(job["prompt_key"]) for row in plain]
        self._answers = [answers_of(row) for row in plain]
        self._markers = FAMILIES[job["family"]]
        old_side.prepare_imports(job)
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._manager = managers.Manager(**job["manager"])
        self._right = self._load(job["code"])
        log = folder / FOUND
        lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
        self._cases = [*cases, *(Case(**json.loads(line)) for line in lines)]
        self._inputs = {(case.row, case.raw) for case in self._cases}
        self._outcomes: list[Outcome] = []
        self._reached: list[frozenset[int]] = []
        for case in self._cases:
            self._learn(case)
        self._log = log.open("a", encoding="utf-8")

    def _load(self, source: str) -> Any:
        module = types.ModuleType("directed_scorer")
        sys.modules["directed_scorer"] = module
        exec(compile(source, FILE, "exec"), module.__dict__)
        return getattr(module, self._job["entry"])

    def _outcome(self, function: Any, case: Case) -> Outcome:
        random.seed(len(case.raw))
        call = managers.Call(self._rows[case.row], case.old, case.length)
        try:
            record = managers.score(self._manager, function, call, self._loop)
        except Exception as error:
            return ("exception", type(error).__name__)
        score = number(record["score"])
        return ("value", repr(record["score"]), repr(sorted(record["keys"].items())), score is not None and score > 0)

    def _learn(self, case: Case) -> None:
        """The right outcome of a case, and the lines it reaches."""
        seen: set[int] = set()

        def local(frame: Any, event: str, _: Any) -> Any:
            if event == "line":
                seen.add(frame.f_lineno)
            return local

        sys.settrace(lambda frame, event, _: local if frame.f_code.co_filename == FILE else None)
        outcome = self._outcome(self._right, case)
        sys.settrace(None)
        self._outcomes.append(outcome)
        self._reached.append(frozenset(seen))

    def run(self, position: int) -> dict[str, Any]:
        """One version: told apart already, told apart by a new input, or not."""
        version = self._versions[position]
        lines = frozenset(version["lines"])
        places = [place for place, seen in enumerate(self._reached) if not lines or lines & seen]
        if not places:
            return {"kind": "unreached"}
        try:
            faulty = self._load(version["source"])
        except Exception:
            return {"kind": "known"}
        if any(self._outcome(faulty, self._cases[place]) != self._outcomes[place] for place in places):
            return {"kind": "known"}
        found = self._look(faulty, places, Random(position))
        if found is None:
            return {"kind": "missed"}
        self._cases.append(found)
        self._learn(found)
        self._log.write(json.dumps(asdict(found)) + "\n")
        self._log.flush()
        return {"kind": "found"}

    def _look(self, faulty: Any, places: Sequence[int], rng: Random) -> Case | None:
        short = [place for place in places if len(self._cases[place].raw) < 2000] or list(places)
        pools = [self._by_row(short), self._by_row([place for place in short if self._accepted(place)])]
        literals, numbers = self._job["mined"]["literals"], self._job["mined"]["numbers"]
        for _ in range(TRIES):
            pool = pools[rng.random() < 0.6] or pools[0]
            bases = pool[rng.choice(list(pool))]
            base = rng.choice(bases)
            row = base.row if rng.random() < 0.8 else rng.randrange(len(self._answers))
            others = rng.choice(self._answers)
            other_texts = [rng.choice(bases).raw]
            material = Material(self._answers[base.row], others, literals, numbers, other_texts)
            raw = changed(base.raw, material, rng)
            if row != base.row:
                value = next((value for value in self._answers[base.row] if value and value in raw), None)
                raw = raw.replace(value, rng.choice(self._answers[row])) if value else raw
            if len(raw) > LONGEST or (row, raw) in self._inputs:
                continue
            self._inputs.add((row, raw))
            decoding = SimpleNamespace(**self._job["decoding"])
            case = make_case(row, "directed", raw, self._prompts[row], decoding, self._markers)
            right = self._outcome(self._right, case)
            if self._outcome(faulty, case) != right:
                return case
            if _is_positive(right) and len(raw) < 2000:  # an accepted form is where the next change starts from
                grown = pools[1].setdefault(row, [])
                grown[min(len(grown), BASES + rng.randrange(BASES)) :] = [case]
        return None

    def _by_row(self, places: Sequence[int]) -> dict[int, list[Case]]:
        """The cases of each row, a few evenly spread."""
        rows: dict[int, list[Case]] = {}
        for place in places:
            rows.setdefault(self._cases[place].row, []).append(self._cases[place])
        return {row: _few(found, BASES) for row, found in rows.items()}

    def _accepted(self, place: int) -> bool:
        return _is_positive(self._outcomes[place])


def _is_positive(outcome: Outcome) -> bool:
    return outcome[0] == "value" and bool(outcome[3])


def _few(places: Sequence[Case], count: int) -> list[Case]:
    """`count` cases evenly over a sequence."""
    if len(places) <= count:
        return list(places)
    return [places[position * len(places) // count] for position in range(count)]


if __name__ == "__main__":
    main(sys.argv)
