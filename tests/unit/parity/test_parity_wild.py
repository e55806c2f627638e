"""Scorers that misbehave end their case, not the run: storms of processes, huge texts, hunger for memory."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from migrate_tools.parity import strays, supervise
from migrate_tools.parity.values import encode, identical
from migrate_tools.sandbox import Limits


def test_children_in_sessions_of_their_own_end_with_their_worker() -> None:
    before = strays.descendants()

    def make() -> supervise.Runner:
        def run(item: int) -> dict[str, Any]:
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
            return {"kind": "value"}

        return run

    records = supervise.run_items(range(3), make, item_seconds=20, total_seconds=60)
    assert [records[i]["kind"] for i in range(3)] == ["value"] * 3
    assert strays.descendants() <= before


def test_what_was_there_before_is_spared() -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert strays.sweep({other.pid, *strays.descendants()}) == 0
        assert other.poll() is None
        mine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
        assert strays.sweep(strays.descendants() - {mine.pid}) == 1
        mine.returncode = -9  # reaped by the sweep
        with pytest.raises(ProcessLookupError):
            os.kill(mine.pid, 0)
    finally:
        other.kill()
        other.wait()


def test_huge_messages_and_values_stay_small_in_the_record() -> None:
    began = time.monotonic()
    text = supervise.describe(ValueError("word " * (20 << 20)))
    assert text.startswith("ValueError: word word")
    assert len(text) < 600
    one = encode("x" * (100 << 20))
    assert len(str(one)) < 500
    assert identical(one, encode("x" * (100 << 20)))
    assert time.monotonic() - began < 30


@pytest.mark.jail
def test_a_fork_storm_ends_its_case_only(bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from migrate_tools.parity import directed, guided, oracle

    for module in (directed, guided, oracle):  # a small storm ends in the same way, and spares the other tests
        monkeypatch.setattr(module, "Limits", functools.partial(Limits, processes=72))
    monkeypatch.setattr(oracle, "CASE_SECONDS", 1.5)
    monkeypatch.setattr(directed, "search", lambda *_, **__: directed.Told())  # it would only storm again
    scorer = """
        import os

        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            while solution_str == "":
                try:
                    if os.fork() == 0:
                        os.setsid()
                except OSError:
                    pass
            return float(ground_truth in solution_str)
    """
    made = bench(scorer)
    frozen = made.freeze(cases=40)
    assert frozen.reason == ""
    kinds: dict[bool, set[str]] = {True: set(), False: set()}
    for case, record in zip(frozen.cases(), frozen.outcomes(), strict=True):
        kinds[case["old"] == ""].add(record["kind"])
    assert kinds == {True: {"timeout"}, False: {"value"}}


@pytest.mark.jail
def test_a_hundred_megabytes_and_more_end_no_run(bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from migrate_tools.parity import directed

    monkeypatch.setattr(
        directed, "search", lambda *_, **__: directed.Told()
    )  # the cases alone, in time for all of them
    scorer = """
        import zlib

        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            kind = zlib.crc32(solution_str.encode()) % 16
            if kind == 0:
                return {"score": 1.0, "seen": "x" * (100 << 20)}
            if kind == 1:
                raise ValueError("y " * (50 << 20))
            if kind == 2:
                hoard = []
                while True:
                    hoard.append("z" * (64 << 20))
            return {"score": float(ground_truth in solution_str), "seen": ""}
    """
    frozen = bench(scorer).freeze(cases=60, seconds=90.0)
    assert frozen.reason == ""
    found: dict[int, dict[str, Any]] = {}
    for case, record in zip(frozen.cases(), frozen.outcomes(), strict=True):
        found.setdefault(zlib.crc32(case["old"].encode()) % 16, record)
    assert (found[0]["kind"], found[0]["keys"]["seen"]["length"]) == ("value", 100 << 20)
    assert found[1]["kind"] == "exception"
    assert len(found[1]["error"]) < 600
    assert found[2]["kind"] in ("exception", "died", "timeout")
    assert found[3]["kind"] == "value"
