"""Limits of a case leave out what a busy machine takes; loading the scorer is not part of the time for the cases."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from migrate_tools.parity import pace, strays, supervise


def test_time_spent_waiting_for_a_processor_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = {7: 0.0}
    monkeypatch.setattr(strays, "descendants", lambda: {1, 7})
    monkeypatch.setattr(pace, "waited", lambda pid: waits[pid])
    limit = pace.Limit({1}, 0.0, 2.0)
    for tick in range(1, 40):  # it waits 9 tenths of the time: 3.9 s are 0.39 s of its own
        waits[7] += 0.09
        assert not limit.over(tick / 10), tick
    limit.begin(3.9, 2.0)  # and from here on it does not wait
    assert not limit.over(5.8)
    assert limit.over(6.0)


def test_a_limit_has_an_end_on_the_busiest_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strays, "descendants", lambda: {7})
    monkeypatch.setattr(pace, "waited", lambda _: time.monotonic() + 1e6)
    limit = pace.Limit((), 0.0, 2.0)
    assert not limit.over(pace.MOST * 2.0 - 0.1)
    assert limit.over(pace.MOST * 2.0 + 0.1)


def test_processes_that_stand_in_each_others_way_are_no_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = dict.fromkeys(range(100), 0.0)
    monkeypatch.setattr(strays, "descendants", lambda: set(waits))
    monkeypatch.setattr(pace, "waited", lambda pid: waits[pid])
    monkeypatch.setattr(pace, "_processors", lambda: 2)
    limit = pace.Limit((), 0.0, 2.0)
    over = []
    for tick in range(1, 40):
        waits = {pid: wait + 0.1 for pid, wait in waits.items()}
        over.append(limit.over(tick / 10))
    assert over.index(True) == 20  # 2.1 s, of which a fiftieth counts as waiting


def test_where_nothing_is_counted_the_limit_is_wall_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strays, "descendants", lambda: {2**22 + 1})  # no such process
    limit = pace.Limit((), 0.0, 2.0)
    assert (limit.over(1.9), limit.over(2.1)) == (False, True)


def test_what_a_worker_said_just_before_its_end_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    def end_first(child: int) -> bool:
        """The worker ends between the look for its words and the look whether it is there."""
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT) is not None

    def make() -> supervise.Runner:
        def run(item: int) -> dict[str, Any]:
            time.sleep(0.2)
            return {"kind": "value", "score": item}

        return run

    monkeypatch.setattr(supervise, "_gone", end_first)
    records = supervise.run_items(range(3), make, item_seconds=20, total_seconds=60)
    assert records == {item: {"kind": "value", "score": item} for item in range(3)}


def test_a_record_that_came_while_the_watching_side_had_no_processor_is_no_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = pace.Limit.over

    def slow(limit: pace.Limit, now: float) -> bool:
        time.sleep(1.5)
        return late(limit, time.monotonic())

    def make() -> supervise.Runner:
        def run(item: int) -> dict[str, Any]:
            time.sleep(0.1)
            return {"kind": "value", "score": item}

        return run

    monkeypatch.setattr(pace.Limit, "over", slow)
    records = supervise.run_items(range(3), make, item_seconds=0.3, total_seconds=60)
    assert records == {item: {"kind": "value", "score": item} for item in range(3)}


def test_loading_the_scorer_takes_nothing_from_the_time_for_its_cases() -> None:
    def make() -> supervise.Runner:
        time.sleep(1.5)

        def run(item: int) -> dict[str, Any]:
            return {"kind": "value"}

        return run

    records = supervise.run_items(range(3), make, item_seconds=5, total_seconds=1)
    assert [records[i]["kind"] for i in range(3)] == ["value"] * 3
