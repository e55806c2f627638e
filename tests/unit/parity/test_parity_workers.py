"""HTTP scorers that run in processes of their own are taped too, and the certificate says that it is plumbing only."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from migrate_tools.model import VerlRef
from migrate_tools.parity.alone import certify, function_launch, recipe_of
from migrate_tools.parity.frozen import Budget
from migrate_tools.sandbox import Sandbox

CHILDREN = """
import json, multiprocessing, subprocess, sys
from migrate_tools.parity import clients

def ask(word):
    import requests
    return requests.post("http://judge/v1", json={"q": word}).status_code

tape = clients.install({"literals": [], "keys": []})
ask("one")
tape.begin()
code = "import requests; print(requests.post('http://judge/v1', json={'q': 'two'}).status_code)"
first = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout
with multiprocessing.get_context("fork").Pool(2) as pool:
    second = pool.map(ask, ["three", "three", "four"])
seen = tape.seen()
tape.begin()
print(json.dumps([int(first) in (200, 500), len(second), len(seen), tape.seen()]))
"""


def test_requests_of_child_processes_are_answered_and_noted() -> None:
    done = subprocess.run([sys.executable, "-c", CHILDREN], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [True, 3, 3, []]


SCORER = '''
import signal

import requests


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    """A judge behind HTTP, with an alarm: it runs in the main thread of a worker process."""
    signal.alarm(30)
    try:
        body = {"answer": solution_str[-200:], "truth": ground_truth}
        reply = requests.post("http://judge:8000/score", json=body, timeout=5)
        if reply.status_code != 200:
            return -1.0
        return float(reply.json()["score"])
    finally:
        signal.alarm(0)
'''


@pytest.mark.jail
def test_an_http_scorer_in_a_worker_process_is_compared_with_taped_answers(tmp_path: Path, sandbox: Sandbox) -> None:
    project, verl = tmp_path / "project", tmp_path / "verl"
    project.mkdir()
    verl.mkdir()
    (project / "judge.py").write_text(textwrap.dedent(SCORER), encoding="utf-8")
    rows = [
        {
            "data_source": "demo",
            "prompt": [{"role": "user", "content": f"Question {number}?"}],
            "reward_model": {"style": "rule", "ground_truth": truth},
            "extra_info": {"index": number},
        }
        for number, truth in enumerate(("72", "Paris", "0.5"))
    ]
    reference = VerlRef(version="0.9.1", root=str(verl), how="made for the test")
    launch = function_launch(reference, str(project / "judge.py"), "compute_score", rows)
    launch = launch.model_copy(update={"reward": launch.reward.model_copy(update={"path": "judge.py"})})
    assert {"http", "signal"} <= set(launch.reward.traits)
    result = certify(
        recipe_of(launch, project), launch, sandbox=sandbox, work=tmp_path / "work", budget=Budget(seconds=30, cases=60)
    )
    written = (tmp_path / "work/stage/compute_score/examples/alone/reward_alone.py").read_text(encoding="utf-8")
    assert "class _Worker:" in written
    assert result.status == "passed", result.summary
    assert result.evidence["plumbing_only"] is True
    assert result.summary.startswith("parity of plumbing with taped answers, not of the judge: ")
    assert result.evidence["accepted"] > 0.2
