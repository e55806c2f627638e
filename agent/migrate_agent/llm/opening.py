"""Puts the layers of a model together: wire, tape with budget and scan, structured answers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from migrate_tools.errors import UsageError

from migrate_agent.llm.budget import Budget, price_of
from migrate_agent.llm.capability import recall
from migrate_agent.llm.client import OpenAiWire
from migrate_agent.llm.structured import Asker
from migrate_agent.llm.tape import Head, Tape, TapedWire
from migrate_agent.llm_settings import Endpoint, LlmSettings, Note
from migrate_agent.runs import REPLAY


def open_live(settings: LlmSettings, endpoint: Endpoint, path: Path, say: Callable[[str], None], note: Note) -> Asker:
    """A model that is asked over HTTP, on a new tape or on the one that the run has."""
    if path.is_file():
        tape = Tape.load(path)
    else:
        tape = Tape.create(path, Head(model=endpoint.model, price=price_of(endpoint), capability=recall(endpoint)))
    head = tape.head
    if head.model != endpoint.model:
        what = f"this run was started with the model {head.model}, and MIGRATE_AGENT_MODEL is {endpoint.model}"
        raise UsageError(what, f"set MIGRATE_AGENT_MODEL={head.model}, or start the run anew")
    budget = Budget(settings.limits, head.price, run_of(path))
    cost = (
        "its price is unknown: tokens only" if head.price is None else f"{head.price.input:g}/{head.price.output:g} USD"
    )
    if head.price is None and settings.limits.usd is not None:
        cost += ", --budget-usd cannot hold"
    say(f"model {head.model} at {endpoint.place} ({cost})")
    wire = TapedWire(tape, budget, OpenAiWire(endpoint, seconds_left=budget.seconds_left))
    return Asker(wire, head.model, budget=budget, capability=head.capability, note=note)


def open_replay(settings: LlmSettings, source: Path, path: Path, note: Note) -> Asker:
    """A model that repeats a tape; no key, no client. The tape is copied so that both runs hold the same evidence."""
    if source != path:
        shutil.copyfile(source, path)
    tape = Tape.load(path)
    budget = Budget(settings.limits, tape.head.price, run_of(path))
    wire = TapedWire(tape, budget, None)
    return Asker(wire, tape.head.model, budget=budget, capability=tape.head.capability, note=note)


def run_of(tape: Path) -> str:
    """The id of the run that a tape belongs to."""
    return tape.parent.name.removesuffix(REPLAY)
