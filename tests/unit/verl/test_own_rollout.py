"""A file that is to be copied over verl's own rollout is found by its name and its class."""

from __future__ import annotations

from pathlib import Path

import pytest
from migrate_tools.verl.own_rollout import own_rollout

PLACE = "verl/workers/rollout/sglang_rollout/sglang_rollout.py"
CLASS = "class SGLangRollout(BaseRollout):\n    pass\n"


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("sglang_rollout.py", CLASS, True),
        ("patches/sglang_rollout.py", CLASS, True),
        ("fork/" + PLACE, CLASS, False),
        ("sglang_rollout.py", "from verl.workers.rollout.sglang_rollout.sglang_rollout import SGLangRollout\n", False),
        ("my_rollout.py", CLASS, False),
    ],
)
def test_own_rollout(tmp_path: Path, path: str, text: str, found: bool) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    assert own_rollout(tmp_path) == ((file, PLACE) if found else None)
