"""Rung 4: the old tools and the new environment give the same observations, rewards and ends."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from migrate_tools.mapping.turns import MAX_TURNS
from migrate_tools.model import CheckResult, CheckStatus, InteractionSpec, Launch, MultiTurn, ToolSpec
from migrate_tools.parity.engine_side import ROLLOUT_FILE
from migrate_tools.parity.newjob import STAGE, STANDIN, Context
from migrate_tools.parity.sandbox_data import fresh_folder, load_rows
from migrate_tools.parity.sides import Side, run_side
from migrate_tools.parity.tool_cases import WRITERS, conversations
from migrate_tools.parity.tool_services import Services
from migrate_tools.relax.metadata_names import ROLLOUT_METADATA
from migrate_tools.relax.special_tokens import special_tokens
from migrate_tools.sandbox import Mount, empty_folders
from migrate_tools.verl import source
from migrate_tools.verl.loop_release import version_pair
from migrate_tools.verl.multi_turn import engine_version
from migrate_tools.verl.secrets import REMOVED
from migrate_tools.verl.tool_schemas import tools_by

ROWS = 8
SHOWN = 10
SECONDS = 120.0
EMPTY = "empty"


def compare_tools(
    context: Context, launch: Launch, *, name: str, rows: Path | None, services: Services, max_turns: int | None = None
) -> CheckResult:
    """Compare the tools of one launch.

    Args:
        rows: a converted file of the launch, whose metadata the conversations use; None when there is none.
        services: what the tools and users ask.
        max_turns: of the example's configuration; None when it names none.
    """
    if launch.multi_turn is not None and (why := limit_problem(launch.multi_turn, max_turns)):
        return CheckResult(name=name, rung=4, status="failed", summary=why)
    status, summary, evidence = _compare(context, launch, rows, services, max_turns)
    return CheckResult(name=name, rung=4, status=status, summary=summary, evidence=evidence)


def _compare(
    context: Context, launch: Launch, rows: Path | None, services: Services, max_turns: int | None
) -> tuple[CheckStatus, str, dict[str, Any]]:
    turns = launch.multi_turn
    if turns is None or not (turns.tools or turns.interactions):
        return "skipped", "single-turn: there are no tools to compare", {}
    if turns.runner == "agent_loop" and turns.format not in WRITERS:
        return "not_checkable", f"nobody here writes tool calls in the form {turns.format}", {}
    known = load_rows(rows.parent, [rows.name], "python")[:ROWS] if rows else []
    metadata = [row.get("extra_info") or {} for row in known]
    if turns.interactions and metadata and not any(row.get("interaction_kwargs") for row in metadata):
        why = (
            f"none of the {len(metadata)} rows looked at names a simulated user in interaction_kwargs; verl stops there"
        )
        return "not_checkable", why, {}
    talks = conversations(turns, metadata)
    place = context.work / "tools" / launch.name
    fresh_folder(place)
    job = _job(context, launch, talks, metadata) | {"images": _images(launch, known), "tape": services.tape}
    job["args"] = {} if max_turns is None else {MAX_TURNS: max_turns}
    (place / "job.json").write_text(json.dumps(job), encoding="utf-8")
    sides: dict[str, Any] = {}
    folders = empty_folders(services.folders, context.work / EMPTY / launch.name)
    for name, side in (("old", "old"), *((("again", "old"),) if services.outside else ()), ("new", "new")):
        answer = _run(context, launch, place, side, folders)
        if "error" in answer:
            return (
                "not_checkable" if side == "old" else "failed",
                f"the {side} side does not start: {answer['error']}",
                {},
            )
        sides[name] = answer["records"]
        by = tools_by(turns, launch.verl.version)
        if name == "old" and (why := schema_difference(answer["shown"], known, by)):
            return "failed", why, {}
    steady = [old == again for old, again in zip(sides["old"], sides.get("again", sides["old"]), strict=True)]
    problems = [
        f"{talk['family']}: {why}"
        for talk, old, new, same in zip(talks, sides["old"], sides["new"], steady, strict=True)
        if same and (why := difference(old, new))
    ]
    evidence = {
        "conversations": len(talks),
        "families": dict(Counter(talk["family"] for talk in talks)),
        "answered": sum(bool(record.get("turns")) for record in sides["old"]),
        "images": sum(
            bool(item["images"]) for record in sides["old"] for turn in record.get("turns", ()) for item in turn
        ),
        "unsteady": steady.count(False),
        "asked": sum(bool(record.get("requests")) for record in sides["old"]),
        "raised": sum("raised" in record for record in sides["old"]),
        "problems": problems[:SHOWN],
    }
    evidence["plumbing_only"] = bool(evidence["asked"] or services.folders)
    if problems:
        return "failed", f"{len(problems)} of {len(talks)} conversations differ: {problems[0]}", evidence
    return *verdict(services, evidence), evidence


def verdict(services: Services, evidence: Mapping[str, Any]) -> tuple[CheckStatus, str]:
    """What it means that no conversation differs."""
    if not evidence["answered"]:
        return "not_checkable", "no conversation got an answer from the old tools"
    if services.left:
        why = f"the tools ask services ({', '.join(services.left)}) that are not here"
        return "not_checkable", f"{why}: only errors and limits were compared"
    if evidence["unsteady"] == evidence["conversations"]:
        return "not_checkable", "the old tools answer differently every time"
    same = (
        f"{evidence['conversations'] - evidence['unsteady']} conversations give the same observations, rewards and ends"
    )
    if evidence["unsteady"]:
        same += f"; in {evidence['unsteady']} more the old tools answer differently every time"
    if services.folders:
        same += f"; empty folders in place of {', '.join(services.folders)}"
    if services.tape is None or not (services.sure or evidence["asked"]):
        return "passed", same
    if not evidence["asked"]:
        return (
            "not_checkable",
            f"the tools ask services ({', '.join(services.outside)}), and no conversation came to it",
        )
    return "passed", f"plumbing with taped answers, {evidence['asked']} conversations asked services: {same}"


def limit_problem(turns: MultiTurn, max_turns: int | None) -> str:
    """What is wrong with the configuration's limit of answers (None: it names none); empty when nothing."""
    if max_turns in (None, turns.max_assistant_turns):
        return ""
    return f"max_turns of the configuration is {max_turns}, and verl's max_assistant_turns {turns.max_assistant_turns}"


def schema_difference(shown: list[Any], rows: Sequence[Mapping[str, Any]], by: str = "") -> str:
    """How the rows show the tools otherwise than verl does, keys in their order; empty when they do not.

    Args:
        shown: what verl shows of all tools.
        by: key of extra_info by which a row chooses (`tools_by`).
    """
    known = {item["function"]["name"]: item for item in shown}
    for number, row in enumerate(rows):
        chosen = (row.get("extra_info") or {}).get(by)
        if by == "tools_kwargs":
            chosen = [name for name, value in (chosen if isinstance(chosen, dict) else {}).items() if value is not None]
            shown = [known[name] for name in chosen if name in known]
        elif by:
            shown = [known[name] for name in chosen or known if name in known]
        held = row.get("tools") or []
        given = json.loads(held) if isinstance(held, str) else held
        texts = [json.dumps(item, ensure_ascii=False) for item in (shown, given)]
        if texts[0] != texts[1]:
            at = next((place for place, pair in enumerate(zip(*texts, strict=False)) if pair[0] != pair[1]), 0)
            before, after = (text[max(0, at - 40) : at + 40] for text in texts)
            return f"row {number} shows the tools otherwise than verl: {before!r} became {after!r}"
    return ""


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """What two records of a conversation have differently, in one sentence; empty when nothing."""
    if "raised" in new:
        return f"the environment raises {new['raised']}"
    if "raised" in old and len(new["turns"]) > len(old.get("turns", ())):
        return f"verl raises {old['raised']} and the environment does not"
    for number, (before, after) in enumerate(zip(old.get("turns", ()), new["turns"], strict=False), 1):
        texts = [item["text"] for item in before], [item["text"] for item in after]
        if texts[0] != texts[1]:
            return f"turn {number}: {_short(texts[0])} became {_short(texts[1])}"
        if [item["images"] for item in before] != [item["images"] for item in after]:
            return f"turn {number}: the images differ"
        rewards = [item["reward"] for item in before if item["reward"] is not None]
        if rewards != after[-1]["rewards"]:
            return f"turn {number}: tool rewards {rewards} became {after[-1]['rewards']}"
        if [item.get("role", "tool") for item in before] != [item["role"] for item in after]:
            return f"turn {number}: the role is {after[0]['role']}"
    if "raised" in old:
        return ""
    if len(old["turns"]) != len(new["turns"]):
        return f"{len(old['turns'])} answered turns became {len(new['turns'])}"
    if old.get("scores", []) != new.get("scores", []):
        return f"scores of the turns {old.get('scores')} became {new.get('scores')}"
    if old.get("given") is not None and old["given"] != new.get("given"):
        return f"what tools and users give at the end, {old['given']}, became {new.get('given')}"
    if old["num_turns"] != new["num_turns"]:
        return f"num_turns {old['num_turns']} became {new['num_turns']}"
    if old.get("requests") != new.get("requests"):
        return f"requests to services {_shown(old)} became {_shown(new)}"
    return ""


def _shown(record: Mapping[str, Any]) -> list[str]:
    """Method and address of the requests of a conversation."""
    return [f"{method} {url}" for method, url, _ in record.get("requests") or ()][:4]


def _short(texts: Sequence[str]) -> str:
    return repr([text if len(text) < 120 else text[:60] + "..." + text[-40:] for text in texts])


def _job(
    context: Context, launch: Launch, talks: list[dict[str, Any]], metadata: list[dict[str, Any]]
) -> dict[str, Any]:
    turns = launch.multi_turn
    assert turns is not None
    project, root = Path(context.recipe.project_root), Path(context.recipe.root)
    return {
        "turns": turns.model_dump(mode="json", exclude={"tools", "interactions", "loops", "missing"}),
        "tools": [_tool(tool) for tool in turns.tools],
        "users": [_user(user) for user in turns.interactions],
        "special_tokens": special_tokens(str(launch.get("actor_rollout_ref.model.path") or "")).tokens,
        "verl_root": "/verl",
        "loop_root": "/loop",
        "lines": version_pair(engine_version(launch.verl.version)) >= (0, 6),
        "tool_images": launch.data.tool_images,
        "paths": recipe_paths(project, root),
        "aliases": recipe_packages(project, root),
        "new_paths": [STAGE, STANDIN],
        "tools_module": f"examples.{context.example.algo}.tools_{context.example.algo}",
        "module": f"examples.{context.example.algo}.env_{context.example.algo}",
        "told": ROLLOUT_METADATA,
        "environment": dict(launch.environment),
        "left_to_user": {name: value for name, value in launch.environment.items() if REMOVED in value},
        "conversations": talks,
        "metadata": metadata,
    }


def recipe_paths(project: Path, root: Path) -> list[str]:
    """The recipe's folder and its project in the sandbox."""
    return ["/project/" + root.relative_to(project).as_posix() if root != project else "/project", "/project"]


def recipe_packages(project: Path, root: Path) -> dict[str, list[str]]:
    """Package -> its folders in the sandbox, as verl's own checkout has them: recipe, and in it the recipe's folder.

    The folder is named on its own where Python would not find it as a package there: without an __init__.py a module
    of the same name, anywhere, is taken instead.
    """
    packages = {"recipe": ["/project/recipe", "/project"]}
    found = root.parent in (project, project / "recipe") and (root / "__init__.py").is_file()
    if not found and root.name.isidentifier():
        packages[f"recipe.{root.name}"] = [inside(str(root.relative_to(project))).removesuffix("/.")]
    return packages


def _images(launch: Launch, rows: Sequence[Mapping[str, Any]]) -> list[list[str]] | None:
    """The pictures of every row in base64 (none: made-up ones serve); None for a model that reads texts only."""
    columns = [name for name in launch.data.multimodal if launch.data.media_kinds.get(name, "image") == "image"]
    if not columns:
        return None
    found = []
    for row in rows:
        items = [item for name in columns for item in row.get(name) or ()]
        bodies = [item.get("bytes") if isinstance(item, dict) else item for item in items]
        found.append([base64.b64encode(body).decode() for body in bodies if isinstance(body, bytes)])
    return found


def _user(user: InteractionSpec) -> dict[str, Any]:
    return {"name": user.name, "class_name": user.class_name, "file": inside(user.file), "config": user.config}


def inside(file: str | None) -> str:
    """Where a file stands in the sandbox."""
    return f"/verl/{file}" if file and file.startswith("verl/") else f"/project/{file or ''}"


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "kind": tool.kind,
        "class_name": tool.class_name,
        "file": inside(tool.file),
        "config": tool.config,
        "parameters": tool.parameters,
        "given": tool.source is not None and tool.parameters is not None,
    }


def _run(context: Context, launch: Launch, place: Path, side: Side, folders: Sequence[Mount]) -> dict[str, Any]:
    turns = launch.multi_turn
    assert turns is not None
    older = sorted({tool.verl_version for tool in turns.tools if tool.verl_version})
    loop = Path(launch.verl.root)
    version = engine_version(launch.verl.version)
    if turns.runner == "engine" and (version != launch.verl.version or not (loop / ROLLOUT_FILE).is_file()):
        loop = Path(source.wheel(version).root)
    root = Path(source.wheel(older[0]).root) if older else loop
    old = (
        Mount(root, "/verl"),
        Mount(loop, "/loop"),
        Mount(Path(context.recipe.project_root), "/project"),
    )
    module = "migrate_tools.parity.tool_sides"
    return run_side(context, module, side, place, old=old, seconds=SECONDS, beside=folders)
