"""Inputs that tell faulty scorers apart: the changes of a text, and a search that finds what the plain cases miss."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from migrate_tools.parity import directed, directed_edits, directed_side, guided, oracle
from migrate_tools.parity.case import Case
from migrate_tools.parity.directed_edits import CHANGES, Material
from migrate_tools.parity.faults import seed_faults
from migrate_tools.parity.focus import focus
from migrate_tools.parity.mutation import Code
from migrate_tools.parity.sandbox_data import load_rows

MATERIAL = Material(
    ["42", "-7"], ["9"], ["####", "<answer>"], [60], ["#### 5"], ["Total"], [("So", "Thus"), ("42", "x")], [7, 9]
)


@pytest.mark.parametrize("change", dict.fromkeys(CHANGES))
def test_every_change_changes_something_and_is_the_same_again(change: directed_edits.Change) -> None:
    raw = '<think>First 3.</think> So {"x": 1}\n#### 42'
    made = [change(raw, MATERIAL, Random(seed)) for seed in range(30)]
    assert made == [change(raw, MATERIAL, Random(seed)) for seed in range(30)]
    assert len(set(made) - {raw}) >= 2
    for seed in range(30):
        assert isinstance(change("", MATERIAL, Random(seed)), str)


def test_a_blank_thought_is_among_the_changes() -> None:
    made = {directed_edits._hollow("<think>a</think>", MATERIAL, Random(seed)) for seed in range(40)}
    assert {"<think> </think>", "<think></think>", "<think>\n</think>"} <= made


def test_a_closing_tag_once_more_on_a_line_of_its_own_is_among_them() -> None:
    raw = "<think>a</think>\n<call>\nx\n</call>"
    made = {directed_edits._block(raw, MATERIAL, Random(seed)) for seed in range(2000)}
    assert f"{raw}\n</call>" in {text.rstrip("\n") for text in made}


def test_lists_grow_by_items_like_their_last_one_in_even_steps() -> None:
    made = [directed_edits._with_value([{"at": [1, 5]}], MATERIAL, Random(seed)) for seed in range(300)]
    assert [{"at": [1, 5]}, {"at": [2, 6]}, {"at": [3, 7]}] in made
    assert [{"at": [1, 5]}, {"at": [1, 5]}] in made


def test_json_comes_in_other_wrapping_too() -> None:
    raw = '<think>a</think>\n<answer>\n[{"x": 1}]</answer>'
    made = {directed_edits._json(raw, MATERIAL, Random(seed)) for seed in range(200)}
    assert '<think>looking</think>[{"x": 1}]' in made


def test_a_command_of_latex_that_the_scorer_names_comes_in_its_forms() -> None:
    code = Code('def f(x):\n    parts = x.split("\\\\frac")\n    return parts[1:]')
    fault = next(item for item in seed_faults(code) if item.operator == "off by one in a slice")
    pairs = focus(code, fault.node, fault.after, ["1"])["pairs"]
    assert (r"\frac{1}{2}", r"\frac12") in pairs
    plain = Code('def f(x):\n    parts = x.split("frac")\n    return parts[1:]')
    fault = next(item for item in seed_faults(plain) if item.operator == "off by one in a slice")
    assert (r"\frac{1}{2}", r"\frac12") not in focus(plain, fault.node, fault.after, ["1"])["pairs"]


SCORER = """
    def compute_score(data_source, solution_str, ground_truth, extra_info=None):
        text = solution_str.strip().lower()
        return 1.0 if text == str(ground_truth).lower() else 0.0
"""


@pytest.mark.jail
@pytest.mark.parametrize("parts", [1, 2])
def test_what_the_given_cases_miss_is_looked_for(
    bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, parts: int
) -> None:
    monkeypatch.setattr(directed, "SPLIT_TRIES", 1 if parts == 2 else 10**9)
    whole = directed.search

    def with_few(*places: Any, **named: Any) -> Any:
        *first, cases = places
        return whole(*first, [case for case in cases if case.raw in ("Paris", "72", "no idea")], **named)

    monkeypatch.setattr(directed, "search", with_few)
    frozen = bench(SCORER).freeze(cases=60)

    made = [case["raw"] for case in frozen.cases() if case["family"] == "directed"]
    assert frozen.meta["directed"].get("found") >= len(made) >= 2, frozen.meta["directed"]
    assert (frozen.folder.parent / "directed_1").is_dir() == (parts == 2)
    assert any(raw != raw.strip() for raw in made)
    assert any(raw.strip() not in ("Paris", "72") for raw in made)


def test_rows_that_two_parts_of_the_search_made_stay_apart(tmp_path: Path) -> None:
    given = [{"prompt": "p", "reward_model": {"ground_truth": truth}} for truth in ("1", "2")]
    rows = tmp_path / "rows"
    rows.mkdir()
    pq.write_table(pa.Table.from_pylist(given), rows / "rows_0.parquet")
    case = Case(row=0, family="directed", raw="x", old="x", new="x", length=1, told="")
    same = {"case": asdict(case), "rows": []}
    for part, truth in enumerate(("a", "b")):
        (tmp_path / f"{part}").mkdir()
        change = {"base": 1, "changes": [[["reward_model", "ground_truth"], truth]]}
        again = {"base": 2, "changes": [[["prompt"], f"q{truth}"]]}
        made = {"case": asdict(replace(case, row=3, raw=truth)), "rows": [change, again]}
        text = "".join(f"{json.dumps(entry)}\n" for entry in (same, made))
        (tmp_path / f"{part}" / directed_side.FOUND).write_text(text, "utf-8")
        (tmp_path / f"{part}" / "directed.json").write_text(json.dumps({"kinds": {"found": 2, "known": part}}), "utf-8")

    told = directed._told([tmp_path / "0", tmp_path / "1"], rows, ["rows_0.parquet"])
    known = load_rows(rows, ["rows_0.parquet", *told.files], "python")
    assert told.counts == {"found": 4, "known": 1}
    assert [item.raw for item in told.cases] == ["x", "a", "b"]
    labels = [(known[item.row]["reward_model"]["ground_truth"], known[item.row]["prompt"]) for item in told.cases]
    assert labels == [("1", "p"), ("a", "qa"), ("b", "qb")]


@pytest.mark.parametrize(("seconds", "runs", "waits"), [(3.0, 300, False), (30.0, 300, True), (0.0, 0, True)])
def test_a_scorer_that_may_wait_is_slow_where_its_calls_take_long(seconds: float, runs: int, waits: bool) -> None:
    assert oracle._waits(guided.Found([], seconds=seconds, runs=runs)) == waits
