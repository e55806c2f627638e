"""Logged responses of a real training run: the JSON lines that verl writes to rollout_data_dir or validation_data_dir.

Every line has `input`, `output` and `score`, and from verl 0.5 on `gts`, the ground truth (verl 0.4.1 and 0.9.1,
verl/trainer/ppo/ray_trainer.py, `_dump_generations`). A line says nothing of its row, so the row is found again by
ground truth and prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from migrate_tools.errors import UsageError
from migrate_tools.parity.case import ground_truth

MOST_ROWS = 64
MOST_TEXTS = 1000


@dataclass(frozen=True)
class Rollout:
    """One logged response."""

    prompt: str
    text: str
    truth: Any
    """None where the log has no ground truth."""
    score: float | None


@dataclass(frozen=True)
class Matched:
    """Logged responses with the rows they belong to."""

    rows: list[dict[str, Any]]
    """Each once."""
    texts: list[tuple[int, Rollout]]
    """Number of the row in `rows`, and the response."""
    given: int
    unmatched: int
    """Responses whose row is not in the data at hand."""
    left: int = 0
    """Responses left out because there are more than are compared."""


def read_rollouts(files: Sequence[Path]) -> list[Rollout]:
    """All responses of the files, folders taken with every *.jsonl in them.

    Raises:
        UsageError: a file is missing, or is no such log.
    """
    found: list[Rollout] = []
    for file in files:
        paths = sorted(file.rglob("*.jsonl")) if file.is_dir() else [file]
        if not paths or not all(path.is_file() for path in paths):
            raise UsageError(f"no rollout log at {file}", "give the files that verl wrote to trainer.rollout_data_dir")
        for path in paths:
            found += [_rollout(line, path, number) for number, line in _lines(path)]
    return found


def match(rollouts: Sequence[Rollout], rows: Iterable[Mapping[str, Any]], prompt_key: str) -> Matched:
    """Finds the row of every response: the same ground truth, and a prompt that holds the row's question."""
    wanted = {_key(item.truth) for item in rollouts}
    by_truth: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for row in rows:
        question = _question(row.get(prompt_key))
        for key in {_key(ground_truth(row)), _key(None)} & wanted:
            by_truth.setdefault(key, []).append((question, dict(row)))
    chosen: list[dict[str, Any]] = []
    places: dict[int, int] = {}
    texts: list[tuple[int, Rollout]] = []
    unmatched = left = 0
    for item in rollouts:
        owner = _row_of(item, by_truth.get(_key(item.truth), ()))
        if owner is None:
            unmatched += 1
        elif id(owner) not in places and len(chosen) >= MOST_ROWS or len(texts) >= MOST_TEXTS:
            left += 1
        else:
            if id(owner) not in places:
                places[id(owner)] = len(chosen)
                chosen.append(owner)
            texts.append((places[id(owner)], item))
    return Matched(chosen, texts, len(rollouts), unmatched, left)


def _row_of(item: Rollout, candidates: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, Any] | None:
    inside = [row for question, row in candidates if question and question in item.prompt]
    if inside:
        return inside[0]
    alone = len(candidates) == 1 and item.truth is not None
    return candidates[0][1] if alone else None


def _question(prompt: Any) -> str:
    if isinstance(prompt, str):
        return prompt.strip()
    contents = [message.get("content") for message in prompt or () if isinstance(message, Mapping)]
    return str(contents[-1]).strip() if contents and isinstance(contents[-1], str) else ""


def _key(truth: Any) -> str:
    """A ground truth as the log's JSON has it."""
    return json.dumps(truth, sort_keys=True, default=str)


def _lines(path: Path) -> Iterable[tuple[int, str]]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield number, line


def _rollout(line: str, path: Path, number: int) -> Rollout:
    try:
        entry = json.loads(line)
        text, prompt = entry["output"], entry["input"]
    except (json.JSONDecodeError, KeyError, TypeError):
        entry = text = prompt = None
    if not isinstance(entry, dict) or not isinstance(text, str) or not isinstance(prompt, str):
        raise UsageError(
            f"{path}:{number} is not a rollout that verl logged (no input and output)",
            "give the files of trainer.rollout_data_dir or trainer.validation_data_dir",
        )
    score = entry.get("score")
    number_or_none = float(score) if isinstance(score, (int, float)) else None
    return Rollout(prompt, text, entry.get("gts"), number_or_none)
