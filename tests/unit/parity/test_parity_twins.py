"""Rows whose right answer holds a text that the scorer looks for."""

from __future__ import annotations

from typing import Any

from migrate_tools.parity.variants import LONGEST_PIECE, TWINS, texts_for, variants


def row(truth: str) -> dict[str, Any]:
    return {"data_source": "a", "reward_model": {"style": "rule", "ground_truth": truth}, "extra_info": {"index": 0}}


def twins(literals: list[str], truth: str = "42") -> list[tuple[str, list[str]]]:
    """Right answer and answers to try, of the rows that the literals add."""
    rows = [row(truth)]
    plain = len(variants(rows, (), 24))
    found = variants(rows, (), 24, literals)[plain:]
    return [(item.row["reward_model"]["ground_truth"], texts_for(item, [truth])) for item in found]


def test_the_text_stands_on_one_side_or_elsewhere() -> None:
    made = twins(["\\cdot", "units", "%"])
    assert [gold for gold, _ in made] == ["42\\cdot", "units42", "42%42"]
    gold, tried = made[0]
    assert tried[0] == gold
    assert {"42", "\\cdot42", "42\\cdot42", "42 \\cdot"} <= set(tried)
    assert len(tried) == 6, "one wrong answer too"


def test_metadata_as_json_text_is_changed_as_text() -> None:
    made = variants([{**row("42"), "extra_info": '{"index": 3, "unit": "m"}'}], ("unit",), 400)
    texts = [item.row.get("extra_info") for item in made if isinstance(item.row.get("extra_info"), str)]
    assert '{"index": 3}' in texts
    assert '{"index": 3, "unit": null}' in texts
    broken = variants([{**row("42"), "extra_info": "no JSON"}], ("unit",), 400)
    assert '{"unit": 3}' in [item.row.get("extra_info") for item in broken]


def test_blank_and_long_texts_make_no_row() -> None:
    assert twins([" ", "\n", "x" * (LONGEST_PIECE + 1)]) == []
    assert len(twins([f"<{number}>" for number in range(TWINS + 5)])) == TWINS
    assert twins(["%"], truth="a long answer " * 20) == []
