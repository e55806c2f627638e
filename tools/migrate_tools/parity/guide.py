"""Which input is tried next: cases that showed something new are changed further, comparisons are turned round.

Pure: everything depends on what was learned and on the number of the case. Runs inside the sandbox: standard library
only.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from migrate_tools.parity import edits, forms
from migrate_tools.parity.case import Case
from migrate_tools.parity.solve import solutions

LONGEST = 60_000
"""Characters of a made text, at most."""
TASKS_A_SITE = 5
SCORES = 24
"""So many different rewards count as something new."""
WANTED = 0.4
"""Share that the smaller side of accepted and rejected should reach."""
GOALS = {
    "compare": ("True", "False", "<", "=", ">"),
    "bound": ("<", "=", ">"),
    "method": ("changed", "changed@good", "True", "True@good"),
}


class Proposal(NamedTuple):
    """A new input."""

    row: int
    family: str
    raw: str
    length: int | None = None


class _Task(NamedTuple):
    site: str
    row: int
    raw: str


class Guide:
    """Learns from every case that was run and proposes the next one."""

    def __init__(self, answers: Sequence[Sequence[str]], mined: Mapping[str, Any], own_rows: int) -> None:
        self._answers = answers
        self._mined = mined
        self._own_rows = max(1, own_rows)
        self._known: set[str] = set()
        self._inputs: set[tuple[int, str, int]] = set()
        self._corpus: list[Case] = []
        self._good: list[Case] = []
        self._bad: list[Case] = []
        self._ran = 0
        self._accepted = 0
        self._best = 0.0
        self._tasks: deque[_Task] = deque()
        self._tried: Counter[str] = Counter()
        self._scores: set[str] = set()

    def begin(self, case: Case) -> None:
        """A case is about to run; it may never come back."""
        self._inputs.add((case.row, case.raw, case.length))

    def learn(self, case: Case, found: Sequence[str], pairs: Sequence[Sequence[Any]], score: float | None) -> list[str]:
        """Takes in what a case did; the part of `found` that is new."""
        self.begin(case)
        self._ran += 1
        good = score is not None and score > 0
        self._accepted += good
        fresh = [name for name in self._with_outcome(found, good) if name not in self._known]
        fresh = [name for name in fresh if self._counts(name)]
        self._known.update(fresh)
        if fresh:
            self._corpus.append(case)
            for site, how, left, right in pairs:
                self._plan(case, site, how, left, right)
        if good and len(case.raw) <= 4000 and self._fills(case):
            self._good.append(case)
            self._best = max(self._best, score or 0.0)
        elif not good and case.family not in ("edge", "length"):
            self._bad.append(case)
        return fresh

    def propose(self, number: int) -> Proposal:
        """The input with this number."""
        rng = Random(number)
        for attempt in range(16):
            made = self._candidate(number + attempt, rng)
            if made is not None and len(made.raw) <= LONGEST:
                length = made.length or max(1, len(made.raw) // 4) + 1
                if (made.row, made.raw, length) not in self._inputs:
                    return made
        base = rng.choice(self._corpus) if self._corpus else None
        row = base.row if base else number % self._own_rows
        return Proposal(row, "guided", f"{base.raw if base else ''}\n{number}")

    def _with_outcome(self, found: Sequence[str], good: bool) -> Iterator[str]:
        for name in found:
            yield name
            if good and ":line=" not in name and "@" not in name:
                yield f"{name}@good"

    def _counts(self, name: str) -> bool:
        """Rewards may take any number of values: only the first few are news."""
        if not name.startswith("score="):
            return True
        self._scores.add(name.partition("@")[0])
        return len(self._scores) <= SCORES

    def _plan(self, case: Case, site: str, how: str, left: Any, right: Any) -> None:
        if self._tried[site] >= TASKS_A_SITE or self._settled(site):
            return
        self._tried[site] += 1
        for raw in solutions(how, left, right, case.raw, self._answers[case.row]):
            self._tasks.append(_Task(site, case.row, raw))

    def _settled(self, site: str) -> bool:
        goals = GOALS.get(site.rpartition(":")[2], ())
        reached = [goal for goal in goals if f"{site}={goal}" in self._known]
        return {"<", "=", ">"} <= set(reached) or {"True", "False"} <= set(reached) or "changed@good" in reached

    def _candidate(self, turn: int, rng: Random) -> Proposal | None:
        share = self._accepted / max(1, self._ran)
        uneven = min(share, 1 - share)
        balancing = uneven < WANTED and bool(self._good)
        if balancing and (turn % 2 == 0 or uneven < WANTED / 2 and turn % 4 == 1):
            return self._balanced(turn, rng, more_good=share < 0.5)
        if turn % 3 != 2:
            while self._tasks:
                task = self._tasks.popleft()
                if not self._settled(task.site):
                    return Proposal(task.row, "guided", task.raw)
        return self._changed(rng)

    def _balanced(self, turn: int, rng: Random, *, more_good: bool) -> Proposal | None:
        """An accepted response written for another row, its value a wrong one when refusals are few."""
        base = self._good[turn // 2 % len(self._good)] if rng.random() < 0.7 else rng.choice(self._good)
        row = rng.randrange(self._own_rows) if rng.random() < 0.7 else rng.randrange(len(self._answers))
        value = next((value for value in self._answers[base.row] if value and value in base.raw), None)
        if value is None:
            row = base.row
            return Proposal(row, "balance", edits.plain_edit(base.raw, rng.randrange(64)), base.length)
        other = rng.choice(list(self._answers[row]))
        if not more_good:
            other = forms.wrong_for(other)
        decoration = rng.choice(("{}", "{}", edits.FILLER + "{}", "{}\n\n", "{}\n" + edits.FILLER))
        return Proposal(row, "balance", decoration.replace("{}", base.raw.replace(value, other)))

    def _changed(self, rng: Random) -> Proposal | None:
        """A random change of a case that showed something new, or of an accepted one."""
        pool = self._good if self._good and rng.random() < 0.4 else self._corpus
        if not pool:
            return None
        base = pool[-1 - int(len(pool) * rng.random() ** 2)] if rng.random() < 0.5 else rng.choice(pool)
        return Proposal(base.row, "guided", self._edit(base, rng) or "", None)

    def _edit(self, base: Case, rng: Random) -> str | None:
        raw, values = base.raw, self._answers[base.row]
        literals = self._mined["literals"]
        choice = rng.randrange(9)
        if choice == 0:
            return edits.plain_edit(raw, rng.randrange(1024))
        if choice == 1:
            value = next((value for value in values if value and value in raw), "")
            return edits.value_edit(raw, value, rng.randrange(1024))
        if choice == 2:
            return edits.number_edit(raw, rng)
        if choice == 3 and literals:
            return edits.insert(raw, rng.choice(literals), rng)
        if choice == 4:
            return edits.cut(raw, rng)
        if choice == 5:
            return edits.joined([raw, rng.choice(self._corpus).raw], rng)
        if choice == 6 and self._mined["numbers"]:
            size = rng.choice(self._mined["numbers"]) + rng.choice((-1, 0, 1))
            return edits.resized(raw, size, rng.random() < 0.5)
        if choice == 7 and literals:
            value = next((value for value in values if value and value in raw), "")
            piece, middle = rng.choice(literals), len(value) // 2
            form = rng.choice((piece + value, value + piece, value[:middle] + piece + value[middle:]))
            return raw.replace(value, form) if value else raw + piece
        return re.sub(r"\s+", lambda space: rng.choice((" ", "\n", "", space.group())), raw)

    def _fills(self, case: Case) -> bool:
        return case.family != "edge"
