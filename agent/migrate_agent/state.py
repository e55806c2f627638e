"""State of the graph: small JSON facts and digests; bodies lie in the run folder (`RunFolder.put`)."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

MODEL = "model"
"""Stands for the rule of an attempt that a model made."""


class Attempt(TypedDict):
    """One repair: which rule or model changed what, because of which check, and whether it helped."""

    number: int
    rule: str
    """Name of the rule, or "model"."""
    check: str
    """The check that caused it, or what else was left ("piece: ...")."""
    what: str
    outcome: str
    """ "pending"; then "improved", or "no better, rolled back" or "worse, rolled back: ..."."""
    commit: NotRequired[str]
    """Of the workspace's repository; absent without git."""
    file: NotRequired[str]
    """What a model changed."""


class Left(TypedDict):
    """What was tried on one thing that is left for a model."""

    attempts: int
    history: list[str]
    """One sentence for each attempt, for the next question."""
    edits: list[str]
    """Hashes of the edits that were tested."""
    seen: list[str]
    """Fingerprints of the failure after each attempt."""
    closed: str
    """Why nothing more is tried; empty while it is open."""


class RunState(TypedDict, total=False):
    """Keys appear as the nodes that make them finish."""

    recipe: str
    """Digest of the Recipe."""
    translations: str
    """Digest of the Translations, in the order of the launches."""
    extracted: dict[str, str]
    """Launch -> digest of its extracted reward; launches without a function are absent."""
    oracle: dict[str, str]
    """Launch -> digest of its frozen cases."""
    oracle_notes: dict[str, str]
    """Launch -> why no cases could be frozen."""
    example: str
    checks: str
    best: dict[str, str]
    """example, translations, checks: digests of the best state so far."""
    attempts: list[Attempt]
    tried: list[str]
    """Signatures (check, evidence) that a rule has already been tried on."""
    first: str
    """Digest of the example as the engine made it: what the edits of a model are compared with."""
    commits: int
    """Commits of the workspace's repository."""
    left: dict[str, Left]
    """Identifier of an item -> what a model tried on it."""
    current: str
    """The item whose edit is being tested."""
    suggestions: list[str]
    """Digests of what a model proposes and nobody has used."""
    llm: dict[str, Any]
    """Name of the model and what it cost so far; absent when none was asked."""
    stopped: str
    """Why the model is not asked any more although there is something left: a budget, or its endpoint."""
    out_of_budget: bool
    policy: str
    """The batch policy that was planned with."""
    answers: dict[str, str]
    """What the user decided at the gate: question -> choice."""
    smoke: str
    """Digest of the results of rung 7."""
    verdict: str
    result: str
    """Digest of the finished migration report."""
