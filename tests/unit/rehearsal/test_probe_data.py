"""How converted rows are compared with rows that hold JSON text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from migrate_tools.rehearsal.runtime.probe_data import _row

JOB = {
    "source_prompt": "prompt", "raw_prompt": False, "input_key": "prompt", "label_key": "label",
    "metadata_key": "extra_info",
}  # fmt: skip
CHAT = [{"role": "user", "content": "1 + 1?"}]
AFTER = {"prompt": CHAT, "label": "2", "extra_info": {"index": 1}, "reward_model": {"ground_truth": "2"}}


def test_json_text_and_structure_are_the_same() -> None:
    before = {
        "prompt": json.dumps(CHAT),
        "reward_model": json.dumps({"ground_truth": "2"}),
        "extra_info": json.dumps({"index": 1}),
    }
    assert list(_row(before, AFTER, JOB)) == []


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("prompt", json.dumps([{"role": "user", "content": "1 + 2?"}]), "the prompt changed"),
        ("reward_model", json.dumps({"ground_truth": "3"}), "the label is '2', the ground truth '3'"),
        ("extra_info", json.dumps({"index": 2}), "extra_info['index'] changed from 2 to 1"),
        ("prompt", "[not JSON", "the prompt changed"),
    ],
)
def test_what_differs_inside_json_text_is_seen(column: str, value: Any, problem: str) -> None:
    before = {"prompt": CHAT, "reward_model": {"ground_truth": "2"}, "extra_info": {"index": 1}, column: value}
    assert problem in list(_row(before, AFTER, JOB))
