"""An equal port passes; every faulty one fails, with a case that shows it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from migrate_tools.model import DataFile, DataSpec
from migrate_tools.parity import compare, oracle, power, shrink
from migrate_tools.parity.frozen import Budget
from parity_wrapper import make_row

pytestmark = pytest.mark.jail

GSM = """
    import re

    def extract(solution_str):
        found = re.findall(r"#### (\\-?[0-9\\.\\,]+)", solution_str[-300:])
        if not found:
            return None
        return found[-1].replace(",", "").strip()

    def compute_score(data_source, solution_str, ground_truth, extra_info=None):
        answer = extract(solution_str)
        if answer is None:
            return 0.0
        return 1.0 if answer == ground_truth.replace(",", "") else 0.1
"""
TWO_WAYS = """
    def compute_score(data_source, solution_str, ground_truth, extra_info=None):
        text = solution_str.strip().lower()
        text = text.strip() or text
        return 1.0 if text == str(ground_truth).lower() else 0.0
"""
FAULTS = {
    "first for last match": ("found[-1]", "found[0]"),
    "clip length": ("[-300:]", "[-250:]"),
    "no clip": ("solution_str[-300:]", "solution_str"),
    "comma step dropped": ('found[-1].replace(",", "")', "found[-1]"),
    "truth not normalised": ('ground_truth.replace(",", "")', "ground_truth"),
    "sign lost": ("(\\-?[0-9", "([0-9"),
    "format score lost": ("else 0.1", "else 0.0"),
    "missing answer rewarded": ("return 0.0", "return 0.1"),
    "numeric comparison": ("answer == ground_truth.replace", "answer.rstrip('0') == ground_truth.replace"),
    "marker made optional": ("#### (", "#*\\s*("),
    "constant": ("return 1.0 if", "return 2.0 if"),
    "search at the start": ('re.findall(r"####', 're.findall(r"^####'),
    "lower case truth": ('ground_truth.replace(",", "")', 'ground_truth.replace(",", "").replace("-", "")'),
}


def test_an_equal_port_passes_with_both_sides_tested(
    bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "POWER_SECONDS", 8.0)
    result = bench(GSM).check(cases=360)

    assert result.status == "passed", (result.summary, result.evidence.get("first_mismatches"))
    evidence = result.evidence
    assert evidence["mismatches"] == 0
    assert evidence["compared"] == evidence["cases"] >= 250
    assert evidence["accepted"] >= 0.25
    assert evidence["rejected"] >= 0.25
    assert evidence["line_coverage"]["hit"] == evidence["line_coverage"]["lines"] == 8
    families = {"hand", "pairs", "edits", "literal", "regex", "length", "cross"}
    assert families | {"truth", "edge", "special", "fields", "drawn", "guided"} <= set(evidence["families"])
    assert evidence["power"]["verdict"] == "strong"
    counted = evidence["power"]["seeded"] - evidence["power"]["unshown"]
    assert evidence["power"]["caught"] == counted >= 14
    assert evidence["lists"] == {"calls": 12, "problems": []}


def test_a_small_budget_is_enough_for_a_small_scorer(
    bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "POWER_SECONDS", 60.0)
    result = bench(GSM).check(cases=80)
    assert result.status == "passed", (result.summary, result.evidence.get("power"))
    assert result.evidence["accepted"] >= 0.25


@pytest.mark.usefixtures("undirected")
def test_cases_that_see_too_little_fail_an_equal_port_and_show_what_they_miss(
    bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "POWER_SECONDS", 30.0)
    monkeypatch.setattr(power, "ask", lambda *_: None)  # no follow-up cases
    made = bench(TWO_WAYS)
    frozen = made.freeze(cases=40)
    cases, outcomes = frozen.cases(), frozen.outcomes()
    kept = [index for index, case in enumerate(cases) if case["raw"] in ("Paris", "72", "#### 72", "no idea", "-3", "")]
    monkeypatch.setattr(type(frozen), "cases", lambda _: [cases[index] for index in kept])
    monkeypatch.setattr(type(frozen), "outcomes", lambda _: [outcomes[index] for index in kept])
    result = compare.run_parity(made, made.launch, frozen)

    assert result.evidence["mismatches"] == 0
    assert result.status == "failed", result.summary
    assert "too weak" in result.summary
    assert "--parity-cases" in result.summary
    assert any(item.get("input") for item in result.evidence["power"]["survivors"])


def test_every_faulty_port_fails(bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shrink, "shrink", lambda *_: [])  # shrinking has a test of its own
    made = bench(GSM)
    frozen = made.freeze(cases=300)
    for name, (good, bad) in FAULTS.items():
        assert good in GSM, name
        made.port(GSM.replace(good, bad))
        result = compare.run_parity(made, made.launch, frozen)

        assert result.status == "failed", name
        first = result.evidence["first_mismatches"][0]
        assert (first["old"], bool(first["why"])) != (first["new"], False), name


def test_a_mismatch_is_shrunk_and_saved_as_a_pytest_file(bench: Callable[..., Any], tmp_path: Any) -> None:
    made = bench(GSM, GSM.replace("else 0.1", "else 0.2"))
    result = made.check()

    smallest = result.evidence["smallest"][0]
    assert (smallest["old"], smallest["new"]) == (0.1, 0.2)
    assert len(smallest["response"]) <= len("#### 1<|im_end|>") + 4
    folder = made.stage / "migration" / "parity"
    folder.mkdir(parents=True)
    (folder / "test_parity.py").write_text(result.evidence["pytest"], encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder / "test_parity.py")]
    broken = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    made.port(GSM)
    mended = subprocess.run(command, cwd=folder, capture_output=True, text=True)

    assert (broken.returncode, mended.returncode) == (1, 0), broken.stdout + mended.stdout
    assert "0.2 == 0.1" in broken.stdout


def test_the_same_recipe_gives_the_same_oracle(bench: Callable[..., Any], tmp_path: Any) -> None:
    import shutil

    made = bench(GSM)
    first = made.freeze(cases=120)
    texts = [(first.folder / name).read_bytes() for name in ("cases.jsonl", "outcomes.jsonl", "rows.parquet")]
    shutil.rmtree(made.work)
    second = made.freeze(cases=120)

    assert [(second.folder / name).read_bytes() for name in ("cases.jsonl", "outcomes.jsonl", "rows.parquet")] == texts


def test_a_changed_oracle_is_noticed(bench: Callable[..., Any]) -> None:
    made = bench(GSM)
    frozen = made.freeze(cases=60)
    path = frozen.folder / "outcomes.jsonl"
    path.chmod(0o644)
    path.write_text(path.read_text(encoding="utf-8").replace("0.1", "0.2"), encoding="utf-8")

    result = compare.run_parity(made, made.launch, frozen)
    assert result.status == "failed"
    assert result.summary == "the frozen oracle was changed: outcomes.jsonl"


def test_an_example_that_imports_verl_is_rejected(bench: Callable[..., Any]) -> None:
    made = bench(GSM, "from verl.utils.reward_score.gsm8k import compute_score\n")
    result = made.check(cases=60)
    assert result.status == "failed"
    assert "examples/demo/reward_demo.py:2: imports verl.utils.reward_score.gsm8k" in result.evidence["guard"][0] or (
        "imports verl.utils.reward_score.gsm8k" in result.summary
    )


def test_all_zero_where_the_original_is_not_fails(bench: Callable[..., Any]) -> None:
    port = "def compute_score(**_):\n    return 0.0\n"
    result = bench(GSM, port).check()
    assert result.status == "failed"
    assert result.summary == "the new reward is 0 on every case, the old one is not"


def test_agreement_on_refusals_alone_is_not_a_pass(bench: Callable[..., Any]) -> None:
    secret = """
    import hashlib

    def compute_score(data_source, solution_str, ground_truth, extra_info=None):
        return float(hashlib.sha256(solution_str.encode()).digest()[:5] == bytes(5))
"""
    result = bench(secret).check(cases=80)
    assert result.status == "not_checkable"
    assert "accepted none of them" in result.summary


def test_logged_responses_are_compared_and_test_the_oracle_itself(bench: Callable[..., Any], tmp_path: Any) -> None:
    rows = [make_row("18", number=0), make_row("1,234", number=1)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "train.parquet")
    log = [("Question 0?", "#### 18", "18", 1.0), ("Question 1?", "#### 99", "1,234", 0.1)]
    log += [("Question 1?", "#### 1234", "1,234", 0.25), ("Question 7?", "#### 5", "5", 1.0)]
    lines = [{"input": f"user\n{q}\n", "output": o, "gts": t, "score": s, "step": 1} for q, o, t, s in log]
    (tmp_path / "1.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    made = bench(GSM, GSM.replace("else 0.1", "else 0.2"))
    data = DataSpec(train=(DataFile(text="train.parquet", path=str(tmp_path / "train.parquet")),))
    launch = made.launch.model_copy(update={"data": data})
    frozen = oracle.freeze(
        made.recipe, launch, sandbox=made.sandbox, work=made.work, budget=Budget(cases=120), logs=[tmp_path / "1.jsonl"]
    )
    found = frozen.meta["rollouts"]

    assert {key: found[key] for key in ("given", "unmatched", "cases", "scored", "same_score")} == {
        "given": 4,
        "unmatched": 1,
        "cases": 3,
        "scored": 3,
        "same_score": 2,
    }
    assert found["other"] == [{"row": found["other"][0]["row"], "response": "#### 1234", "logged": 0.25, "oracle": 1.0}]
    evidence = compare.run_parity(made, launch, frozen).evidence
    assert evidence["real_rows"]["logged"] == 3
    assert evidence["real_rows"]["n"] < evidence["compared"]  # made rows are not the recipe's own
    assert any(item["family"] == "logged" for item in evidence["first_mismatches"])


def test_what_the_time_limit_cuts_off_is_said(bench: Callable[..., Any]) -> None:
    slow = """
        import time

        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            time.sleep(0.05)
            return float(str(ground_truth) in solution_str)
    """
    result = bench(slow).check(cases=300, seconds=2.0)

    assert result.status == "passed", result.summary
    assert result.evidence["cut"].startswith("time ended the search for inputs after ")
    assert result.evidence["not_run"] > 100
    assert "time ended the search for inputs after" in result.summary
    assert f"{result.evidence['not_run']} cases were cut off by the time limit" in result.summary
