"""Specialising a dispatch by data_source: only what the data never selects goes."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from migrate_tools.model import DataFile, DataSpec, RewardSpec, SourceCount, VerlRef
from migrate_tools.verl.extract import taken_traits
from migrate_tools.verl.truth import UnknownValue, truth
from test_extract_closure import CALL, extract, run, write

DISPATCH = """\
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    if data_source == "one":
        return 1
    elif data_source in ["two", "zwei"] or data_source.startswith("aime"):
        import second

        res = second.score(solution_str)
    elif "three" in data_source.lower() and extra_info is not None:
        return 3
    else:
        raise NotImplementedError(data_source)
    return res
"""
SECOND = "def score(text):\n    return 2\n"


def call(found: Any, source: str) -> Any:
    return run(found)(**{**CALL, "data_source": source})


def test_one_source_leaves_one_branch(tmp_path: Path) -> None:
    write(tmp_path, {"reward.py": DISPATCH, "second.py": SECOND})
    found = extract(tmp_path, "reward.py", sources=("aime2024",))
    assert call(found, "aime2024") == 2
    assert "NotImplementedError" not in found.code
    assert "if " not in found.code
    assert [note.source.line for note in found.dropped if note.source] == [2, 8]
    assert 'data_source == "one"' in found.dropped[0].text


def test_two_sources_keep_both_branches(tmp_path: Path) -> None:
    write(tmp_path, {"reward.py": DISPATCH, "second.py": SECOND})
    found = extract(tmp_path, "reward.py", sources=("one", "two"))
    assert [call(found, name) for name in ("one", "two")] == [1, 2]
    assert "three" not in found.code
    assert len(found.dropped) == 1


def test_what_is_not_known_stays(tmp_path: Path) -> None:
    write(tmp_path, {"reward.py": DISPATCH, "second.py": SECOND})
    found = extract(tmp_path, "reward.py", sources=("Three",))
    assert call(found, "Three") == 3
    with pytest.raises(NotImplementedError):
        run(found)(**{**CALL, "data_source": "Three", "extra_info": None})


def test_unknown_data_keeps_the_whole_dispatch(tmp_path: Path) -> None:
    write(tmp_path, {"reward.py": DISPATCH, "second.py": SECOND})
    found = extract(tmp_path, "reward.py")
    assert [call(found, name) for name in ("one", "zwei", "THREE")] == [1, 2, 3]
    assert found.dropped == ()


def test_a_source_without_a_branch_still_raises(tmp_path: Path) -> None:
    write(tmp_path, {"reward.py": DISPATCH, "second.py": SECOND})
    found = extract(tmp_path, "reward.py", sources=("one", "elsewhere"))
    assert call(found, "one") == 1
    with pytest.raises(NotImplementedError):
        call(found, "elsewhere")


def test_a_reassigned_source_is_not_specialised(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "reward.py": "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
            "    data_source = data_source.upper()\n    if data_source == 'ONE':\n        return 1\n    return 0\n"
        },
    )
    found = extract(tmp_path, "reward.py", sources=("one",))
    assert call(found, "one") == 1
    assert found.dropped == ()


def test_known_values_travel_along_calls_and_stop_where_calls_differ(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "reward.py": "def inner(data_source, text):\n    if data_source == 'one':\n        return 1\n"
            "    elif data_source == 'fixed':\n        return 5\n    else:\n        return 9\n\n\n"
            "def other(data_source):\n    if data_source == 'one':\n        return 10\n    return 20\n\n\n"
            "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
            "    return inner(data_source, 't') + inner('fixed', 't') + other(solution_str)\n"
        },
    )
    found = extract(tmp_path, "reward.py", sources=("one",))
    assert call(found, "one") == 1 + 5 + 20
    assert "return 9" in found.code, "a source that the data gains later must not fall into another branch"
    assert "return 10" in found.code, "solution_str is not known"
    assert found.dropped == ()


def test_verl_dispatch_with_an_unset_sandbox(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "installed/verl/utils/reward_score/__init__.py": "def default_compute_score(data_source, solution_str, "
            "ground_truth, extra_info=None, sandbox_fusion_url=None, **kwargs):\n"
            "    if data_source == 'code':\n        if sandbox_fusion_url:\n            from . import sandbox\n\n"
            "            return sandbox.run(sandbox_fusion_url)\n        else:\n            return 1.0\n"
            "    raise NotImplementedError\n",
            "installed/verl/utils/reward_score/sandbox.py": "import requests\n\n\ndef run(url):\n"
            "    return requests.get(url)\n",
        },
    )
    found = extract(
        tmp_path, "verl/utils/reward_score/__init__.py", "default_compute_score", sources=("code",), kind="builtin"
    )
    assert call(found, "code") == 1.0
    assert "requests" not in found.code


@pytest.mark.parametrize(
    ("known_from", "source", "traits"),
    [("files", "code", ("children", "import:numpy", "process")), ("files", "text", ()), ("nothing", "code", ())],
)
def test_a_dispatch_has_the_traits_of_the_scorer_that_the_data_selects(
    tmp_path: Path, known_from: Any, source: str, traits: tuple[str, ...]
) -> None:
    scores = "installed/verl/utils/reward_score/"
    write(
        tmp_path,
        {
            f"{scores}__init__.py": "def default_compute_score(data_source, solution_str, ground_truth):\n"
            "    if data_source == 'code':\n        from . import code\n\n        return code.score(solution_str)\n"
            "    if data_source == 'text':\n        return 1.0\n    raise NotImplementedError\n",
            f"{scores}code.py": "import multiprocessing\nimport numpy as np\n\n\ndef score(text):\n"
            "    return np.mean(multiprocessing.Pool(1).map(len, [text]))\n",
        },
    )
    path = "verl/utils/reward_score/__init__.py"
    spec = RewardSpec(kind="builtin", path=path, function="default_compute_score")
    sources = (SourceCount(name=source, split="train", file="t"),)
    data = DataSpec(train=(DataFile(text="t"),), known_from=known_from, sources=sources)
    verl = VerlRef(version="0.9.1", root=str(tmp_path / "installed"), how="test")
    assert taken_traits(spec, data, project_root=tmp_path, verl=verl) == traits


def test_the_selector_of_an_old_fork_becomes_a_scorer(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "installed/verl/trainer/main_ppo.py": "import ray\nfrom verl.utils.reward_score import kk, gsm8k\n\n\n"
            "def _select_rm_score_fn(data_source):\n    if data_source == 'openai/gsm8k':\n"
            "        return gsm8k.compute_score\n    elif 'kk' in data_source:\n        return kk.compute_score\n"
            "    else:\n        raise NotImplementedError\n",
            "installed/verl/utils/reward_score/kk.py": "def compute_score(solution_str, ground_truth):\n"
            "    return ground_truth in solution_str\n",
            "installed/verl/utils/reward_score/gsm8k.py": "import sympy\n\n\n"
            "def compute_score(solution_str, ground_truth):\n"
            "    return sympy.sympify(solution_str)\n",
        },
    )
    found = extract(tmp_path, "verl/trainer/main_ppo.py", "_select_rm_score_fn", sources=("kk_logic",), kind="builtin")
    assert found.entry == "compute_score"
    assert call(found, "kk_logic") is True
    assert "ray" not in found.third_party
    assert "sympy" not in found.code


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("d == 'a'", True),
        ("d != 'a'", False),
        ("d in ('b', 'c')", False),
        ("'x' in d or d.endswith('a')", True),
        ("not d", False),
        ("d.split('/')[0] == 'a'", True),
        ("other and d == 'b'", False),
        ("other or d == 'a'", True),
    ],
)
def test_truth_of_a_test(test: str, expected: bool) -> None:
    assert truth(ast.parse(test, mode="eval").body, {"d": "a"}) is expected


@pytest.mark.parametrize("test", ["other", "other and d == 'a'", "d in TABLE", "len(d) > 1", "re.match('a', d)"])
def test_truth_that_is_not_known(test: str) -> None:
    with pytest.raises(UnknownValue):
        truth(ast.parse(test, mode="eval").body, {"d": "a"})
