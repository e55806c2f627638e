"""State of the graph: small JSON facts and digests; bodies lie in the run folder (`RunFolder.put`)."""

from __future__ import annotations

from typing import TypedDict


class Attempt(TypedDict):
    """One repair: which rule changed what, because of which check, and whether it helped."""

    number: int
    rule: str
    check: str
    what: str
    outcome: str
    """ "improved", "no better" (rolled back) or "pending"."""


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
    smoke: str
    """Digest of the results of rung 7."""
    verdict: str
    result: str
    """Digest of the finished migration report."""
