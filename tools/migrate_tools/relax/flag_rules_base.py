"""What every flag rule is made of: the registry and the view of a command line that rules read.

Standard library only: the stand-in trainer runs this module inside the sandbox.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from migrate_tools.relax.flag_model import Parsed, Problem, Severity

COLOCATED_ROLES = ("actor", "rollout", "critic", "reference", "actor_fwd")
"""Roles that share the actor's GPUs under --colocate."""


class Line:
    """A parsed command line as rules read it: `line.kl_coef` is the value of a dest, defaults included."""

    def __init__(self, parsed: Parsed, gpus: int | None = None) -> None:
        self.parsed = parsed
        self.gpus = gpus

    def __getattr__(self, dest: str) -> Any:
        try:
            return self.parsed.values[dest]
        except KeyError:
            if dest.startswith("_"):
                raise AttributeError(dest) from None
            return None  # a flag that this version lacks behaves as unset

    def given(self, *dests: str) -> bool:
        """Whether the command line sets one of these dests."""
        return any(self.parsed.is_given(dest) for dest in dests)

    @property
    def newer(self) -> bool:
        """Whether rules marked [S][L] hold: every version but redai-infra's."""
        return self.parsed.version != "infra"

    @property
    def is_latest(self) -> bool:
        """Whether rules marked [L] hold."""
        return self.parsed.version == "latest"

    @property
    def pipelined(self) -> bool:
        """Fully async, typed or turned on by --hybrid."""
        return bool(self.fully_async or self.hybrid)

    @property
    def colocated(self) -> bool:
        """Training and inference share GPUs, typed or turned on by --hybrid."""
        return bool(self.colocate or self.hybrid)

    @property
    def offline(self) -> bool:
        """SFT, DPO or RM: no rollout at all."""
        return self.loss_type in ("sft", "sft_loss", "sft-loss", "dpo", "rm")

    @property
    def roles(self) -> Mapping[str, int]:
        """Well-formed entries of --resource: role -> GPUs."""
        resource = self.resource
        if not isinstance(resource, dict):
            return {}
        return {role: entry[1] for role, entry in resource.items() if _is_entry(entry)}

    @property
    def samples_per_rollout(self) -> int | None:
        """rollout_batch_size x n_samples_per_prompt, with Relax's own derivation of the first; None when unknown."""
        if self.rollout_batch_size:
            return int(self.rollout_batch_size * self.n_samples_per_prompt)
        if self.global_batch_size and self.n_samples_per_prompt > 0:
            return int(self.global_batch_size // self.n_samples_per_prompt * self.n_samples_per_prompt)
        return None

    @property
    def samples_per_update(self) -> int | None:
        """global_batch_size, derived from num_steps_per_rollout when it is not given; None when unknown."""
        if self.global_batch_size:
            return int(self.global_batch_size)
        if self.num_steps_per_rollout and self.samples_per_rollout:
            return self.samples_per_rollout // int(self.num_steps_per_rollout)
        return self.samples_per_rollout

    @property
    def on_policy_by_size(self) -> bool:
        """Whether the batch sizes turn true_on_policy_mode on (fully async only)."""
        return bool(self.true_on_policy_mode or self.samples_per_rollout == self.samples_per_update)


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, list) and len(entry) == 2 and all(type(number) is int for number in entry)


Finder = Callable[[Line], Iterator[str]]


class Rule(NamedTuple):
    """One rule: its id, how bad a breach is, its section in the flag rules, and what finds breaches."""

    id: str
    severity: Severity
    section: str
    find: Finder


RULES: list[Rule] = []


def rule(id: str, section: str, severity: Severity = "error") -> Callable[[Finder], Finder]:
    """Register a function that yields one sentence per breach."""

    def register(find: Finder) -> Finder:
        RULES.append(Rule(id, severity, section, find))
        return find

    return register


def run_rules(line: Line) -> Iterator[Problem]:
    """Every breach of every registered rule."""
    for item in RULES:
        for text in item.find(line):
            yield Problem(item.id, item.severity, text, section=item.section)
