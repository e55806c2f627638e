"""Every branch and import of an extracted reward has a state, and a lost one is seen."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import migrate_tools.verl.extract as extract
import pytest
from migrate_tools.model import Conserved
from migrate_tools.verl.extract import extract_function
from migrate_tools.verl.module_finder import ModuleFinder
from migrate_tools.verl.specialise import specialise

REWARD = """\
    import math
    import re as regex
    from helper import strict, unused_there

    def compute_score(data_source, solution_str, ground_truth):
        if data_source == "a":
            if solution_str:
                return 1.0
            return 0.0
        elif data_source in ("b", "c"):
            if regex.match("x", solution_str):
                return strict(solution_str, ground_truth)
        elif data_source == "d":
            return 4.0
        return -1.0

    def not_called(x):
        if x:
            return math.pi
    """
HELPER = """\
    def strict(text, truth):
        if text == truth:
            return 1.0
        return 0.5

    def unused_there():
        return 0
    """


@pytest.fixture
def finder(tmp_path: Path) -> ModuleFinder:
    (tmp_path / "reward.py").write_text(dedent(REWARD))
    (tmp_path / "helper.py").write_text(dedent(HELPER))
    (tmp_path / "verl").mkdir()
    return ModuleFinder(tmp_path, tmp_path / "verl", (tmp_path,))


def states(items: tuple[Conserved, ...], area: str) -> list[tuple[str, str]]:
    return [(item.name, item.state) for item in items if item.area == area]


def test_everything_is_kept_when_nothing_is_known(finder: ModuleFinder, tmp_path: Path) -> None:
    made = extract_function(finder, tmp_path / "reward.py", "compute_score")
    assert states(made.conserved, "reward_branch") == [
        ("text == truth", "kept"),
        ("data_source == 'a'", "kept"),
        ("solution_str", "kept"),
        ("data_source in ('b', 'c')", "kept"),
        ("regex.match('x', solution_str)", "kept"),
        ("data_source == 'd'", "kept"),
    ]
    assert states(made.conserved, "import") == [
        ("import math", "unused"),
        ("import re as regex", "kept"),
        ("from helper import strict", "copied"),
        ("from helper import unused_there", "unused"),
    ]


def test_specialised_branches_have_their_own_states(finder: ModuleFinder, tmp_path: Path) -> None:
    path = tmp_path / "reward.py"
    pruned = specialise(finder, path, "compute_score", {"data_source": ("b",)})
    made = extract_function(finder, path, "compute_score", pruned=pruned)
    assert states(made.conserved, "reward_branch") == [
        ("text == truth", "kept"),
        ("data_source == 'a'", "dropped"),
        ("solution_str", "inside_dropped"),
        ("data_source in ('b', 'c')", "always_taken"),
        ("regex.match('x', solution_str)", "kept"),
        ("data_source == 'd'", "dropped"),
    ]
    assert len(made.dropped) == 2, "a test that always holds is no dropped branch"


def test_what_the_made_module_lacks_is_lost(
    finder: ModuleFinder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = extract.conserve

    def with_a_loss(finder: ModuleFinder, graph: object, code: str, pruned: object) -> tuple[Conserved, ...]:
        code = code.replace("if solution_str:", "while solution_str:").replace("import re as", "import os as")
        return real(finder, graph, code, pruned)  # type: ignore[arg-type]

    monkeypatch.setattr(extract, "conserve", with_a_loss)
    made = extract_function(finder, tmp_path / "reward.py", "compute_score")
    assert [(item.area, item.name) for item in made.conserved if item.state == "lost"] == [
        ("reward_branch", "solution_str"),
        ("import", "import re as regex"),
    ]
