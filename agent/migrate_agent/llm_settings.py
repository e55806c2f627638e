"""Whether and how far a language model is asked, and the one door to it; nothing of `llm` is imported here.

`open_model` is called once a run. With --llm off, or where no endpoint is configured, it returns None and neither
the client nor the modules in `migrate_agent.llm` are imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from migrate_tools.errors import MachineError
from migrate_tools.model import Frozen

if TYPE_CHECKING:
    from migrate_agent.llm.structured import Asker

OPENAI_URL = "https://api.openai.com/v1"
TAPE = "tape.jsonl"
"""Name of the tape in a run folder."""
Note = Callable[[str, dict[str, Any]], None]
"""Takes one event of the structured log: its kind and its facts."""


def unnoted(kind: str, facts: dict[str, Any]) -> None:
    """Takes an event and forgets it."""


class Limits(Frozen):
    """How much may be spent in one run; None: no limit."""

    calls: int | None = 100
    """Exchanges with the endpoint; repeated ones after an error of the endpoint count once."""
    tokens: int | None = 500_000
    """Prompt and completion together."""
    usd: float | None = None
    """Holds only where the price of the model is known."""
    seconds: float | None = 1800.0
    """Time spent waiting for answers."""


class LlmSettings(Frozen):
    """What the user allows."""

    mode: Literal["auto", "off"] = "off"
    limits: Limits = Limits()
    replay: str | None = None
    """Absolute path of the run folder whose tape answers instead of an endpoint."""


class Endpoint(Frozen):
    """Where a model answers."""

    model: str
    base_url: str = OPENAI_URL
    key: str = ""
    timeout: float = 120.0
    """Seconds for one exchange; a model on a slow machine needs more (MIGRATE_AGENT_TIMEOUT)."""

    @property
    def place(self) -> str:
        """Host and port, without a user name or password."""
        parts = urlsplit(self.base_url)
        return f"{parts.hostname or self.base_url}{f':{parts.port}' if parts.port else ''}"


def endpoint_of(environment: Mapping[str, str]) -> Endpoint | None:
    """The endpoint that OPENAI_API_KEY, OPENAI_BASE_URL and MIGRATE_AGENT_MODEL describe.

    None without MIGRATE_AGENT_MODEL: a key alone may be there for another program, and asking costs money.

    Raises:
        MachineError: a model is named, but no key and no endpoint; or the address or the timeout is none.
    """
    model = environment.get("MIGRATE_AGENT_MODEL", "").strip()
    key = environment.get("OPENAI_API_KEY", "").strip()
    url = environment.get("OPENAI_BASE_URL", "").strip()
    if not model:
        return None
    if not key and not url:
        raise MachineError(
            "MIGRATE_AGENT_MODEL is set, but neither OPENAI_API_KEY nor OPENAI_BASE_URL",
            "set a key, or the address of a server that needs none, or use --llm off",
        )
    if url and urlsplit(url).scheme not in ("http", "https"):
        raise MachineError(f"OPENAI_BASE_URL {url!r} is no http address", "for example http://127.0.0.1:8000/v1")
    return Endpoint(model=model, base_url=url or OPENAI_URL, key=key, timeout=_timeout(environment))


def _timeout(environment: Mapping[str, str]) -> float:
    text = environment.get("MIGRATE_AGENT_TIMEOUT", "").strip() or "120"
    if not re.fullmatch(r"[1-9]\d{0,4}", text):
        raise MachineError(f"MIGRATE_AGENT_TIMEOUT {text!r} is no number of seconds", "for example 600")
    return float(text)


def open_model(
    settings: LlmSettings,
    run_folder: Path,
    *,
    say: Callable[[str], None] = lambda text: None,
    note: Note = unnoted,
    environment: Mapping[str, str] | None = None,
) -> Asker | None:
    """The model of one run, which records every exchange in `run_folder`; None where no model may or can be asked.

    A run that goes on finds its own tape: what was answered is not asked again, and what was spent stays spent.

    Raises:
        MachineError: the endpoint is configured by half, or no longer.
        UsageError: the tape of a replay cannot be read.
    """
    environment = os.environ if environment is None else environment
    if settings.mode == "off":
        return None
    if settings.replay is not None:
        source = Path(settings.replay) / TAPE
        if not source.is_file():
            say("the run to be repeated asked no model")
            return None
        from migrate_agent.llm.opening import open_replay

        return open_replay(settings, source, run_folder / TAPE, note)
    endpoint = endpoint_of(environment)
    if endpoint is None:
        if (run_folder / TAPE).is_file():
            what = "this run was started with a model, and MIGRATE_AGENT_MODEL names none now"
            raise MachineError(what, "set it as before, or go on without a model by --llm off")
        if environment.get("OPENAI_API_KEY"):
            say("no model is asked: MIGRATE_AGENT_MODEL names none")
        return None
    from migrate_agent.llm.opening import open_live

    return open_live(settings, endpoint, run_folder / TAPE, say, note)
