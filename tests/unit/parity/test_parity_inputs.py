"""Where inputs come from: probes, the guide, what is chosen, made rows, logged responses."""

from __future__ import annotations

import ast
import json
import textwrap
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from migrate_tools.errors import UsageError
from migrate_tools.parity import coverage, edits, forms, hard_answers, probes, rollouts, rows, variants
from migrate_tools.parity.case import Case, ground_truth
from migrate_tools.parity.chosen import choose
from migrate_tools.parity.guide import Guide
from migrate_tools.parity.solve import solutions

SCORER = '''
    import re

    def pick(text, first=False):
        """A docstring."""
        found = re.findall(r"#(\\d+)", text[-20:])
        if not found:
            return None
        return found[0] if first else found[-1]

    class Judge:
        limit = 3

        def score(self, text, truth):
            answer = pick(text)
            try:
                value = int(answer)
            except TypeError:
                return -1.0
            gap = value - int(truth)
            near = 0 <= gap <= self.limit
            total = sum(1.0 for word in text.split() if word and word != "#")
            match total:
                case 0.0:
                    return 0.0
                case _:
                    pass
            return 1.0 if near else 0.5 if text.strip() == truth or value > 99 else 0.0
'''


def probed(text: str) -> tuple[Any, probes.Notes]:
    """A module made from the text, with probes."""
    notes = probes.install([])
    module = SimpleNamespace()
    space: dict[str, Any] = {}
    exec(probes.compile_probed(ast.parse(textwrap.dedent(text)), "/project/reward.py", notes), space)
    module.__dict__.update(space)
    return module, notes


def test_a_scorer_with_probes_answers_as_without() -> None:
    module, _ = probed(SCORER)
    plain: dict[str, Any] = {}
    exec(textwrap.dedent(SCORER), plain)
    for text in ("", "#3", "#3 #4", "#12" + "x" * 30, "12", "#100", "# #5 words", "#7 " * 40):
        assert module.Judge().score(text, "3") == plain["Judge"]().score(text, "3"), text
    assert module.pick.__doc__ == "A docstring."


def test_probes_note_branches_comparisons_and_text_steps() -> None:
    module, notes = probed(SCORER)
    notes.begin()
    module.Judge().score("#5 #4", "3")
    seen = {(notes.sites[site].kind, notes.sites[site].line, what) for site, what in notes.seen}
    assert ("test", 7, False) in seen
    assert ("method", 6, 2) in seen  # findall gave two
    assert ("index", 9, 2) in seen  # the last of two
    assert ("bound", 6, "<") in seen  # five characters, cut at twenty
    assert ("compare", 21, "<") in seen  # 0 < 1, 1 < 3
    assert ("loop", 22, 2) in seen
    assert ("test", 28, True) in seen
    kept = {pair.how: (pair.left, pair.right) for noted in notes.pairs.values() for pair in noted}
    assert kept["len"] == (5, 20)
    assert kept["LtE"] == (1, 3)
    module.Judge().score("none", "3")
    assert any(notes.sites[site].kind == "handler" for site, _ in notes.seen)


def test_coverage_counts_the_functions_that_ran_and_those_that_are_needed() -> None:
    module, notes = probed(SCORER)
    notes.begin()
    module.pick("#1")
    seen = [f"{coverage.site_name(notes.sites[site])}={what}" for site, what in notes.seen]
    alone = coverage.counted(notes.sites, seen)
    needed = coverage.counted(notes.sites, seen, ["/project/reward.py:score"])
    assert (alone["lines"], alone["hit"], alone["branches"], alone["branches_hit"]) == (4, 3, 4, 2)
    assert coverage.shares(alone) == {"lines": 0.75, "branches": 0.5}
    assert coverage.shares({}) == {"lines": None, "branches": None}
    assert alone["missed"] == ["reward.py:8"]
    assert alone["branches_missed"] == ["reward.py:7 never true", "reward.py:9 never true"]
    assert alone["functions"] == ["pick"]
    assert needed["lines"] > 10
    assert needed["hit"] == 3


@pytest.mark.parametrize(
    ("how", "left", "right", "raw", "wanted"),
    [
        ("Eq", "7", "42", "so #### 7", "so #### 42"),
        ("Eq", "seven", "42", "so SEVEN", "so 42"),
        ("In", "<b>", "no mark", "no mark", "no mark<b>"),
        ("startswith", "<t>", "abc", "abc", "<t>abc"),
        ("replace", ",", "#### 18", "#### 18", "#### 18,"),
        ("Lt", 5.0, 10, "x is 5 m", "x is 10 m"),
        ("LtE", 5.0, 10, "x is 5 m", "x is 11 m"),
        ("len", 4, 6, "abcd", "abcdLe"),
        ("len", 8, 6, "abcdefgh", "abcdef"),
        ("Gt", 4, 6, "abcd", "abcdLe"),  # a length, seen as a number only
    ],
)
def test_a_comparison_can_be_turned_round(how: str, left: Any, right: Any, raw: str, wanted: str) -> None:
    assert wanted in solutions(how, left, right, raw, ["18"])


def test_the_guide_reaches_what_no_given_input_does() -> None:
    """A text with three conditions on it, found from one plain input by what is compared."""

    def score(text: str) -> tuple[list[str], list[list[Any]], float]:
        found, pairs = (
            [f"a.py:1.0:compare={text.startswith('<go>')}"],
            [["a.py:1.0:compare", "startswith", "<go>", text]],
        )
        if text.startswith("<go>"):
            size = len(text)
            sign = "<" if size < 37 else ">" if size > 37 else "="
            found.append(f"a.py:2.0:compare={sign}")
            pairs.append(["a.py:2.0:compare", "Gt", size, 37])
            if size == 37:
                return found, pairs, 1.0
        return found, pairs, 0.0

    def search() -> list[str]:
        guide = Guide([["18"]], [[]], {"literals": [], "numbers": []}, 1)
        texts, raw = [], "plain 18"
        for number in range(60):
            texts.append(raw)
            guide.learn(Case(0, "hand", raw, raw, raw, max(1, len(raw) // 4) + 1), *score(raw))
            raw = guide.propose(number).raw
        return texts

    texts = search()
    assert any(score(text)[2] == 1.0 for text in texts)
    assert texts == search()
    assert len(set(texts)) == len(texts)


def test_an_accepted_response_is_written_for_other_rows() -> None:
    guide = Guide([["18"], ["25"], ["7"]], [[], [], ["seven"]], {"literals": [], "numbers": []}, 2)
    guide.learn(Case(0, "hand", "#### 18", "", "", 3), ["a.py:1.0:test=True"], [], 1.0)
    for number in range(20):
        guide.learn(Case(0, "hand", f"no {number}", "", "", 3), [], [], 0.0)
    made = {(item.row, item.raw) for item in (guide.propose(number) for number in range(200))}
    assert (1, "#### 25") in made
    assert (2, "#### seven") in made


def test_what_is_new_is_kept_and_the_smaller_side_filled_up() -> None:
    logged: list[dict[str, Any]] = []
    for number in range(40):
        logged.append({"case": {}})
        if number != 35:  # one that never came back
            good = number >= 10 and number % 10 == 0
            logged.append({"new": ["x"] if number in (12, 30) else [], "score": 1.0 if good else 0.0})
    kept = choose(logged, 6, 12)
    assert kept[:6] == [0, 1, 2, 3, 4, 5]
    assert {12, 30, 35} <= set(kept)
    assert {10, 20} <= set(kept)
    assert len(kept) == 12


def test_hard_answers_are_what_the_file_says() -> None:
    def amount(text: str) -> Fraction | None:
        try:
            return Fraction(text.replace(",", ""))
        except (ValueError, ZeroDivisionError):
            return None

    found = hard_answers.hard_answers()
    assert {hard.kind for hard in found} == {"number", "math", "choice", "words"}
    assert sum(len(hard.equal) + len(hard.different) for hard in found) >= 400
    assert len({hard.gold for hard in found}) == len(found)
    plain = 0
    for hard in found:
        assert not set(hard.equal) & set(hard.different), hard.gold
        gold = amount(hard.gold)
        if gold is None or hard.kind != "number":
            continue
        plain += 1
        assert all(amount(text) in (gold, None) for text in hard.equal), hard.gold
        assert all(amount(text) != gold for text in hard.different), hard.gold
    assert plain >= 9


@pytest.mark.parametrize(
    ("truth", "expected"),
    [
        ("72", "5/6"),
        ("so\n#### 72", "so\n#### 5/6"),
        (["72", "73"], ["5/6"]),
        ({"target": ["72"], "unit": "cm"}, {"target": ["5/6"], "unit": "cm"}),
        ('{"answer": "72"}', '{"answer": "5/6"}'),
        (72, None),
        (None, None),
        ("x" * 400, None),
    ],
)
def test_another_right_answer_keeps_the_shape_of_the_row(truth: Any, expected: Any) -> None:
    row = {"reward_model": {"ground_truth": truth}, "extra_info": {"answer": truth, "index": 1}}
    made = variants.with_truth(row, "5/6")
    assert (made and ground_truth(made)) == expected
    if expected == "5/6":
        assert made is not None
        assert made["extra_info"] == {"answer": "5/6", "index": 1}
    assert ground_truth(row) == truth


def test_made_rows_come_back_from_parquet_as_they_are(tmp_path: Path) -> None:
    own = [
        {
            "data_source": "a",
            "prompt": "q",
            "reward_model": {"ground_truth": "18"},
            "extra_info": {"unit": "cm", "n": 1},
        },
        {"data_source": "b", "prompt": "r", "reward_model": {"ground_truth": "B"}, "extra_info": {"unit": "m", "n": 2}},
    ]
    made = variants.variants(own, ["unit", "scale"], 200)
    written = rows.write_rows(own, made, tmp_path)
    assert written.rows == own
    truths = [ground_truth(item.row) for item in written.made if item.family == "fields"]
    for wanted in (None, "", 7, 0.5, True, ["42"], {"target": "42"}, b"42", []):
        assert any(type(truth) is type(wanted) and truth == wanted for truth in truths), wanted
    extras = [item.row.get("extra_info", "no column") for item in written.made if item.family == "fields"]
    for extra in (
        "no column",
        None,
        {"n": 1},
        {"unit": None, "n": 1},
        {"unit": 3, "n": 1},
        {"unit": ["a", "b"], "n": 1},
    ):
        assert extra in extras, extra
    assert {"unit": "cm", "n": 1, "scale": "4"} in extras
    golds = [item for item in written.made if item.family == "pairs"]
    assert {item.hard.kind for item in golds if item.hard} == {"number", "math", "choice"}
    assert len(written.made) >= 60


def test_logged_responses_find_their_rows(tmp_path: Path) -> None:
    lines = [
        {"input": "user\nHow many?\nassistant\n", "output": "#### 18", "gts": "18", "score": 1.0, "step": 3},
        {"input": "user\nHow much?\nassistant\n", "output": "#### 19", "gts": "18", "score": 0.0, "step": 3},
        {"input": "user\nHow much?\nassistant\n", "output": "old log", "score": 0.0},
        {"input": "user\nWho?\nassistant\n", "output": "Ann", "gts": "Ann", "score": True},
    ]
    path = tmp_path / "dump" / "3.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    read = rollouts.read_rollouts([tmp_path / "dump"])
    data = [
        {"prompt": [{"role": "user", "content": "How many?"}], "reward_model": {"ground_truth": "18"}},
        {"prompt": [{"role": "user", "content": "How much?"}], "reward_model": {"ground_truth": "18"}},
        {"prompt": [{"role": "user", "content": "Why?"}], "reward_model": {"ground_truth": "7"}},
    ]
    found = rollouts.match(read, data, "prompt")
    assert [item.score for item in read] == [1.0, 0.0, 0.0, 1.0]
    assert [(found.rows[row]["prompt"][0]["content"], item.text) for row, item in found.texts] == [
        ("How many?", "#### 18"),
        ("How much?", "#### 19"),
        ("How much?", "old log"),
    ]
    assert (found.given, found.unmatched, found.left) == (4, 1, 0)


@pytest.mark.parametrize("content", ['{"input": "q"}\n', "not json\n", "[1]\n"])
def test_a_file_that_is_no_log_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "1.jsonl"
    path.write_text(content)
    with pytest.raises(UsageError, match=r"1\.jsonl:1 is not a rollout"):
        rollouts.read_rollouts([path])
    with pytest.raises(UsageError, match="no rollout log at"):
        rollouts.read_rollouts([tmp_path / "none"])


def test_json_in_a_text_is_reshaped() -> None:
    from random import Random

    made = {edits.json_edit('point: [{"at": [3, 4]}] end', Random(seed)) for seed in range(600)}
    assert "point: [] end" in made
    assert 'point: [{"at": [3, 4]}, {"at": [3, 4]}, {"at": [3, 4]}] end' in made
    assert 'point: [{"at": [3, 4]}, {"at": [4, 5]}, {"at": [5, 6]}] end' in made
    assert 'point: [{"at_": 1}] end' in made
    assert "point: [oops] end" in made
    assert edits.json_edit("none [here", Random(0)) is None


def test_structured_ground_truths_are_mirrored_in_json() -> None:
    truth = {"action": "click", "bbox": [10, 20, 30, 60], "unit": None}
    made = [json.loads(text) for text in forms.mirrored(truth, ["point", "action", "score!"])]
    whole = {"action": "click", "bbox": [10, 20, 30, 60], "point": [20.0, 40.0]}
    assert made[0] == whole
    assert made[1] == [whole]
    for point in ([10, 20], [30, 60], [9, 40], [31, 40], [20, 61]):  # corners, and just over the edges
        assert {**whole, "point": point} in made
    assert {"bbox": [10, 20, 30, 60], "point": [20.0, 40.0]} in made
    assert {**whole, "action": "CLICK"} in made
    assert forms.mirrored(json.dumps(truth), ["point"])[0] == json.dumps(whole)
    assert forms.mirrored({"x1": 0, "y1": 0, "x2": 4, "y2": 2}, ["point_2d"])[0] == (
        '{"x1": 0, "y1": 0, "x2": 4, "y2": 2, "point_2d": [2.0, 1.0]}'
    )
    assert forms.mirrored("42", ["point"]) == []


def test_all_answers_of_a_row_are_replaced_by_those_of_another() -> None:
    answers = [["click", "up", "[1, 2]"], ["type", "click", "[3, 4]"]]
    guide = Guide(answers, [[], []], {"literals": [], "numbers": []}, 2)
    guide.learn(Case(0, "json", '{"do": "click", "to": "up", "at": [1, 2]}', "", "", 3), ["a=1"], [], 1.0)
    for number in range(9):
        guide.learn(Case(0, "hand", f"no {number}", "", "", 3), [], [], 0.0)
    made = {(item.row, item.raw) for item in (guide.propose(number) for number in range(80))}
    assert (1, '{"do": "type", "to": "click", "at": [3, 4]}') in made


def test_special_tokens_go_to_the_edges_of_accepted_responses_and_into_their_values() -> None:
    guide = Guide([["18"]], [[]], {"literals": [], "numbers": [], "tokens": ["<|end|>"]}, 1)
    guide.learn(Case(0, "hand", "#### 18", "", "", 3), ["a=1"], [], 1.0)
    made = {(item.family, item.raw) for item in (guide.propose(number) for number in range(200))}
    assert {("special", text) for text in ("<|end|>#### 18", "#### 18<|end|>", "#### 1<|end|>8")} <= made
    assert ("edits", "  #### 18\n\n") in made


def test_an_answer_in_json_says_what_its_fields_are_compared_with() -> None:
    truth = {"wrong": True, "sentence": "a b"}
    made = [
        json.loads(text) for text in forms.mirrored(truth, ["said"], {"said": ("ERROR", "NONE"), "sentence": ("x",)})
    ]
    assert made[0] == {**truth, "said": "ERROR"}
    assert {**truth, "said": "NONE"} in made
    assert truth in made
    assert json.loads(forms.mirrored(truth, ["said"])[0]) == truth
