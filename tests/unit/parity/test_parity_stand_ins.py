"""Frameworks that the file of a reward imports, the reward itself does not use: stand-ins, installed or not."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import pytest
from migrate_tools.packages import requirements

FRAMEWORK = """
version = "real"

def device(name):
    return "real " + name
"""
SCRIPT = """
import sys
from migrate_tools.parity import old_side, stubs

job = {"environment": {}, "verl_root": None, "paths": [sys.argv[1]], "stand_ins": ["torch", "ray"],
       "scorer": {"file": sys.argv[1] + "/reward.py", "function": "compute_score"}, "manager": {"name": "naive"}}
function, _, _ = old_side.prepare(job)
try:
    print(function())
except stubs.StandInUsed as error:
    print("used", error)
"""


def loaded(folder: Path, scorer: str, **others: str) -> str:
    """What a scorer prints that is loaded where a package "torch" is installed."""
    site = folder / "site" / "torch"
    site.mkdir(parents=True)
    (site / "__init__.py").write_text(FRAMEWORK, encoding="utf-8")
    project = folder / "project"
    project.mkdir()
    for name, text in {"reward": scorer, **others}.items():
        (project / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
    script = f"import sys; sys.path.insert(0, {str(folder / 'site')!r})\n{SCRIPT}"
    done = subprocess.run([sys.executable, "-c", script, str(project)], capture_output=True, text=True)
    return (done.stdout or done.stderr.strip().rpartition("\n")[2]).strip()


def test_a_framework_beside_the_reward_is_not_loaded(tmp_path: Path) -> None:
    scorer = """
        import ray
        import torch

        DEVICE = torch.device("cpu")

        @ray.remote(num_cpus=1)
        class Pool:
            @ray.method(concurrency_group="acquire")
            def take(self): ...

        def compute_score():
            return [torch.version == "real", Pool().take()]
    """
    assert loaded(tmp_path, scorer) == "[False, None]"


def test_a_file_that_needs_the_framework_to_load_gets_the_real_one(tmp_path: Path) -> None:
    scorer = """
        import torch

        KIND = torch.device("cpu") + "!"

        def compute_score():
            return KIND
    """
    assert loaded(tmp_path, scorer) == "real cpu!"


@pytest.mark.parametrize("use", ["bool(DEVICE)", "DEVICE == 'cpu'", "DEVICE + 1", "list(DEVICE)", "torch.device('x')"])
def test_no_case_may_look_at_what_a_stand_in_gave(tmp_path: Path, use: str) -> None:
    scorer = f"""
        import torch

        DEVICE = torch.device("cpu")

        def compute_score():
            return {use}
    """
    assert loaded(tmp_path, scorer) == "used torch.device"


def test_a_module_of_the_recipe_with_such_a_name_is_real(tmp_path: Path) -> None:
    scorer = """
        import ray

        def compute_score():
            return ray.own()
    """
    assert loaded(tmp_path, scorer, ray="def own():\n    return 'own'\n") == "own"


def test_what_a_package_requires_at_any_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {
        "grader": ["Middle_Layer>=1; python_version > '3'", "torch; extra == 'gpu'"],
        "middle-layer": ["torch (>=2)", "pillow"],
        "torch": None,
    }

    def requires(name: str) -> list[str] | None:
        if name not in wanted:
            raise metadata.PackageNotFoundError(name)
        return wanted[name]

    monkeypatch.setattr(metadata, "requires", requires)
    assert requirements(["grader.core"]) == {"grader", "middle_layer", "torch", "PIL"}
    wanted["middle-layer"] = None
    assert requirements(["grader"]) == {"grader", "middle_layer"}
