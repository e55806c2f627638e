"""What asking may cost: tokens, USD, seconds and calls, checked before each call."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from migrate_tools.errors import UsageError
from migrate_tools.model import Frozen
from pydantic import ValidationError

from migrate_agent.llm.errors import BudgetSpent
from migrate_agent.llm.talk import Call, RawReply, Usage
from migrate_agent.llm_settings import Endpoint, Limits

CHARACTERS_A_TOKEN = 3.0
"""Lower than measured for code (3.2 to 4), so that an estimate is rather too high than too low."""


_DATED = re.compile(r"-\d{4}-\d{2}-\d{2}$")
"""The end of a name that pins a release of a model; the price is that of the model."""


class Price(Frozen):
    """USD for a million tokens."""

    input: float
    output: float

    def of(self, usage: Usage) -> float:
        """USD of one call."""
        return (usage.prompt_tokens * self.input + usage.completion_tokens * self.output) / 1e6


class PriceTable(Frozen):
    """Prices by host and model: the same name on another host has another price."""

    as_of: str = ""
    source: str = ""
    hosts: dict[str, dict[str, Price]]


@dataclass
class Spent:
    """What was used so far."""

    calls: int = 0
    tokens: int = 0
    seconds: float = 0.0
    usd: float | None = None
    """None: the price is unknown."""
    estimated: bool = False
    """Whether the server left out its count of tokens at least once."""


@dataclass
class Budget:
    """Counts what is spent and stops before the call that would come after a limit."""

    limits: Limits
    price: Price | None = None
    run: str = "RUN_ID"
    """The run that goes on when the limit is raised."""
    spent: Spent = field(default_factory=Spent)

    def __post_init__(self) -> None:
        if self.price is not None and self.spent.usd is None:
            self.spent.usd = 0.0

    def check(self) -> None:
        """Lets the next call pass.

        Raises:
            BudgetSpent: a limit was reached.
        """
        pairs = (
            ("calls", self.spent.calls, self.limits.calls),
            ("tokens", self.spent.tokens, self.limits.tokens),
            ("seconds", self.spent.seconds, self.limits.seconds),
            ("usd", self.spent.usd, self.limits.usd),
        )
        for name, used, limit in pairs:
            if limit is not None and used is not None and used >= limit:
                raise BudgetSpent(
                    f"the budget of {_figure(limit)} {name} for the model is spent ({self.line()})",
                    f"the best state is kept; go on with --resume {self.run} and a larger --budget-{name}",
                )

    def seconds_left(self) -> float:
        """Seconds until the limit; infinite without one."""
        limit = self.limits.seconds
        return float("inf") if limit is None else max(0.0, limit - self.spent.seconds)

    def add(self, usage: Usage | None, seconds: float) -> None:
        """Counts one exchange; without usage (it failed) only the call and its time."""
        self.spent.calls += 1
        self.spent.seconds += seconds
        if usage is None:
            return
        self.spent.tokens += usage.prompt_tokens + usage.completion_tokens
        self.spent.estimated |= usage.estimated
        if self.price is not None:
            self.spent.usd = (self.spent.usd or 0.0) + self.price.of(usage)

    def line(self) -> str:
        """What was spent, in words."""
        about = "about " if self.spent.estimated else ""
        money = "unknown price: tokens only" if self.spent.usd is None else f"{about}{self.spent.usd:.4f} USD"
        used = f"{self.spent.calls} calls, {about}{self.spent.tokens} tokens, {self.spent.seconds:.0f} s of waiting"
        return f"{used}, {money}"

    def facts(self) -> dict[str, Any]:
        """What was spent, for a report."""
        return {
            "calls": self.spent.calls,
            "tokens": self.spent.tokens,
            "seconds": round(self.spent.seconds, 1),
            "usd": None if self.spent.usd is None else round(self.spent.usd, 6),
            "estimated": self.spent.estimated,
        }


def usage_of(call: Call, reply: RawReply) -> Usage:
    """The usage the server reported, else an estimate from the lengths of the texts."""
    if reply.usage is not None:
        return reply.usage
    asked = sum(len(item.content) for item in call.messages)
    if call.mode == "json_schema" and call.json_schema is not None:
        asked += len(json.dumps(call.json_schema))
    answered = len(reply.content) + sum(len(name) + len(arguments) for name, arguments in reply.tool_calls)
    return Usage(prompt_tokens=_tokens(asked), completion_tokens=_tokens(answered), estimated=True)


def price_of(endpoint: Endpoint) -> Price | None:
    """The price of the endpoint's model; None where it is not known.

    The table in `prices.json` comes first, then the user's own in the same form, named by MIGRATE_AGENT_PRICES.

    Raises:
        UsageError: the user's table cannot be read.
    """
    host = urlsplit(endpoint.base_url).hostname or ""
    found = None
    for table in _tables():
        models = table.hosts.get(host, {})
        found = models.get(endpoint.model) or models.get(_DATED.sub("", endpoint.model), found)
    return found


def _tables() -> list[PriceTable]:
    ours = files("migrate_agent.llm").joinpath("prices.json").read_text("utf-8")
    tables = [PriceTable.model_validate_json(ours)]
    if own := os.environ.get("MIGRATE_AGENT_PRICES"):
        try:
            tables.append(PriceTable.model_validate_json(Path(own).read_text("utf-8")))
        except (OSError, ValidationError) as error:
            hint = 'it holds {"hosts": {"HOST": {"MODEL": {"input": USD, "output": USD}}}}, USD for a million tokens'
            raise UsageError(f"MIGRATE_AGENT_PRICES {own}: {str(error).splitlines()[0]}", hint) from None
    return tables


def _tokens(characters: int) -> int:
    return int(-(-characters // CHARACTERS_A_TOKEN))


def _figure(limit: float) -> str:
    return f"{limit:g}" if isinstance(limit, float) else str(limit)
