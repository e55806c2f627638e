"""Names keep their variables and dates; nothing else of a recipe can run in the generated script."""

from __future__ import annotations

import subprocess

import pytest
from migrate_tools.relax.shell_names import safe_name


@pytest.mark.parametrize(
    ("text", "project", "experiment"),
    [
        ("plain name", "plain name", "plain-name"),
        ("a/b", "a/b", "a-b"),
        ("${PROJ}", "${PROJ:-mine}", "${PROJ:-mine}"),
        ("$PROJ", "${PROJ:-mine}", "${PROJ:-mine}"),
        ("run_${TAG:-first}", "run_${TAG:-first}", "run_${TAG:-first}"),
        ("${A:-x${B:-y z}}-$C", "${A:-x${B:-y z}}-${C:-}", "${A:-x${B:-y-z}}-${C:-}"),
        ("run_$(date +%Y%m%d)", "run_$(date +%Y%m%d)", "run_$(date +%Y%m%d)"),
        ('run_$(date "+%m-%d")', "run_$(date +%m-%d)", "run_$(date +%m-%d)"),
        ("run_`date +%m%d`", "run_$(date +%m%d)", "run_$(date +%m%d)"),
        ("run_$(date -u '+%m %d')", "run_$(date +%Y%m%d-%H%M%S)", "run_$(date +%Y%m%d-%H%M%S)"),
        ("\\${trainer.project_name}", "trainer.project_name", "trainer.project_name"),
        ('a"; touch /tmp/x; $(id)', "a- touch /tmp/x- -id", "a-touch-tmp-x-id"),
        ("${X:-$(id)}", "${X:-id}", "${X:-id}"),
        ("`id`", "id", "id"),
        ("", "mine", "mine"),
    ],
)
def test_names(text: str, project: str, experiment: str) -> None:
    assert (safe_name(text, "mine"), safe_name(text, "mine", "-")) == (project, experiment)


@pytest.mark.parametrize(
    "text", ["a b", "${X:-one}", "$(date +%Y)", 'x"y', "${A:-x${B:-y}}", "}{", "${A:-", "$(id", "\\"]
)
def test_the_script_stays_valid(text: str) -> None:
    line = f'NAME="${{NAME:={safe_name(text, "mine")}}}"; [ -n "$NAME" ]'
    assert subprocess.run(["bash", "-uec", line], env={"PATH": "/usr/bin:/bin"}, check=False).returncode == 0
