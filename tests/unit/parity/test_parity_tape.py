"""Taped answers have the shape that the scorer reads: keys, indexes, kinds and compared values."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from migrate_tools.model import Launch, RewardSpec
from migrate_tools.parity.answer_shapes import answer_shapes
from migrate_tools.parity.mine import mine
from migrate_tools.parity.tape import Tape
from migrate_tools.parity.tape_settings import tape_settings

INFER = """
def ask(url, body):
    reply = requests.post(url, json=body)
    found = reply.json()
    return found

def compute_score(solution, truth):
    answer = ask("http://tts/infer", {"text": solution})
    return float(answer["outputs"][0]["data"][0])
"""
VARIED = """
import json

async def call(url):
    async with session.post(url) as reply:
        return await reply.text()

async def compute_score(solution, truth):
    parsed = json.loads(await call("u"))
    if parsed.get("status") == "Finished" and not parsed["failed"]:
        total = 0
        for index, item in enumerate(parsed["results"]):
            total += item["metrics"].get("score", 0) * 2
        return total
    return len(parsed["message"].strip())
"""
JUDGE = """
import json, re

def compute_score(solution, truth):
    text = client.chat.completions.create(model="m", messages=[]).choices[0].message.content
    found = re.search(r"\\bCORRECT\\b", text)
    return float(json.loads(text)["rating"])
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (INFER, [("body", ("outputs", 0, "data", 0), "number", ())]),
        (
            VARIED,
            [
                ("body", ("status",), "text", ("Finished",)),
                ("body", ("failed",), "truth", ()),
                ("body", ("results", 0, "metrics", "score"), "number", ()),
                ("body", ("message",), "text", ()),
            ],
        ),
        (JUDGE, [("text", ("rating",), "number", ())]),
        ("def compute_score(solution, truth): return truth['answer'] == solution", []),
        ("not python at all (", []),
    ],
)
def test_shapes_are_the_keys_and_indexes_that_the_scorer_follows(source: str, expected: list[Any]) -> None:
    found = {(shape.root, shape.path, shape.kind, shape.values) for shape in answer_shapes([source])}
    assert found == set(expected)


def bodies(source: str, url: str = "http://server/ask") -> list[Any]:
    settings = tape_settings(launch("http"), mine([source]))
    assert settings is not None
    tape = Tape(json.loads(json.dumps(settings)))
    answers = [tape.answer("POST", url, str(number).encode()) for number in range(300)]
    return [json.loads(answer.body) for answer in answers if answer.status == 200]


def launch(*traits: str) -> Launch:
    reward = RewardSpec(kind="custom", function="compute_score", traits=traits)
    return Launch.model_construct(name="run", reward=reward)


def test_a_value_of_its_own_kind_stands_at_the_end_of_each_path() -> None:
    found = bodies(INFER)
    read = [body["outputs"][0]["data"][0] for body in found if isinstance(body.get("outputs"), list)]
    assert 0.8 * len(found) < len(read) < len(found)  # a few answers lack it
    assert {0.0, 1.0} < set(read)


def test_values_that_are_compared_appear_and_others_too() -> None:
    found = [body for body in bodies(VARIED) if isinstance(body.get("results"), list)]
    states = {body["status"] for body in found}
    assert "Finished" in states
    assert len(states) > 2
    assert {body["failed"] for body in found} == {True, False}
    assert {type(body["message"]) for body in found} == {str}


def test_texts_of_a_judge_match_its_patterns_and_hold_its_keys() -> None:
    texts = {body["choices"][0]["message"]["content"] for body in bodies(JUDGE)}
    assert {"CORRECT", "CORRECTs"} <= texts
    said = [body["choices"][0]["message"]["content"] for body in bodies(JUDGE)]
    assert sum("CORRECT" in text or "rating" in text for text in said) > len(said) / 3
    assert any(text.startswith('{"rating":') for text in texts)
    assert any(text.startswith('```json\n{"rating":') for text in texts)


def test_what_a_text_is_compared_with_counts_after_its_case_is_folded_too() -> None:
    code = """
import json
def compute_score(solution, truth):
    parsed = json.loads(solution)
    said = str(parsed.get("said", "")).strip().upper()
    return float(said == "ERROR" or "ERROR" in said)
"""
    [shape] = answer_shapes([code])
    assert (shape.root, shape.path, shape.values) == ("text", ("said",), ("ERROR",))


def test_the_seed_of_the_sampling_changes_no_answer_but_is_noted() -> None:
    tape = Tape({"literals": ["True"], "keys": []})
    bodies = [{"messages": ["is 2 right?"], "seed": seed} for seed in range(20)]
    answers = {tape.answer("POST", "http://judge/v1", json.dumps(body).encode()) for body in bodies}
    assert len(answers) == 1
    assert len(tape.seen()) == 20


def test_a_reward_without_a_server_has_no_tape() -> None:
    assert tape_settings(launch("regex"), mine([INFER])) is None


AT_IMPORT = """
import json
from migrate_tools.parity import clients
from migrate_tools.parity.mine import mine
code = 'import requests\\nfound = requests.get("u").json()\\nmodel = found["data"][0]["id"]'
shapes = [shape.setting() for shape in mine([code]).shapes]
clients.install({"literals": [], "keys": ["data", "id"], "shapes": shapes})
import openai, requests
names = []
for port in range(40):
    base = f"http://10.0.0.1:{port}/v1"
    found = requests.get(f"{base}/models")
    names += [(found.status_code, found.json()["data"][0]["id"], openai.OpenAI(base_url=base).models.list().data[0].id)]
print(json.dumps(sorted(set(names))))
"""


def test_what_a_scorer_asks_while_it_loads_is_always_answered() -> None:
    done = subprocess.run([sys.executable, "-c", AT_IMPORT], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[200, "taped", "taped"]]


WHO_ASKS = """
import asyncio, json, urllib.request
from migrate_tools.parity import clients
tape = clients.install({"literals": [], "keys": []})
import aiohttp, httpx, openai, requests
key = {"Authorization": "Bearer secret"}

async def by_aiohttp(headers, own):
    async with aiohttp.ClientSession(headers=own) as session:
        async with session.post("http://a", json={}, headers=headers) as reply:
            await reply.text()

def by_session(headers):
    session = requests.Session()
    session.headers.update(headers)
    session.get("http://a")

def by_openai(**settings):
    openai.OpenAI(base_url="http://a", **settings).chat.completions.create(model="m", messages=[])

calls = [
    lambda key: requests.post("http://a", json={}, headers=key),
    by_session,
    lambda key: httpx.post("http://a", json={}, headers=key),
    lambda key: httpx.Client(headers=key).get("http://a"),
    lambda key: asyncio.run(by_aiohttp(key, None)),
    lambda key: asyncio.run(by_aiohttp(None, key)),
    lambda key: by_openai(**({"api_key": "secret"} if "Authorization" in key else {})),
    lambda key: by_openai(default_headers=key),
    lambda key: urllib.request.urlopen(urllib.request.Request("http://a", b"{}", key)),
]
different = []
for call in calls:
    seen = []
    for headers in (key, {}, {"Content-Type": "json"}, {"authorization": "Bearer other"}):
        tape.begin()
        try:
            call(headers)
        except Exception as error:
            if "taped failure" not in str(error) and "500" not in str(error):
                raise
        seen.append(tape.seen())
    assert "secret" not in json.dumps(seen)
    different.append([seen[0] != seen[1], seen[1] == seen[2], len(seen[0]) == len(seen[1]) == 1])
print(json.dumps(different))
"""


def test_a_request_without_its_key_is_another_request() -> None:
    done = subprocess.run([sys.executable, "-c", WHO_ASKS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[True, True, True]] * 9
