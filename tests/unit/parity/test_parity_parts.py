"""Parts that need no sandbox: values, supervision, mining, patterns, faults, the rule for examples, the tape."""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from migrate_tools.model import RewardSpec
from migrate_tools.parity import forms, guard, mine, patterns, pools, supervise, texts
from migrate_tools.parity.case import prompt_of
from migrate_tools.parity.cases import make_cases
from migrate_tools.parity.tape import Tape
from migrate_tools.parity.values import encode, number, same
from migrate_tools.parity.verdicts import judge


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (1, 1.0, True),
        (True, 1.0, True),
        (np.float64(0.5), 0.5, True),
        (math.nan, math.nan, True),
        (math.nan, 0.0, False),
        (math.inf, -math.inf, False),
        ([1, 2], np.array([1, 2]), True),
        ([1, 2], [2, 1], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"b": 1}, False),
        ("1", 1, False),
        (None, 0.0, False),
        ("x" * 5000, "x" * 5000, True),
        ("x" * 5000, "x" * 4999 + "y", False),
    ],
)
def test_sameness_survives_json(first: Any, second: Any, expected: bool) -> None:
    one, other = json.loads(json.dumps([encode(first), encode(second)]))
    assert same(one, other) is expected


def test_numbers_of_encoded_scalars() -> None:
    assert number(encode(np.float32(0.5))) == 0.5
    assert number(encode("0.5")) is None
    assert math.isnan(number(encode(math.nan)) or 0.0)


def test_supervision_survives_hanging_dying_and_raising_items() -> None:
    def make() -> supervise.Runner:
        def run(item: int) -> dict[str, Any]:
            if item == 1:
                time.sleep(60)
            if item == 2:
                os._exit(9)
            if item == 3:
                raise ValueError("three")
            return {"kind": "value", "item": item}

        return run

    records = supervise.run_items(range(5), make, item_seconds=3, total_seconds=120)
    assert [records[i]["kind"] for i in range(5)] == ["value", "timeout", "died", "exception", "value"]
    assert records[3]["error"] == "ValueError: three"


def test_supervision_reports_a_reward_that_does_not_load() -> None:
    def make() -> supervise.Runner:
        raise ImportError("no such thing")

    records = supervise.run_items(range(3), make, item_seconds=1, total_seconds=5)
    assert {record["error"] for record in records.values()} == {"ImportError: no such thing"}


def test_supervision_gives_up_on_a_reward_whose_worker_ends_while_it_loads() -> None:
    began = time.monotonic()
    records = supervise.run_items(range(200), lambda: os._exit(3), item_seconds=9, total_seconds=60)
    assert {record["kind"] for record in records.values()} == {"setup"}
    assert len(records) == 200
    assert time.monotonic() - began < 30


def test_supervision_stops_when_the_time_is_up() -> None:
    def make() -> supervise.Runner:
        def run(item: int) -> dict[str, Any]:
            time.sleep(0 if item == 0 else 3)
            return {"kind": "value"}

        return run

    records = supervise.run_items(range(50), make, item_seconds=60, total_seconds=2)
    kinds = [records[i]["kind"] for i in range(50)]
    assert kinds[0] == "value"
    assert kinds[2:] == ["skipped"] * 48


def test_mining_finds_literals_patterns_keys_and_limits() -> None:
    source = '''
import re
def f(text, info):
    """A docstring."""
    if "<answer>" in text[-300:]:
        print("a message")
        return re.search(r"#### (\\\\d+)", text) and info.get("unit") and info["scale"]
    raise ValueError("another message")
'''
    mined = mine.mine([source.replace("\\\\\\\\", "\\\\")])
    assert "<answer>" in mined.literals
    assert not {"A docstring.", "a message", "another message"} & set(mined.literals)
    assert len(mined.patterns) == 1
    assert mined.patterns[0].startswith("#### (")
    assert set(mined.keys) == {"unit", "scale"}
    assert mined.numbers == (300,)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"#### (\-?[0-9\.\,]+)", "#### 72"),
        (r"<answer>(.*?)</answer>", "<answer>72</answer>"),
        (r"(?i)Answer\s*:\s*([^\n]+)", "Answer : 72"),
        (r"\\boxed\{(.*)\}", r"\boxed{72}"),
    ],
)
def test_patterns_are_filled_with_the_value(pattern: str, expected: str) -> None:
    assert patterns.filled(pattern, "72") == expected


def test_drawn_texts_match_and_are_the_same_again() -> None:
    pattern = r"<a>[0-9]{2,3}</a>"
    drawn = patterns.drawn(pattern, 5)
    assert drawn == patterns.drawn(pattern, 5)
    assert drawn
    assert all(re.search(pattern, text) for text in drawn)


def test_leaves_of_nested_truths() -> None:
    assert forms.leaves({"target": ["Paris", "Lyon"]}) == ["Paris", "Lyon"]
    assert forms.leaves('{"answer": 4}') == ['{"answer": 4}', "4"]
    assert forms.leaves("reasoning\n#### 18")[-1] == "18"
    assert forms.leaves({"x1": 0, "x2": 4, "y1": 2, "y2": 6})[0] == "[0, 2, 4, 6]"


def test_special_tokens_per_family() -> None:
    family = texts.family_of("meta-llama/Llama-3.1-8B-Instruct")
    assert family.end == "<|eot_id|>"
    assert texts.without_special("a<|eot_id|>", family) == "a"
    assert texts.family_of("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B").end == "<｜end▁of▁sentence｜>"
    assert texts.family_of("openai/gpt-oss-20b").end == "<|return|>"
    assert texts.family_of("Qwen/Qwen2.5-7B").end == "<|im_end|>"


def test_a_docstring_about_verl_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text('"""From verl; see outcomes.jsonl."""\nimport verlike\n', encoding="utf-8")
    assert guard.check_example(tmp_path) == ()


def test_taped_answers_depend_on_the_request_alone() -> None:
    tape = Tape({"literals": ["True"], "keys": []})
    bodies = [str(number).encode() for number in range(60)]
    first = [tape.answer("POST", "http://judge/v1", body) for body in bodies]
    assert first == [tape.answer("POST", "http://judge/v1", body) for body in bodies]
    assert {answer.status for answer in first} == {200, 500}
    assert len({answer.body for answer in first}) > 10
    assert len(tape.seen()) == 60
    tape.begin()
    assert tape.seen() == []


CLIENT = """
import asyncio, json, sys
from migrate_tools.parity import clients
tape = clients.install({"literals": [], "keys": []})
import aiohttp, httpx, openai, requests, urllib.request

def text(body): return body["choices"][0]["message"]["content"]

async def main():
    message = {"model": "m", "messages": [{"role": "user", "content": sys.argv[1]}]}
    url = "http://judge/v1/chat/completions"
    async with aiohttp.ClientSession() as session:
        async with session.post(url, json=message) as reply:
            a = reply.status, text(await reply.json())
    b = requests.post(url, json=message).json()
    async with httpx.AsyncClient() as client:
        c = (await client.post(url, json=message)).json()
    d = openai.OpenAI(base_url="http://judge/v1", api_key="x").chat.completions.create(**message)
    e = await openai.AsyncOpenAI(base_url="http://judge/v1").chat.completions.create(**message)
    return [a[1], text(b), text(c), d.choices[0].message.content, e.choices[0].message.content]

print(json.dumps([asyncio.run(main()), tape.seen()]))
"""


def test_all_clients_get_the_same_taped_answer() -> None:
    command = [sys.executable, "-c", CLIENT, "is 2 right?"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answers, requests = json.loads(done.stdout)
    assert len(set(answers)) == 1
    assert [request[:2] for request in requests] == [["POST", "http://judge/v1/chat/completions"]] * 2
    plain, keyed = sorted((request[2:] for request in requests), key=len)
    assert keyed == [*plain, keyed[-1]]  # one client of the five has a key
    assert len(keyed[-1]) == 16


OLD = {"kind": "value", "score": 1.0, "keys": {"acc": 1}, "notes": [], "stable": True}
NEW = {"kind": "value", "score": 1.0, "keys": {"score": 1.0, "acc": 1.0}}


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ({}, {}, "same"),
        ({}, {"score": 0.0}, "mismatch"),
        ({}, {"keys": {}}, "declared"),
        ({"keys": {"fmt": 1}}, {}, "mismatch"),
        ({"keys": {"pred": "a"}}, {"keys": {"pred": "b"}}, "mismatch"),
        ({"kind": "exception", "error": "ValueError: x"}, {}, "mismatch"),
        (
            {"kind": "exception", "error": "ValueError: x"},
            {"reward_error": "ValueError: y", "at_floor": True},
            "declared",
        ),
        (
            {"kind": "exception", "error": "ValueError: x"},
            {"reward_error": "KeyError: x", "at_floor": True},
            "mismatch",
        ),
        ({"kind": "exception", "error": "ValueError: x"}, {"reward_error": "x", "at_floor": False}, "mismatch"),
        ({"kind": "timeout"}, {"kind": "timeout"}, "both_timeout"),
        ({"kind": "timeout"}, {"reward_error": "TimeoutError"}, "declared"),
        ({"kind": "timeout"}, {}, "mismatch"),
        ({}, {"kind": "timeout"}, "mismatch"),
        ({}, {"kind": "exception", "error": "x"}, "mismatch"),
        ({}, {"reward_error": "x"}, "mismatch"),
        ({"stable": False}, {"score": 0.0}, "unstable"),
        ({"requests": [["POST", "u", "1"]]}, {"requests": [["POST", "u", "2"]]}, "mismatch"),
    ],
)
def test_verdict_on_one_case(old: dict[str, Any], new: dict[str, Any], kind: str) -> None:
    assert judge({**OLD, **old}, {**NEW, **new}).kind == kind


@pytest.mark.parametrize(("dropped", "kind"), [(["method"], "same"), ([], "mismatch")])
def test_a_key_of_the_new_side_alone_must_be_one_that_the_manager_drops(dropped: list[str], kind: str) -> None:
    new = {**NEW, "keys": {"acc": 1, "method": "rule"}}
    assert judge({**OLD, "type": "dict", "dropped": dropped}, new, {"acc"}).kind == kind


def test_managers_keep_an_awaited_result_apart_from_a_plain_one() -> None:
    from migrate_tools.parity import managers

    async def scorer(**_: Any) -> float:
        return 0.25

    loop = asyncio.new_event_loop()
    try:
        call = managers.Call({"reward_model": {"ground_truth": "1"}}, "text", 4)
        record = managers.score(managers.Manager("naive"), scorer, call, loop)
    finally:
        loop.close()
    assert record == {
        "score": 0.25,
        "type": "float",
        "keys": {"acc": 0.25},
        "raw_type": "float",
        "notes": [],
        "mutated": [],
    }


def test_tags_that_a_scorer_looks_for_give_blocks_in_every_order() -> None:
    mined = mine.mine(["def f(s):\n    return re.search(r'<plan>(.*?)</plan>', s) and '<final>' in s\n"])
    assert set(mined.tags) == {"plan", "final"}
    rows = [{"prompt": "q", "reward_model": {"ground_truth": "18"}}]
    made = make_cases(
        rows, RewardSpec(kind="custom"), mined, prompt_key="prompt", family=texts.family_of("Qwen"), budget=300
    )
    raws = {case.raw for case in made if case.family == "tags"}
    assert "<plan>first this, then that</plan>\n<final>18</final>" in raws
    assert "first this, then that</plan>\n<final>18</final>" in raws  # the prompt opened the first tag
    assert "<final>first this, then that</final>\n<plan>18</plan>" in raws


def test_every_order_of_the_tags_comes_once_before_any_comes_again() -> None:
    mined = mine.mine(["TAGS = ('<a>', '<b>', '<c>', '<d>')\n"])
    drafts = [draft.raw for draft in pools.tags([["7", "8"]], mined)]
    orders = [tuple(re.findall(r"<([a-d])>", text)) for text in drafts[:40]]
    assert len(set(orders)) == 40  # 12 pairs, 4 single ones, 24 triples
    assert drafts[1] == "<a>7</a>\n<c>7</c>"
    assert "<a>8</a>\n<c>8</c>" not in drafts[:40]


def test_prompt_without_a_template_is_the_first_message() -> None:
    row = {"prompt": [{"role": "user", "content": "asked: <think>"}, {"role": "user", "content": "no"}]}
    assert prompt_of(row, "prompt", "templated") == "asked: <think>"
    assert prompt_of(row, "prompt", "chat") == row["prompt"]


def test_counted_texts_stand_as_often_as_the_scorer_asks_and_once_more() -> None:
    source = (
        "def f(s):\n    return 0 if s.count('</answer>') > 10 or s.count('<b>') > 3000 else s.split('x').count(s)\n"
    )
    mined = mine.mine([source])
    assert mined.counted == ("</answer>", "<b>")
    drafts = [draft.raw for draft in pools.tags([["42"]], mined)]
    assert [text.count("</answer>") for text in drafts[:2]] == [11, 10]
    assert all(text.startswith("<answer>42</answer>\n") for text in drafts[:2])
    assert max(text.count("<b>") for text in drafts) <= 11  # 3000 is a length


def test_credentials_in_a_scorer_are_not_mined() -> None:
    token = "gh" + "p_" + "a1b2c3d4e5" * 3 + "f6g7h8"
    assert mine.mine([f"KEY = {token!r}\nMARK = '####'\n"]).literals == ("####",)


def test_markers_of_the_scorer_s_own_patterns_are_wrappers() -> None:
    source = (
        "END = re.compile(r'Total\\s*:\\s*(\\d+)(%)?')\nTAIL = 240\n"
        "def f(s):\n    return END.findall(re.sub(r'\\[x(.*)\\]', '', s)) or re.search(r'#### (\\d+)', s)\n"
    )
    mined = mine.mine([source])
    assert mined.sought == (r"Total\s*:\s*(\d+)(%)?", r"#### (\d+)")
    assert pools.own_wrappers(mined) == ("Total:{a}",)  # "####" is among the usual ones, what is taken out is none
    spec = RewardSpec(kind="custom")
    lengths = [draft.raw for draft in pools.lengths([["7"]], mined, spec)]
    assert any(text.startswith("Total:7\n") and len(text) == 240 for text in lengths)
    assert any(text.endswith("Total:7") and len(text) == 241 for text in lengths)
    crossed = [draft.raw for draft in pools.cross([["12%"]], mined)]
    assert {"Total:12 %", "Total:12"} <= set(crossed)


@pytest.mark.parametrize(
    ("value", "forms_of", "wrong"),
    [
        ("12%", ["12 %", "12", "12.0%"], "13%"),
        ("$5.00", ["$ 5.00", "5.00", "$5.000"], "$5.25"),
        ("(1,2)", [], "not (12)"),
    ],
)
def test_a_number_with_a_sign_has_forms_of_its_own(value: str, forms_of: list[str], wrong: str) -> None:
    assert forms.variants(value)[: len(forms_of)] == forms_of
    assert forms.wrong_for(value) == wrong
