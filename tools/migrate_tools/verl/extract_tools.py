"""Takes tools, simulated users and the tool-call parser out of a recipe, as one module without verl."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import migrate_tools
from migrate_tools.model import MultiTurn, VerlRef
from migrate_tools.verl import source
from migrate_tools.verl.class_tree import registers
from migrate_tools.verl.extract import Extracted, NotExtractable, extract_function, locate
from migrate_tools.verl.module_finder import ModuleFinder
from migrate_tools.verl.paths import walk

STAND_IN_FOLDER = Path(migrate_tools.__file__).parent / "relax" / "turns"
PARTS = "PARTS"
"""Name in the module: {"tools": {name: class or function}, "users": {name: class}, "parser": class, ...}."""
STAND_INS = {
    "verl.tools.base_tool": "base_tool.py",
    "verl.tools.schemas": "base_tool.py",
    "verl.tools.function_tool": "small_parts.py",
    "verl.utils.rollout_trace": "small_parts.py",
    "verl.utils.ray_utils": "small_parts.py",
    "verl.interactions.base": "base_interaction.py",
    "ray": "local_ray.py",
    "ray.actor": "local_ray.py",
    "qwen_vl_utils": "media_parts.py",
}
"""Modules that tools are written against -> our file in their place."""
PARSER_FILE = "verl/experimental/agent_loop/tool_parser.py"


def extract_tools(turns: MultiTurn, *, project_root: Path, recipe_root: Path, verl: VerlRef) -> Extracted:
    """The module; its value PARTS holds everything by name.

    Raises:
        NotExtractable: a class is not at hand, uses something that one module cannot hold, or nobody knows the format
            of the tool calls.
    """
    older = sorted({tool.verl_version for tool in turns.tools if tool.verl_version})
    base = Path(source.wheel(older[0]).root) if older else Path(verl.root)
    finder = ModuleFinder(project_root, base, (recipe_root,))
    for name, file in STAND_INS.items():
        finder.alias(name, STAND_IN_FOLDER / file)
    lines: list[str] = []
    places: dict[str, list[str]] = {"tools": [], "users": []}
    for number, (kind, name, place, dotted) in enumerate(_wanted(turns)):
        module, _, leaf = dotted.rpartition(".")
        if place is None:
            raise NotExtractable(f"{leaf}: its file is not in the recipe", "put the file beside the recipe")
        local = f"part_{number}"
        path = locate(place, project_root, VerlRef(version="", root=str(base), how=""))
        finder.alias(local, path)
        if module.startswith("verl.") and not place.startswith("verl/"):
            finder.moved(path, module.rpartition(".")[0])
        lines.append(f"from {local} import {leaf} as {local}_item")
        places[kind].append(f"{name!r}: {local}_item")
    parser = "None"
    lines.append("from verl.tools.schemas import OpenAIFunctionToolSchema")
    more = ', "schema": OpenAIFunctionToolSchema'
    if turns.runner == "engine":
        finder.alias("engine_calls", STAND_IN_FOLDER / "engine_calls.py")
        lines.append("from engine_calls import engine_calls as engine_item, has_call as has_item")
        more += ', "engine_calls": engine_item, "has_call": has_item'
    else:
        path, leaf = parser_class(turns.format, Path(verl.root), recipe_root)
        finder.alias("part_parser", path)
        lines.append(f"from part_parser import {leaf} as parser_item")
        parser = "parser_item"
    tools, users = ", ".join(places["tools"]), ", ".join(places["users"])
    virtual = project_root / "__parts__.py"
    finder.edit(
        virtual,
        "\n".join(
            [*lines, "", f'{PARTS} = {{"tools": {{{tools}}}, "users": {{{users}}}, "parser": {parser}{more}}}', ""]
        ),
    )
    return extract_function(finder, virtual, PARTS)


def _wanted(turns: MultiTurn) -> Iterator[tuple[str, str, str | None, str]]:
    for tool in turns.tools:
        yield "tools", tool.name, tool.file, tool.class_name
    for user in turns.interactions:
        yield "users", user.name, user.file, user.class_name


def parser_class(name: str, verl_root: Path, recipe_root: Path) -> tuple[Path, str]:
    """The file and class that `@ToolParser.register(name)` registers, in the recipe or in verl.

    Raises:
        NotExtractable: there is none.
    """
    places = [path for path in walk(recipe_root) if path.suffix == ".py" and "parser" in path.name]
    places.append(verl_root / PARSER_FILE)
    for path in places:
        if not path.is_file():
            continue
        try:
            tree = ast.parse(path.read_text("utf-8", errors="replace"))
        except (SyntaxError, ValueError):
            continue
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and any(
                registers(item, name, "ToolParser.register") for item in node.decorator_list
            ):
                return path, node.name
    raise NotExtractable(
        f"multi_turn.format {name}: no tool parser of that name in the recipe or in verl",
        "name the verl checkout that has it with --verl-root",
    )
