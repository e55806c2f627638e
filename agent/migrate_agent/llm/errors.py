"""What can go wrong when a model is asked; each is one line that says what, where and what to do."""

from __future__ import annotations

from migrate_tools.errors import BudgetError, MachineError


class LlmError(MachineError):
    """A call without a usable answer: the endpoint failed, refused, was cut off or answered in no known form."""


class BudgetSpent(BudgetError):
    """A limit (tokens, USD, seconds or calls) was reached; checked before each call."""
