"""Where a draft differs from the rules' module."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from migrate_tools.parity.mutation import Code
from migrate_tools.parity.verbatim import Leads, leads

RULES = '''
import re

LIMIT = 300


def last(text):
    """The last number."""
    found = re.findall(r"-?[0-9.]+", text)
    return found[-1] if found else None


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    answer = last(solution_str[-LIMIT:])
    if answer is None:
        return 0.0
    return 1.0 if answer.strip() == ground_truth else 0.1
'''


def changes(draft: str) -> list[tuple[str, str]]:
    """What each version but the last puts where: the draft's text and the rules' text."""
    found = leads(Code(draft), RULES, ["4"])
    whole = draft.encode()
    return [(whole[slice(*item["span"])].decode(), item["text"]) for item in found.versions[:-1]]


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("found[-1]", "found[0]", ("-1", "0")),
        ("LIMIT = 300", "LIMIT = 200", ("300", "200")),
        ("answer.strip() == ground_truth", "answer == ground_truth", ("answer.strip()", "answer")),
        ("answer is None", "answer is not None", ("answer is None", "answer is not None")),
        ("extra_info=None", "extra_info=0", ("None", "0")),
        ('r"-?[0-9.]+"', 'r"[0-9.]+"', ('r"-?[0-9.]+"', 'r"[0-9.]+"')),
    ],
)
def test_the_smallest_difference_is_undone(old: str, new: str, change: tuple[str, str]) -> None:
    draft = RULES.replace(old, new)
    assert changes(draft) == [(change[1], change[0])]
    first, whole = leads(Code(draft), RULES, ["4"]).versions
    assert ast.dump(ast.parse(first["source"])) == ast.dump(ast.parse(RULES))
    assert whole["source"] == RULES


def test_two_differences_are_undone_one_by_one_and_together() -> None:
    draft = RULES.replace("found[-1]", "found[0]").replace("0.1", "0.2")
    first, second, whole = leads(Code(draft), RULES, ["4"]).versions
    assert (first["source"], second["source"]) == (RULES.replace("0.1", "0.2"), RULES.replace("[-1]", "[0]"))
    assert whole["lines"] == []
    assert whole["lists"]


def test_differences_of_one_statement_are_undone_together() -> None:
    draft = RULES.replace("answer.strip() == ground_truth", "answer == ground_truth.lower()")
    assert changes(draft) == [("answer == ground_truth.lower()", "answer.strip() == ground_truth")]


def test_a_lost_statement_brings_its_function_back() -> None:
    lost = "    if answer is None:\n        return 0.0\n"
    (change,) = changes(RULES.replace(lost, ""))
    assert change[0].startswith("def compute_score")
    assert lost in change[1]


@pytest.mark.parametrize(
    "draft",
    [
        RULES,
        RULES.replace("LIMIT = 300", "LIMIT  =  300  # characters"),
        RULES.replace('"""The last number."""', '"""Another text."""'),
    ],
)
def test_layout_comments_and_docstrings_are_no_difference(draft: str) -> None:
    assert leads(Code(draft), RULES, ["4"]) == Leads()


def test_rules_that_wrote_no_python_lead_nowhere() -> None:
    assert leads(Code(RULES), RULES.replace("def last(", "def last(("), ["4"]) == Leads()


def test_a_module_that_shares_nothing_is_compared_as_a_whole() -> None:
    draft = "async def reward_func(args, sample):\n    return float('Answer' in sample.response)\n"
    found: dict[str, Any]
    (found,) = leads(Code(draft), RULES, ["4"]).versions
    assert found["source"] == RULES
    assert {"Answer", "-?[0-9.]+"} & set(found["focus"]["near"])
    assert 300 in found["focus"]["numbers"]
