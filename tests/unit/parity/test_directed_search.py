"""The search for inputs on which a changed scorer parts from the right one: mutants, changed rows, what it aims at."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from migrate_tools.parity import hanging, rows, swap, texts, verdicts
from migrate_tools.parity.directed import versions
from migrate_tools.parity.hunt import Candidate, Hunt, Result
from migrate_tools.parity.pattern_mutants import pattern_mutants
from migrate_tools.parity.row_changes import DROP, RowChange, applied, leaves
from migrate_tools.parity.sandbox_data import load_rows

FOCUS: dict[str, Any] = {"near": [], "far": [], "numbers": [], "pairs": []}
"""Nothing is known of the change."""


def test_every_part_of_a_pattern_is_changed() -> None:
    made = set(pattern_mutants(r"Total\s*:\s*([-+]?\d[\d,]*(?:\.\d+)?)|x"))
    assert {
        r"Total:\s*([-+]?\d[\d,]*(?:\.\d+)?)|x",  # a part left out with its repeat
        r"Total\s*:\s*([-+]?\d[\d]*(?:\.\d+)?)|x",  # a member of a class
        r"Total\s*:\s*([-+]\d[\d,]*(?:\.\d+)?)|x",  # what may be there must be
        r"Total\s*:\s*([-+]?\d[\d,]*)|x",  # an optional group
        r"Total\s*:\s*([-+]?\d[\d,]*(?:\.\d+)?)",  # a branch
        r"Tota\s*:\s*([-+]?\d[\d,]*(?:\.\d+)?)|x",  # of a word the last letter
    } <= made
    assert not any(text.startswith("otal") for text in made)
    assert {"[A-D]", "[B-C]"} & set(pattern_mutants("[A-E]")) == {"[A-D]"}
    assert all(re.compile(text) for text in pattern_mutants(r"\b(?:a|the)\b\s{2,3}[^)]$"))


MODULE = """
import re

LIMIT = 3
PATTERN = re.compile(r"#(\\d+)")
TWICE = LIMIT * 2


def clean(text):
    return text.strip().lower()


def score(text, truth):
    found = PATTERN.search(clean(text))
    return 1.0 if found and found.group(1) == truth and len(text) < TWICE else 0.0
"""


def version(before: str, after: str, probe: str = "") -> dict[str, Any]:
    """What the search knows of the one place where `before` stands."""
    assert MODULE.count(before) == 1
    start, place = MODULE.index(before), MODULE.index(probe) if probe else 0
    return {
        "span": [start, start + len(before)],
        "text": after,
        "probe": [place, place + len(probe)] if probe else None,
    }


@pytest.mark.parametrize(
    ("before", "after", "probe", "right", "faulty", "seen"),
    [
        ("text.strip()", "text", "text.strip().lower()", 1.0, 1.0, True),
        ('re.compile(r"#(\\d+)")', 're.compile(r"x(\\d+)")', "", 1.0, 0.0, False),
        ("LIMIT = 3", "LIMIT = 1", "", 1.0, 0.0, False),  # TWICE is made from it when the module is loaded
        ("< TWICE", "> TWICE", "", 1.0, 0.0, False),
    ],
)
def test_one_place_of_a_module_is_exchanged_and_put_back(
    before: str, after: str, probe: str, right: float, faulty: float, seen: bool
) -> None:
    space = swap.Versions(MODULE, "score")
    pair = space.pair(version(before, after, probe))
    one = space.run(pair, "right", lambda function: function(" #7 ", "7"))
    other = space.run(pair, "faulty", lambda function: function(" #7 ", "7"))
    assert (one[0], other[0]) == (right, faulty)
    assert (one[1] != other[1]) is seen
    assert space.entry(" #7 ", "7") == 1.0


ROW = {
    "reward_model": {"ground_truth": '{"target": ["Paris", "Rome"]}'},
    "extra_info": {"level": 2, "split": "train"},
}


def test_values_of_a_row_are_replaced_in_json_and_lists_and_the_row_stays() -> None:
    found = {leaf.path: leaf.value for leaf in leaves(ROW, ["level", "target"])}
    place = ("reward_model", "ground_truth", "json", "target")
    assert found[(*place, 1)] == "Rome"
    assert found[place] == ["Paris", "Rome"]
    assert found["extra_info", "level"] == 2
    assert not any("split" in path for path in found)

    made = applied(ROW, [RowChange((*place, 1), "Oslo"), RowChange(("extra_info", "level"), 3)])
    assert made["reward_model"]["ground_truth"] == '{"target": ["Paris", "Oslo"]}'
    assert made["extra_info"] == {"level": 3, "split": "train"}
    assert "Oslo" not in str(ROW)


def _hunted(code: str, faulty: str, row: dict[str, Any], raws: list[str]) -> tuple[Hunt, Candidate | None]:
    """The search on one row, for one changed function `score(text, row)`."""
    spaces: dict[str, dict[str, Any]] = {"right": {}, "faulty": {}}
    exec(code, spaces["right"])
    exec(faulty, spaces["faulty"])

    def run(candidate: Candidate, which: str) -> Result:
        value = spaces[which]["score"](candidate.raw, applied(row, candidate.changes))
        return Result(("value", repr(value), "", value > 0), ())

    hunt = Hunt([row], ["unit"], [], [], run)
    for raw in raws:
        hunt.add(Candidate(0, raw), run(Candidate(0, raw), "right").outcome)
    places = list(range(len(raws)))
    assert hunt.killer(places) is None
    return hunt, hunt.look(places, FOCUS, Random(7))


LABEL = 'row["reward_model"]["ground_truth"]'


def test_a_value_that_cannot_be_made_was_reached() -> None:
    code = "def score(text, truth):\n    try:\n        return float(text)\n    except ValueError:\n        return 0.0\n"
    start = code.index("float(text)")
    span = [start, start + len("float(text)")]
    space = swap.Versions(code, "score")
    pair = space.pair({"span": span, "text": "len(text)", "probe": span})
    assert pair.noting
    one, other = (space.run(pair, which, lambda function: function("ab", "7")) for which in ("right", "faulty"))
    assert one == (0.0, ["reached"])
    assert other == (2, ["reached", "2"])


def test_a_label_is_changed_where_no_response_tells() -> None:
    code = f"def score(text, row):\n    return float(text == {LABEL}.strip())\n"
    row = {"reward_model": {"ground_truth": "48%"}, "extra_info": {"unit": "%"}}
    hunt, found = _hunted(code, code.replace(".strip()", ""), row, ["48%", "12"])
    assert found is not None
    assert [change.path for change in found.changes] == [("reward_model", "ground_truth")]
    assert found.raw == found.changes[0].value.strip() != found.changes[0].value


def test_a_field_is_changed_where_neither_response_nor_label_tells() -> None:
    code = f'def score(text, row):\n    return float(text == {LABEL} and row["extra_info"]["unit"] == "%")\n'
    row = {"reward_model": {"ground_truth": "48"}, "extra_info": {"unit": "%"}}
    _, found = _hunted(code, code.replace(' and row["extra_info"]["unit"] == "%"', ""), row, ["48", "12"])
    assert found is not None
    assert [change.path for change in found.changes] == [("extra_info", "unit")]


def test_a_key_of_a_label_is_taken_away() -> None:
    code = f'def score(text, row):\n    return float(text == {LABEL}["a"] or {LABEL}.get("open", False) is not False)\n'
    row = {"reward_model": {"ground_truth": {"a": "48", "open": False}}, "extra_info": {}}
    _, found = _hunted(code, code.replace('"open", False', '"open", True'), row, ["48", "12"])
    assert found is not None
    assert found.changes == (RowChange(("reward_model", "ground_truth", "open"), DROP),)


def test_more_is_tried_where_few_inputs_reach_the_change() -> None:
    def run(candidate: Candidate, which: str) -> Result:
        seen = ["1"] if len(candidate.raw) % 2 else []
        return Result(("value", "1.0", "", True), seen, (), True)

    tried = {}
    for least in (0, 800):
        hunt = Hunt([{"reward_model": {"ground_truth": "48"}, "extra_info": {}}], [], [], [], run)
        hunt.add(Candidate(0, "12"), ("value", "1.0", "", True))
        assert hunt.look([0], FOCUS, Random(7), 1.2, least=least) is None
        tried[least] = hunt.tried
        assert least <= hunt.reached < hunt.tried
    assert tried[0] == 1080 < tried[800] < 2160


def test_two_equal_versions_are_never_told_apart() -> None:
    code = f"def score(text, row):\n    return float(text.strip() == {LABEL})\n"
    row = {"reward_model": {"ground_truth": "48"}, "extra_info": {}}
    hunt, found = _hunted(code, code.replace("text.strip()", "text.strip().strip()"), row, ["48", "12"])
    assert found is None
    assert hunt.tried >= 700


def test_each_version_knows_its_place_and_the_texts_round_it() -> None:
    code = MODULE.replace(
        "def score(text, truth)", "def score(data_source, solution_str, ground_truth, extra_info=None)"
    )
    code = code.replace("clean(text)", "clean(solution_str)", 2).replace("def clean(solution_str)", "def clean(text)")
    code = code.replace("== truth", "== ground_truth").replace("len(text)", "len(solution_str)")
    made = list(versions(code, ["42"]))
    assert {item["fine"] for item in made} == {True, False}
    assert all(ast.parse(code[: item["span"][0]] + item["text"] + code[item["span"][1] :]) for item in made)
    digits = next(item for item in made if item["text"].endswith('"#([0-9]+)"'))
    assert "#42" in digits["focus"]["near"]


def test_rows_that_were_made_come_back_as_they_are(tmp_path: Path) -> None:
    made = [
        {"reward_model": {"ground_truth": "a"}, "extra_info": {"level": 1}},
        {"reward_model": {"ground_truth": ["b"]}, "extra_info": {"level": 1}},
        {"reward_model": {"ground_truth": "c "}, "extra_info": {"level": 0}},
    ]
    names, places = rows.append_rows(made, tmp_path, 2)
    back = load_rows(tmp_path, names, "python")
    assert names[0] == "rows_2.parquet"
    assert [back[place] for place in places if place is not None] == made
    assert rows.append_rows([], tmp_path, 2) == ([], [])


@pytest.mark.parametrize(("strange", "kind"), [(True, "declared"), (False, "mismatch")])
def test_the_class_of_an_error_counts_only_on_rows_that_the_data_can_hold(strange: bool, kind: str) -> None:
    old = {"kind": "exception", "error": "AttributeError: no strip", "stable": True, "strange": strange}
    new = {"kind": "value", "score": 0.0, "reward_error": "TypeError: unhashable", "at_floor": True}
    assert verdicts.judge(old, new).kind == kind
    assert verdicts.judge(old, {**new, "at_floor": False}).kind == "mismatch"
    assert verdicts.judge(old, {"kind": "value", "score": 0.0}).kind == "mismatch"


def test_numbers_that_were_compared_are_made_equal() -> None:
    space = swap.Versions("def score(text, edge):\n    return float(int(text) <= edge)\n", "score")
    start = len("def score(text, edge):\n    return float(")
    change = {
        "span": [start, start + len("int(text) <= edge")],
        "text": "(int(text) < edge)",
        "probe": None,
        "operands": ["int(text)", "edge"],
    }
    pair = space.pair(change)

    def run(candidate: Candidate, which: str) -> Result:
        value, seen = space.run(pair, which, lambda function: function(candidate.raw, 7310))
        return Result(("value", repr(value), "", value > 0), seen, tuple(space.compared))

    hunt = Hunt([{"reward_model": {"ground_truth": "x"}}], [], [], [], run)
    hunt.add(Candidate(0, "12"), run(Candidate(0, "12"), "right").outcome)
    assert space.compared == [(12, 7310)]
    found = hunt.look([0], FOCUS, Random(1))
    assert found is not None
    assert found.raw == "7310"


def test_inputs_that_never_end_are_passed_over() -> None:
    calls: list[str] = []

    def run(candidate: Candidate, which: str) -> Result:
        calls.append(which)
        return Result(hanging.OUTCOME if len(calls) > 4 else ("value", "1.0", "", True), ())

    hunt = Hunt([{"reward_model": {"ground_truth": "48"}, "extra_info": {}}], [], [], [], run)
    for raw in ("48", "12"):
        hunt.add(Candidate(0, raw), ("value", "1.0", "", True))
    assert hunt.look([0, 1], FOCUS, Random(7)) is None
    assert hunt.tried < 10


def test_a_search_bears_a_few_inputs_that_never_end() -> None:
    calls: list[str] = []

    def run(candidate: Candidate, which: str) -> Result:
        calls.append(which)
        hangs = which == "right" and calls.count("right") % 150 == 149
        return Result(hanging.OUTCOME if hangs else ("value", "1.0", "", True), ())

    hunt = Hunt([{"reward_model": {"ground_truth": "48"}, "extra_info": {}}], [], [], [], run)
    hunt.add(Candidate(0, "48"), ("value", "1.0", "", True))
    assert hunt.look([0], FOCUS, Random(7), least=800) is None
    assert hunt.reached >= 800


def test_a_call_that_uses_up_its_processor_time_is_ended() -> None:
    code = "import signal\nfrom migrate_tools.parity import hanging\nhanging.install()\n"
    code += "try:\n    with hanging.within(0.2):\n        while True:\n            try:\n                pass\n"
    code += "            except Exception:\n                pass\nexcept hanging.Hanging:\n    print('ended')\n"
    code += "with hanging.within(5.0):\n    print('kept')\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["ended", "kept"], done.stderr


ENDLESS = """
import subprocess


def score(data_source, solution_str, ground_truth, extra_info=None):
    subprocess.run(["true"], check=True)
    while solution_str == "endless":
        pass
    return float(solution_str.strip() == ground_truth)
"""
"""It starts a process, so a call that never ends ends its worker."""


def test_a_known_case_that_ends_a_worker_is_left_out_by_the_next_one(tmp_path: Path) -> None:
    row = {"data_source": "a", "prompt": "q", "reward_model": {"ground_truth": "x"}, "extra_info": {"index": 0}}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "rows.parquet")
    raws = ("x", "endless", "y")
    known = [{"row": 0, "family": "hand", "raw": raw, "old": raw, "new": raw, "length": 2, "told": ""} for raw in raws]
    (tmp_path / "cases.jsonl").write_text("".join(f"{json.dumps(case)}\n" for case in known), "utf-8")
    (tmp_path / "versions.jsonl").write_text(
        "".join(f"{json.dumps(line)}\n" for line in versions(ENDLESS, ["x"])), "utf-8"
    )
    mined = {"literals": ["endless"], "numbers": [], "keys": []}
    job = {"rows": ["rows.parquet"], "cases": "cases.jsonl", "reader": "python", "manager": {"name": "naive"}}
    job |= {"code": ENDLESS, "entry": "score", "mined": mined, "told": {"default": {}}, "tape": None, "paths": []}
    job |= {"environment": {}, "imports": [], "writes": []}
    job |= {"family": texts.ALL[0].name, "decoding": {"text": "response", "skip_special_tokens": True}, "tries": 60}
    job |= {"verl_root": None, "prompt_key": "prompt", "one_seconds": 20.0, "total_seconds": 6.0}
    (tmp_path / "job.json").write_text(json.dumps(job), "utf-8")
    code = (
        "import sys; from migrate_tools.parity import directed_side as side;"
        "side.KNOWN_SECONDS = side.TRY_SECONDS = 0.3; side.main(['', sys.argv[1]])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "job.json")], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "hangs.jsonl").read_text("utf-8").split() == ["1"]
    kinds = json.loads((tmp_path / "directed.json").read_text("utf-8"))["kinds"]
    assert kinds.keys() & {"known", "found", "missed"}, kinds
