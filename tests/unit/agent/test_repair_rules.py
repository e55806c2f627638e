"""Repair rules change what they know and leave the rest alone."""

from __future__ import annotations

import pytest
from migrate_agent.engine import Draft
from migrate_agent.repair_rules import apply_replacements, drop_unknown_flags, fix_python, fix_shell
from migrate_tools.model import CheckResult, Example, ExampleFile, Flag, Translated, Translation

KNOWN = frozenset({"--lr", "--use-kl-loss"})


def failing(rung: int) -> CheckResult:
    return CheckResult(name="x", rung=rung, status="failed")


def draft(text: str = "", path: str = "examples/toy/a.py", flags: tuple[str, ...] = ("--lr",)) -> Draft:
    settings = tuple(Translated(key=name, value=1, source=None, status="exact", relax=(name,)) for name in flags)
    item = Translation(
        launch="a",
        algo="toy",
        flags=tuple(Flag(name=name, value="1", group="ALGO") for name in flags),
        settings=settings,
    )
    return Draft((item,), Example(algo="toy", files=(ExampleFile(path=path, text=text, origin="rendered"),)))


def test_an_unknown_flag_goes_and_its_setting_says_so() -> None:
    repaired = drop_unknown_flags(failing(1), draft(flags=("--lr", "--qk-clip")), KNOWN)
    assert repaired is not None
    (item,) = repaired.draft.translations
    assert [flag.name for flag in item.flags] == ["--lr"]
    assert [setting.status for setting in item.settings] == ["exact", "unsupported"]
    assert item.settings[1].relax == ()
    assert "--qk-clip" in item.notes[0].text


@pytest.mark.parametrize("rung", [0, 3])
def test_flags_are_left_alone_for_other_rungs(rung: int) -> None:
    assert drop_unknown_flags(failing(rung), draft(flags=("--qk-clip",)), KNOWN) is None


def test_known_flags_are_left_alone() -> None:
    assert drop_unknown_flags(failing(1), draft(), KNOWN) is None


def test_ruff_fixes_python_only() -> None:
    repaired = fix_python(failing(0), draft("import os\nx=1\n"), KNOWN)
    assert repaired is not None
    assert repaired.draft.example.files[0].text == "x = 1\n"
    assert fix_python(failing(0), draft("import os\n", path="examples/toy/run.sh"), KNOWN) is None
    assert fix_python(failing(0), draft("x = 1\n"), KNOWN) is None


def test_python_that_does_not_parse_is_left_as_it_is() -> None:
    assert fix_python(failing(0), draft("def broken(:\n"), KNOWN) is None


def test_shellcheck_quotes_a_variable() -> None:
    repaired = fix_shell(failing(0), draft("#!/bin/bash\nrm $1\n", path="run.sh"), KNOWN)
    assert repaired is not None
    assert repaired.draft.example.files[0].text == '#!/bin/bash\nrm "$1"\n'


def test_replacements_are_applied_from_the_end() -> None:
    def insert(column: int) -> dict[str, object]:
        return {
            "line": 1, "endLine": 1, "column": column, "endColumn": column, "replacement": '"', "precedence": 1,
        }  # fmt: skip

    assert apply_replacements("rm $a $b", [insert(4), insert(6), insert(7), insert(9)]) == 'rm "$a" "$b"'
