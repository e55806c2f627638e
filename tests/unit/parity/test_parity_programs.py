"""Programs as responses: the right ones pass the test cases they were made for, the wrong ones do not."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from typing import Any

import pytest
from migrate_tools.parity import programs
from migrate_tools.verl.example_rows import VALUES

SUM = {"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7\n"]}
ADD = {"fn_name": "add", "inputs": ["1\n2", "[3]\n[4]"], "outputs": ["3", "[3, 4]"]}


def passes(program: str, truth: dict[str, Any]) -> list[bool]:
    """Which test cases a program passes."""
    found = []
    for given, wanted in zip(truth["inputs"], truth["outputs"], strict=True):
        space: dict[str, Any] = {"__name__": "__main__"}
        kept, sys.stdin, out = sys.stdin, io.StringIO(given), io.StringIO()
        try:
            with contextlib.redirect_stdout(out), contextlib.suppress(Exception, SystemExit):
                exec(program, space)
                if name := truth.get("fn_name"):
                    place = space["Solution"]() if "Solution" in space else None
                    answer = (getattr(place, name) if place else space[name])(*map(json.loads, given.split("\n")))
                    found.append((list(answer) if isinstance(answer, tuple) else answer) == json.loads(wanted))
                    continue
            found.append(None if truth.get("fn_name") else out.getvalue().split() == wanted.split())
        finally:
            sys.stdin = kept
    return [one is True for one in found]


@pytest.mark.parametrize("truth", [SUM, ADD])
def test_right_and_wrong_programs_come_in_turn(truth: dict[str, Any]) -> None:
    tests = programs.tests_of(json.dumps(truth))
    assert tests is not None
    made = [text for text in programs.programs(tests) if "os._exit" not in text]
    results = [passes(text, truth) for text in made]
    assert results[0] == [True, True]
    assert results[1] == [False, False]
    assert [True, False] in results  # right for the first test case alone
    assert sum(all(one) for one in results) >= 4
    assert sum(not any(one) for one in results) >= 4


def test_programs_are_made_for_rows_with_test_cases_only() -> None:
    rows = [{"reward_model": {"ground_truth": value}} for value in ("42", SUM, json.dumps(SUM), {"inputs": [1]}, None)]
    made = list(programs.drafts(rows))
    assert {draft.row for draft in made} == {1, 2}
    assert [draft.raw for draft in made].count(programs.FENCES[0].replace("{}", programs.ENDLESS)) == 1
    assert list(programs.drafts(rows[:1])) == []


def test_the_made_up_rows_of_code_data_have_test_cases() -> None:
    made = [programs.tests_of(value) for value in VALUES["tests"]]
    assert all(made)
    assert sum(bool(tests and tests.function) for tests in made) == 2


def test_a_name_that_the_scorer_knows_gets_right_and_wrong_values() -> None:
    rows = [{"reward_model": {"ground_truth": "72"}}, {"reward_model": {"ground_truth": {"a": 1}}}]
    found = [draft.raw for draft in programs.assignments(rows, ["answer", "not a name", "class"])]
    assert found[:4] == ["answer = 72", "```python\nanswer = 72\n```", "answer = '72'", "```python\nanswer = '72'\n```"]
    assert all("answer = " in text for text in found)
    assert len(set(found)) == len(found) == 6
