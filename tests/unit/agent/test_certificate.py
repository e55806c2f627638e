"""The certificate of a reward: figures from the evidence of rung 3, the page, and what is said without them."""

from __future__ import annotations

from typing import Any

from migrate_agent.report.build import parity_info
from migrate_agent.report.certificate import certificates, lines_of
from migrate_tools.model import CheckResult

EVIDENCE: dict[str, Any] = {
    "cases": 300,
    "compared": 290,
    "mismatches": 0,
    "families": {"hand": 100, "regex": 200},
    "accepted_share": 0.4,
    "rejected_share": 0.6,
    "coverage": {"old": {"lines": 0.95, "branches": 0.8}, "new": {"lines": 1.0, "branches": None}},
    "power": {
        "seeded": 40,
        "caught": 39,
        "equivalent": 2,
        "not_run": 0,
        "survivors": [{"operator": "clip changed", "line": 31, "code": "x"}],
    },
    "mutants": {"total": 20, "killed": 15, "survivors": [], "equivalent": 0},
    "real_rows": {"n": 290, "differences": 0, "wilson95": 0.013075, "rows": 16, "logged": 0},
    "tolerances": [{"id": "T09-acc-logged", "text": "a plain number is logged as acc as well", "cases": 290}],
    "after": {"groups": 30, "size": 8, "largest": 0.0, "problems": []},
    "manager": {"class": "verl.workers.reward_manager.naive", "cases": 40, "differences": [], "why": ""},
    "plumbing_only": False,
}


def check(status: str = "passed", **evidence: Any) -> CheckResult:
    """A result of rung 3."""
    return CheckResult.model_validate(
        {"name": "parity:run_a", "rung": 3, "status": status, "summary": "so it is", "evidence": evidence}
    )


def test_the_page_states_every_figure() -> None:
    page = lines_of(certificates([check(**EVIDENCE), CheckResult(name="syntax", rung=0, status="passed")]))
    assert page == [
        "- 290 of 300 cases compared, 0 differ; the old reward accepts 40% and rejects 60%",
        "- families: hand 100, regex 200",
        "- coverage: old 95% of lines, 80% of branches; new 100% of lines",
        "- power: 39 of 40 seeded porting faults caught (2 judged equivalent by rule)",
        "- not seen: clip changed (line 31)",
        "- mutants: 15 of 20 changes of covered lines caught",
        "- real rows: 290 of 290 cases agree on 16 rows of the recipe, responses made for them; "
        "at 95 % at most 1.31% differ",
        "- after the reward: advantages of 30 groups agree",
        "- reward manager: verl.workers.reward_manager.naive, run on 40 of the cases with the same results",
        "- tolerance T09-acc-logged: 290 cases; a plain number is logged as acc as well",
    ]


def test_what_was_not_measured_is_said() -> None:
    lacking = {
        **EVIDENCE,
        "plumbing_only": True,
        "power": {"seeded": 0, "caught": 0, "why": "no time"},
        "mutants": None,
        "real_rows": {"n": 0, "differences": 0, "wilson95": None, "rows": 0, "logged": 0},
        "coverage": {"old": {"lines": None, "branches": None}, "new": {"lines": None, "branches": None}},
        "tolerances": [],
        "after": {"groups": 0},
        "manager": {"class": "x.remote", "cases": 0, "differences": [], "why": "needs ray"},
    }
    page = "\n".join(lines_of(certificates([check(**lacking)])))
    assert "plumbing only: requests and the reading of taped answers were compared" in page
    assert "coverage: old not counted; new not counted (worker processes are not seen)" in page
    assert "power: not measured, no time" in page
    assert "mutants: not measured" in page
    assert "real rows: none, the recipe's data is not at hand" in page
    assert "reward manager: x.remote could not be run here: needs ray" in page
    assert lines_of(certificates([check("not_checkable", missing=[])])) == ["- so it is"]
    assert lines_of(certificates([])) == []


def test_several_launches_have_a_part_each() -> None:
    page = lines_of(certificates([check(**EVIDENCE), check("failed", **{**EVIDENCE, "mismatches": 3})]))
    assert page.count("`run_a`: passed") == page.count("`run_a`: failed") == 1
    assert page[0] == "`run_a`: passed"
    assert "- 290 of 300 cases compared, 3 differ; the old reward accepts 40% and rejects 60%" in page


def test_the_report_holds_the_certificates_and_the_worst_coverage() -> None:
    worse = {**EVIDENCE, "coverage": {"old": {"lines": 0.5, "branches": 0.25}, "new": {}}}
    found = parity_info([check(**EVIDENCE), check(**worse)])
    assert found is not None
    assert (found.cases, found.branch_coverage, len(found.certificates)) == (600, 0.25, 2)
    power = found.certificates[0].power
    assert power is not None
    assert (power.seeded, power.caught, power.survivors[0].line) == (40, 39, 31)


def test_survivors_that_no_input_shows_are_named_apart() -> None:
    found = {**EVIDENCE["power"], "seeded": 40, "caught": 36, "unshown": 3, "not_run": 0, "equivalent": 2}
    page = lines_of(certificates([check(**{**EVIDENCE, "power": found})]))
    wanted = "36 of 40 seeded porting faults caught (2 judged equivalent by rule, no input found that shows 3)"
    assert any(wanted in line for line in page), page
