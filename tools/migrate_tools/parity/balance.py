"""Which answers of the old reward count as accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from migrate_tools.parity.values import number


def accepted(record: Mapping[str, Any]) -> bool:
    """True when the old reward gave a positive number."""
    if record["kind"] != "value":
        return False
    score = number(record["score"])
    return score is not None and score > 0


def shares(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Accepted and rejected share among the records that have a value."""
    valued = [record for record in records if record["kind"] == "value"]
    good = sum(map(accepted, valued))
    total = max(len(valued), 1)
    return {"accepted": round(good / total, 3), "rejected": round((len(valued) - good) / total, 3)}
