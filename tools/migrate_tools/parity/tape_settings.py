"""What the taped answers of a scorer are made of: the texts and values that its source looks for in an answer."""

from __future__ import annotations

from typing import Any

from migrate_tools.model import Launch
from migrate_tools.parity import patterns
from migrate_tools.parity.mine import Mined

LONGEST = 24
MOST = 24


def tape_settings(launch: Launch, mined: Mined) -> dict[str, Any] | None:
    """Settings of the taped HTTP answers (`tape.Tape`) when the reward talks to a server, else None."""
    if not {"http", "judge"} & set(launch.reward.traits):
        return None
    return answer_settings(mined)


def answer_settings(mined: Mined) -> dict[str, Any]:
    """Settings of the taped answers for code that was mined."""
    matched = (text for pattern in mined.patterns for text in (*patterns.plain(pattern)[:2], _filled(pattern)) if text)
    known = [text for text in dict.fromkeys(matched) if len(text) <= LONGEST][:MOST]
    near = [f"{text}s" for text in known if text[-1:].isalpha()]  # what a word's end in the pattern keeps apart
    return {
        "literals": [text for text in mined.literals if len(text) <= LONGEST][:MOST],
        "keys": list(mined.keys)[:MOST],
        "texts": [*known, *near],
        "shapes": [shape.setting() for shape in mined.shapes],
    }


def _filled(pattern: str) -> str | None:
    """A text that the pattern finds with a number in its groups."""
    return patterns.filled(pattern, "0.5") or patterns.filled(pattern, "7")
