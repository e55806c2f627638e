"""Reading of scripts that a test writes, without rewards and data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from migrate_tools.model import DataSpec, Recipe, RewardSpec, VerlRef
from migrate_tools.sandbox import Sandbox
from migrate_tools.verl import launch_reader
from migrate_tools.verl.reader import read_recipe


@pytest.fixture
def only_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewards and data are not read."""
    monkeypatch.setattr(launch_reader.LaunchReader, "_reward", lambda *_: (RewardSpec(kind="none"), ()))
    monkeypatch.setattr(launch_reader.LaunchReader, "_data", lambda *_: (DataSpec(), ()))


@pytest.fixture
def read(tmp_path: Path, verl_source: VerlRef, jail: Sandbox, only_settings: None) -> Callable[..., Recipe]:
    """Write scripts into a recipe folder and read it; rewards and data are not this test's business."""

    def run(
        script: str | None = None,
        /,
        *,
        launches: tuple[str, ...] = (),
        variables: dict[str, str] | None = None,
        **files: str,
    ) -> Recipe:
        folder = tmp_path / "recipe"
        folder.mkdir(exist_ok=True)
        if script is not None:
            (folder / "run_it.sh").write_text(script)
        for name, text in files.items():
            path = folder / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return read_recipe(
            folder, launches=launches, verl_root=Path(verl_source.root), variables=variables, sandbox=jail
        )

    return run
