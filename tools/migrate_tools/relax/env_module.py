"""Writes the multi-turn files of an example: environment, its base class, rollout, and the tools' own code."""

from __future__ import annotations

from typing import Any

from migrate_tools.model import ExampleFile, Launch, MultiTurn
from migrate_tools.relax.formatting import format_python, render_template
from migrate_tools.relax.loop_module import loop_files
from migrate_tools.relax.metadata_names import RESUME_METADATA, ROLLOUT_METADATA
from migrate_tools.relax.special_tokens import special_tokens
from migrate_tools.verl.extract import Extracted
from migrate_tools.verl.multi_turn import engine_version, version_pair

PARTS = "PARTS"


def multi_turn_files(launch: Launch, found: Extracted, *, algo: str) -> list[ExampleFile]:
    """The files of one launch; empty when its tools were not extracted."""
    turns = launch.multi_turn
    if turns is None or found.tools is None:
        return []
    if turns.loops:
        return loop_files(launch, found.tools, algo=algo)
    version = version_pair(launch.verl.version)
    family = special_tokens(str(launch.get("actor_rollout_ref.model.path") or ""))
    origin = f"Tools of {launch.script} (verl {launch.verl.version})."
    values: dict[str, Any] = {
        "licence": "# " + "\n# ".join(found.tools.header.splitlines()) if found.tools.header else "",
        "title": f"Environment of {algo}, moved from verl to Relax.",
        "origin": origin,
        "algo": algo,
        "tools_module": f"tools_{algo}",
        "env_module": f"env_{algo}",
        "parts": PARTS,
        "rollout_metadata": ROLLOUT_METADATA,
        "resume_metadata": RESUME_METADATA,
        "schema_class": "OpenAIFunctionToolSchema",
        "class_name": "".join(part.capitalize() for part in algo.split("_")) + "Env",
        "schemas": {tool.name: tool.parameters for tool in turns.tools},
        "configs": {tool.name: tool.config for tool in turns.tools},
        "users": {user.name: user.config for user in turns.interactions},
        "special_tokens": family.tokens,
        "family": family.name,
        "answers_are_messages": version >= (0, 8) and any(tool.reads_episode for tool in turns.tools),
        "named_results": turns.format == "gpt-oss",
        "gpt_oss": turns.format == "gpt-oss",
        "media": bool(launch.data.multimodal) and turns.format != "gpt-oss",
        "tool_images": launch.data.tool_images,
        "engine_version": engine_version(launch.verl.version),
        "lines": version_pair(engine_version(launch.verl.version)) >= (0, 6),
        "strict_kwargs": version_pair(engine_version(launch.verl.version)) < (0, 6),
        "named_users": version_pair(engine_version(launch.verl.version)) >= (0, 5),
        "default_user": turns.interactions[0].name if turns.interactions else "",
        "image_parts": "each" if version >= (0, 9) else "one",
        "turns": turns,
        "verl_version": launch.verl.version,
        "response_length": int(
            launch.get("data.max_response_length") or launch.get("actor_rollout_ref.rollout.response_length") or 512
        ),
        "keep": kept_side(turns, version),
        "errors": "end" if version < (0, 6) else "plain" if version < (0, 8) else "named",
        "create_kwargs": version >= (0, 6),
        "agent_data": version >= (0, 7),
    }
    base = f"examples/{algo}"
    template = "env_engine.py.j2" if turns.runner == "engine" else "env.py.j2"
    code = format_python(found.tools.code)
    made = [
        ExampleFile(path=f"{base}/tools_{algo}.py", text=code, origin="extracted"),
        ExampleFile(
            path=f"{base}/env_{algo}.py", text=format_python(render_template(template, **values)), origin="rendered"
        ),
        ExampleFile(
            path=f"{base}/base_env.py",
            text=format_python(render_template("base_env.py.j2", **values)),
            origin="rendered",
        ),
    ]
    values["title"] = f"Rollout of {algo}: answers of the model and results of its tools, in turn."
    made.append(
        ExampleFile(
            path=f"{base}/rollout_{algo}.py",
            text=format_python(render_template("rollout.py.j2", **values)),
            origin="rendered",
        )
    )
    return made


def kept_side(turns: MultiTurn, version: tuple[int, int]) -> str:
    """Which end of a text stays: verl before 0.8 keeps the head for "left", later ones cut the head off."""
    if turns.truncate_side not in ("left", "right"):
        return "both"
    head = (turns.truncate_side == "left") == (version < (0, 8))
    return "head" if head else "tail"
