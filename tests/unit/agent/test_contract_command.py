"""Flags of a checkout are read from syntax trees."""

from __future__ import annotations

from pathlib import Path

import pytest
from migrate_agent.commands.contract import read_flags
from migrate_tools.errors import RefusedInput


def test_flags_and_lines_are_found(tmp_path: Path) -> None:
    package = tmp_path / "relax" / "utils"
    package.mkdir(parents=True)
    (package / "arguments.py").write_text(
        "def add(parser):\n    parser.add_argument('-n', '--num-rollout', type=int)\n"
        "    group.add_argument('--custom-rm-path')\n    parser.add_argument(name)\n"
    )
    (package / "broken.py").write_text("def (:\n")
    flags = read_flags(tmp_path)
    assert {name: source.line for name, source in flags.items()} == {"--num-rollout": 2, "--custom-rm-path": 3}
    assert flags["--num-rollout"].file == "relax/utils/arguments.py"


def test_a_folder_without_flags_is_refused(tmp_path: Path) -> None:
    (tmp_path / "relax").mkdir()
    with pytest.raises(RefusedInput, match="no flag is added"):
        read_flags(tmp_path)
