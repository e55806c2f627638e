"""What counts as better, and what no check proves."""

from __future__ import annotations

from typing import Any

import pytest
from migrate_agent.comparison import compare, findings
from migrate_agent.proof import unproven
from migrate_tools.model import CheckResult, CheckStatus, Example, ExampleFile

RUNGS = {"syntax": 0, "import": 2, "parity": 3, "tools": 4, "data": 5}


def check(name: str, status: CheckStatus, summary: str = "", **evidence: Any) -> CheckResult:
    return CheckResult(name=name, rung=RUNGS[name], status=status, summary=summary, evidence=evidence)


STATUSES: dict[str, tuple[CheckStatus, CheckStatus, str]] = {
    "mended": ("failed", "passed", "improved"),
    "can be checked now": ("not_checkable", "passed", "improved"),
    "still failing": ("failed", "failed", "no better"),
    "nothing to gain": ("passed", "passed", "no better"),
    "skipped and passed": ("skipped", "passed", "no better"),
    "dodged by skipping": ("failed", "skipped", "worse"),
    "dodged by packages": ("failed", "not_checkable", "worse"),
    "passed to failed": ("passed", "failed", "worse"),
    "passed to skipped": ("passed", "skipped", "worse"),
    "passed to not checkable": ("passed", "not_checkable", "worse"),
    "skipped to failed": ("skipped", "failed", "worse"),
    "skipped to not checkable": ("skipped", "not_checkable", "worse"),
    "not checkable to failed": ("not_checkable", "failed", "worse"),
    "not checkable to skipped": ("not_checkable", "skipped", "worse"),
}


@pytest.mark.parametrize(("was", "now", "word"), STATUSES.values(), ids=STATUSES.keys())
def test_one_check(was: CheckStatus, now: CheckStatus, word: str) -> None:
    assert compare([check("parity", was)], [check("parity", now)]).word == word


@pytest.mark.parametrize("now", ["failed", "skipped", "not_checkable"])
def test_a_gain_does_not_pay_for_a_loss(now: CheckStatus) -> None:
    before = [check("syntax", "failed"), check("parity", "passed")]
    assert compare(before, [check("syntax", "passed"), check("parity", now)]).word == "worse"


def test_a_check_that_is_gone_is_worse() -> None:
    before = [check("syntax", "failed"), check("parity", "failed")]
    assert compare(before, [check("syntax", "passed")]) == ("worse", "parity was failed and is absent")


def test_a_new_check_may_pass_and_may_not_fail() -> None:
    before = [check("syntax", "failed")]
    assert compare(before, [check("syntax", "passed"), check("tools", "passed")]).word == "improved"
    assert compare(before, [check("syntax", "passed"), check("tools", "failed")]).word == "worse"


def test_fewer_findings_help_unless_another_check_finds_more() -> None:
    before = [check("syntax", "failed", problems=["a", "b"]), check("parity", "failed", mismatches=5)]
    after = [check("syntax", "failed", problems=["a", "b"]), check("parity", "failed", mismatches=4)]
    assert compare(before, after).word == "improved"
    after[0] = check("syntax", "failed", problems=["a", "b", "c"])
    assert compare(before, after).word == "worse"


def test_findings_that_are_only_counted_are_counted() -> None:
    assert findings(check("syntax", "failed", "x (and 40 more)", problems=["x"] * 30)) == 41


WEAKER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "fewer compared": ({"compared": 100}, {"compared": 99}),
    "fewer cases": ({"cases": 100}, {"cases": 10}),
    "made-up rows": ({"made_up": False}, {"made_up": True}),
    "a hook lost": ({"hooks": ["a.b", "a.c"]}, {"hooks": ["a.b"]}),
    "more declared": ({"declared": {"x": 1}}, {"declared": {"x": 2}}),
}


@pytest.mark.parametrize(("old", "new"), WEAKER.values(), ids=WEAKER.keys())
def test_passing_on_less_is_worse(old: dict[str, Any], new: dict[str, Any]) -> None:
    before = [check("parity", "passed", **old), check("syntax", "failed")]
    assert compare(before, [check("parity", "passed", **new), check("syntax", "passed")]).word == "worse"


def example(**texts: str) -> Example:
    names = {"reward": "examples/a/reward_a.py", "run": "examples/a/run_a.sh", "hooks": "examples/a/hooks_a.py",
             "env": "examples/a/env_a.py", "process": "scripts/tools/process_a.py", "helper": "examples/a/help_a.py",
             "config": "examples/a/a_config.yaml"}  # fmt: skip
    return Example(
        algo="a",
        files=tuple(
            ExampleFile(path=names[name], text=text, origin="llm" if "llm" in text else "rendered")
            for name, text in texts.items()
        ),
    )


FIRST = example(
    reward="x = 0\n", run="X=(\n --lr 1\n)\n", hooks="x = 0\n", env="x = 0\n", process="x = 0\n", config="a: 1\n"
)
PASSING = [check("parity", "passed"), check("tools", "passed"), check("data", "passed", made_up=False)]


@pytest.mark.parametrize("name", ["reward", "env", "process", "helper"])
def test_checks_that_compare_with_verl_prove_an_edit(name: str) -> None:
    assert unproven(FIRST, example(**{name: "x = 1  # llm\n"}), PASSING) == ()
    assert unproven(FIRST, example(**{name: "x = 1  # llm\n"}), [])


@pytest.mark.parametrize(("name", "text"), [("run", "X=(\n --lr 2 # llm\n)\n"), ("hooks", "x = 'llm'\n"),
                                            ("config", "a: llm\n")])  # fmt: skip
def test_nothing_proves_flags_numbers_and_training_hooks(name: str, text: str) -> None:
    (line,) = unproven(FIRST, example(**{name: text}), PASSING)
    assert "no check compares with verl what it says" in line


@pytest.mark.parametrize("edited", [{"tried": 0, "shown": 2}, {"tried": 4500, "shown": 0}], ids=["shown", "searched"])
def test_an_edit_is_proved_where_cases_are_strong_and_it_was_looked_at(edited: dict[str, int]) -> None:
    power = {"seeded": 20, "caught": 18, "unshown": 2, "verdict": "strong"}
    results = [check("parity", "passed", power=power, edited={"places": 1, **edited})]
    assert unproven(FIRST, example(reward="x = 1  # llm\n"), results) == ()


def test_layout_needs_no_proof() -> None:
    assert unproven(FIRST, example(run='X=(\n --lr "1" # llm\n)\n', hooks="x = (0)  # llm\n"), []) == ()


NOT_ENOUGH = {
    "made-up rows": ("process", check("data", "passed", made_up=True)),
    "made-up answers of a server": ("reward", check("parity", "passed", plumbing_only=True)),
    "made-up answers to tools": ("env", check("tools", "passed", plumbing_only=True)),
    "cases of unknown power": (
        "reward",
        check("parity", "passed", power={"seeded": 20, "caught": 18, "verdict": "unknown"}),
    ),
    "an edit that was not searched": (
        "reward",
        check("parity", "passed", edited={"places": 1, "tried": 9, "shown": 0}),
    ),
    "not compared": ("reward", check("parity", "not_checkable")),
    "no tools": ("env", check("tools", "skipped")),
}


@pytest.mark.parametrize(("name", "result"), NOT_ENOUGH.values(), ids=NOT_ENOUGH.keys())
def test_a_check_that_shows_little_proves_nothing(name: str, result: CheckResult) -> None:
    assert unproven(FIRST, example(**{name: "x = 1  # llm\n"}), [result])


def test_verify_remembers_what_nothing_proved() -> None:
    from migrate_agent.commands.verify import unproven_edits

    edits = [{"path": "a.sh", "unproven": "a.sh was changed"}, {"path": "b.py", "unproven": ""}]
    assert unproven_edits({"llm": {"edits": edits}}) == ("a.sh was changed",)
    assert unproven_edits({}) == ()
