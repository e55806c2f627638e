"""What hypothesis draws for a comparison: the same in every process, and nothing left in the user's folder."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import strategies as st
from migrate_tools.parity import patterns

UNUSUAL = (61_713, "an unusual text", 0.1234567)


def test_draws_do_not_depend_on_what_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = st.one_of(st.integers(), st.text(), st.floats(0, 1))
    before = patterns._collected(strategy, 600)
    place = tmp_path / "own_settings.py"
    place.write_text(f"VALUES = {list(UNUSUAL)!r}\n")
    spec = importlib.util.spec_from_file_location("own_settings", place)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "own_settings", module)
    after = patterns._collected(strategy, 600)
    assert list(map(repr, after)) == list(map(repr, before))
    assert not set(map(repr, UNUSUAL)) & set(map(repr, after))


@pytest.mark.parametrize("named", [False, True])
def test_nothing_is_left_in_the_folder_where_the_program_runs(tmp_path: Path, named: bool) -> None:
    work = tmp_path / "work"
    work.mkdir()
    environment = {**os.environ, "MIGRATE_AGENT_CACHE": str(tmp_path / "cache")}
    environment.pop("HYPOTHESIS_STORAGE_DIRECTORY", None)
    if named:
        environment["HYPOTHESIS_STORAGE_DIRECTORY"] = str(tmp_path / "named")
    code = "from migrate_tools.parity import patterns; print(patterns.drawn('[a-z]+é', 3)[:1])"
    done = subprocess.run([sys.executable, "-c", code], cwd=work, env=environment, capture_output=True, text=True)
    assert done.stdout.startswith("['"), done.stderr
    assert list(work.iterdir()) == []
    assert (tmp_path / ("named" if named else "cache/hypothesis")).is_dir()
