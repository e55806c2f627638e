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
SHORT = 4000
"""Characters of an accepted response that others are made from, at most."""
TEMPLATES = 160
DRESSED = 6
"""Accepted responses that every edit is tried on."""
SWEPT_ROWS = 6
"""Own rows on which other forms of the answer are tried."""
HOLE = "\x1a"
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

    def __init__(
        self,
        answers: Sequence[Sequence[str]],
        choices: Sequence[Sequence[str]],
        mined: Mapping[str, Any],
        own_rows: int,
    ) -> None:
        """Args:
        answers: right answers of every row.
        choices: further texts to put in the place of an answer, for every row.
        mined: literals and numbers of the scorer.
        own_rows: that many rows at the front are the recipe's own.
        """
        self._answers = answers
        self._choices = choices
        self._mined = mined
        self._own_rows = max(1, own_rows)
        self._known: set[str] = set()
        self._inputs: set[tuple[int, str, int]] = set()
        self._corpus: list[Case] = []
        self._good: list[Case] = []
        self._templates: dict[str, None] = {}
        rows = [*_few(self._own_rows, SWEPT_ROWS), *range(self._own_rows, len(answers))]
        self._sweep = [
            (row, texts[level])
            for level in range(max(map(len, choices), default=0))
            for row in rows
            if level < len(texts := choices[row])
        ]
        """Row and text for the value's place: the likeliest texts of every row first."""
        self._crosses = 0
        self._dresses = 0
        self._ran = 0
        self._accepted = 0
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
        if good and len(case.raw) <= SHORT and case.family != "edge":
            self._good.append(case)
            value = self._value_in(case)
            if value and len(self._templates) < TEMPLATES:
                self._templates.setdefault(case.raw.replace(value, HOLE))
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
        if min(share, 1 - share) < WANTED and self._good and turn % 4 == 0:
            return self._balanced(turn, rng, more_good=share < 0.5)
        if turn % 4 == 1 and self._templates and self._sweep:
            return self._crossed()
        if turn % 8 == 3 and self._good:
            return self._dressed()
        if turn % 4 != 3:
            while self._tasks:
                task = self._tasks.popleft()
                if not self._settled(task.site):
                    return Proposal(task.row, "guided", task.raw)
        return self._changed(rng)

    def _crossed(self) -> Proposal:
        """An accepted response with another form of the answer, or another answer, in the value's place."""
        templates = list(self._templates)
        turn = self._crosses
        self._crosses += 1
        row, text = self._sweep[turn % len(self._sweep)]
        template = templates[(turn + turn // len(self._sweep)) % len(templates)]
        return Proposal(row, "cross" if row < self._own_rows else "pairs", template.replace(HOLE, text))

    def _dressed(self) -> Proposal:
        """An accepted response with a special token at its edges or inside its value, or under an edit of the whole."""
        bases = self._good[:: max(1, len(self._good) // DRESSED)][:DRESSED]
        turn, place = divmod(self._dresses, len(bases))
        self._dresses += 1
        base = bases[place]
        tokens = [token for token in self._mined.get("tokens", ()) for _ in range(3)]
        if turn % 2 == 0 and turn // 2 < len(tokens):
            token, form = tokens[turn // 2], turn // 2 % 3
            value = self._value_in(base)
            middle = f"{value[:1]}{token}{value[1:]}" if value else token
            inside = base.raw.replace(value, middle) if value else base.raw + token
            return Proposal(base.row, "special", (f"{token}{base.raw}", f"{base.raw}{token}", inside)[form])
        return Proposal(base.row, "edits", edits.plain_edit(base.raw, turn))

    def _balanced(self, turn: int, rng: Random, *, more_good: bool) -> Proposal | None:
        """An accepted response written for another row, its value a wrong one when refusals are few."""
        base = self._good[turn // 4 % len(self._good)] if rng.random() < 0.7 else rng.choice(self._good)
        row = rng.randrange(self._own_rows) if rng.random() < 0.7 else rng.randrange(len(self._answers))
        value = self._value_in(base)
        if more_good and len(self._answers[base.row]) == len(self._answers[row]) > 1:
            return Proposal(row, "balance", _replaced(base.raw, self._answers[base.row], self._answers[row]))
        if not value:
            return Proposal(base.row, "balance", edits.plain_edit(base.raw, rng.randrange(64)), base.length)
        other = rng.choice(list(self._answers[row]))
        if not more_good:
            other = forms.wrong_for(other)
        decoration = rng.choice(("{}", "{}", edits.FILLER + "{}", "{}\n\n", "{}\n" + edits.FILLER))
        return Proposal(row, "balance", decoration.replace("{}", base.raw.replace(value, other)))

    def _value_in(self, case: Case) -> str:
        return next((value for value in self._answers[case.row] if value and value in case.raw), "")

    def _changed(self, rng: Random) -> Proposal | None:
        """A random change of a case that showed something new, or of an accepted one."""
        pool = self._good if self._good and rng.random() < 0.4 else self._corpus
        if not pool:
            return None
        base = pool[-1 - int(len(pool) * rng.random() ** 2)] if rng.random() < 0.5 else rng.choice(pool)
        return Proposal(base.row, "guided", self._edit(base, rng) or "")

    def _edit(self, base: Case, rng: Random) -> str | None:
        raw, value = base.raw, self._value_in(base)
        literals = self._mined["literals"]
        shaped = edits.json_edit(raw, rng) if rng.random() < 0.3 else None
        if shaped is not None:
            return shaped
        choice = rng.randrange(9)
        if choice == 0:
            return edits.plain_edit(raw, rng.randrange(1024))
        if choice == 1:
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
            piece, middle = rng.choice(literals), len(value) // 2
            form = rng.choice((piece + value, value + piece, value[:middle] + piece + value[middle:]))
            return raw.replace(value, form) if value else raw + piece
        return re.sub(r"\s+", lambda space: rng.choice((" ", "\n", "", space.group())), raw)


def _replaced(text: str, olds: Sequence[str], news: Sequence[str]) -> str:
    """The text with every one of the old values replaced by the new one at its place."""
    other = {old: new for old, new in zip(olds, news, strict=True) if old}
    longest_first = sorted(other, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda found: other[found.group()], text)


def _few(total: int, count: int) -> list[int]:
    return [position * total // count for position in range(count)] if total > count else [*range(total)]
