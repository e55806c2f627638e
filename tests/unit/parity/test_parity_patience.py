"""Cases that were only late run once more: what is replaced, what stays, what is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from migrate_tools.parity import oracle, patience

VALUE = {"kind": "value", "type": "float", "raw_type": "float", "score": 1.0, "keys": {}, "notes": [], "stable": True}
LATE = {"kind": "timeout", "stable": True}
GOOD = {"kind": "value", "score": 1.0, "keys": {"score": 1.0}}
OTHER = {"kind": "value", "score": 0.0, "keys": {"score": 0.0}}
STOPPED = {"kind": "value", "score": 0.0, "keys": {}, "reward_error": "the scorer took longer than 60.0 s"}
JOB = {"comparable": [0, 1], "case_seconds": 6.0, "total_seconds": 60.0, "groups": 12}


class _Runs:
    """Stands for both sides' sandbox runs: gives prepared records and keeps what it was asked."""

    def __init__(self, news: Sequence[Mapping[str, Any]], olds: Sequence[Mapping[str, Any]] | str = ()) -> None:
        self.news, self.olds = list(news), olds
        self.asked: list[tuple[str, dict[str, Any], list[dict[str, Any]]]] = []

    def run_new(self, context: Any, frozen: Any, job: dict[str, Any], cases: Sequence[str], place: Path) -> Any:
        self.asked.append(("new", job, [json.loads(line) for line in cases]))
        return {"records": self.news}

    def run_old(
        self, sandbox: Any, recipe: Any, launch: Any, job: dict[str, Any], rows: Any, cases: Sequence[str], place: Any
    ) -> Any:
        self.asked.append(("old", job, [json.loads(line) for line in cases]))
        return self.olds if isinstance(self.olds, str) else [{"records": list(self.olds)}]


def settled(
    monkeypatch: pytest.MonkeyPatch, runs: _Runs, olds: Sequence[Any], news: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """`patience.settle` over prepared runs."""
    monkeypatch.setattr(patience, "run_new", runs.run_new)
    monkeypatch.setattr(oracle, "run_old", runs.run_old)
    monkeypatch.setattr(oracle, "old_job", lambda *_, seconds: {"total_seconds": seconds, "case_seconds": 4.0})
    cases = [
        {"row": i, "new": f"new {i}", "old": f"old {i}", "raw": "", "length": 3, "told": "", "family": "x"}
        for i in range(3)
    ]
    frozen: Any = SimpleNamespace(cases=lambda: cases, folder=Path("/nowhere"), known_keys=None)
    context: Any = SimpleNamespace(work=Path("/nowhere"), sandbox=None, recipe=None)
    launch: Any = SimpleNamespace(name="run")
    return patience.settle(context, launch, frozen, JOB, olds, news)


def test_nothing_is_run_again_when_nothing_was_late(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = _Runs([])
    olds, news = settled(monkeypatch, runs, [VALUE, VALUE, LATE], [GOOD, OTHER, LATE])
    assert (olds, news, runs.asked) == ([VALUE, VALUE, LATE], [GOOD, OTHER, LATE], [])


def test_a_late_new_answer_is_replaced_by_that_of_a_longer_run(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = _Runs([GOOD])
    olds, news = settled(monkeypatch, runs, [VALUE, VALUE, VALUE], [GOOD, LATE, GOOD])
    assert news == [GOOD, GOOD, GOOD]
    assert olds == [VALUE, VALUE, VALUE]
    (side, job, cases), *others = runs.asked
    assert (side, others) == ("new", [])
    assert job == {"case_seconds": patience.CASE_SECONDS, "total_seconds": patience.TOTAL_SECONDS, "groups": 0}
    assert cases == [{"row": 1, "new": "new 1", "length": 3, "told": ""}]  # never what the old side said or was given


@pytest.mark.parametrize("again", [LATE, {"kind": "skipped"}])
def test_a_new_answer_that_is_late_again_stays(monkeypatch: pytest.MonkeyPatch, again: dict[str, Any]) -> None:
    _, news = settled(monkeypatch, _Runs([again]), [VALUE], [LATE])
    assert news == [LATE]


def test_a_longer_run_may_also_show_a_real_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    _, news = settled(monkeypatch, _Runs([OTHER]), [VALUE], [STOPPED])
    assert news == [OTHER]


def test_an_old_answer_is_never_replaced_only_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = _Runs([GOOD], [VALUE])
    olds, news = settled(monkeypatch, runs, [VALUE, LATE], [GOOD, GOOD])
    assert olds == [VALUE, {**LATE, "stable": False}]
    assert news == [GOOD, GOOD]
    assert [side for side, _, _ in runs.asked] == ["new", "old"]
    assert runs.asked[1][1]["case_seconds"] == patience.CASE_SECONDS
    assert [case["old"] for case in runs.asked[1][2]] == ["old 1"]


@pytest.mark.parametrize("olds", [[LATE], "the old reward could not be run: time"])
def test_an_old_side_that_is_late_again_stays_a_timeout(monkeypatch: pytest.MonkeyPatch, olds: Any) -> None:
    kept, _ = settled(monkeypatch, _Runs([GOOD], olds), [LATE], [GOOD])
    assert kept == [LATE]


def test_a_new_side_that_cannot_run_again_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = _Runs([])
    _, news = settled(monkeypatch, runs, [VALUE], [LATE])
    assert news == [LATE]
