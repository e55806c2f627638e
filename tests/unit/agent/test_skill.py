"""The skill names only what is there: commands, options, files, flags, checks and tools."""

from __future__ import annotations

import re

import pytest
import typer
import yaml
from migrate_agent.cli import app
from migrate_agent.verdict import EXIT_CODES
from migrate_tools.checks import LADDER
from migrate_tools.relax.contract import load_contract
from migrate_tools.relax.reward_module import RELAX_METADATA
from migrate_tools.resources import resource_dir

SKILL = resource_dir("skill")
PAGES = {
    path.name: path.read_text("utf-8") for path in (SKILL / "SKILL.md", *sorted((SKILL / "references").glob("*.md")))
}
WRITTEN = ("SKILL.md", "relax_contract.md", "by_hand.md", "checks.md")
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
OPTIONS = {name: {text for item in command.params for text in item.opts} for name, command in COMMANDS.items()}
CODE = re.compile(r"`([^`\n]+)`")


def spans(name: str) -> list[str]:
    return CODE.findall(PAGES[name])


def test_front_matter_is_that_of_an_agent_skill() -> None:
    head = yaml.safe_load(PAGES["SKILL.md"].split("---\n")[1])
    assert re.fullmatch(r"[a-z0-9-]{1,64}", head["name"])
    assert 100 < len(head["description"]) <= 1024
    assert set(head) <= {"name", "description", "license"}
    assert PAGES["SKILL.md"].count("\n") < 500


def commands_of(text: str) -> list[tuple[str, list[str]]]:
    found = re.match(r"migrate-agent ([a-z-]+)", text)
    return [(found[1], re.findall(r"(?<!\S)--[a-z-]+", text))] if found else []


@pytest.mark.parametrize("page", WRITTEN)
def test_every_command_and_its_options_exist(page: str) -> None:
    named = [item for text in spans(page) for item in commands_of(text)]
    assert named
    for command, options in named:
        assert command in COMMANDS, command
        assert set(options) <= OPTIONS[command], (command, options)


@pytest.mark.parametrize("page", WRITTEN)
def test_every_option_alone_is_ours_or_a_flag_of_relax(page: str) -> None:
    contract = load_contract()
    ours = set().union(*OPTIONS.values())
    for text in spans(page):
        if text.startswith("--"):
            flag = text.split()[0].split("=")[0]
            assert flag in ours or contract.find(flag), flag


@pytest.mark.parametrize("page", WRITTEN)
def test_every_file_of_the_skill_exists(page: str) -> None:
    named = [text for text in spans(page) if re.match(r"(mapping|references|schema)/", text)]
    for text in named:
        assert list(SKILL.glob(text)), text


def test_every_reference_is_named_and_every_table_is_named_or_matched() -> None:
    named = set(spans("SKILL.md"))
    for path in (SKILL / "references").glob("*.md"):
        assert f"references/{path.name}" in named
    for path in (SKILL / "mapping").glob("*.yaml"):
        assert any(path.match(text) for text in named if text.startswith("mapping/")), path.name


def test_the_ladder_is_described_as_it_is() -> None:
    rows = re.findall(r"^\| (\d) \| (\w+) \|", PAGES["checks.md"], re.MULTILINE)
    assert rows == [(str(check.rung), check.name) for check in LADDER]


def test_verdicts_and_exit_codes_are_those_of_the_program() -> None:
    rows = re.findall(r"^\| (\w+) \| .* \| (\d) \|$", PAGES["SKILL.md"], re.MULTILINE)
    assert {name: int(code) for name, code in rows} == EXIT_CODES


def test_the_tools_of_the_server_are_named() -> None:
    rows = re.findall(r"^\| .* \| .* \| (\w+|-) \|$", PAGES["SKILL.md"], re.MULTILINE)
    assert {"inspect", "plan", "run", "verify", "flags", "mapping"} <= set(rows)


def test_hooks_named_beside_the_pieces_of_verl_are_flags() -> None:
    contract = load_contract()
    table = PAGES["relax_contract.md"].split("## Hooks")[1].split("## Launch")[0]
    flags = re.findall(r"`(--[a-z-]+)", table)
    assert len(flags) > 8
    assert [flag for flag in flags if contract.find(flag) is None] == []


def test_reserved_names_of_the_metadata_hold_all_that_rewards_leave_out() -> None:
    named = re.findall(r"`(\w+)`", PAGES["relax_contract.md"].split("Names that Relax itself uses")[1].split("##")[0])
    assert set(RELAX_METADATA) - {"reward_error"} <= set(named)
