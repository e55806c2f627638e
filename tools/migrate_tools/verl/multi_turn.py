"""Reads the multi-turn side of a launch: limits, tools, interactions, agent loops.

Keys and their versions: verl 0.4.0 to 0.9.1, verl/trainer/config/rollout/rollout.yaml, `multi_turn` and `agent`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from migrate_tools.model import AgentLoopSpec, DataSpec, InteractionSpec, MultiTurn, Note, SourceRef, VerlRef
from migrate_tools.verl.agent_loops import loop_obstacle, row_fields
from migrate_tools.verl.class_tree import ClassTree, Lineage, registers
from migrate_tools.verl.loop_release import loop_release, version_pair
from migrate_tools.verl.module_finder import ModuleFinder
from migrate_tools.verl.own_rollout import own_rollout
from migrate_tools.verl.paths import walk
from migrate_tools.verl.tools_reader import ToolReader

TURNS, AGENT = "actor_rollout_ref.rollout.multi_turn", "actor_rollout_ref.rollout.agent"
OWN_LOOPS = frozenset({"", "single_turn_agent", "tool_agent"})
"""Loops that verl itself has."""
REGISTRIES = {
    f"{AGENT}.activate_agent": "DeepEyes' own registry (ToolBase classes that rows choose by env_name)",
    "actor_rollout_ref.agent.enable_agent": "those of a verl-tool server",
}
"""Settings of forks that bring their own environments -> what these are."""
CLASS_KEYS = ("agent_loop_manager_class", "agent_loop_manager_cls")
MAX_SEARCHED = 4000


def read_multi_turn(
    config: Mapping[str, Any],
    data: DataSpec,
    *,
    project_root: Path,
    recipe_root: Path,
    verl: VerlRef,
    resolve: Callable[[str], Path | None],
) -> MultiTurn | None:
    """The multi-turn side of a launch, None when it has none.

    Nothing is imported: classes are found in the files of the recipe and of verl.
    """

    def turn(name: str, default: Any = None) -> Any:
        return config.get(f"{TURNS}.{name}", default)

    for key, what in REGISTRIES.items():
        if config.get(key) in (True, "True", "true"):
            note = f"{key}: the tools are {what}, not verl's; environments of that kind are not migrated"
            return MultiTurn(missing=(Note(code="own-registry", text=note),))
    default_loop = _text(config.get(f"{AGENT}.default_agent_loop"))
    row_loops = "agent_name" in data.columns or any(line.endswith("rewrites agent_name") for line in data.row_moved)
    tool_file = _text(turn("tool_config_path")) or _text(config.get("data.tool_config_path"))
    function_file = _text(turn("function_tool_path")) or _text(config.get("data.function_tool_path"))
    user_file = _text(turn("interaction_config_path"))
    loop_file = _text(config.get(f"{AGENT}.agent_loop_config_path"))
    manager = next((text for key in CLASS_KEYS if (text := _text(config.get(f"{AGENT}.{key}")))), "")
    own_loop = default_loop not in OWN_LOOPS or bool(loop_file)
    if not (turn("enable") or row_loops or own_loop or manager or default_loop == "tool_agent"):
        return None
    finder = ModuleFinder(project_root, Path(verl.root), (recipe_root,))
    reader = ToolReader(finder, recipe_root / "__init__.py", verl, resolve)
    tools = reader.from_config(tool_file) if tool_file else []
    tools += reader.from_functions(function_file) if function_file else []
    loops = _loops(reader, finder, recipe_root, loop_file, default_loop)
    replaced = own_rollout(recipe_root)
    return MultiTurn(
        tools=tuple(tools),
        interactions=tuple(_interactions(reader, finder, recipe_root, user_file)) if user_file else (),
        loops=tuple(loops),
        runner=runner(config, verl.version),
        loop_release=loop_release(verl),
        own_rollout=f"{finder.shown(replaced[0])} ({replaced[1]})" if replaced else "",
        default_loop=default_loop,
        row_loops=row_loops,
        manager_class=manager,
        format=_text(turn("format")) or "hermes",
        max_assistant_turns=_number(turn("max_assistant_turns", turn("max_turns"))),
        max_user_turns=_number(turn("max_user_turns")),
        max_parallel_calls=_number(turn("max_parallel_calls")) or 1,
        max_tool_response_length=_number(turn("max_tool_response_length")) or 256,
        truncate_side=_text(turn("tool_response_truncate_side")) or "middle",
        missing=tuple(dict.fromkeys([*reader.missing, *nobody_runs(config, verl.version)])),
    )


CHAT_FORMATS = ("chatml", "qwen")
"""multi_turn.format of verl 0.3 and 0.4.0 (verl/workers/rollout/schemas.py): how turns are written, not calls."""


def runner(config: Mapping[str, Any], version: str) -> Literal["agent_loop", "engine"]:
    """What runs the turns: up to 0.6 verl's SGLang rollout does, unless the engine is a server (rollout.mode).

    A chat format of verl 0.4.0 says that the recipe is of that time, whatever the other keys suggest.
    """
    if config.get(f"{TURNS}.format") in CHAT_FORMATS:
        return "engine"
    if version_pair(version) >= (0, 7):
        return "agent_loop"
    name, mode = (_text(config.get(f"actor_rollout_ref.rollout.{key}")) for key in ("name", "mode"))
    return "engine" if mode in ("", "sync") and name.startswith("sglang") else "agent_loop"


def nobody_runs(config: Mapping[str, Any], version: str) -> list[Note]:
    """Why this verl runs neither tools nor users for a launch; empty where it does.

    Up to 0.4 only the SGLang rollout does, and a chat scheduler in the mode async; up to 0.6 the agent loops run in the
    mode async only.
    """
    if runner(config, version) == "engine" or version_pair(version) >= (0, 7):
        return []
    name, mode = (_text(config.get(f"actor_rollout_ref.rollout.{key}")) for key in ("name", "mode"))
    if version_pair(version) < (0, 5) and mode == "async":
        text = f"verl {version} runs tools in its chat scheduler when rollout.mode is async, which is not migrated"
    elif mode in ("", "sync"):
        text = f"verl {version} runs no turns in the mode sync with {name or 'no engine'}: every row is single-turn"
    else:
        return []
    return [Note(code="nobody-runs", text=text)]


def engine_version(version: str) -> str:
    """The release whose SGLang rollout stands for a version: itself from 0.4.1 to 0.6, else 0.4.1."""
    return version if (0, 5) <= version_pair(version) < (0, 7) else "0.4.1"


def _interactions(reader: ToolReader, finder: ModuleFinder, recipe_root: Path, text: str) -> list[InteractionSpec]:
    content, place = reader.load_yaml(text, "interaction configuration")
    entries = content.get("interaction") if isinstance(content, dict) else None
    found: list[InteractionSpec] = []
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        class_name = _text(entry.get("class_name")) if isinstance(entry, dict) else ""
        if not class_name:
            continue
        lineage = ClassTree(finder, recipe_root / "__init__.py").dotted(class_name) or reader.by_file_name(class_name)
        if lineage is None:
            _missing(reader, f"the interaction class {class_name} is not in the recipe or in verl", place(number))
        config = entry.get("config")
        found.append(
            InteractionSpec(
                name=_text(entry.get("name")) or interaction_name(class_name),
                class_name=class_name,
                file=lineage.first.shown if lineage else None,
                config=dict(config) if isinstance(config, dict) else {},
                traits=reader.traits(lineage) if lineage else (),
                source=place(number),
            )
        )
    return found


def interaction_name(class_name: str) -> str:
    """The name verl gives to an interaction that has none: its class without "Interaction", in lower case."""
    leaf = class_name.rpartition(".")[2]
    return leaf.removesuffix("Interaction").lower() or leaf.lower()


def _loops(
    reader: ToolReader, finder: ModuleFinder, recipe_root: Path, text: str, default_loop: str
) -> list[AgentLoopSpec]:
    """Agent loops from the configuration file, and the default one when a decorator registers it."""
    found: list[AgentLoopSpec] = []
    if text:
        content, place = reader.load_yaml(text, "agent loop configuration")
        for number, entry in enumerate(content if isinstance(content, list) else []):
            target = _text(entry.get("_target_")) if isinstance(entry, dict) else ""
            if target:
                lineage = ClassTree(finder, recipe_root / "__init__.py").dotted(target) or reader.by_file_name(target)
                if lineage is None:
                    _missing(reader, f"the agent loop {target} is not in the recipe or in verl", place(number))
                rest = {str(key): value for key, value in entry.items() if key not in ("name", "_target_")}
                found.append(_loop(reader, finder, _text(entry.get("name")), target, lineage, rest, place(number)))
    if default_loop not in OWN_LOOPS and default_loop not in {item.name for item in found}:
        registered = registered_loop(finder, recipe_root, default_loop)
        if registered is None:
            _missing(reader, f"no class of the recipe is registered as the agent loop {default_loop}", None)
        else:
            source = SourceRef(file=registered.first.shown, line=registered.first.node.lineno)
            found.append(_loop(reader, finder, default_loop, registered.first.name, registered, {}, source))
    return found


def _loop(
    reader: ToolReader,
    finder: ModuleFinder,
    name: str,
    target: str,
    lineage: Lineage | None,
    rest: dict[str, Any],
    source: SourceRef,
) -> AgentLoopSpec:
    return AgentLoopSpec(
        name=name,
        class_name=target,
        file=lineage.first.shown if lineage else None,
        parents=tuple(item.name for item in lineage.classes[1:]) if lineage else (),
        arguments=rest,
        fields=row_fields(lineage),
        obstacle=loop_obstacle(lineage, finder),
        traits=reader.traits(lineage) if lineage else (),
        source=source,
    )


def registered_loop(finder: ModuleFinder, folder: Path, name: str) -> Lineage | None:
    """The class below a folder that carries `@register("name")`."""
    for path in list(walk(folder))[:MAX_SEARCHED]:
        if path.suffix != ".py":
            continue
        text = path.read_text("utf-8", errors="replace")
        if name not in text or "register" not in text:
            continue
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and any(registers(item, name) for item in node.decorator_list):
                return ClassTree(finder, path).inside(path, node.name)
    return None


def _missing(reader: ToolReader, text: str, place: SourceRef | None) -> None:
    reader.missing.append(Note(code="multi-turn-class-missing", text=text, source=place))


def _text(value: Any) -> str:
    return "" if value in (None, False, "null", "None") else str(value)


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
