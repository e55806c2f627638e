"""The differences that the comparison lets pass: each is declared here, counted in the run, and named in the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

TOLERANCES: Final[dict[str, str]] = {
    "T01-score-as-float": "a score that is an int, a bool or a numpy scalar becomes the float of the same value: verl "
    "stores it in a float32 tensor, Relax wants a Python float",
    "T02-acc-as-float": "the metric acc, which stands for a plain number, has the type of that float",
    "T03-numpy-as-python": "a numpy scalar among the logged keys becomes the Python value it holds",
    "T04-error-as-floor": "where the old reward raises (and stops verl), the new one returns its floor and says why: "
    "one exception would end a training step of Relax",
    "T05-hang-as-floor": "where the old reward does not end, the new one stops it and returns its floor",
    "T06-error-as-zero": "the manager of verl turns an exception into 0.0, and so does the new reward",
    "T07-metric-not-logged": "a metric that only verl's manager adds is not logged",
    "T08-key-filled": "a key that some results of the old reward lack is filled in, because Relax logs one set of keys",
    "T09-acc-logged": "a plain number is logged as acc as well",
    "T10-arguments-kept": "the old reward changes its arguments; the new one works on copies, so nobody sees it",
    "T11-float32": "the penalty of the manager is computed in float32 by verl and in float64 here: equal in float32",
    "T12-error-class": "on a row made up with a field or a right answer that the data does not have both sides "
    "fail, each with an exception of its own class: one floor either way",
    "T13-key-logged": "a key of the scorer's result that the recipe's own manager leaves out of its log is logged",
}
"""Identifier -> what passes, and why it may."""


def entries(used: Iterable[str]) -> list[dict[str, Any]]:
    """Ledger entries of the tolerances that cases needed: identifier, text, number of cases."""
    counts = Counter(used)
    return [{"id": name, "text": TOLERANCES[name], "cases": counts[name]} for name in TOLERANCES if counts[name]]
