"""Rewards that make files and folders beside themselves: both sides get a private folder, the recipe stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from migrate_tools.parity import own_copy
from migrate_tools.verl.traits import file_writes

SCORER = """
    import json
    from pathlib import Path

    FOLDER = Path(__file__).resolve().parent / "results" / "log"
    FOLDER.mkdir(parents=True, exist_ok=True)

    def compute_score(data_source, solution_str, ground_truth, extra_info=None):
        with open(FOLDER / "seen.jsonl", "a") as file:
            file.write(json.dumps(solution_str) + "\\n")
        return float(str(ground_truth) in solution_str)
"""


@pytest.mark.jail
def test_a_reward_that_makes_folders_beside_itself_is_compared(bench: Callable[..., Any]) -> None:
    made = bench(SCORER)
    result = made.check(cases=60)
    assert (result.status, result.evidence["mismatches"]) == ("passed", 0), result.summary
    assert made.freeze().meta["writes"] == ["mkdir", "open"]
    assert not Path(made.recipe.project_root, "results").exists()
    assert not (made.stage / "examples/demo/results").exists()


def test_a_private_copy_links_what_is_large_and_leaves_out_what_nobody_imports(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name, size in {"a.py": 10, "data/large.bin": own_copy.SMALL + 1, ".git/x": 1, "b/__pycache__/y": 1}.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(b"x" * size)
    copy, original = own_copy.writable_mounts(source, "/project", tmp_path / "copy")
    assert (copy.target, copy.writable, original.target, original.writable) == (
        "/project", True, "/originals/project", False,
    )  # fmt: skip
    found = sorted(str(path.relative_to(copy.source)) for path in copy.source.rglob("*"))
    assert found == ["a.py", "b", "data", "data/large.bin"]
    assert str((copy.source / "data/large.bin").readlink()) == "/originals/project/data/large.bin"
    (copy.source / "a.py").write_text("changed", encoding="utf-8")
    assert (source / "a.py").read_bytes() == b"x" * 10


def test_a_copy_does_not_hold_itself(tmp_path: Path) -> None:
    (tmp_path / "reward.py").touch()
    place = tmp_path / "work/parity/run/old_project"
    (place.parent / "explore_project").mkdir(parents=True)
    own_copy.writable_mounts(tmp_path, "/project", place)
    assert [path.name for path in place.rglob("*")] == ["reward.py"]


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("open('x')", ()),
        ("open('x', 'rb')", ()),
        ("open(os.devnull, 'w')", ()),
        ("open('x', 'a')", ("open",)),
        ("p.open(mode='w')", ("open",)),
        ("open('a.txt', encoding='wax')", ()),
        ("os.makedirs(d)\n(a / 'b').mkdir()", ("makedirs", "mkdir")),
        ("logging.FileHandler('x')", ("FileHandler",)),
    ],
)
def test_calls_that_make_files(code: str, names: tuple[str, ...]) -> None:
    assert file_writes(code) == names
