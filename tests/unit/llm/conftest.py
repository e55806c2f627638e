"""A model at a stand-in server, reached through the real SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from llm_server import Behaviour, LlmServer, llm_server
from migrate_agent.llm.budget import Budget, Price
from migrate_agent.llm.capability import Capability
from migrate_agent.llm.client import OpenAiWire
from migrate_agent.llm.structured import Asker
from migrate_agent.llm.tape import Head, Tape, TapedWire
from migrate_agent.llm_settings import Endpoint, Limits

Open = Callable[..., tuple[Asker, LlmServer]]


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "MIGRATE_AGENT_MODEL",
        "MIGRATE_AGENT_PRICES",
        "MIGRATE_AGENT_TIMEOUT",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MIGRATE_AGENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MIGRATE_AGENT_HOME", str(tmp_path / "home"))


@pytest.fixture
def pauses() -> list[float]:
    """Seconds that the wire would have slept."""
    return []


@pytest.fixture
def model(tmp_path: Path, pauses: list[float]) -> Iterator[Open]:
    """Opens a model at a server with the given script."""
    with ExitStack() as stack:

        def open_it(
            *script: Behaviour,
            limits: Limits = Limits(),  # noqa: B008
            price: Price | None = None,
            capability: Capability = Capability(),  # noqa: B008
        ) -> tuple[Asker, LlmServer]:
            server = stack.enter_context(llm_server(*script))
            budget = Budget(limits, price)
            endpoint = Endpoint(model="stand-in", base_url=server.url, timeout=30.0)
            live = OpenAiWire(endpoint, seconds_left=budget.seconds_left, sleep=pauses.append)
            tape = Tape.create(tmp_path / "tape.jsonl", Head(model="stand-in", price=price, capability=capability))
            wire = TapedWire(tape, budget, live)
            return Asker(wire, "stand-in", budget=budget, capability=capability), server

        yield open_it
