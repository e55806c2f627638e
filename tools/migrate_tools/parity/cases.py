"""The inputs of the parity check that are made beforehand: response texts for rows, in families, always the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from migrate_tools.model import RewardSpec
from migrate_tools.parity import pools, programs, texts
from migrate_tools.parity.case import Case, answers_of, ground_truth, make_case
from migrate_tools.parity.mine import Mined
from migrate_tools.parity.pools import Draft
from migrate_tools.parity.variants import Variant

SHARES = {
    "hand": 10,
    "truth": 14,
    "edge": 7,
    "edits": 9,
    "cross": 9,
    "literal": 9,
    "tags": 10,
    "json": 8,
    "regex": 8,
    "length": 8,
    "special": 5,
    "drawn": 6,
    "pairs": 14,
    "fields": 10,
}
"""Share of the case budget, each at least a few; what a family leaves goes to the next. Own rows come first."""
IN_ORDER = ("edge", "json", "tags", "pairs", "fields", "edits")
"""Families whose first items are the likeliest; of the others a few are taken everywhere."""


def make_cases(
    rows: Sequence[Mapping[str, Any]],
    spec: RewardSpec,
    mined: Mined,
    *,
    prompt_key: str,
    family: texts.Family,
    budget: int,
    made: Sequence[Variant] = (),
    logged: Sequence[tuple[int, str]] = (),
) -> list[Case]:
    """About `budget` cases over all families, without repeats, in a fixed order.

    Args:
        rows: the recipe's own rows.
        family: markers of the model's tokenizer.
        made: further rows; their numbers go on after those of `rows`.
        logged: real responses (row, text) that go in as they are, beyond the budget.
    """
    answers = [answers_of(row) for row in rows]
    found: dict[str, list[Draft]] = {
        "hand": list(pools.hand(answers)),
        "truth": list(pools.truths(answers, mined)),
        "edge": list(pools.edges(len(rows), answers)),
        "edits": list(pools.metamorphic(answers, mined)),
        "cross": list(pools.cross(answers, mined)),
        "literal": list(pools.literals(answers, mined)),
        "tags": list(pools.tags(answers, mined)),
        "json": list(pools.objects(answers, [ground_truth(row) for row in rows], mined)),
        "regex": list(pools.regexes(answers, mined)),
        "length": list(pools.lengths(answers, mined, spec)),
        "special": list(pools.special(answers, family, mined)),
        "drawn": pools.drawn(answers, mined, max(8, budget * SHARES["drawn"] // sum(SHARES.values()))),
        **pools.made_rows(made, len(rows), answers, mined),
    }
    drafts = [Draft(row, "logged", text) for row, text in logged]
    drafts += list(programs.drafts(rows))[: budget * 3 // 4]
    if "process" in spec.traits:  # it may run what the model wrote
        drafts += list(programs.assignments(rows, mined.literals))[: budget // 4]
    budget -= sum(draft.family == "programs" for draft in drafts)
    spare = 0
    for name, share in SHARES.items():
        wanted = max(8, budget * share // sum(SHARES.values())) + spare
        chosen = found[name][:wanted] if name in IN_ORDER else _spread(found[name], wanted)
        spare = wanted - len(chosen)
        drafts += chosen
    if spare:
        drafts += _spread(found["truth"], budget * SHARES["truth"] // sum(SHARES.values()) + spare)
    return _finished(drafts, [*rows, *(variant.row for variant in made)], spec, prompt_key, family)


def _finished(
    drafts: Sequence[Draft], rows: Sequence[Mapping[str, Any]], spec: RewardSpec, prompt_key: str, family: texts.Family
) -> list[Case]:
    seen: set[tuple[int, str, int, bool]] = set()
    cases = []
    for number, draft in enumerate(drafts):
        ended = draft.ended and not (draft.family in ("hand", "truth") and number % 17 == 16)
        length = draft.length or max(1, len(draft.raw) // 4) + ended
        if (key := (draft.row, draft.raw, length, ended)) in seen:
            continue
        seen.add(key)
        prompt = rows[draft.row].get(prompt_key)
        cases.append(make_case(draft.row, draft.family, draft.raw, prompt, spec, family, length=length, ended=ended))
    return cases


def _spread(pool: Sequence[Draft], count: int) -> list[Draft]:
    """`count` items evenly over the pool."""
    if len(pool) <= count:
        return list(pool)
    return [pool[position * len(pool) // count] for position in range(count)]
