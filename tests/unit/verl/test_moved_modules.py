"""A module that a recipe copies into verl before a run imports what a module there would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from migrate_tools.verl.module_finder import ModuleFinder
from migrate_tools.verl.pymodule import ImportedName

TOOL = """\
from .base_tool import BASE
from verl.tools.utils.sql_utils import LEVEL
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    texts = {
        "source/verl/__init__.py": "",
        "source/verl/tools/__init__.py": "",
        "source/verl/tools/base_tool.py": "BASE = 1\n",
        "recipe/sql_tool.py": TOOL,
        "recipe/sql_utils.py": "from ..base_tool import BASE\nLEVEL = BASE + 1\n",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "recipe"


def test_its_imports_are_found(recipe: Path) -> None:
    source = recipe.parent / "source"
    finder = ModuleFinder(recipe, source, (recipe,))
    base = ImportedName("base_tool", 1, "BASE", "BASE", False)
    utils = ImportedName("verl.tools.utils.sql_utils", 0, "LEVEL", "LEVEL", False)
    tool = recipe / "sql_tool.py"
    assert (finder.find(base, tool), finder.find(utils, tool)) == (None, None)
    finder.moved(tool, "verl.tools")
    assert finder.find(base, tool) == source / "verl/tools/base_tool.py"
    assert finder.find(utils, tool) == recipe / "sql_utils.py"
    upwards = ImportedName("base_tool", 2, "BASE", "BASE", False)
    assert finder.find(upwards, recipe / "sql_utils.py") == source / "verl/tools/base_tool.py"


def test_it_is_loaded_as_a_module_of_verl(recipe: Path) -> None:
    (recipe.parent / "source/verl/tools/utils").mkdir()
    code = f"""
import sys
sys.path[:0] = [{str(recipe.parent / "source")!r}, *{sys.path!r}]
from pathlib import Path
from migrate_tools.parity.moved import load
made = load("verl.tools.sql_tool", Path({str(recipe / "sql_tool.py")!r}))
print(made.BASE, made.LEVEL, made.__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("1 2 verl.tools.sql_tool\n", "")
