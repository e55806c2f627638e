"""Errors that stop a run. Each says what, where and what to do, and knows its exit code.

MigrateError
├── UsageError        wrong option or argument                             exit 2
├── RefusedInput      not a verl RL recipe, or Relax cannot express it     exit 2
├── MachineError      this machine lacks something (sandbox, verl source)  exit 3
└── BudgetError       a limit on tokens, money or time ran out             exit 4
"""

from __future__ import annotations

from typing import ClassVar


class MigrateError(Exception):
    """Base of every error that is meant for the user.

    `message` says what is wrong and where, `hint` the next thing to do; both are one line.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = " ".join(message.split())
        self.hint = " ".join(hint.split())
        super().__init__(self.message)

    def line(self) -> str:
        """The error as one line: what and where, then what to do."""
        return f"{self.message} -- {self.hint}" if self.hint else self.message


class UsageError(MigrateError):
    """A wrong option or argument."""


class RefusedInput(MigrateError):
    """The input is not a verl RL recipe, or Relax cannot express it."""


class MachineError(MigrateError):
    """The machine lacks something that the run needs."""

    exit_code = 3


class BudgetError(MigrateError):
    """A budget ran out; the best state so far is kept."""

    exit_code = 4
