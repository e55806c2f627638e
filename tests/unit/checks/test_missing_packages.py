"""A package that this machine lacks makes a check not checkable; everything else still fails."""

from __future__ import annotations

import pytest
from migrate_tools.checks.base import Finding
from migrate_tools.packages import install_command, missing_packages

LACKS = "x.reward_func: ModuleNotFoundError: No module named 'rouge_score.rouge_scorer'"


def test_only_missing_packages_is_not_checkable() -> None:
    result = Finding("import", 2, problems=[LACKS, "y: ModuleNotFoundError: No module named 'PIL'"]).result()
    assert result.status == "not_checkable"
    assert result.summary == "needs rouge_score, PIL, not installed here: pip install rouge-score pillow"


@pytest.mark.parametrize(
    "other",
    [
        "y: ValueError: wrong",
        "y: ModuleNotFoundError: No module named 'verl.utils'",
        "y: ModuleNotFoundError: No module named 'examples.gone'",
    ],
)
def test_any_other_problem_fails(other: str) -> None:
    assert missing_packages([LACKS, other]) == ()
    assert Finding("import", 2, problems=[LACKS, other]).result().status == "failed"


def test_install_command_uses_the_index_names() -> None:
    assert install_command(["cv2", "func_timeout"]) == "pip install opencv-python func-timeout"
