"""A package that is not installed and that only some calls of a reward import: it matters where a case asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from migrate_tools.parity.verdicts import judge

pytestmark = [pytest.mark.jail, pytest.mark.usefixtures("undirected")]

SCORER = """
    import multiprocessing
    import subprocess
    import sys

    def run_program(text):
        from checker_of_nobody import check
        return check(text)

    def {way}(text):
        {body}

    def compute_score(data_source, solution_str, ground_truth, extra_info=None):
        if {condition}:
            return {way}(solution_str)
        return 1.0 if str(ground_truth) in solution_str else 0.0
"""
WAYS = {
    "swallowed": """
        try:
            return run_program(text)
        except Exception:
            return 0.0""",
    "forked": """
        context = multiprocessing.get_context("fork")
        worker = context.Process(target=run_program, args=(text,))
        worker.start()
        worker.join()
        return 0.0""",
    "started": """
        code = "from checker_of_nobody import check"
        done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
        return float(done.returncode == 0 and run_program(text))""",
}
NEEDED = "the old reward needs checker_of_nobody, not installed here: pip install checker-of-nobody"


def scorer(way: str, condition: str) -> str:
    return SCORER.format(way=way, body=WAYS[way].strip(), condition=condition)


def test_a_branch_that_no_case_enters_needs_nothing(bench: Callable[..., Any]) -> None:
    result = bench(scorer("swallowed", 'data_source == "programs"')).check(cases=60)
    assert result.status == "passed", result.summary
    assert result.evidence["absent"] == ["checker_of_nobody"]
    assert "no case asks for checker_of_nobody, not installed here" in result.summary


@pytest.mark.parametrize("way", WAYS)
def test_a_score_without_the_package_is_not_taken_for_the_reward(bench: Callable[..., Any], way: str) -> None:
    result = bench(scorer(way, '"####" in solution_str')).check(cases=60)
    assert (result.status, result.summary) == ("not_checkable", NEEDED)


def test_a_case_of_another_search_that_asks_for_it_is_not_compared() -> None:
    verdict = judge({"kind": "missing", "error": "checker_of_nobody", "stable": True}, {"kind": "value", "score": 0.0})
    assert verdict.kind == "not_run"
    assert verdict.why == "the old reward needs checker_of_nobody, not installed here"


BESIDE = """
    import csv_tools_of_nobody

    LINES = csv_tools_of_nobody.Dialect

    def read(path):
        return csv_tools_of_nobody.read(path)

    def compute_score(data_source, solution_str, ground_truth, extra_info=None):
        return {value} if str(ground_truth) in solution_str else 0.0
"""


def test_what_only_other_functions_of_the_file_need_may_be_missing(bench: Callable[..., Any]) -> None:
    port = "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
    port += "    return 1.0 if str(ground_truth) in solution_str else 0.0\n"
    result = bench(BESIDE.format(value="1.0"), port).check(cases=60)
    assert result.status == "passed", result.summary
    assert result.evidence["absent"] == []


def test_what_is_reached_by_another_way_is_not_hidden(bench: Callable[..., Any]) -> None:
    scorer = BESIDE.format(value='float(globals()["read"]("x"))')
    frozen = bench(scorer).freeze(cases=60)
    assert frozen.reason == (
        "the old reward needs csv_tools_of_nobody, not installed here: pip install csv-tools-of-nobody"
    )
