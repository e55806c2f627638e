"""Looks for an input on which two versions of a reward part, starting from inputs that reach the changed place.

Pure: what is tried depends on the inputs, what is known of the change, and the random numbers given. Runs inside the
sandbox: standard library only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from migrate_tools.parity import forms, hanging
from migrate_tools.parity.case import answers_of
from migrate_tools.parity.directed_edits import Material, changed, decorated, pair_in
from migrate_tools.parity.row_changes import DROP, JSON, Leaf, Path, RowChange, another, leaves
from migrate_tools.parity.solve import solutions

TRIES, MORE_TRIES = 900, 2200
"""Inputs tried for one version; and where the value at the change was once another one."""
MOST = 2.0
"""Times as many, where too few of them reached the change."""
FINE = 0.5
"""Share of them for a version that only leads the search."""
BASES = 40
PLANS = 12
"""Comparisons that are turned round at first."""
LONGEST = 20_000
SHORT = 2000
GROWN = 60
MOST_HANGING, HANGING_SHARE = 3, 0.01
"""Calls of the right version that do not end, and share of all, after which no more inputs are tried."""
ROW_CHANGED = 0.35
"""Share of the inputs whose row is changed too."""
FIELD_LOST, KEY_LOST = 0.3, 0.15
"""Share of the changes of a value of extra_info, and in a label's dict, that take it away, mostly with its key."""


class Candidate(NamedTuple):
    """One input: a response for a row, values of the row that are replaced first, tokens (0: estimated)."""

    row: int
    raw: str
    changes: tuple[RowChange, ...] = ()
    length: int = 0
    told: str = ""
    """What a rollout of several turns tells the reward, as JSON, before `changes`."""

    def written(self, raw: str) -> Candidate:
        """Another response for the same row."""
        return self._replace(raw=raw, length=0)


class Result(NamedTuple):
    """What a version made of an input, and the values at the changed place."""

    outcome: tuple[Any, ...]
    seen: Sequence[str]
    compared: Sequence[tuple[Any, ...]] = ()
    """What the comparison in question compared."""
    noting: bool = False
    """The value at the changed place is noted: without one the change was not reached, and both versions are one."""


Run = Callable[[Candidate, str], Result]


class Hunt:
    """Known inputs with the right outcome, and the search for others."""

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        keys: Sequence[str],
        literals: Sequence[str],
        numbers: Sequence[int],
        run: Run,
    ) -> None:
        """Args:
        rows: as Python values.
        keys: names that the scorer asks for in extra_info.
        literals: texts that the scorer looks for.
        numbers: lengths that it knows.
        run: what a version ("right" or "faulty") makes of an input.
        """
        self._keys, self._literals, self._numbers, self._run = keys, literals, numbers, run
        self._answers: list[list[str]] = []
        self._leaves: list[list[Leaf]] = []
        self._known: list[Candidate] = []
        self._outcomes: list[tuple[Any, ...]] = []
        self._inputs: set[tuple[int, str, str]] = set()
        self.tried = self.reached = self.infected = 0
        for row in rows:
            self.add_row(row)

    def add_row(self, row: Mapping[str, Any]) -> int:
        """A further row; its number."""
        self._answers.append(answers_of(row))
        self._leaves.append(leaves(row, self._keys))
        return len(self._answers) - 1

    def add(self, candidate: Candidate, outcome: tuple[Any, ...]) -> None:
        """A known input."""
        self._known.append(candidate)
        self._inputs.add(_key(candidate))
        self._outcomes.append(outcome)

    def killer(self, places: Sequence[int]) -> int | None:
        """The first of these known inputs on which the faulty version answers otherwise."""
        run, known, outcomes = self._run, self._known, self._outcomes
        return next((place for place in places if run(known[place], "faulty").outcome != outcomes[place]), None)

    def look(
        self,
        places: Sequence[int],
        focus: Mapping[str, Any],
        rng: Random,
        effort: float = 1.0,
        wanted: str = "faulty",
        least: int = 0,
    ) -> Candidate | None:
        """An input that tells the faulty version from the right one, made from known ones; None when none was found.

        Args:
            places: known inputs that reach the change.
            focus: texts and numbers that matter for it (`focus.focus`).
            effort: share of the usual number of tries.
            wanted: the version that is to be told from the right one, where the faulty one only leads there.
            least: so many inputs shall reach the change; up to twice the usual number are tried for it.

        Afterwards `tried`, `reached` and `infected` say how many inputs there were, how many of them reached the
        changed place (all, where its value is not noted), and on how many of those it was another one.
        """
        self.tried = self.reached = self.infected = 0
        short = [place for place in places if len(self._known[place].raw) < SHORT] or list(places)
        reached = self._by_row(short)
        accepted = self._by_row([place for place in short if is_positive(self._outcomes[place])])
        moved: list[Candidate] = []
        planned: deque[Candidate] = deque()
        aim = _Aim()
        hangs = 0
        for turn in range(int(MOST * MORE_TRIES * effort)):
            enough = self.reached >= least or self.tried >= MOST * TRIES * effort
            if enough and (turn >= MORE_TRIES * effort or self.tried >= TRIES * effort and not moved):
                break
            if planned:
                made = planned.popleft()
            else:
                made = self._changed(_base(moved, accepted, reached, rng), focus, reached, rng)
            if len(made.raw) > LONGEST or (key := _key(made)) in self._inputs:
                continue
            self._inputs.add(key)
            self.tried += 1
            right = self._run(made, "right")
            if right.outcome == hanging.OUTCOME:
                hangs += 1
                if hangs > MOST_HANGING + HANGING_SHARE * self.tried:
                    break
                continue
            faulty = right if right.noting and not right.seen else self._run(made, "faulty")
            for raw in aim.texts(right.compared, made.raw, self._answers[made.row]):
                planned.append(made.written(raw))
            self.reached += bool(right.seen or faulty.seen or not right.noting)
            if self._part(made, right, faulty, wanted):
                return self._plainer(made, wanted)
            if right.seen != faulty.seen:
                self.infected += 1
                if len(moved) < GROWN:
                    moved.append(made)
                else:
                    moved[rng.randrange(GROWN)] = made
            elif is_positive(right.outcome) and len(made.raw) < SHORT:
                grown = accepted.setdefault(made.row, [])
                grown[min(len(grown), BASES + rng.randrange(BASES)) :] = [made]
        return None

    def _part(self, made: Candidate, right: Result, faulty: Result, wanted: str) -> bool:
        """Whether the wanted version says something else; it is asked where the change did anything at all."""
        if wanted == "faulty" or right.noting and right.seen == faulty.seen:
            return right.outcome != faulty.outcome
        return right.outcome != self._run(made, wanted).outcome

    def _plainer(self, found: Candidate, wanted: str) -> Candidate:
        """The input without the changes of its row that are not needed."""
        for change in found.changes:
            other = found._replace(changes=tuple(item for item in found.changes if item is not change))
            if self._run(other, "right").outcome != self._run(other, wanted).outcome:
                found = other
        return found

    def _changed(
        self, base: Candidate, focus: Mapping[str, Any], reached: Mapping[int, list[Candidate]], rng: Random
    ) -> Candidate:
        material = self._material(base, focus, reached, rng)
        if self._leaves[base.row] and rng.random() < ROW_CHANGED:
            return self._with_row(base, material, rng)
        raw = changed(base.raw, material, rng)
        if rng.random() < 0.15 and not base.changes:
            row = rng.randrange(len(self._answers))
            value = next((value for value in self._answers[base.row] if value and value in raw), None)
            raw = raw.replace(value, rng.choice(self._answers[row])) if value else raw
            return Candidate(row, raw, (), 0, base.told)
        return base.written(raw)

    def _material(
        self, base: Candidate, focus: Mapping[str, Any], reached: Mapping[int, list[Candidate]], rng: Random
    ) -> Material:
        own = [change.value for change in base.changes if isinstance(change.value, str) and change.value != DROP]
        values = [*own, *self._answers[base.row]]
        of_row = [*(leaf.value for leaf in self._leaves[base.row]), *(change.value for change in base.changes)]
        near = focus["near"] if rng.random() < 0.7 else focus["far"]
        others = rng.choice(self._answers)
        texts = [rng.choice(reached[rng.choice(list(reached))]).raw]
        numbers = [*self._numbers, *(int(item) for item in focus["numbers"] if 4 <= abs(item) <= LONGEST)]
        return Material(values, others, self._literals, numbers, texts, near, focus["pairs"], focus["numbers"], of_row)

    def _with_row(self, base: Candidate, material: Material, rng: Random) -> Candidate:
        """The input with another value in its row; where that is a text in the response too, there as well or not."""
        leaf = rng.choice(self._leaves[base.row])
        current = next((change.value for change in base.changes if change.path == leaf.path), leaf.value)
        if any(_overlap(change.path, leaf.path) and change.path != leaf.path for change in base.changes):
            return base.written(changed(base.raw, material, rng))
        raw = base.raw
        field = leaf.path[0] != "reward_model"
        lost = FIELD_LOST if leaf.path[0] == "extra_info" else KEY_LOST if _key_of_label(leaf.path) else 0.0
        if lost and rng.random() < lost:
            new: Any = rng.choice((DROP, DROP, None))
        elif isinstance(current, str) and current != DROP:
            label, answer = self._texts(current, material, rng)
            if current and current in raw and not (field and rng.random() < 0.7):
                raw = raw.replace(current, answer)
            new = label
        else:
            numbers = [item for item in (*material.amounts, *material.own) if isinstance(item, (int, float))]
            new = another(current, numbers, lambda text: text, rng)
            if rng.random() < 0.4:
                raw = changed(raw, material, rng)
        kept = tuple(change for change in base.changes if change.path != leaf.path)
        return base._replace(raw=raw, changes=(*kept, RowChange(leaf.path, new)))

    def _texts(self, current: str, material: Material, rng: Random) -> tuple[str, str]:
        """A label and an answer for it."""
        choice = rng.randrange(10)
        if choice < 4:
            return pair_in(current, material, rng)
        if choice > 7:
            label = decorated(current, rng)
            return label, rng.choice((current, current, label))
        if choice == 4:
            return rng.choice([*forms.variants(current), current]), rng.choice([*forms.variants(current), current])
        if choice == 5:
            text = rng.choice((*material.near, *material.others, *material.literals, current))[:LONGEST]
            return text, rng.choice((text, current, text.lower(), text.strip(), f" {text}"))
        label = changed(current, material, rng)
        return label, rng.choice((label, current, changed(label, material, rng)))

    def _by_row(self, places: Sequence[int]) -> dict[int, list[Candidate]]:
        """The inputs of each row, a few evenly spread."""
        rows: dict[int, list[Candidate]] = {}
        for place in places:
            rows.setdefault(self._known[place].row, []).append(self._known[place])
        return {row: _few(found, BASES) for row, found in rows.items()}


def _base(
    moved: Sequence[Candidate],
    accepted: Mapping[int, list[Candidate]],
    reached: Mapping[int, list[Candidate]],
    rng: Random,
) -> Candidate:
    """What the next input is made from: one that changed a value, an accepted one, or any that reaches the change."""
    if moved and rng.random() < 0.5:
        return moved[-1 - int(len(moved) * rng.random() ** 2)]
    pool = accepted if accepted and rng.random() < 0.6 else reached
    return rng.choice(pool[rng.choice(list(pool))])


def _key(candidate: Candidate) -> tuple[int, str, str]:
    return candidate.row, candidate.raw, repr(candidate.changes) if candidate.changes else candidate.told


class _Aim:
    """Turns what was compared into texts on which the two sides are equal, or just not."""

    def __init__(self) -> None:
        self._gap = float("inf")
        self._left = PLANS

    def texts(self, compared: Sequence[tuple[Any, ...]], raw: str, values: Sequence[str]) -> Iterator[str]:
        """Changed forms of a response: while they are few, and whenever two numbers were closer than ever before."""
        for left, right in compared:
            numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
            gap = abs(left - right) if numbers else float("inf")
            if self._left <= 0 and not 0 < gap < self._gap:
                continue
            self._left -= 1
            self._gap = min(self._gap, gap or self._gap)
            if numbers and not isinstance(left, bool) and not isinstance(right, bool):
                yield from solutions("Lt", float(left), float(right), raw, values)
            elif isinstance(left, str) and isinstance(right, str):
                yield from solutions("Eq", left, right, raw, values)


def is_positive(outcome: tuple[Any, ...]) -> bool:
    """True for a value above zero."""
    return outcome[0] == "value" and bool(outcome[3])


def _key_of_label(path: Path) -> bool:
    return path[0] == "reward_model" and len(path) > 2 and isinstance(path[-1], str) and path[-1] != JSON


def _overlap(one: Sequence[Any], other: Sequence[Any]) -> bool:
    length = min(len(one), len(other))
    return one[:length] == other[:length]


def _few(places: Sequence[Candidate], count: int) -> list[Candidate]:
    """`count` inputs evenly over a sequence."""
    if len(places) <= count:
        return list(places)
    return [places[position * len(places) // count] for position in range(count)]
