"""Looks for inputs inside the sandbox: runs the given ones on the old reward, then changed ones, led by what it does.

`python -m migrate_tools.parity.explore /work/job.json` writes explored.jsonl (every input that was run, in order) and
explored.json (which of them become cases, coverage of the scorer). Given cases are all kept. Which ones are made
depends on the scorer and the number of cases alone; time can only end the search early, and then the result says so.
Standard library and pyarrow only.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from migrate_tools.parity import old_side, probes, supervise, texts, told
from migrate_tools.parity.case import Case, answers_of, make_case, prompt_of
from migrate_tools.parity.chosen import choose, telling
from migrate_tools.parity.coverage import counted, site_name
from migrate_tools.parity.guide import Guide
from migrate_tools.parity.probe_rewriter import Site
from migrate_tools.parity.sandbox_data import load_cases, load_rows
from migrate_tools.parity.values import number

LOG, RESULT, SITES = "explored.jsonl", "explored.json", "sites.json"
FAMILIES = {family.name: family for family in texts.ALL}


def main(argv: list[str]) -> None:
    """Runs the search of one job."""
    job_path = Path(argv[1])
    job, folder = json.loads(job_path.read_text(encoding="utf-8")), job_path.parent
    seeds = [Case(**case) for case in load_cases(folder / job["cases"])]
    rows = load_rows(folder, job["rows"], job["reader"])
    plain = rows if job["reader"] == "python" else load_rows(folder, job["rows"], "python")
    total = max(job["runs"], len(seeds))
    began = time.monotonic()
    records = supervise.run_items(
        range(total),
        lambda: Search(job, folder, rows, plain, seeds).run,
        item_seconds=job["case_seconds"],
        total_seconds=job["total_seconds"],
    )
    done = [records[index]["kind"] for index in range(total)]
    logged = [json.loads(line) for line in _lines(folder / LOG)]
    seen = {name for entry in logged for name in entry.get("new", ())}
    result = {
        "ran": sum("case" in entry for entry in logged),
        "of": total,
        "chosen": choose(logged, len(seeds), job["budget"]),
        "telling": telling(logged),
        "setup": next((record["error"] for record in records.values() if record["kind"] == "setup"), ""),
        "timeouts": done.count("timeout"),
        "seconds": round(time.monotonic() - began, 3),
        "coverage": counted(_sites(folder), seen, job["functions"]),
    }
    (folder / RESULT).write_text(json.dumps(result), encoding="utf-8")


class Search:
    """The search in one worker process; a fresh worker goes on from the log of the one before."""

    def __init__(
        self, job: Mapping[str, Any], folder: Path, rows: list[Any], plain: list[Any], seeds: list[Case]
    ) -> None:
        self._folder = folder
        self._prompts = [prompt_of(row, job["prompt_key"], job["prompt_form"]) for row in plain]
        self._seeds = seeds
        self._decoding = SimpleNamespace(**job["decoding"])
        self._markers = FAMILIES[job["family"]]
        self._guide = Guide([answers_of(row) for row in plain], job["choices"], job["mined"], job["own_rows"])
        for line in _lines(folder / LOG):
            self._take_up(json.loads(line))
        self._notes = probes.install(job["probed"])
        old_side.PROBES = self._notes
        self._cases: list[dict[str, Any]] = []
        self._score = old_side.make_runner(job, rows, self._cases, 0)
        self._sites = 0
        self._told: Mapping[str, Any] = job["told"]
        self._salt = int(job.get("salt", 0))
        self._log = (folder / LOG).open("a", encoding="utf-8")

    def run(self, index: int) -> dict[str, Any]:
        """Runs the case with this number."""
        case = self._seeds[index] if index < len(self._seeds) else self._made(index)
        self._write({"case": asdict(case)})
        while len(self._cases) <= index:
            self._cases.append({})
        self._cases[index] = asdict(case)
        self._notes.begin()
        record = self._score(index)
        found, pairs = self._noted(record)
        score = number(record["score"]) if record["kind"] == "value" else None
        fresh = self._guide.learn(case, found, pairs, score)
        entry = {"new": fresh, "score": score, "pairs": pairs if fresh else []}
        self._write({key: value for key, value in entry.items() if value not in ([], None)})
        if len(self._notes.sites) != self._sites:
            self._sites = len(self._notes.sites)
            (self._folder / SITES).write_text(json.dumps(self._notes.sites), encoding="utf-8")
        return {"kind": record["kind"]}

    def _made(self, index: int) -> Case:
        row, family, raw, length = self._guide.propose(index + self._salt)
        return make_case(
            row,
            family,
            raw,
            self._prompts[row],
            self._decoding,
            self._markers,
            length=length,
            told=told.values(self._told["names"], self._told["tools"], index),
        )

    def _noted(self, record: Mapping[str, Any]) -> tuple[list[str], list[list[Any]]]:
        """What this case did, under names that another worker knows too; and what was compared."""
        sites = self._notes.sites
        found = [f"{site_name(sites[site])}={what}" for site, what in sorted(self._notes.seen, key=repr)]
        kind = record["kind"]
        if kind == "value":
            found.append(f"score={record['score']!r:.60}")
        else:
            found.append(f"{kind}={str(record.get('error', '')).partition(':')[0]}")
        pairs = [
            [f"{site_name(sites[pair.site])}", pair.how, pair.left, pair.right]
            for noted in self._notes.pairs.values()
            for pair in noted
        ]
        return found, pairs

    def _write(self, entry: Mapping[str, Any]) -> None:
        self._log.write(json.dumps(entry) + "\n")
        self._log.flush()

    def _take_up(self, entry: Mapping[str, Any]) -> None:
        """One line of the log: a case that was begun, or what the last one begun did."""
        if "case" in entry:
            self._begun = Case(**entry["case"])
            self._guide.begin(self._begun)
        else:
            self._guide.learn(self._begun, entry.get("new", []), entry.get("pairs", []), entry.get("score"))


def _sites(folder: Path) -> list[Site]:
    path = folder / SITES
    return [Site(*site) for site in json.loads(path.read_text(encoding="utf-8"))] if path.is_file() else []


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


if __name__ == "__main__":
    main(sys.argv)
