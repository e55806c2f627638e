"""Whether a changed draft is better than the best so far. Strict: what held must hold and be looked at as before."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from migrate_tools.model import CheckResult

_MORE = re.compile(r"\(and (\d+) more\)$")
Word = Literal["improved", "no better", "worse"]


class Comparison(NamedTuple):
    """The judgement and, unless it is "improved", why."""

    word: Word
    why: str = ""


def compare(before: Sequence[CheckResult], after: Sequence[CheckResult]) -> Comparison:
    """Judges `after` against the best results so far.

    Improved: at least one check that failed (or could not be checked) passes now, or the same checks fail with fewer
    findings; no check fails that did not, none that passed is skipped or not checkable, none is gone, no failing check
    stops being looked at, and no check that passes rests on less than before.
    """
    olds, news = {item.name: item for item in before}, {item.name: item for item in after}
    for name in dict.fromkeys([*olds, *news]):
        if why := _worse(name, olds.get(name), news.get(name)):
            return Comparison("worse", why)
    gained = [name for name, old in olds.items() if old.status in ("failed", "not_checkable") and _passes(news[name])]
    fewer = [name for name in _failing(olds) & _failing(news) if findings(news[name]) < findings(olds[name])]
    if gained or fewer:
        return Comparison("improved")
    return Comparison("no better", "the same checks fail as before")


def findings(check: CheckResult) -> int:
    """How much a failing check found: mismatches, else problems, else the lengths of its lists."""
    evidence = check.evidence
    if isinstance(evidence.get("mismatches"), int):
        return int(evidence["mismatches"])
    if isinstance(problems := evidence.get("problems"), list):
        more = _MORE.search(check.summary)
        return max(len(problems), int(more[1]) + 1 if more else 0)
    return _lengths(evidence)


def _worse(name: str, old: CheckResult | None, new: CheckResult | None) -> str:
    was, now = old.status if old else "absent", new.status if new else "absent"
    if was == now == "passed" and old and new:
        return _weaker(name, old.evidence, new.evidence)
    if was == now == "failed" and old and new:
        more = findings(new) > findings(old)
        return f"{name} finds more than before" if more else ""
    if now in ("passed", was):
        return ""
    if now == "skipped" and was == "absent":
        return ""
    return f"{name} was {_said(was)} and is {_said(now)}"


def _weaker(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Whether a check that passes on both sides rests on less: fewer cases compared, made-up rows, fewer hooks."""
    for key in ("cases", "compared", "accepted", "files"):
        one, other = old.get(key), new.get(key)
        if isinstance(one, int | float) and isinstance(other, int | float) and other < one:
            return f"{name}: {key} went from {one} to {other}"
    if new.get("made_up") and not old.get("made_up"):
        return f"{name} used made-up rows"
    if lost := set(map(str, old.get("hooks", ()))) - set(map(str, new.get("hooks", ()))):
        return f"{name} no longer looks at {sorted(lost)[0]}"
    if sum(_numbers(new.get("declared"))) > sum(_numbers(old.get("declared"))):
        return f"{name}: more differences are declared"
    return ""


def _failing(results: Mapping[str, CheckResult]) -> set[str]:
    return {name for name, item in results.items() if item.status == "failed"}


def _passes(result: CheckResult) -> bool:
    return result.status == "passed"


def _said(status: str) -> str:
    return status.replace("_", " ")


def _numbers(value: Any) -> list[int]:
    return [item for item in value.values() if isinstance(item, int)] if isinstance(value, dict) else []


def _lengths(value: Any) -> int:
    if isinstance(value, dict):
        return sum(_lengths(item) for item in value.values())
    return len(value) if isinstance(value, list | tuple) else 0
