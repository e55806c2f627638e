"""Compares one case: the old side's record with the new side's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from migrate_tools.parity.values import same

Kind = Literal["same", "declared", "mismatch", "both_timeout", "unstable", "not_run"]
METRIC_KEYS = frozenset({"acc", "overlong_reward", "overlong"})
"""Keys that verl's manager adds for logging only."""
ERROR_KEYS = frozenset({"error", "timeout"})
"""Texts of an error that a manager logs: not compared word for word."""


@dataclass(frozen=True)
class CaseVerdict:
    """How one case compares; `why` is empty when both sides are the same."""

    kind: Kind
    why: str = ""


def judge(old: Mapping[str, Any], new: Mapping[str, Any]) -> CaseVerdict:
    """The verdict on one case."""
    if new["kind"] == "skipped" or old["kind"] == "skipped":
        return CaseVerdict("not_run", "no time left")
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
    return _values(old, new)


def _old_hangs(old: Mapping[str, Any], new: Mapping[str, Any]) -> CaseVerdict:
    word = "hangs" if old["kind"] == "timeout" else "ends its process"
    if new["kind"] in ("timeout", "died"):
        return CaseVerdict("both_timeout", f"the old reward {word}, and so does the new one")
    if new["kind"] == "value" and new.get("reward_error"):
        return CaseVerdict("declared", f"the old reward {word}; the new one stops it and returns the floor")
    return CaseVerdict("mismatch", f"the old reward {word}; the new one answers as if nothing were wrong")


def _old_raises(old: Mapping[str, Any], new: Mapping[str, Any]) -> CaseVerdict:
    error = str(old.get("error"))
    if not new.get("reward_error"):
        return CaseVerdict("mismatch", f"the old reward raises {error}; the new one answers and does not say so")
    if not new.get("at_floor"):
        return CaseVerdict("mismatch", f"the old reward raises {error}; the new one does not return its floor")
    return CaseVerdict("declared", f"the old reward raises {error.partition(':')[0]}; the new one returns the floor")


def _values(old: Mapping[str, Any], new: Mapping[str, Any]) -> CaseVerdict:
    if not same(old["score"], new["score"]):
        cause = f" ({new['reward_error']})" if new.get("reward_error") else ""
        return CaseVerdict("mismatch", f"reward {old['score']} became {new['score']}{cause}")
    zeroed = any(note.startswith("error became 0.0") for note in old.get("notes", ()))
    if new.get("reward_error") and not zeroed:
        return CaseVerdict("mismatch", f"the new reward reports an error: {new['reward_error']}")
    if "requests" in old and sorted(map(repr, old["requests"])) != sorted(map(repr, new.get("requests", ()))):
        return CaseVerdict("mismatch", "the two sides sent different requests")
    declared = ""
    for key, value in old["keys"].items():
        if key == "score" or key in ERROR_KEYS:
            continue  # the trained number is compared above
        if key not in new["keys"]:
            if key in METRIC_KEYS:
                declared = f"the metric {key} of verl's manager is not logged"
                continue
            return CaseVerdict("mismatch", f"key {key!r} is missing in the new reward")
        if not same(value, new["keys"][key]):
            return CaseVerdict("mismatch", f"key {key!r}: {value!r} became {new['keys'][key]!r}")
    if zeroed:
        declared = "an exception of the scorer is a reward of 0.0 on both sides"
    return CaseVerdict("declared", declared) if declared else CaseVerdict("same")
