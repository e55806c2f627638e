"""The deterministic tools behind one Protocol, so that the graph is tested without them.

`LocalEngine` binds the real ones; imports are lazy because reading, writing and checking pull in heavy packages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from migrate_tools.model import CheckResult, Example, Launch, Recipe, Translation

from migrate_agent.request import RunRequest

if TYPE_CHECKING:
    pass

CPU_RUNGS = frozenset(range(7))
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Draft:
    """What the checks look at and a repair may change."""

    translations: tuple[Translation, ...]
    example: Example
    by_rules: Example | None = None
    """The example as the rules write it, where a model or a user may have changed it."""


class Engine(Protocol):
    """Everything the nodes need; each method may be called again with the same arguments after a kill."""

    def read(self, request: RunRequest) -> Recipe:
        """The recipe folder as a value."""

    def translate(self, recipe: Recipe, launch: Launch, request: RunRequest, variant: str) -> Translation:
        """One launch in Relax's terms."""

    def extract(self, recipe: Recipe, launch: Launch) -> dict[str, Any] | None:
        """The reward function with what it needs, as JSON; None when the launch has no function."""

    def freeze(self, recipe: Recipe, launch: Launch, request: RunRequest, work: Path) -> dict[str, Any] | None:
        """The old scorer's recorded answers, as JSON; None when there is nothing to record."""

    def name_hooks(
        self, recipe: Recipe, translations: tuple[Translation, ...], extracted: Mapping[str, dict[str, Any]]
    ) -> tuple[Translation, ...]:
        """The translations with each reward hook naming the module it will be written to."""

    def render(
        self,
        recipe: Recipe,
        translations: tuple[Translation, ...],
        extracted: Mapping[str, dict[str, Any]],
        request: RunRequest,
    ) -> Example:
        """The files of the example."""

    def check(
        self,
        recipe: Recipe,
        draft: Draft,
        frozen: Mapping[str, dict[str, Any]],
        request: RunRequest,
        stage: Path,
        work: Path,
        rungs: frozenset[int] = CPU_RUNGS,
    ) -> tuple[CheckResult, ...]:
        """The given rungs over the staged tree."""

    def second_look(
        self, recipe: Recipe, draft: Draft, request: RunRequest, stage: Path, work: Path
    ) -> tuple[CheckResult, ...]:
        """The reward on further cases that were never shown to anybody; for drafts that a model changed."""

    def smoke(
        self, recipe: Recipe, draft: Draft, request: RunRequest, stage: Path, work: Path
    ) -> tuple[CheckResult, ...]:
        """Rung 7, or why it was skipped."""

    def frozen_inputs(
        self, frozen: Mapping[str, dict[str, Any]], work: Path
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Cases and rows of the frozen oracles: what no edit may hold."""

    def known_flags(self, request: RunRequest) -> frozenset[str]:
        """Every flag of the chosen Relax contract, with dashes."""

    def contract_name(self, request: RunRequest) -> str:
        """Name and origin of the chosen Relax contract."""

    def redact(self, text: str) -> str:
        """The text with every credential in it blotted out."""
