"""A draft that imports the old scorer, reads the oracle or changes it is rejected, whichever way it tries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from migrate_tools.parity import guard

WAYS = [
    ("import verl.utils\n", "x.py:1: imports verl.utils"),
    ("def f():\n    from verl import DataProto\n", "x.py:2: imports verl"),
    ("import importlib\nimportlib.import_module('verl.x')\n", "x.py:2: imports verl.x"),
    ("import importlib\nimportlib.import_module('ve' + 'rl.x')\n", "x.py:2: imports verl.x"),
    ("__import__(''.join(['v', 'e', 'rl']))\n", "x.py:1: imports verl"),
    ("__import__(f'{\"verl\"}.utils')\n", "x.py:1: imports verl.utils"),
    ("__import__('lrev'[::-1])\n", "x.py:1: imports verl"),
    ("__import__(chr(118) + 'erl')\n", "x.py:1: imports verl"),
    ("exec('import verl')\n", "x.py:1: in a string: imports verl"),
    ("exec(b'import verl'.decode())\n", "x.py:1: in a string: imports verl"),
    ("eval(\"__import__('verl')\")\n", "x.py:1: in a string: imports verl"),
    ("exec(\"exec('import verl')\")\n", "x.py:1: in a string: in a string: imports verl"),
    ("from recipe.own.reward import compute_score\n", "x.py:1: imports recipe.own.reward"),
    ("from recipe.own import reward\n", "x.py:1: imports recipe.own.reward"),
    ("import reward\n", "x.py:1: imports reward"),
    (
        "import importlib.util\nimportlib.util.spec_from_file_location('x', '/project/recipe/own/reward.py')\n",
        "x.py:2: loads /project/recipe/own/reward.py",
    ),
    ("import runpy\nrunpy.run_path('/verl/' + 'verl/utils/x.py')\n", "x.py:2: loads /verl/verl/utils/x.py"),
    ("open('/work/outcomes.jsonl')\n", "x.py:1: names the parity oracle (outcomes.jsonl)"),
    ("open('/work/out' + 'comes.jsonl', 'a')\n", "x.py:1: names the parity oracle (outcomes.jsonl)"),
    ("import os\nos.open(os.sep.join(['', 'work', 'oracle.json']), 1)\n", None),
    ("from pathlib import Path\nPath('/work') / 'cases.jsonl'\n", "x.py:2: names the parity oracle (cases.jsonl)"),
    ("def f(:\n", "x.py: cannot be parsed (SyntaxError)"),
]


@pytest.mark.parametrize(("text", "problem"), [way for way in WAYS if way[1]])
def test_sources_that_break_the_rule(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "x.py").write_text(text, encoding="utf-8")
    assert problem in guard.check_example(tmp_path, ("recipe/own/reward.py",))


@pytest.mark.parametrize(
    "text",
    [
        '"""From verl; see outcomes.jsonl."""\nimport verlike\n',
        "import importlib\nimportlib.import_module('sympy')\n",
        "exec('x = 1')\nexec('not python at all')\n",
        "from examples.demo import reward_demo\n",
        "NAME = 'verl'\nprint('like verl does')\n",
    ],
)
def test_sources_that_keep_the_rule(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.py").write_text(text, encoding="utf-8")
    assert guard.check_example(tmp_path, ("recipe/own/reward.py",)) == ()


RUNTIME = """
import sys
from migrate_tools.parity import watch
watch.install(["own_reward"])
try:
    {attempt}
except BaseException as error:
    pass
print("; ".join(watch.broken))
"""


@pytest.mark.parametrize(
    ("attempt", "said"),
    [
        ("__import__('v' + sys.argv[0][:0] + 'erl')", "imports verl"),
        ("exec('imp' + sys.argv[0][:0] + 'ort verl.utils')", "imports verl.utils"),
        ("import own_reward", "imports own_reward"),
        ("open(sys.argv[0][:0] + '/work/outcomes.jsonl')", "open of /work/outcomes.jsonl"),
        ("import os; os.open('/work/oracle.json', os.O_RDWR)", "open of /work/oracle.json"),
        ("import os; os.chmod('/x/rows.parquet', 0o777)", "os.chmod of /x/rows.parquet"),
        ("import os; os.rename('/tmp/a', '/work/outcomes.jsonl')", "os.rename of /work/outcomes.jsonl"),
        ("import os; os.listdir('/work/parity/run/oracle')", "os.listdir of /work/parity/run/oracle"),
        ("import json, re", ""),
        ("open('/etc/hostname').close()", ""),
    ],
)
def test_attempts_at_run_time_are_seen_even_when_caught(attempt: str, said: str) -> None:
    command = [sys.executable, "-c", RUNTIME.format(attempt=attempt)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == said


SCORER = """
    def compute_score(data_source, solution_str, ground_truth, extra_info=None):
        return 1.0 if str(ground_truth) in solution_str else 0.0
"""


@pytest.mark.jail
@pytest.mark.parametrize(
    ("port", "said"),
    [
        (
            """
            def compute_score(data_source, solution_str, ground_truth, extra_info=None):
                name = "".join(sorted("lrev", key="verl".index))
                try:
                    __import__(name + ".utils")
                except ImportError:
                    pass
                return 1.0 if str(ground_truth) in solution_str else 0.0
            """,
            "imports verl",
        ),
        (
            """
            def compute_score(data_source, solution_str, ground_truth, extra_info=None):
                place = "/wo%s/out%s.jsonl" % ("rk", "comes")
                try:
                    open(place)
                except OSError:
                    pass
                return 1.0 if str(ground_truth) in solution_str else 0.0
            """,
            "open of /work/outcomes.jsonl",
        ),
    ],
)
def test_a_draft_that_cheats_at_run_time_fails(bench: Callable[..., Any], port: str, said: str) -> None:
    result = bench(SCORER, port).check(cases=40)
    assert result.status == "failed"
    assert "breaks the oracle's rule: " + said in result.summary, result.summary


@pytest.mark.jail
def test_a_draft_that_imports_the_old_file_is_rejected_unrun(bench: Callable[..., Any]) -> None:
    result = bench(SCORER, "from reward import compute_score\n").check(cases=40)
    assert result.status == "failed"
    assert result.summary == ("the example breaks the oracle's rule: examples/demo/reward_demo.py:1: imports reward")


@pytest.mark.jail
def test_changed_oracle_files_are_noticed(bench: Callable[..., Any]) -> None:
    from migrate_tools.parity import compare

    made = bench(SCORER)
    frozen = made.freeze(cases=40)
    path = frozen.folder / "outcomes.jsonl"
    path.chmod(0o644)
    path.write_text(path.read_text().replace('"score": 0.0', '"score": 1.0'), encoding="utf-8")
    result = compare.run_parity(made, made.launch, frozen)
    assert (result.status, result.summary) == ("failed", "the frozen oracle was changed: outcomes.jsonl")


@pytest.mark.jail
def test_a_reward_that_reads_the_clock_is_not_checkable(bench: Callable[..., Any]) -> None:
    scorer = """
        import datetime

        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            return float(datetime.date.today().toordinal())
    """
    result = bench(scorer, traits=("time",)).check(cases=40)
    assert result.status == "not_checkable"
    assert result.summary.startswith("the old reward is not deterministic (it reads the clock): ")
