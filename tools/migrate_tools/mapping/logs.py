"""Loggers and names of the run."""

from __future__ import annotations

import re
from typing import Final

from migrate_tools.mapping.draft import Draft

LOGGER, PROJECT, EXPERIMENT = "trainer.logger", "trainer.project_name", "trainer.experiment_name"
KNOWN: Final = {"wandb": "--use-wandb", "tensorboard": "--use-tensorboard", "clearml": "--use-clearml"}
"""verl logger -> Relax switch; console is always on."""


def loggers(value: object) -> list[str]:
    """The loggers as a list of names, from a list or from its text."""
    items = value if isinstance(value, (list, tuple)) else re.findall(r"[A-Za-z_]\w*", str(value or ""))
    return [str(item).lower() for item in items]


def place_logging(draft: Draft) -> None:
    """Write logger switches and the names that they use."""
    facts = draft.facts
    wanted = loggers(facts.get(LOGGER, default=["console"]))
    draft.flag("--use-tensorboard", None, "LOG")
    draft.flag("--use-metrics-service", None, "LOG")
    draft.flag("--tb-project-name", '"${PROJECT_NAME}"', "LOG")
    draft.flag("--tb-experiment-name", '"${EXP_NAME}"', "LOG")
    for name in wanted:
        if name in KNOWN:
            draft.flag(KNOWN[name], None, "LOG")
    if "wandb" in wanted:
        draft.flag("--wandb-project", '"${PROJECT_NAME}"', "LOG")
        draft.flag("--wandb-group", '"${EXP_NAME}"', "LOG")
    missing = [name for name in wanted if name not in KNOWN and name not in ("console", "file")]
    flags = tuple(KNOWN[name] for name in wanted if name in KNOWN)
    if missing:
        draft.say(LOGGER, "unsupported", flags, f"Relax has no logger {', '.join(missing)}: logging only")
        draft.note("logger-missing", f"Relax has no logger {', '.join(missing)}")
    else:
        draft.say(LOGGER, "exact", flags, "the console is always on")
    draft.say(PROJECT, "exact", "--tb-project-name", "PROJECT_NAME of the script")
    draft.say(EXPERIMENT, "exact", "--tb-experiment-name", "EXP_NAME of the script")
