"""Writes the multi-turn files of an example: environment, its base class, rollout, and the tools' own code."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from migrate_tools.mapping.environment import turns_environment
from migrate_tools.model import ExampleFile, Launch, MultiTurn
from migrate_tools.relax.formatting import format_python, render_template
from migrate_tools.relax.loop_module import loop_files
from migrate_tools.relax.metadata_names import RESUME_METADATA, ROLLOUT_METADATA
from migrate_tools.relax.special_tokens import special_tokens
from migrate_tools.verl.extract import Extracted
from migrate_tools.verl.loop_release import version_pair
from migrate_tools.verl.multi_turn import engine_version
from migrate_tools.verl.secrets import redact
from migrate_tools.verl.tool_schemas import tools_by

PARTS = "PARTS"


def multi_turn_files(
    launch: Launch, found: Extracted, *, algo: str, project: Path | None = None, base_env: str = "", scripts: str = ""
) -> list[ExampleFile]:
    """The files of one launch; empty when its tools were not extracted.

    Args:
        project: the recipe's project; text files of it that a tool's or user's settings name are copied.
        base_env: text of the Relax checkout's own base class; empty: ours.
        scripts: names of all launch scripts that the files serve; empty: that of the launch.
    """
    turns = launch.multi_turn
    if turns is None or found.tools is None:
        return []
    if turns.loops:
        return loop_files(launch, found.tools, algo=algo, scripts=scripts or launch.script)
    version = version_pair(turns.loop_release or launch.verl.version)
    family = special_tokens(str(launch.get("actor_rollout_ref.model.path") or ""))
    origin = f"Tools of {scripts or launch.script} (verl {launch.verl.version})."
    texts = named_files(turns, project) if project is not None else {}
    values: dict[str, Any] = {
        "files": {owner: {key: name for key, (name, _) in names.items()} for owner, names in texts.items()},
        "licence": "# " + "\n# ".join(found.tools.header.splitlines()) if found.tools.header else "",
        "title": f"Environment of {algo}, moved from verl to Relax.",
        "origin": origin,
        "environment": list(turns_environment(launch).items()),
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
        "verl_version": turns.loop_release or launch.verl.version,
        "keep": kept_side(turns, version),
        "errors": "end" if version < (0, 6) else "plain" if version < (0, 8) else "named",
        "create_kwargs": version >= (0, 6),
        "agent_data": version >= (0, 7),
        "selects": tools_by(turns, launch.verl.version) == "tool_selection",
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
            text=base_env or format_python(render_template("base_env.py.j2", **values)),
            origin="extracted" if base_env else "rendered",
        ),
    ]
    copied = {name: path for names in texts.values() for _, (name, path) in names.items()}
    for name, path in sorted(copied.items()):
        text = redact(path.read_text(encoding="utf-8"))
        made.append(ExampleFile(path=f"{base}/{name}", text=text, origin="extracted"))
    values["title"] = f"Rollout of {algo}: answers of the model and results of its tools, in turn."
    made.append(
        ExampleFile(
            path=f"{base}/rollout_{algo}.py",
            text=format_python(render_template("rollout.py.j2", **values)),
            origin="rendered",
        )
    )
    return made


def shared_limit(launches: Sequence[Launch]) -> int | None:
    """What the environment takes where a launch's configuration names no max_turns: no limit, if any has none."""
    limits = [launch.multi_turn.max_assistant_turns for launch in launches if launch.multi_turn is not None]
    return None if None in limits or not limits else limits[0]


BASE_ENV = "examples/deepeyes/base_env.py"
"""Where a Relax checkout has the base class of environments (Relax contract, section 5)."""


def checkout_base_env(root: Path) -> str:
    """The base class that a Relax checkout has; empty when it has none that stands on its own."""
    path = root / BASE_ENV
    if not path.is_file():
        return ""
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ""
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {"." * node.level + (node.module or "") for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    alone = all(name.partition(".")[0] in sys.stdlib_module_names for name in imported)
    named = any(isinstance(node, ast.ClassDef) and node.name == "BaseInteractionEnv" for node in tree.body)
    return text if alone and named else ""


TEXT_FILES = frozenset({".json", ".jsonl", ".md", ".txt", ".yaml", ".yml"})
MAX_COPIED = 1 << 20
"""Bytes of a file that is copied."""


def named_files(turns: MultiTurn, project: Path) -> dict[str, dict[str, tuple[str, Path]]]:
    """Tool or user -> setting -> (name in the example, file) of settings that name a text file of the project."""
    found: dict[str, dict[str, tuple[str, Path]]] = {}
    parts = [(tool.name, tool.config) for tool in turns.tools]
    parts += [(user.name, user.config) for user in turns.interactions]
    for owner, config in parts:
        for key, value in config.items():
            path = project / value if isinstance(value, str) and value else None
            if path is None or path.suffix not in TEXT_FILES or not path.is_file():
                continue
            if path.resolve().is_relative_to(project.resolve()) and path.stat().st_size <= MAX_COPIED:
                name = "files/" + path.resolve().relative_to(project.resolve()).as_posix().replace("/", "_")
                found.setdefault(owner, {})[key] = (name, path)
    return found


def kept_side(turns: MultiTurn, version: tuple[int, int]) -> str:
    """Which end of a text stays: verl before 0.8 keeps the head for "left", later ones cut the head off."""
    if turns.truncate_side not in ("left", "right"):
        return "both"
    head = (turns.truncate_side == "left") == (version < (0, 8))
    return "head" if head else "tail"
