"""What lies in the mounts of a job that runs as another user."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from migrate_tools.sandbox.api import Mount
from migrate_tools.sandbox.staging import MANY, staged

STRANGER = 12345

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root runs jobs as another user")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "open").mkdir(parents=True)
    (root / "open" / "a.txt").write_text("a")
    for folder in (tmp_path, root, root / "open"):
        folder.chmod(0o755)
    return root


def shown(root: Path, target: str = "/project", *more: Mount) -> dict[str, str]:
    """Target -> where its source lies: below the tree itself, or a copy."""
    with staged((Mount(root, target), *more), STRANGER, STRANGER) as ready:
        for mount in ready:
            assert all(
                path.stat().st_mode & 0o4 for path in (mount.source, *mount.source.rglob("*")) if mount.target != target
            )
        return {mount.target: "tree" if mount.source.is_relative_to(root) else "copy" for mount in ready}


def test_an_open_tree_is_mounted_as_it_is(tree: Path) -> None:
    assert shown(tree) == {"/project": "tree"}


def test_a_closed_file_is_copied_alone(tree: Path) -> None:
    (tree / "open" / "secret.txt").touch(mode=0o600)
    assert shown(tree) == {"/project": "tree", "/project/open/secret.txt": "copy"}


def test_a_closed_folder_is_copied_with_all_that_is_in_it(tree: Path) -> None:
    (tree / "closed" / "below").mkdir(parents=True)
    (tree / "closed" / "below" / "b.txt").touch(mode=0o600)
    (tree / "closed").chmod(0o700)
    assert shown(tree) == {"/project": "tree", "/project/closed": "copy"}


def test_a_folder_of_many_closed_files_is_copied_as_one(tree: Path) -> None:
    for number in range(MANY + 1):
        (tree / "open" / f"{number}.txt").touch(mode=0o600)
    assert shown(tree) == {"/project": "tree", "/project/open": "copy"}


def test_nothing_is_laid_over_another_mount(tree: Path, tmp_path: Path) -> None:
    (tree / "open" / "a.txt").chmod(0o600)
    other = tmp_path / "other"
    other.mkdir(mode=0o755)
    assert shown(tree, "/project", Mount(other, "/project/open")) == {"/project": "tree", "/project/open": "copy"}


def test_folders_of_tools_are_neither_copied_nor_searched(tree: Path) -> None:
    for name in (".venv", ".git", ".hypothesis"):
        (tree / name / "below").mkdir(parents=True)
        (tree / name / "below" / "b.txt").touch(mode=0o600)
    with staged((Mount(tree, "/project"),), STRANGER, STRANGER) as ready:
        assert [mount.target for mount in ready] == ["/project"]
    tree.chmod(0o700)
    with staged((Mount(tree, "/project"),), STRANGER, STRANGER) as (copy,):
        assert sorted(path.name for path in copy.source.iterdir()) == ["open"]


def test_a_closed_tree_is_copied_as_a_whole(tree: Path) -> None:
    tree.chmod(0o700)
    assert shown(tree) == {"/project": "copy"}
