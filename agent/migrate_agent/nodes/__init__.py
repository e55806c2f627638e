"""The nodes of the graph, one file each: thin calls of pure functions on stored values."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from migrate_tools.model import CheckResult, Conserved, Example, Recipe, Translation

from migrate_agent.engine import Draft, Engine
from migrate_agent.llm_settings import Note, unnoted
from migrate_agent.questions import BATCH_POLICY
from migrate_agent.request import RunRequest
from migrate_agent.runs import RunFolder
from migrate_agent.state import RunState
from migrate_agent.workspace import Workspace

if TYPE_CHECKING:
    from migrate_agent.llm.talk import Model


@dataclass(frozen=True)
class Context:
    """What every node gets beside the state."""

    run: RunFolder
    request: RunRequest
    engine: Engine
    progress: Callable[[str], None]
    model: Model | None = None
    """None: no model is asked."""
    trace: Note = unnoted

    def recipe(self, state: RunState) -> Recipe:
        """The recipe that `inspect` stored."""
        return self.run.model(Recipe, state["recipe"])

    def translations(self, state: RunState) -> tuple[Translation, ...]:
        """The current translations, refused launches included."""
        return self.run.models(Translation, state["translations"])

    def checks(self, state: RunState) -> tuple[CheckResult, ...]:
        """Results of the last ladder; empty before `test`."""
        return self.run.models(CheckResult, state["checks"]) if "checks" in state else ()

    def rewards(self, state: RunState) -> dict[str, tuple[Conserved, ...]]:
        """Launch -> branches and imports of its extracted reward."""
        bodies = {launch: self.run.get(digest) for launch, digest in state.get("extracted", {}).items()}
        return {
            launch: tuple(Conserved.model_validate(item) for item in body.get("conserved", ()))
            for launch, body in bodies.items()
        }

    def request_for(self, state: RunState) -> RunRequest:
        """The request with what the user decided at the gate."""
        policy = state.get("answers", {}).get(BATCH_POLICY)
        return self.request.model_copy(update={"batch_policy": policy}) if policy else self.request

    def commit(self, example: Example, number: int, message: str) -> str:
        """Commits an example to the run's workspace repository; "" where that cannot be done."""
        try:
            return Workspace(self.run.root).record(example, number, message)
        except (OSError, subprocess.SubprocessError) as error:
            self.progress(f"the workspace has no commit {number}: {error}")
            return ""

    def draft(self, state: RunState) -> Draft:
        """The current draft."""
        return Draft(self.translations(state), self.run.model(Example, state["example"]))


Node = Callable[[RunState, Context], RunState]
