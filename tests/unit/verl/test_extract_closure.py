"""Extraction: what comes along, under which name, and that the result runs by itself."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from migrate_tools.errors import RefusedInput
from migrate_tools.model import DataFile, DataSpec, RewardSpec, SourceCount, VerlRef
from migrate_tools.verl.extract import Extracted, NotExtractable, extract_reward

CALL = {"data_source": "a", "solution_str": "the answer is 4", "ground_truth": "4", "extra_info": {}}
LICENCE = "# Copyright 2025 Somebody\n# Licensed under the Apache License, Version 2.0\n"


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def extract(
    root: Path, path: str, function: str = "compute_score", *, sources: tuple[str, ...] = (), kind: str = "custom"
) -> Extracted:
    (root / "installed/verl").mkdir(parents=True, exist_ok=True)
    data = DataSpec(
        train=(DataFile(text="t"),),
        known_from="files" if sources else "nothing",
        sources=tuple(SourceCount(name=name, split="train", file="t") for name in sources),
    )
    spec = RewardSpec.model_validate({"kind": kind, "path": path, "function": function})
    return extract_reward(
        spec, data, project_root=root, verl=VerlRef(version="0.9.1", root=str(root / "installed"), how="test")
    )


def run(found: Extracted) -> Callable[..., Any]:
    space: dict[str, Any] = {"__name__": "extracted"}
    exec(compile(found.code, "extracted.py", "exec"), space)
    entry: Callable[..., Any] = space[found.entry]
    return entry


def test_only_what_is_needed_comes_along(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "reward.py": LICENCE + '"""Doc."""\n'
            "import json\nimport re\nimport torch\n\n"
            "# how a number looks\nNUMBER = re.compile(r'\\d+')\nUNUSED = torch.zeros(1)\n\n\n"
            "class Parser:\n    def last(self, text):\n        return NUMBER.findall(text)[-1]\n\n\n"
            "def unused():\n    return json.dumps(1)\n\n\n"
            "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
            "    return float(Parser().last(solution_str) == ground_truth)\n\n\n"
            "if __name__ == '__main__':\n    print(compute_score('a', 'b1', '1'))\n"
        },
    )
    found = extract(tmp_path, "reward.py")
    assert run(found)(**CALL) == 1.0
    assert "torch" not in found.code
    assert "unused" not in found.code
    assert "json" not in found.code
    assert "__main__" not in found.code
    assert "# how a number looks" in found.code
    assert found.header == LICENCE.strip()
    assert found.third_party == ()
    assert [origin.line for origin in found.origins] == [13, 22]


def test_helpers_across_files_are_flattened_and_renamed_on_collision(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "recipe/sum/__init__.py": "",
            "recipe/sum/reward.py": "from .left import value as left_value\n"
            "from recipe.sum import right\nimport recipe.sum.middle as middle\n\n"
            "LIMIT = 1\n\n\n"
            "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
            "    return LIMIT + left_value() + right.value() + middle.value()\n",
            "recipe/sum/left.py": LICENCE + "LIMIT = 10\n\n\ndef value():\n    return LIMIT\n",
            "recipe/sum/right.py": LICENCE
            + "LIMIT = 100\n\n\ndef value():\n    global LIMIT\n    LIMIT += 1\n    return LIMIT\n",
            "recipe/sum/middle.py": "from . import left\n\n\ndef value():\n    return left.LIMIT * 1000\n",
        },
    )
    found = extract(tmp_path, "recipe/sum/reward.py")
    score = run(found)
    assert score(**CALL) == 1 + 10 + 101 + 10_000
    assert score(**CALL) == 1 + 10 + 102 + 10_000
    assert "import" not in found.code
    assert found.header == LICENCE.strip(), "the same licence stands once"
    assert {origin.file for origin in found.origins} == {
        "recipe/sum/left.py",
        "recipe/sum/right.py",
        "recipe/sum/middle.py",
        "recipe/sum/reward.py",
    }


def test_verl_imports_inside_functions_and_relative_ones(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "reward.py": "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
            "    from verl.utils.reward_score import exact\n"
            "    from verl.utils.reward_score.box import unbox as open_box\n\n"
            "    return exact.compute_score(open_box(solution_str), ground_truth)\n",
            "installed/verl/__init__.py": "raise ImportError('must never run')\n",
            "installed/verl/utils/__init__.py": "import torch\n",
            "installed/verl/utils/reward_score/__init__.py": "from . import exact\n",
            "installed/verl/utils/reward_score/exact.py": "from .box import clean\n\n\n"
            "def compute_score(solution_str, ground_truth):\n    return float(clean(solution_str) == ground_truth)\n",
            "installed/verl/utils/reward_score/box.py": "def clean(text):\n    return text.strip()\n\n\n"
            "def unbox(text):\n    return text.split()[-1]\n",
        },
    )
    found = extract(tmp_path, "reward.py")
    assert run(found)(**CALL) == 1.0
    assert "verl" not in found.code
    assert "def exact_compute_score(" in found.code


def test_a_local_variable_does_not_capture_a_flattened_name(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "reward.py": "import helper\n\n\n"
            "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
            "    clean = helper.clean(solution_str)\n    return len(clean) + len(helper.clean('  x '))\n",
            "helper.py": "def clean(text):\n    return text.strip()\n",
        },
    )
    assert run(extract(tmp_path, "reward.py"))(**CALL) == len(CALL["solution_str"]) + 1  # type: ignore[arg-type]


def test_star_imports_are_written_out(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "reward.py": "from math import *\nfrom helper import *\n\n\n"
            "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
            "    return floor(4.5) + bonus() + SIZE\n",
            "helper.py": "__all__ = ['bonus', 'SIZE']\nSIZE = 20\nhidden = 1\n\n\ndef bonus():\n    return 300\n",
        },
    )
    found = extract(tmp_path, "reward.py")
    assert run(found)(**CALL) == 324
    assert "from math import *" in found.code
    assert "hidden" not in found.code


def test_import_blocks_with_a_fallback(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "reward.py": "try:\n    import not_installed_anywhere as fast\nexcept ImportError:\n    fast = None\n\n"
            "try:\n    from verl.utils.gone import score\nexcept ImportError:\n    from helper import score\n\n\n"
            "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
            "    return 1.0 if fast else score()\n",
            "helper.py": "def score():\n    return 0.25\n",
        },
    )
    found = extract(tmp_path, "reward.py")
    assert run(found)(**CALL) == 0.25
    assert "not_installed_anywhere" in found.third_party


def test_one_name_for_two_functions_chosen_inside(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "reward.py": "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
            "    if data_source == 'a':\n        from one import grade\n    else:\n        from two import grade\n"
            "    return grade()\n",
            "one.py": "def grade():\n    return 1\n",
            "two.py": "def grade():\n    return 2\n",
        },
    )
    score = run(extract(tmp_path, "reward.py"))
    assert score(**CALL) == 1
    assert score(**{**CALL, "data_source": "b"}) == 2


def test_statements_that_fill_what_is_needed_are_kept(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "reward.py": "import logging\nimport os\nimport random\nimport sys\n\n"
            "sys.path.insert(0, os.path.dirname(__file__))\nrandom.seed(3)\n"
            "logger = logging.getLogger(__name__)\nlogger.setLevel('ERROR')\n"
            "TABLE = {}\nOTHER = {}\nTABLE['a'] = 1.5\nfor key in ('b', 'c'):\n    TABLE[key] = 2.5\nOTHER['x'] = 1\n"
            "if sys.version_info >= (3, 8):\n    def pick(key):\n        return TABLE[key]\nelse:\n"
            "    def pick(key):\n        return 0\n\n\n"
            "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
            "    logger.debug('x')\n    return pick(data_source)\n"
        },
    )
    found = extract(tmp_path, "reward.py")
    score = run(found)
    assert (score(**CALL), score(**{**CALL, "data_source": "c"})) == (1.5, 2.5)
    assert "OTHER" not in found.code
    assert "sys.path" not in found.code
    assert "logger.setLevel('ERROR')" in found.code
    assert "random.seed(3)" in found.code


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("async def compute_score(**kwargs):\n    return 0.5\n", id="async-def"),
        pytest.param(
            "class Judge:\n    async def __call__(self, **kwargs):\n        return 0.5\n\n\ncompute_score = Judge()\n",
            id="instance-with-async-call",
        ),
        pytest.param(
            "import functools\n\n\ndef logged(function):\n    @functools.wraps(function)\n    def wrapper(**kwargs):\n"
            "        return function(**kwargs)\n\n    return wrapper\n\n\n"
            "@logged\nasync def compute_score(**kwargs):\n    return 0.5\n",
            id="decorated",
        ),
        pytest.param(
            "import functools\n\n\nasync def judge(weight, **kwargs):\n    return weight\n\n\n"
            "compute_score = functools.partial(judge, 0.5)\n",
            id="partial",
        ),
        pytest.param(
            "async def judge():\n    return 0.5\n\n\ndef compute_score(**kwargs):\n    return judge()\n",
            id="plain-def-returning-a-coroutine",
        ),
    ],
)
def test_every_kind_of_async_reward_is_seen(tmp_path: Path, body: str) -> None:
    write(tmp_path, {"reward.py": body})
    found = extract(tmp_path, "reward.py")
    assert found.is_async
    assert asyncio.run(_await(run(found)(**CALL))) == 0.5


async def _await(value: Any) -> Any:
    return await value


def test_a_decorator_that_runs_the_coroutine_makes_it_sync(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "reward.py": "import asyncio\n\n\ndef sync(function):\n    def wrapper(**kwargs):\n"
            "        return asyncio.run(function(**kwargs))\n\n    return wrapper\n\n\n"
            "@sync\nasync def compute_score(**kwargs):\n    return 0.75\n"
        },
    )
    found = extract(tmp_path, "reward.py")
    assert not found.is_async
    assert run(found)(**CALL) == 0.75


def test_packages_used_only_in_annotations_are_not_imported(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "reward.py": "from not_installed_anywhere import Tokenizer\n\n\n"
            "def compute_score(data_source, solution_str, ground_truth, extra_info=None, tokenizer: Tokenizer = None):\n"  # noqa: E501
            "    return 1.0\n"
        },
    )
    found = extract(tmp_path, "reward.py")
    assert run(found)(**CALL) == 1.0
    assert found.third_party == ()
    assert "import:not_installed_anywhere" not in found.traits


def test_lazy_third_party_imports_stay_lazy(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "reward.py": "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
            "    if data_source == 'hard':\n        import solver\n\n"
            "        return solver.solve(solution_str)\n    return 0.5\n",
            "solver.py": "import not_installed_anywhere as engine\n\n\ndef solve(text):\n"
            '    """Solve it."""\n    return engine.run(text)\n',
        },
    )
    found = extract(tmp_path, "reward.py")
    score = run(found)
    assert score(**CALL) == 0.5
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        score(**{**CALL, "data_source": "hard"})
    assert found.third_party == ("not_installed_anywhere",)


FRAMEWORK = '''import torch
import scipy

{top}
def iou(box, limit: {note} = 1):
    """Both in pixels."""
    return float(torch.tensor(box).sum()) + scipy.pi


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return iou([1, 2])
'''


@pytest.mark.parametrize(
    ("top", "note", "waits"),
    [
        ("", "int", True),
        ("ONES = torch.ones(1)\nprint(ONES)\n", "int", True),  # nothing needs that statement
        ("ONES = torch.ones(1)\n\n\ndef shift(box, by=ONES):\n    return box\n", "int", True),
        ("", "torch.Tensor", True),
        ("", "int = torch.e, *, by: int", False),
    ],
)
def test_frameworks_wait_for_the_first_call(tmp_path: Path, top: str, note: str, waits: bool) -> None:
    write(tmp_path, {"reward.py": FRAMEWORK.format(top=top, note=note)})
    code = extract(tmp_path, "reward.py").code
    assert ("\nimport torch\n" not in f"\n{code}") is waits
    assert ("    import torch\n" in code) is waits
    assert "\nimport scipy\n" in f"\n{code}"
    if waits:
        place = code.rindex("    import torch\n")
        assert code.index('"""Both in pixels."""') < place < code.index("torch.tensor")


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands for the framework, which need not be installed."""
    made = SimpleNamespace(tensor=lambda _: SimpleNamespace(sum=lambda: 3.0), ones=lambda _: 1.0)
    monkeypatch.setitem(sys.modules, "torch", made)


@pytest.mark.usefixtures("torch")
def test_annotations_need_no_framework(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "reward.py": FRAMEWORK.format(top="", note="torch.Tensor")
            .replace("import scipy\n", "")
            .replace(" + scipy.pi", "")
        },
    )
    found = extract(tmp_path, "reward.py")
    assert "if TYPE_CHECKING:\n    import torch\n" in found.code
    assert found.code.count("import torch") == 2
    assert run(found)(**CALL) == 3.0


@pytest.mark.usefixtures("torch")
def test_a_body_on_the_line_of_its_head_gets_its_import_too(tmp_path: Path) -> None:
    text = "import torch\n\n\ndef compute_score(**_): return float(torch.ones(1))\n"
    write(tmp_path, {"reward.py": text})
    found = extract(tmp_path, "reward.py")
    assert not found.code.startswith("import torch")
    assert run(found)() == 1.0


def test_a_framework_that_loading_uses_is_imported_at_once(tmp_path: Path) -> None:
    text = FRAMEWORK.format(top="ONES = torch.ones(1)\n", note="int").replace("iou([1, 2])", "iou(ONES)")
    write(tmp_path, {"reward.py": text})
    code = extract(tmp_path, "reward.py").code
    assert "\nimport torch\n" in f"\n{code}"
    assert "    import torch\n" not in code


def test_a_package_for_gpus_is_named(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "reward.py": "import torch\n\n\ndef compute_score(data_source, solution_str, "
            "ground_truth, extra_info=None):\n"
            "    return float(torch.ones(1))\n"
        },
    )
    notes = extract(tmp_path, "reward.py").notes
    assert [(note.code, "torch" in note.text) for note in notes] == [("reward-needs-gpu-package", True)]


def test_future_imports_come_first(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "reward.py": '"""Doc."""\nfrom __future__ import annotations\n\nimport re\n\n\n'
            "def compute_score(data_source: Missing, solution_str, ground_truth, extra_info=None):\n"
            "    return float(bool(re.search(ground_truth, solution_str)))\n"
        },
    )
    found = extract(tmp_path, "reward.py")
    assert found.code.startswith("from __future__ import annotations\n")
    assert run(found)(**CALL) == 1.0


def test_a_function_reexported_by_a_package(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "pkg/__init__.py": "from .impl import grade as compute_score\n",
            "pkg/impl.py": "def grade(**kwargs):\n    return 7\n",
        },
    )
    found = extract(tmp_path, "pkg/__init__.py")
    assert (found.entry, run(found)(**CALL)) == ("grade", 7)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"reward.py": "x = 1\n"}, "no function compute_score"),
        ({"reward.py": "def compute_score(:\n"}, "reward.py:1: not valid Python"),
        (
            {"reward.py": "from .gone import f\n\n\ndef compute_score(**k):\n    return f()\n"},
            r"reward.py:5: 'from .gone import f' leads to no file",
        ),
        (
            {
                "reward.py": "import helper\n\n\ndef compute_score(**k):\n    return helper.nothing()\n",
                "helper.py": "a = 1\n",
            },
            "helper.py has no nothing",
        ),
        (
            {
                "reward.py": "import helper\n\n\ndef compute_score(**k):\n    return vars(helper)\n",
                "helper.py": "a = 1\n",
            },
            "used as a value",
        ),
    ],
)
def test_what_cannot_be_extracted_is_said(tmp_path: Path, files: dict[str, str], message: str) -> None:
    write(tmp_path, files)
    with pytest.raises(RefusedInput, match=message):
        extract(tmp_path, "reward.py")


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotExtractable, match=r"gone\.py: the reward file is missing"):
        extract(tmp_path, "gone.py")


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "reward.py": "import json\nimport re\nfrom helper import a, b\n\n\ndef compute_score(**k):\n"
            "    return json.dumps([a(), b(), re.escape('.')])\n",
            "helper.py": "def a():\n    return 1\n\n\ndef b():\n    return a()\n",
        },
    )
    assert len({extract(tmp_path, "reward.py").code for _ in range(3)}) == 1
