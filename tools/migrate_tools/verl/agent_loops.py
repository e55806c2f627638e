"""Agent loops of a recipe's own: what they build on, what of a row they read, and whether one module can hold them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from migrate_tools.model import MultiTurn, VerlRef
from migrate_tools.verl.class_tree import Lineage
from migrate_tools.verl.extract import Extracted, NotExtractable, extract_function, locate
from migrate_tools.verl.extract_tools import PARSER_FILE, PARTS, STAND_IN_FOLDER, parser_class
from migrate_tools.verl.module_finder import ModuleFinder
from migrate_tools.verl.traits import imported_modules

BASE = "AgentLoopBase"
LOOP_PACKAGE = "verl.experimental.agent_loop"
LOOP_STAND_INS = {
    LOOP_PACKAGE: "agent_loop.py",
    f"{LOOP_PACKAGE}.agent_loop": "agent_loop.py",
    f"{LOOP_PACKAGE}.single_turn_agent_loop": "agent_loop.py",
    "verl.utils.profiler": "agent_loop.py",
    "verl.workers.rollout.replica": "agent_loop.py",
    "verl.workers.rollout.llm_server": "agent_loop.py",
    "verl.utils.rollout_trace": "small_parts.py",
    "verl.utils.ray_utils": "small_parts.py",
    "verl.tools.schemas": "base_tool.py",
}
"""Modules that loops are written against -> our file in their place."""
AS_THEY_ARE = (f"{LOOP_PACKAGE}.tool_parser", f"{LOOP_PACKAGE}.utils", "verl.utils.reward_score")
"""Modules of verl that are taken along."""
FRAMEWORKS = frozenset({"langgraph", "langchain", "langchain_core", "llama_index", "autogen", "crewai", "smolagents"})
"""Agent frameworks: they keep the conversation as messages and drive a chat server."""
GIVEN = frozenset({
    "raw_prompt", "data_source", "ability", "reward_model", "extra_info", "index", "tools_kwargs", "interaction_kwargs",
    "agent_name", "sampling_params", "priority", "multi_modal_data", "self", "kwargs",
})  # fmt: skip
"""Arguments of `run` that are made of what every converted row has."""


def loop_obstacle(lineage: Lineage | None, finder: ModuleFinder) -> str:
    """Why a loop cannot become a part of the example, by name; empty when nothing is in the way."""
    if lineage is None:
        return ""
    names = [item.name for item in lineage.classes]
    if "ToolAgentLoop" in names[1:] or lineage.ends == "ToolAgentLoop":
        return "it changes verl's own tool agent loop from within (ToolAgentLoop)"
    if BASE not in (*names, lineage.ends):
        return f"it is not derived from verl's {BASE}"
    if lineage.method("run") is None:
        return "it has no method run"
    for item in lineage.classes:
        if item.shown.startswith("verl/"):
            continue
        for module in imported_modules(ast.parse(finder.load(item.path).code)):
            known = module in LOOP_STAND_INS or module.startswith(AS_THEY_ARE)
            if module.partition(".")[0] == "verl" and not known:
                return f"it uses {module}, which has no counterpart in Relax ({item.shown})"
    return ""


def row_fields(lineage: Lineage | None) -> tuple[str, ...]:
    """Columns of the row that `run` reads by name, beside those that every converted row has."""
    found = lineage.method("run") if lineage is not None else None
    if found is None:
        return ()
    node = found[1]
    names = {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
    keyword = node.args.kwarg.arg if node.args.kwarg else "kwargs"
    names |= set(_keys_of(node, keyword))
    return tuple(sorted(names - GIVEN))


def _keys_of(tree: ast.AST, name: str) -> Iterator[str]:
    """Constant keys that are read of the mapping `name`: `name["x"]`, `name.get("x")`, `name.pop("x")`."""
    for node in ast.walk(tree):
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == name:
            key = node.slice
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("get", "pop")
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == name
            and node.args
        ):
            key = node.args[0]
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value


def is_agentic(turns: MultiTurn) -> bool:
    """Whether an agent framework drives the loops, so that Relax's agentic form is theirs."""
    return any(trait.removeprefix("import:") in FRAMEWORKS for loop in turns.loops for trait in loop.traits)


def extract_loops(turns: MultiTurn, *, project_root: Path, recipe_root: Path, verl: VerlRef) -> Extracted:
    """The loops as one module; its value PARTS holds them by name, and the classes that the rollout makes them with.

    Raises:
        NotExtractable: a class is not at hand, or uses something that one module cannot hold.
    """
    finder = ModuleFinder(project_root, Path(verl.root), (recipe_root,))
    for name, file in LOOP_STAND_INS.items():
        finder.alias(name, STAND_IN_FOLDER / file)
    lines = ["from verl.experimental.agent_loop import Config, DictConfigWrap, SingleTurnAgentLoop, TokenOutput"]
    places = ["'single_turn_agent': SingleTurnAgentLoop"]
    for number, loop in enumerate(turns.loops):
        if loop.file is None:
            raise NotExtractable(f"{loop.class_name}: its file is not in the recipe", "put the file beside the recipe")
        finder.alias(f"part_{number}", locate(loop.file, project_root, verl))
        leaf = loop.class_name.rpartition(".")[2]
        lines.append(f"from part_{number} import {leaf} as part_{number}_item")
        places.append(f"{loop.name!r}: part_{number}_item")
    body = f'"loops": {{{", ".join(places)}}}, "config": Config, "wrap": DictConfigWrap, "answer": TokenOutput'
    virtual = project_root / "__parts__.py"
    finder.edit(virtual, "\n".join([*lines, "", f"{PARTS} = {{{body}}}", ""]))
    made = extract_function(finder, virtual, PARTS)
    if "class ToolParser" not in made.code:
        return _with_annotations(made)
    # the loop asks the registry for the parser of the format: its class is in nobody's references
    path, leaf = parser_class(turns.format, Path(verl.root), recipe_root)
    if path == Path(verl.root) / PARSER_FILE:
        lines.append(f"from {LOOP_PACKAGE}.tool_parser import {leaf} as parser_item")
    else:
        finder.alias("part_parser", path)
        lines.append(f"from part_parser import {leaf} as parser_item")
    finder.edit(virtual, "\n".join([*lines, "", f'{PARTS} = {{{body}, "parser": parser_item}}', ""]))
    return _with_annotations(extract_function(finder, virtual, PARTS))


def _with_annotations(made: Extracted) -> Extracted:
    """With real imports of what only annotations use: agent frameworks read annotations when they run."""
    if not FRAMEWORKS & set(made.third_party):
        return made
    head, block, rest = made.code.partition("\nif TYPE_CHECKING:\n")
    lines = rest.splitlines(keepends=True)
    count = next((number for number, line in enumerate(lines) if not line.startswith("    ")), len(lines))
    real = "".join(line.removeprefix("    ") for line in lines[:count])
    code = f"{head}\n{real}{''.join(lines[count:])}" if block else made.code
    return made.model_copy(update={"code": code})


def used_settings(config: Mapping[str, Any], code: str) -> dict[str, Any]:
    """The settings that the loops' code may read, as a tree: those whose name occurs in it."""
    words = set(_words(code))
    tree: dict[str, Any] = {"actor_rollout_ref": {"rollout": {}, "model": {}}, "data": {}}
    for key, value in config.items():
        *groups, leaf = key.split(".")
        if not key.startswith(("actor_rollout_ref.rollout.", "actor_rollout_ref.model.path", "data.")):
            continue
        own = groups[:3] == ["actor_rollout_ref", "rollout", "agent"] and len(groups) > 3 and groups[-1] in words
        if leaf in words or own or groups[-1] in words:
            place = _group(tree, groups)
            if place is not None and (leaf in words or own):
                place[leaf] = value
    return tree


def _group(tree: dict[str, Any], names: Iterable[str]) -> dict[str, Any] | None:
    """The group of settings of that path, made where it is not there; None where a value stands in its place."""
    for name in names:
        tree = tree.setdefault(name, {})
        if not isinstance(tree, dict):
            return None
    return tree


def _words(code: str) -> Iterable[str]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value
