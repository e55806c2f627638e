"""What counts as the same outcome: types apart, every key, tolerances by name; and what both frameworks make of it."""

from __future__ import annotations

import datetime
import json
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from migrate_tools.parity import aftermath, tolerances
from migrate_tools.parity.values import encode, identical, type_name
from migrate_tools.parity.verdicts import CaseVerdict, judge


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (1, 1.0, False),
        (True, 1, False),
        (True, True, True),
        (0.0, -0.0, False),
        (-0.0, -0.0, True),
        (math.nan, math.nan, True),
        (math.nan, math.inf, False),
        (2**60, 2**60, True),
        (2**60, float(2**60), False),
        (np.float64(0.5), 0.5, False),
        (np.float64(0.5), np.float64(0.5), True),
        ([1, 2.0], [1, 2.0], True),
        ([1, 2.0], [1, 2], False),
        ((1,), [1], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": True}, False),
        ({1, 2}, {2, 1}, True),
        ("x" * 5000, "x" * 4999 + "y", False),
        (None, 0, False),
        ("", None, False),
    ],
)
def test_identity_keeps_types_apart(first: Any, second: Any, expected: bool) -> None:
    one, other = json.loads(json.dumps([encode(first), encode(second)]))
    assert identical(one, other) is expected
    assert identical(other, one) is expected


@pytest.mark.parametrize(
    ("value", "name"), [(1, "int"), (True, "bool"), (0.5, "float"), (math.nan, "float"), (None, "None"), ("a", "str")]
)
def test_type_names_of_encoded_values(value: Any, name: str) -> None:
    assert type_name(encode(value)) == name


OLD = {"kind": "value", "type": "float", "raw_type": "float", "score": 1.0, "keys": {"acc": 1.0}, "notes": []}
NEW = {"kind": "value", "score": 1.0, "keys": {"score": 1.0, "acc": 1.0}}
DICT = {"type": "dict", "keys": {"score": 1.0, "fmt": 1}}


@pytest.mark.parametrize(
    ("old", "new", "kind", "needed"),
    [
        ({}, {}, "same", ()),
        ({"raw_type": "int", "keys": {"acc": 1}}, {}, "same", ("T02-acc-as-float", "T01-score-as-float")),
        ({"raw_type": "numpy.float32"}, {}, "same", ("T01-score-as-float",)),
        ({"score": -0.0}, {"score": 0.0}, "mismatch", ()),
        ({"score": {"t": "float", "v": "nan"}}, {"score": {"t": "float", "v": "nan"}}, "same", ()),
        (DICT, {"keys": {"score": 1.0, "fmt": 1}}, "same", ()),
        (DICT, {"keys": {"score": 1.0, "fmt": True}}, "mismatch", ()),
        (DICT, {"keys": {"score": 1.0, "fmt": 1.0}}, "mismatch", ()),
        (DICT, {"keys": {"score": 1.0, "fmt": 1, "pred": ""}}, "same", ("T08-key-filled",)),
        (DICT, {"keys": {"score": 1.0, "fmt": 1, "own": ""}}, "mismatch", ()),
        (
            {"type": "dict", "keys": {"score": 1.0, "error": "a"}},
            {"keys": {"score": 1.0, "error": "b"}},
            "mismatch",
            (),
        ),
        ({"keys": {}}, {}, "same", ("T09-acc-logged",)),
        ({"mutated": ["extra_info or ground_truth"]}, {}, "same", ("T10-arguments-kept",)),
        ({}, {"mutated": ["label or metadata"]}, "mismatch", ()),
        ({"score": 0.55000001}, {"score": 0.55}, "mismatch", ()),
        ({"score": 0.55000001, "notes": ["float32"]}, {"score": 0.55}, "same", ("T11-float32",)),
        ({"score": 0.551, "notes": ["float32"]}, {"score": 0.55}, "mismatch", ()),
        ({}, {"kind": "broken_rule", "error": "imports verl"}, "mismatch", ()),
    ],
)
def test_outcomes_are_compared_with_type_and_every_key(
    old: dict[str, Any], new: dict[str, Any], kind: str, needed: tuple[str, ...]
) -> None:
    verdict = judge({**OLD, **old}, {**NEW, **new}, known={"acc", "fmt", "pred", "score"})
    assert (verdict.kind, verdict.tolerances) == (kind, needed)


def test_every_tolerance_has_a_text_and_is_counted() -> None:
    made = tolerances.entries(["T09-acc-logged", "T01-score-as-float", "T09-acc-logged"])
    assert [(entry["id"], entry["cases"]) for entry in made] == [("T01-score-as-float", 1), ("T09-acc-logged", 2)]
    assert all(entry["text"] == tolerances.TOLERANCES[entry["id"]] for entry in made)


def _records(scores: list[Any]) -> list[dict[str, Any]]:
    return [{"kind": "value", "score": encode(score)} for score in scores]


def test_advantages_of_a_group_by_hand() -> None:
    expected = np.array([1.5, -0.5, -0.5, -0.5], dtype=np.float32)  # mean 0.25, unbiased std 0.5
    assert np.allclose(aftermath.verl_advantages([1.0, 0.0, 0.0, 0.0]), expected, atol=1e-5)
    assert np.allclose(aftermath.relax_advantages(aftermath.relax_column([1.0, 0.0, 0.0, 0.0])), expected, atol=1e-5)
    assert np.allclose(aftermath.verl_advantages([0.5]), [0.5], atol=1e-5)


def test_groups_are_compared_after_normalisation() -> None:
    cases = [{"row": 0}] * 5
    verdicts = [CaseVerdict("same")] * 5
    olds = _records([1.0, 0.0, math.nan, 1.0, 0.0])
    made = aftermath.compare_groups(cases, olds, olds, verdicts, group=2)
    assert (made["groups"], made["problems"]) == (2, [])
    news = _records([True, 0.0, math.nan, 1.0, 0.0])
    made = aftermath.compare_groups(cases, olds, news, verdicts, group=2)
    assert made["problems"] == ["row 0: the column of rewards is of type bool"]
    news = _records([1.0, 0.5, math.nan, 1.0, 0.0])
    made = aftermath.compare_groups(cases, olds, _records([3.0, 4.0, 0.0, 1.0, 0.0]), verdicts, group=2)
    assert made["problems"][0].startswith("case 0: advantage 0.70")
    assert aftermath.compare_groups(cases, olds, news, verdicts, group=2)["problems"] == []  # two of a pair rank alike
    skipped = [CaseVerdict("unstable")] * 5
    assert aftermath.compare_groups(cases, olds, news, skipped, group=2)["groups"] == 0


def test_wilson_bound() -> None:
    assert aftermath.wilson(0, 3000) == pytest.approx(0.00128, abs=5e-6)
    assert aftermath.wilson(5, 100) == pytest.approx(0.1118, abs=5e-5)
    assert aftermath.wilson(3, 3) == 1.0
    with pytest.raises(ValueError, match="no cases"):
        aftermath.wilson(0, 0)


CLOCK = """
import datetime, json, sys, time
real = time.time(), datetime.datetime.now(), datetime.date.today()
from migrate_tools.parity import clock
clock.shift(86400.0 * 40)
from datetime import datetime as own, date
made = own(2026, 1, 2)
print(json.dumps([
    time.time() - real[0], (own.now() - real[1]).total_seconds(), (date.today() - real[2]).days,
    time.strftime("%Y-%m-%d") == str(date.today()), isinstance(real[1], own), isinstance(made, own),
    own.fromisoformat("2026-01-02") == made, (made + datetime.timedelta(days=1)).day, time.gmtime(0).tm_year,
]))
"""


def test_the_clock_of_the_second_run_is_ahead() -> None:
    done = subprocess.run([sys.executable, "-c", CLOCK], capture_output=True, text=True, check=True)
    clock, now, today, text, *rest = json.loads(done.stdout)
    assert clock == pytest.approx(86400 * 40, abs=60)
    assert now == pytest.approx(86400 * 40, abs=60)
    assert today in (40, 41)
    assert [text, *rest] == [True, True, True, True, 3, 1970]
    assert datetime.date.today() - datetime.date.today() == datetime.timedelta(0)


def test_compiled_modules_load_under_the_moved_clock() -> None:
    """pandas casts to the memory layout of the real classes: with others in their place the process ended."""
    script = """
import datetime
from migrate_tools.parity import clock
clock.shift(86400.0 * 40)
moved = datetime.datetime
import pandas
print(datetime.datetime is moved, pandas.Timestamp(moved(2026, 1, 2)).day, (moved.now() - moved.now()).days)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, ["True", "2", "-1"]), done.stderr
