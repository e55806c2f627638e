"""What can go wrong when a model is asked; each is one line that says what, where and what to do.

LlmError             no usable answer
├── EndpointError    cannot be reached, or answers with an error
├── RefusedAnswer    the model or a filter in front of it declines
├── CutOffAnswer     the answer ends at the limit of tokens
└── UnusableAnswer   empty, or in no known form, also after the error was told
BudgetSpent          a limit was reached before the call
TapeMismatch         a replay asks what its tape does not hold
"""

from __future__ import annotations

from migrate_tools.errors import BudgetError, MachineError, UsageError


class LlmError(MachineError):
    """A call without a usable answer: the endpoint failed, refused, was cut off or answered in no known form."""


class EndpointError(LlmError):
    """The endpoint cannot be reached, or answers with an error."""


class UnsupportedRequest(EndpointError):
    """The endpoint does not take a request of this form; a plainer one may do."""


class TooLong(EndpointError):
    """Question and answer together do not fit the model's context."""


class RefusedAnswer(LlmError):
    """The model, or a filter in front of it, declines to answer."""


class CutOffAnswer(LlmError):
    """The answer ends at the limit of tokens."""


class UnusableAnswer(LlmError):
    """The answer is empty or has no known form, also after the error was told."""


class BudgetSpent(BudgetError):
    """A limit (tokens, USD, seconds or calls) was reached; checked before each call."""


class TapeMismatch(UsageError):
    """A replay asks something that its tape does not hold: recipe, prompts or program are no longer the same."""
