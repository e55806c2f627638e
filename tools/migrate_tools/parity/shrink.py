"""The smallest response that still shows a mismatch: candidates go through both sides in a few more runs."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from migrate_tools.model import Launch
from migrate_tools.parity import texts
from migrate_tools.parity.case import Case, both_texts, prompt_of
from migrate_tools.parity.frozen import FrozenCases
from migrate_tools.parity.newjob import Context, run_new
from migrate_tools.parity.verdicts import judge

MOST = 4
ROUNDS = 3
CANDIDATES = 60
SECONDS = 12.0
NEW = "shrink_new"
"""Folder of the new side's last run, below that of the launch."""


@dataclass(frozen=True)
class Smallest:
    """One mismatch in its smallest form."""

    row: int
    raw: str
    new_text: str
    length: int
    told: str
    """What the rollout told the reward, as JSON."""
    old: Any
    """Encoded score of the old reward, or its error."""
    old_kind: str
    new: Any
    why: str

    def shown(self) -> dict[str, Any]:
        """For the evidence."""
        return {"row": self.row, "response": self.new_text, "old": self.old, "new": self.new, "why": self.why}


def shrink(
    context: Context, launch: Launch, frozen: FrozenCases, job: dict[str, Any], wrong: Sequence[int]
) -> list[Smallest]:
    """The mismatches at `wrong` (a few of them, the shortest ones), made as small as a few runs allow."""
    from migrate_tools.parity import oracle

    deadline = time.monotonic() + SECONDS
    plain = {key: value for key, value in job.items() if key != "comparable"}
    cases = frozen.cases()
    chosen = _chosen([cases[index] for index in wrong])
    prompts = _prompts(launch, frozen)
    family = next(f for f in texts.ALL if f.name == frozen.meta["family"])
    current: dict[int, Case] = {number: Case(**case) for number, case in enumerate(chosen)}
    found: dict[int, Smallest] = {}
    for _ in range(ROUNDS):
        trials: list[tuple[int, Case]] = []
        for number, case in current.items():
            trials.append((number, case))
            ended = case.new.endswith(family.end) and not case.raw.endswith(family.end)
            for raw in _smaller(case.raw):
                old, new = both_texts(raw, prompts[case.row], launch.reward, family, ended)
                trials.append((number, replace(case, family="shrunk", raw=raw, old=old, new=new)))
        old_job = oracle.old_job(context.recipe, launch, frozen, seconds=SECONDS)
        lines = [case.line() for _, case in trials]
        place = context.work / "parity" / launch.name
        olds = oracle.run_old(
            context.sandbox, context.recipe, launch, old_job, frozen.folder, lines, place / "shrink_old"
        )
        answer = run_new(context, frozen, {**plain, "total_seconds": SECONDS, "groups": 0}, lines, place / NEW)
        if isinstance(olds, str) or "error" in answer:
            break
        progress = _keep_smallest(trials, olds[0]["records"], answer["records"], current, found, frozen.known_keys)
        if not progress or time.monotonic() > deadline:
            break
    return [found[number] for number in sorted(found)]


def _keep_smallest(
    trials: Sequence[tuple[int, Case]],
    olds: Sequence[dict[str, Any]],
    news: Sequence[dict[str, Any]],
    current: dict[int, Case],
    found: dict[int, Smallest],
    known: Collection[str] | None,
) -> bool:
    progress = False
    for (number, case), old, new in zip(trials, olds, news, strict=True):
        verdict = judge(old, new, known)
        if verdict.kind != "mismatch":
            continue
        if number in found and len(case.raw) >= len(found[number].raw):
            continue
        progress = progress or number not in found or len(case.raw) < len(current[number].raw)
        current[number] = case
        found[number] = Smallest(
            case.row,
            case.raw,
            case.new,
            case.length,
            case.told,
            old.get("score", old.get("error", old["kind"])),
            old["kind"],
            new.get("score", new.get("error", new["kind"])),
            verdict.why,
        )
    return progress


def _chosen(wrong: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The shortest case of each family."""
    shortest: dict[str, dict[str, Any]] = {}
    for case in wrong:
        if case["family"] not in shortest or len(case["raw"]) < len(shortest[case["family"]]["raw"]):
            shortest[case["family"]] = case
    return sorted(shortest.values(), key=lambda case: (len(case["raw"]), case["raw"]))[:MOST]


def _smaller(text: str) -> Iterator[str]:
    """Shorter texts: a part cut out, ever smaller parts; then single lines and words left out."""
    seen = {text}
    made = 0
    for piece in _cuts(text):
        if piece not in seen and made < CANDIDATES:
            seen.add(piece)
            made += 1
            yield piece


def _cuts(text: str) -> Iterator[str]:
    yield ""
    size = len(text)
    for parts in (2, 4, 8, 16):
        width = -(-size // parts)
        if width < 1 or parts > size:
            break
        for start in range(0, size, width):
            yield text[:start] + text[start + width :]
            if parts <= 4:
                yield text[start : start + width]
    pieces = re.split(r"(\s+)", text)
    if len(pieces) <= 61:
        for position in range(0, len(pieces), 2):
            yield "".join(pieces[:position] + pieces[position + 1 :])
    if size <= 24:
        for position in range(size):
            yield text[:position] + text[position + 1 :]


def _prompts(launch: Launch, frozen: FrozenCases) -> list[Any]:
    from migrate_tools.parity.sandbox_data import load_rows

    data = launch.data
    rows = load_rows(frozen.folder, frozen.row_files, "python")
    return [prompt_of(row, data.prompt_key, data.prompt_form) for row in rows]
