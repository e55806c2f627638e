"""The effective-training table: what each side will do, in numbers.

The verl side is computed from the launch by verl's rules, the Relax side from the flags as written (parsed by the
flag contract, defaults included) by Relax's rules. Neither looks at how the flags came about, so a wrong flag shows:
its row differs, nothing accounts for it, and the launch can at best become `partial`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from migrate_tools.mapping.draft import Draft, Outcome
from migrate_tools.mapping.effective_lr import verl_warmup
from migrate_tools.mapping.effective_relax import relax_rows, roles_text
from migrate_tools.mapping.effective_side import Side, equal, moments
from migrate_tools.mapping.effective_verl import Counts, counts, training_rows
from migrate_tools.mapping.effective_verl_run import run_rows
from migrate_tools.mapping.effective_why import SET_BY, Case, why
from migrate_tools.mapping.facts import Facts
from migrate_tools.model import EffectRow, Flag, Hook, Risk, Translated

__all__ = ["argv_of", "effective_rows", "unexplained"]

SPEED: Final = frozenset(
    {"GPUs", "GPUs an engine", "micro batch", "parallel sizes", "evaluation", "evaluation sampling", "checkpoints"}
)
"""Rows that change speed, memory or what is reported, not what is learned."""
QUOTING: Final = re.compile(r"[\s'\"\\#]|\A\Z")
UNEXPLAINED: Final = "nothing that was translated accounts for this: check the flag"


def argv_of(flags: Sequence[Flag], mode: str = "SYNC") -> list[str]:
    """The command line of one mode as words; shell variables stay as they are written."""
    words: list[str] = []
    for flag in flags:
        if flag.group in ("SYNC", "ASYNC") and flag.group != mode:
            continue
        words.append(flag.name)
        if flag.value is not None:
            words += shlex.split(flag.value) if QUOTING.search(flag.value) else [flag.value]
    return words


def effective_rows(draft: Draft, flags: Sequence[Flag], settings: Sequence[Translated] = ()) -> tuple[EffectRow, ...]:
    """Both sides, row by row; a row that differs says why.

    Args:
        settings: what became of the recipe's settings, to account for differences.
    """
    facts = draft.facts
    size = counts(facts)
    values = draft.contract.parse(argv_of(flags)).values
    left, right = sides(facts, size, values, draft.hooks)
    if any(flag.group == "ASYNC" for flag in flags):
        own = [flag for flag in flags if flag.group == "ASYNC"]
        other = draft.contract.parse(argv_of(own, "ASYNC")).values
        right["GPUs"] = right["GPUs"]._replace(text=f"{right['GPUs'].text}; async {roles_text(other)}")
        bound = f"async up to {other.get('max_staleness')} rollouts"
        right["staleness"] = right["staleness"]._replace(text=f"{right['staleness'].text}; {bound}")
    outcomes = {item.key: Outcome(item.status, item.relax, item.reason, item.risk) for item in settings}
    outcomes |= draft.outcomes
    return tuple(_row(facts, size, values, outcomes, name, left[name], right[name]) for name in left)


def sides(
    facts: Facts, size: Counts, values: Mapping[str, Any], hooks: Sequence[Hook] = ()
) -> tuple[dict[str, Side], dict[str, Side]]:
    """verl's cells and Relax's; every row of verl's has its counterpart."""
    left = {**training_rows(facts, size), **run_rows(facts, size)}
    looked = moments(size.steps, verl_warmup(facts, size.steps) or 0)
    right = relax_rows(values, size.rows, size.prompts * size.group, looked, hooks)
    return left, right


def _close_rates(one: Any, other: Any) -> bool:
    """Learning rates at the same steps, up to a millionth of the highest."""
    if not isinstance(one, dict) or not isinstance(other, dict) or one["steps"] != other["steps"]:
        return False
    top = max(map(abs, one["rates"]), default=0.0)
    return all(abs(a - b) <= 1e-6 * top for a, b in zip(one["rates"], other["rates"], strict=True))


def _close_filter(one: Any, other: Any) -> bool:
    """The same filter; over-sampling is rounded up to whole prompts."""
    if not isinstance(one, dict) or not isinstance(other, dict) or one["on"] != other["on"]:
        return False
    made = [side["generated a trained prompt"] for side in (one, other)]
    return bool(made[0] <= made[1] + 1e-6 and made[1] < made[0] + 1.0) if one["on"] else bool(made[0] == made[1])


def _close_dual(one: Any, other: Any) -> bool:
    """The same bound, or one that verl never reaches: with one update a batch no ratio leaves 1."""
    return one == "cannot act" or equal(one, other)


_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "dual clip": _close_dual,
    "learning rate over the run": _close_rates,
    "group filter": _close_filter,
}


def _row(
    facts: Facts,
    size: Counts,
    values: Mapping[str, Any],
    outcomes: Mapping[str, Outcome],
    name: str,
    left: Side,
    right: Side,
) -> EffectRow:
    same = _COMPARE.get(name, equal)(left.value, right.value)
    reason = "" if same else why(Case(name, left, right, facts, size, values, outcomes))
    keys = SET_BY.get(name, ())
    text = left.text if not keys or facts.is_set(*keys) else f"{left.text} (verl's default)"
    risk: Risk = "speed" if name in SPEED else "training"
    return EffectRow(
        name=name,
        verl=text,
        relax=right.text,
        same=same,
        why=reason or ("" if same else UNEXPLAINED),
        verl_value=left.value,
        relax_value=right.value,
        risk="none" if same else risk,
        explained=same or bool(reason),
    )


def unexplained(rows: Sequence[EffectRow]) -> tuple[str, ...]:
    """A sentence for each row whose difference nothing accounts for."""
    return tuple(
        f"{row.name}: verl {row.verl}, Relax {row.relax}; {row.why}"
        for row in rows
        if not row.same and not row.explained
    )
