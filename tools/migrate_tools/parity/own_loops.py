"""Rung 4 for agent loops of a recipe's own: the loop over verl's base and the example's generate give the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from migrate_tools.model import CheckResult, CheckStatus, DataSpec, Launch, MultiTurn
from migrate_tools.parity.newjob import STAGE, STANDIN, Context
from migrate_tools.parity.sandbox_data import fresh_folder, load_rows
from migrate_tools.parity.sides import Side, run_side
from migrate_tools.parity.tool_cases import ANSWERS, UNSURE, engine_calls
from migrate_tools.parity.tool_services import Services
from migrate_tools.parity.tools import inside, recipe_packages, recipe_paths
from migrate_tools.rehearsal.converted import Converted
from migrate_tools.rehearsal.runtime.engine import truths
from migrate_tools.relax.loop_module import lengths
from migrate_tools.relax.metadata_names import ROLLOUT_METADATA
from migrate_tools.sandbox import Mount
from migrate_tools.verl.agent_loops import is_agentic
from migrate_tools.verl.secrets import REMOVED

ROWS = 6
AGENT_TALKS = 8
FORMS = ANSWERS[:3]
SHOWN = 10
SECONDS = 180.0
LONG = 60
"""Words of a long answer."""
PARTS = ("requests", "prompt", "response", "mask", "told", "reward", "asked")


def compare_loops(context: Context, launch: Launch, *, name: str, data: Converted, services: Services) -> CheckResult:
    """Compare the recipe's loop with the example's generate function.

    Args:
        data: the launch's rows, before and after the converter.
    """
    status, summary, evidence = _compare(context, launch, data, services)
    return CheckResult(name=name, rung=4, status=status, summary=summary, evidence=evidence)


def _compare(
    context: Context, launch: Launch, data: Converted, services: Services
) -> tuple[CheckStatus, str, dict[str, Any]]:
    turns = launch.multi_turn
    assert turns is not None
    first = next((item for item in data.sources if item.split == "train"), None)
    if first is None or not data.ok:
        return "not_checkable", "there are no converted rows", {}
    if launch.data.row_code and not first.made_up:
        return "not_checkable", "the recipe's own data set changes the rows that its loop gets", {}
    before = load_rows(data.folder / "source", [first.name], "python")[:ROWS]
    after = load_rows(data.folder / "data" / context.example.algo, [first.output], "python")[:ROWS]
    talks = list(conversations(turns, [row.get("label") for row in after]))
    if is_agentic(turns):  # every one is a process, which imports its framework anew
        families = {talk["family"]: talk for talk in talks}
        calls = [talk for talk in talks if talk["family"] == "call" and not talk["row"]]
        talks = [*families.values(), *calls][:AGENT_TALKS]
    place = context.work / "tools" / launch.name
    fresh_folder(place)
    job = _job(context, launch, before, after, services) | {"conversations": talks}
    (place / "job.json").write_text(json.dumps(job, default=str), encoding="utf-8")
    sides: dict[str, Any] = {}
    runs: tuple[tuple[str, Side], ...] = (("old", "old"), ("again", "old"), ("new", "new"))
    for side, run in runs:
        answer = _run(context, launch, place, run)
        if "error" in answer:
            status: CheckStatus = "failed" if side == "new" else "not_checkable"
            return status, f"the {run} side does not start: {answer['error']}", {}
        sides[side] = answer["records"]
    return judged(talks, **sides)


def judged(
    talks: Sequence[Mapping[str, Any]],
    old: Sequence[Mapping[str, Any]],
    again: Sequence[Mapping[str, Any]],
    new: Sequence[Mapping[str, Any]],
) -> tuple[CheckStatus, str, dict[str, Any]]:
    """Status, summary and evidence of the records of both sides; `again` is the old side a second time."""
    steady = [before == after for before, after in zip(old, again, strict=True)]
    problems = [
        f"{talk['family']}: {why}"
        for talk, left, right, same in zip(talks, old, new, steady, strict=True)
        if same and (why := difference(left, right))
    ]
    ended = [item for item, same in zip(old, steady, strict=True) if same and "raised" not in item]
    evidence = {
        "conversations": len(talks),
        "ended": len(ended),
        "raised": sum("raised" in item for item in old),
        "unsteady": steady.count(False),
        "most_requests": max((len(item["requests"]) for item in ended), default=0),
        "with_observations": sum(0 in item["mask"] for item in ended),
        "asked": sum(bool(item.get("asked")) for item in ended),
        "problems": problems[:SHOWN],
    }
    evidence["plumbing_only"] = bool(evidence["asked"])
    if problems:
        return "failed", f"{len(problems)} of {len(talks)} conversations differ: {problems[0]}", evidence
    if not ended:
        raised = next((item["raised"] for item in old if "raised" in item), "")
        why = f"over verl's own base it raises {raised}" if raised else "they differ from run to run"
        return "not_checkable", f"no conversation of the old loop can be compared: {why}", evidence
    what = (
        "requests, tokens, masks, turns and fields" if "response" in ended[0] else "messages, tools, turns and fields"
    )
    beside = evidence["with_observations"]
    same = (
        f"{len(ended)} conversations of the recipe's loop over verl's base give the same {what}; "
        f"{beside} with words that are not the model's"
    )
    if evidence["raised"]:
        same += f"; in {evidence['raised']} more the old loop raises"
    if evidence["asked"]:
        same = f"plumbing with taped answers, {evidence['asked']} conversations asked services: {same}"
    return "passed", same, evidence


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """What two records of a conversation have differently; empty when nothing. A loop that raised ends verl's step."""
    if "raised" in old:
        return ""
    if "raised" in new:
        return f"the example raises {new['raised']}"
    for part in PARTS:
        left, right = old.get(part), new.get(part)
        if part == "requests" and len(left or ()) != len(right or ()):
            return f"{len(left or ())} requests became {len(right or ())}"
        if left == right:
            continue
        if isinstance(left, list) and isinstance(right, list):
            at = next(
                (number for number, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), None
            )
            at = min(len(left), len(right)) if at is None else at
            return f"{part} differ at {at}: {_short(left, at)} became {_short(right, at)}"
        return f"{part} {left!r} became {right!r}"[:300]
    return ""


def _short(values: Sequence[Any], at: int) -> str:
    return repr(values[at : at + 3] if not values or not isinstance(values[0], dict) else values[at : at + 1])[-120:]


def conversations(turns: MultiTurn, labels: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """What the server says, request by request: right and wrong answers, calls of tools, empty and long texts."""
    calls = engine_calls(turns) if turns.tools else ()
    for row, label in enumerate(labels):
        truth = truths(label)[0]
        right = [form.format(truth) for form in FORMS]
        yield {"row": row, "family": "right", "texts": right}
        yield {"row": row, "family": "right at last", "texts": [UNSURE, *right]}
        yield {"row": row, "family": "empty", "texts": ["", UNSURE, right[0]]}
        yield {"row": row, "family": "long", "texts": ["words " * LONG, right[1]] * 3}
        for number, call in enumerate(calls):
            texts = [f"I will use a tool.\n{call}", right[number % len(right)]]
            yield {"row": row, "family": "call", "texts": texts}
        if calls:
            yield {"row": row, "family": "calls", "texts": [*calls, right[0]]}


def _job(
    context: Context,
    launch: Launch,
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    services: Services,
) -> dict[str, Any]:
    turns = launch.multi_turn
    assert turns is not None
    algo, limits = context.example.algo, lengths(launch)
    project, root = Path(context.recipe.project_root), Path(context.recipe.root)
    old = {
        "verl_root": "/verl",
        "paths": recipe_paths(project, root),
        "aliases": recipe_packages(project, root),
        "loops": [
            {"name": loop.name, "class_name": loop.class_name, "file": inside(loop.file)} for loop in turns.loops
        ],
        "arguments": {loop.name: loop.arguments for loop in turns.loops},
        "default_loop": turns.default_loop or turns.loops[0].name,
        "config": nested(launch.config, limits),
        "model_type": model_type(str(launch.get("actor_rollout_ref.model.path") or "")),
        "response_length": limits["response_length"],
        "rows": [verl_row(row, launch.data) for row in before],
        "is_agent": is_agentic(turns),
    }
    new = {
        "paths": [STAGE, STANDIN],
        "module": f"examples.{algo}.rollout_{algo}",
        "response_length": limits["response_length"],
        "told": ROLLOUT_METADATA,
        "rows": list(after),
    }
    if is_agentic(turns):
        new |= {"command": f"bash run_agent_{algo}.sh", "folder": f"{STAGE}/examples/{algo}"}
    return {
        "old": old,
        "new": new,
        "tape": services.tape,
        "environment": dict(launch.environment),
        "left_to_user": {name: value for name, value in launch.environment.items() if REMOVED in value},
    }


def model_type(path: str) -> str | None:
    """model_type of a model by its name, where verl 0.9 joins turns in a way of its own for it (Qwen); None: others."""
    name = path.rpartition("/")[2].lower()
    return next((kind for kind in ("qwen3", "qwen2") if name.startswith(kind)), None)


def verl_row(row: Mapping[str, Any], data: DataSpec) -> dict[str, Any]:
    """A row as verl's data set and trainer give it to a loop (verl/utils/dataset/rl_dataset.py, `__getitem__`)."""
    made = {key: value for key, value in row.items() if key != data.prompt_key}
    extra = made.get("extra_info") or {}
    made["raw_prompt"] = row.get(data.prompt_key)
    made["index"] = extra.get("index", 0)
    for name in ("tools_kwargs", "interaction_kwargs"):
        made[name] = extra.get(name) or {}
    return made


def nested(config: Mapping[str, Any], limits: Mapping[str, int]) -> dict[str, Any]:
    """The launch's settings as a tree; lengths as numbers, where verl takes them from the data."""
    tree: dict[str, Any] = {"actor_rollout_ref": {"rollout": {}}, "data": {}}
    for key, value in sorted(config.items()):
        *groups, leaf = key.split(".")
        place: Any = tree
        for group in groups:
            place = place.setdefault(group, {}) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place[leaf] = value
    tree["actor_rollout_ref"]["rollout"].update(limits)
    return tree


def _run(context: Context, launch: Launch, place: Path, side: Side) -> dict[str, Any]:
    old = (Mount(Path(launch.verl.root), "/verl"), Mount(Path(context.recipe.project_root), "/project"))
    return run_side(context, "migrate_tools.parity.loop_sides", side, place, old=old, seconds=SECONDS)
