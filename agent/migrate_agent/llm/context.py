"""The smallest context of an item: its evidence, its file, the original, rows and flags, a part of the guide.

Everything that somebody else wrote is quoted; the sizes are bounded in characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from migrate_tools.model import CheckResult, Example, Recipe
from migrate_tools.resources import resource_dir

from migrate_agent.llm.items import Item, stable
from migrate_agent.llm.lookups import References
from migrate_agent.llm.talk import Message
from migrate_agent.prompting import CheckPrompt, PiecePrompt, Quoted, SettingPrompt, SystemPrompt, quoted

FILE_CHARACTERS = 14_000
"""Of the files together; of a longer one the part round the line that is named."""
ORIGINAL_CHARACTERS = 8_000
EVIDENCE_CHARACTERS = 6_000
TABLE_CHARACTERS = 3_000
GUIDE_CHARACTERS = 2_500
HISTORY_CHARACTERS = 4_000
AROUND = 60
"""Lines shown before and after a named line."""
SHOWN_MISMATCHES = 6
_PLACE = re.compile(r"((?:examples|scripts)/[\w./-]+\.(?:py|sh|yaml))(?::(\d+))?")
_FLAG = re.compile(r"--[a-z][a-z0-9-]+")
_HIDDEN = frozenset({"pytest", "sha256", "line_coverage", "coverage"})
_BY_RUNG = {2: "hooks_", 3: "reward_", 4: "env_", 5: "process_", 6: "run_"}
GUIDE = {"check": "Rules to keep", "piece": "What corresponds to what", "setting": "What corresponds to what"}


@dataclass(frozen=True)
class View:
    """What a question is made from."""

    algo: str
    relax_contract: str
    recipe: Recipe
    example: Example
    checks: Sequence[CheckResult]
    sources: Mapping[str, str]
    """Launch -> the recipe's own reward (and tools), as extracted."""
    references: References


def system_message(view: View, lookups: int) -> Message:
    """The rules of the run."""
    prompt = SystemPrompt(
        relax_contract=re.sub(r"[^A-Za-z0-9_.,:/ ()+-]", "?", view.relax_contract)[:200],
        algo=view.algo,
        files=f".py, .sh and .yaml files in examples/{view.algo}/, and scripts/tools/process_{view.algo}.py",
        lookups=lookups,
    )
    return Message(role="system", content=prompt.text())


def question(item: Item, view: View, attempts_left: int, history: Sequence[str]) -> Message:
    """The item with all that a model gets to see of it unasked."""
    past = quoted("history", "\n".join(history) or "nothing", HISTORY_CHARACTERS)
    context = (*_files(item, view), *_original(item, view), *_tables(item, view), *_guide(item))
    if item.kind == "check":
        check = next(check for check in view.checks if check.name == item.name)
        prompt: CheckPrompt | PiecePrompt | SettingPrompt = CheckPrompt(
            rung=check.rung,
            check=quoted("check", f"{check.name}: {check.summary}", 1_000),
            attempts_left=attempts_left,
            evidence=quoted("evidence", evidence_text(check.evidence), EVIDENCE_CHARACTERS),
            context=context,
            history=past,
        )
    elif item.kind == "piece":
        text = f"{item.text}{_place(item)}"
        prompt = PiecePrompt(
            piece=quoted("piece", text, 1_000), attempts_left=attempts_left, context=context, history=past
        )
    else:
        text = f"{item.name} = {item.value}{_place(item)}\n{item.text}"
        prompt = SettingPrompt(setting=quoted("setting", text, 1_000), context=context, history=past)
    return Message(role="user", content=prompt.text())


def evidence_text(evidence: Mapping[str, Any]) -> str:
    """Evidence as JSON: problems first, a few mismatches, no hashes and no code of checks.

    Every second mismatch stays unseen when there are several, so that a repair has something left to prove.
    """
    shown = {key: value for key, value in stable(evidence).items() if key not in _HIDDEN}
    if isinstance(found := shown.get("first_mismatches"), list):
        shown["first_mismatches"] = found[::2][:SHOWN_MISMATCHES]
    first = ("problems", "first_mismatches", "mismatches")
    ordered = {key: shown[key] for key in first if key in shown}
    ordered |= {key: value for key, value in shown.items() if key not in ordered}
    return json.dumps(ordered, indent=1, ensure_ascii=False, default=str)


def _place(item: Item) -> str:
    return f" ({item.source.file}:{item.source.line})" if item.source else ""


def _files(item: Item, view: View) -> Iterable[Quoted]:
    """The files that the evidence names, else the one that the rung is about."""
    check = next((check for check in view.checks if item.kind == "check" and check.name == item.name), None)
    text = f"{item.text}\n{json.dumps(check.evidence, default=str)}" if check else item.text
    known = {file.path: file.text for file in view.example.files}
    named = {path: int(line or 0) for path, line in reversed(_PLACE.findall(text)) if path in known}
    prefix = _BY_RUNG.get(check.rung, "run_") if check else "reward_"
    usual = [path for path in known if path.rpartition("/")[2].startswith(prefix)]
    chosen = named or dict.fromkeys(usual[:1], 0)
    left = FILE_CHARACTERS
    for path, line in chosen.items():
        if left <= 0:
            return
        part = window(known[path], line, left)
        left -= len(part)
        yield quoted("file", f"{path}\n{part}")


def window(text: str, line: int, limit: int) -> str:
    """The text, or the lines round a line of it, in at most `limit` characters and a mark where it is cut."""
    if len(text) <= limit:
        return text
    lines = text.splitlines(keepends=True)
    start = max(0, line - 1 - AROUND) if line else 0
    kept, size = [], 0
    for item in lines[start : line + AROUND if line else len(lines)]:
        size += len(item)
        if size > limit:
            break
        kept.append(item)
    before = f"[{start} lines before]\n" if start else ""
    after = len(lines) - start - len(kept)
    return before + "".join(kept) + (f"[{after} lines after; use read]\n" if after else "")


def _original(item: Item, view: View) -> Iterable[Quoted]:
    source = view.sources.get(item.launch) or next(iter(view.sources.values()), "")
    if source and item.kind != "setting":
        yield quoted("original", source, ORIGINAL_CHARACTERS)


def _tables(item: Item, view: View) -> Iterable[Quoted]:
    if item.kind == "setting":
        yield quoted("rows", view.references.rows(item.name), TABLE_CHARACTERS)
        yield quoted("flags", view.references.flags(item.name.rpartition(".")[2]), TABLE_CHARACTERS)
        return
    check = next((check for check in view.checks if check.name == item.name), None)
    names = sorted(set(_FLAG.findall(json.dumps(check.evidence, default=str)))) if check and check.rung <= 1 else []
    if names:
        yield quoted("flags", "\n".join(view.references.flags(name) for name in names[:4]), TABLE_CHARACTERS)


def _guide(item: Item) -> Iterable[Quoted]:
    """The section of the skill document that an item of this kind needs."""
    text = (resource_dir("skill") / "SKILL.md").read_text("utf-8")
    for section in text.split("\n## ")[1:]:
        if section.startswith(GUIDE[item.kind]):
            yield quoted("guide", section, GUIDE_CHARACTERS)
