"""Compares one case: the old side's record with the new side's.

Values are compared with their types; what differs and still passes is a tolerance with an identifier.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from migrate_tools.parity.values import identical, number, same, type_name

Kind = Literal["same", "declared", "mismatch", "both_timeout", "unstable", "not_run"]
METRIC_KEYS = frozenset({"acc", "overlong_reward", "overlong"})
"""Keys that verl's manager adds for logging only; a record of a manager class names its own ones itself."""
ERROR_KEYS = frozenset({"error", "timeout"})
"""Texts of an error that a manager logs: not compared word for word."""


@dataclass(frozen=True)
class CaseVerdict:
    """How one case compares; `why` is empty when both sides are the same."""

    kind: Kind
    why: str = ""
    tolerances: tuple[str, ...] = ()
    """Identifiers of `tolerances.TOLERANCES` that the case needed."""


def judge(old: Mapping[str, Any], new: Mapping[str, Any], known: Collection[str] | None = None) -> CaseVerdict:
    """The verdict on one case.

    Args:
        known: keys that some result of the old side has; another key in a new result is a difference. None: not asked.
    """
    if new["kind"] == "broken_rule":
        return CaseVerdict("mismatch", f"the new reward breaks the oracle's rule: {new.get('error')}")
    if new["kind"] == "skipped" or old["kind"] == "skipped":
        return CaseVerdict("not_run", "no time left")
    if old["kind"] == "missing":
        return CaseVerdict("not_run", f"the old reward needs {old['error']}, not installed here")
    if not old.get("stable", True):
        return CaseVerdict("unstable", "the old reward answers differently on a second run")
    if old["kind"] in ("timeout", "died"):
        return _old_hangs(old, new)
    if new["kind"] in ("timeout", "died"):
        return CaseVerdict("mismatch", f"the new reward {'hangs' if new['kind'] == 'timeout' else 'ends its process'}")
    if new["kind"] != "value":
        return CaseVerdict("mismatch", f"the new reward fails: {new.get('error')}")
    if old["kind"] == "exception":
        return _old_raises(old, new)
    return _values(old, new, known)


def _old_hangs(old: Mapping[str, Any], new: Mapping[str, Any]) -> CaseVerdict:
    word = "hangs" if old["kind"] == "timeout" else "ends its process"
    if new["kind"] in ("timeout", "died"):
        return CaseVerdict("both_timeout", f"the old reward {word}, and so does the new one")
    if new["kind"] == "value" and new.get("reward_error"):
        why = f"the old reward {word}; the new one stops it and returns the floor"
        return CaseVerdict("declared", why, ("T05-hang-as-floor",))
    return CaseVerdict("mismatch", f"the old reward {word}; the new one answers as if nothing were wrong")


def _old_raises(old: Mapping[str, Any], new: Mapping[str, Any]) -> CaseVerdict:
    error, said = str(old.get("error")), str(new.get("reward_error") or "")
    kind = error.partition(":")[0]
    if not said:
        return CaseVerdict("mismatch", f"the old reward raises {error}; the new one answers and does not say so")
    if not new.get("at_floor"):
        return CaseVerdict("mismatch", f"the old reward raises {error}; the new one does not return its floor")
    if re.match(r"\w*", said)[0] != kind:  # type: ignore[index]
        if not old.get("strange"):
            return CaseVerdict("mismatch", f"the old reward raises {kind}, the new one {said}")
        why = "both rewards raise on a row that the data cannot hold, each in its own way"
        return CaseVerdict("declared", why, ("T04-error-as-floor", "T12-error-class"))
    why = f"the old reward raises {kind}; the new one returns the floor"
    return CaseVerdict("declared", why, ("T04-error-as-floor",))


def _values(old: Mapping[str, Any], new: Mapping[str, Any], known: Collection[str] | None) -> CaseVerdict:
    needed: list[str] = []
    if not identical(old["score"], new["score"]):
        if not _equal_in_float32(old, new):
            cause = f" ({new['reward_error']})" if new.get("reward_error") else ""
            return CaseVerdict("mismatch", f"reward {old['score']} became {new['score']}{cause}")
        needed.append("T11-float32")
    zeroed = any(note.startswith("error became 0.0") for note in old.get("notes", ()))
    if new.get("reward_error") and not zeroed:
        return CaseVerdict("mismatch", f"the new reward reports an error: {new['reward_error']}")
    if "requests" in old and sorted(map(repr, old["requests"])) != sorted(map(repr, new.get("requests", ()))):
        return CaseVerdict("mismatch", "the two sides sent different requests")
    if new.get("mutated") and not old.get("mutated"):
        return CaseVerdict("mismatch", f"the new reward changes {new['mutated'][0]}, the old one does not")
    if why := _keys(old, new, known, zeroed, needed):
        return CaseVerdict("mismatch", why)
    declared = "; ".join(_LOGGED[name] for name in dict.fromkeys(needed) if name in _LOGGED)
    if not zeroed and old.get("raw_type", "float") != "float":
        needed.append("T01-score-as-float")
    if old.get("mutated") and not new.get("mutated"):
        needed.append("T10-arguments-kept")
    if zeroed:
        needed.append("T06-error-as-zero")
        declared = "an exception of the scorer is a reward of 0.0 on both sides"
    return CaseVerdict("declared" if declared else "same", declared, tuple(dict.fromkeys(needed)))


_LOGGED = {"T07-metric-not-logged": "a metric of verl's manager is not logged"}


def _keys(
    old: Mapping[str, Any], new: Mapping[str, Any], known: Collection[str] | None, zeroed: bool, needed: list[str]
) -> str:
    """Which key differs, or empty; adds the tolerances it needs."""
    olds, news = old["keys"], new["keys"]
    plain_number = old.get("type") != "dict"
    for key, value in olds.items():
        if key == "score" or (zeroed and key in ERROR_KEYS):
            continue  # the trained number is compared above
        if key not in news:
            if key not in METRIC_KEYS and key not in old.get("logged", ()):
                return f"key {key!r} is missing in the new reward"
            needed.append("T07-metric-not-logged")
        elif not identical(value, news[key]):
            if not same(value, news[key]):
                return f"key {key!r}: {value!r} became {news[key]!r}"
            if type_name(value).startswith("numpy."):
                needed.append("T03-numpy-as-python")
            elif key == "acc" and plain_number:
                needed.append("T02-acc-as-float")
            else:
                return f"key {key!r}: {value!r} is a {type_name(value)}, became {news[key]!r}, a {type_name(news[key])}"
    for key in news.keys() - olds.keys() - {"score"}:
        if key == "acc" and plain_number:
            needed.append("T09-acc-logged")
        elif known is None or key in known or key in METRIC_KEYS:
            needed.append("T08-key-filled")
        elif key in old.get("dropped", ()):
            needed.append("T13-key-logged")
        else:
            return f"key {key!r} of the new reward is in no result of the old one"
    return ""


def _equal_in_float32(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether a score to which a manager added a float32 penalty differs by rounding alone (four units in the end)."""
    one, other = number(old["score"]), number(new["score"])
    if "float32" not in old.get("notes", ()) or one is None or other is None:
        return False
    return abs(one - other) <= 2.0**-22 * max(abs(one), 1.0)
