"""What tools keep beside a recipe (an environment, say) hides nothing of the recipe itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from migrate_tools.verl import prep_reader, reward_manager

MANAGER = '@register("own")\nclass OwnManager:\n    pass\n'
PREP = 'row = {"reward_model": {"ground_truth": x}}\ndata.to_parquet("x.parquet")\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A recipe with many files of installed packages in front of its own, below a folder named build."""
    root = tmp_path / "build" / "recipe"
    packages = root / ".venv" / "lib" / "site-packages"
    packages.mkdir(parents=True)
    for number in range(reward_manager.MOST_FILES + 1):
        (packages / f"m{number}.py").touch()
    (packages / "copy.py").write_text(MANAGER + PREP)
    (root / "zz_manager.py").write_text(MANAGER)
    (root / "dist").mkdir()
    for name in ("dist/prepare.py", "prepare.py"):
        (root / name).write_text(PREP)
    return root


def test_a_manager_is_found_behind_an_environment(project: Path) -> None:
    assert reward_manager.registered_file([project], "own") == project / "zz_manager.py"


def test_scripts_that_prepare_data_are_those_of_the_recipe(project: Path) -> None:
    assert list(prep_reader.prep_scripts([project])) == [project / "prepare.py"]
