"""Launches that verl itself would not start, or that are more than one training run: refused by name."""

from __future__ import annotations

from collections.abc import Sequence

from migrate_tools.errors import RefusedInput
from migrate_tools.model import Note, SourceRef
from migrate_tools.verl.commands import Command
from migrate_tools.verl.commands_of import Found
from migrate_tools.verl.hydra_primary import YamlSetting
from migrate_tools.verl.hydra_read import Parsed
from migrate_tools.verl.settings import clean_text

_MULTIRUN = frozenset({"-m", "--multirun"})
_HYDRA_OPTIONS = frozenset(
    {
        "--config-name", "-cn", "--config-path", "-cp", "--config-dir", "-cd", "--run", "-r", "--resolve", "--package",
        "-p", "--cfg", "-c", "--info", "-i", "--hydra-help", "--help", "-h", "--version", "--experimental-rerun",
        "--shell-completion", "-sc", *_MULTIRUN,
    }
)  # fmt: skip
"""Options of hydra-core 1.3, hydra/_internal/utils.py get_args_parser."""


def refuse_sweeps(arguments: Sequence[str], parsed: Sequence[Parsed], item: Found) -> None:
    """Stop at a Hydra multirun, and at a value that Hydra takes as a list of choices.

    Raises:
        RefusedInput: it is one.
    """
    multirun = next((word for word in arguments if word in _MULTIRUN), None)
    swept = [entry for entry in parsed if entry.sweep]
    if multirun is None and not swept:
        return
    where = f"{item.file}:{item.line}" if item.line else item.file
    shown = ", ".join(clean_text(entry.text) for entry in swept[:3])
    if multirun is not None:
        what = f"a Hydra sweep ({multirun}{f': {shown}' if shown else ''}) is many training runs"
        raise RefusedInput(f"{where}: {what}", "write one launch for each setting, without the sweep")
    raise RefusedInput(
        f"{where}: {shown} is a sweep to Hydra, so verl does not start with it either",
        "write one launch for each value; a list needs brackets: key=[a,b]",
    )


def refuse_empty(command: Command, parsed: Sequence[Parsed], own: Sequence[YamlSetting], item: Found) -> None:
    """Stop at a command of verl that makes no setting at all.

    Raises:
        RefusedInput: neither the command line nor a configuration of the recipe sets anything.
    """
    if parsed or own:
        return
    where = f"{item.file}:{item.line}" if item.line else item.file
    strange = ", ".join(unknown_options(command))
    text = f"{where}: {command.module} is started without a single setting"
    if strange:
        text += f", and with {strange}, which verl does not know: it does not run in verl either"
    raise RefusedInput(text, "give the launch that is really run, with verl's keys (data.train_files=...)")


def unknown_options(command: Command) -> list[str]:
    """Dashed arguments that Hydra's command line does not have."""
    words = [word.partition("=")[0] for word in command.arguments if word.startswith("-")]
    return list(dict.fromkeys(word for word in words if word not in _HYDRA_OPTIONS and not word[1:2].isdigit()))


def option_notes(command: Command, item: Found) -> list[Note]:
    """A note for dashed arguments that neither Hydra nor verl's own entry knows."""
    strange = unknown_options(command)
    if not strange or not command.module.startswith("verl."):
        return []
    text = f"{', '.join(strange)}: no option of {command.module}, which stops at it; it is left out"
    return [Note(code="option-unknown", text=text, source=SourceRef(file=item.file, line=item.line))]
