"""Reads the tools of a launch: the tool configuration file, the classes behind it, decorated functions.

Generations of verl's BaseTool (verl 0.4.0 to 0.9.1, verl/tools/base_tool.py): up to 0.5 `create` returns the id and
`execute` text; from 0.6 both work with ToolResponse. Tools that verl itself shipped are gone since 0.8.0.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from migrate_tools.errors import MachineError
from migrate_tools.model import Note, SourceRef, ToolSpec, VerlRef
from migrate_tools.verl import source
from migrate_tools.verl.class_tree import ClassTree, Lineage
from migrate_tools.verl.function_schema import NoSchema, function_schema
from migrate_tools.verl.module_finder import ModuleFinder
from migrate_tools.verl.paths import walk
from migrate_tools.verl.traits import find_traits

LAST_WITH_TOOLS = "0.7.1"
"""The last verl release that ships tools of its own."""
BASE = "BaseTool"


class ToolReader:
    """Tools of one launch.

    Args:
        finder: over the recipe's project and its verl.
        importer: a file of the recipe, from which dotted names are looked up.
        resolve: a path as the recipe writes it -> the file.
    """

    def __init__(
        self, finder: ModuleFinder, importer: Path, verl: VerlRef, resolve: Callable[[str], Path | None]
    ) -> None:
        self._finder, self._importer, self._verl, self._resolve = finder, importer, verl, resolve
        self.missing: list[Note] = []

    def from_config(self, text: str) -> list[ToolSpec]:
        """The tools of a tool configuration file (`multi_turn.tool_config_path`)."""
        content, source_of = self.load_yaml(text, "tool configuration")
        entries = content.get("tools") if isinstance(content, dict) else None
        found: list[ToolSpec] = []
        for number, entry in enumerate(entries if isinstance(entries, list) else []):
            if isinstance(entry, dict) and entry.get("class_name"):
                found.append(self._tool(entry, source_of(number)))
            else:
                self._miss("tool-entry", f"{text}: entry {number} names no class", source_of(number))
        return found

    def load_yaml(self, text: str, what: str) -> tuple[Any, Callable[[int], SourceRef]]:
        """A YAML file of the recipe and a function from the number of a `class_name` in it to its place."""
        path = self._resolve(text)
        if path is None or not path.is_file():
            self._miss("multi-turn-file-missing", f"the {what} {text} is not in the recipe", None)
            return {}, lambda number: SourceRef(file=text)
        shown = self._finder.shown(path)
        body = path.read_text("utf-8", errors="replace")
        lines = [
            number for number, line in enumerate(body.splitlines(), 1) if "class_name" in line or "_target_" in line
        ]
        try:
            content = yaml.safe_load(body)
        except yaml.YAMLError as error:
            self._miss(
                "multi-turn-file-broken", f"the {what} {shown} is not YAML: {' '.join(str(error).split())}", None
            )
            content = {}
        return content, lambda number: SourceRef(file=shown, line=lines[number] if number < len(lines) else None)

    def _tool(self, entry: Mapping[str, Any], place: SourceRef) -> ToolSpec:
        class_name = str(entry["class_name"])
        given, schema = entry.get("config"), entry.get("tool_schema")
        config = {str(key): value for key, value in given.items()} if isinstance(given, dict) else {}
        schema = schema if isinstance(schema, dict) else None
        lineage, version = self._class(class_name)
        if lineage is None:
            self._miss("tool-class-missing", f"the tool class {class_name} is not in the recipe or in verl", place)
        elif lineage.ends and lineage.ends != BASE:
            text = f"{class_name} builds on {lineage.ends}, which is not in the recipe or in verl"
            self._miss("tool-base-missing", text, place)
        if schema is None and lineage is not None:
            schema = literal_schema(lineage)
        name = (schema or {}).get("function", {}).get("name") or class_name.rpartition(".")[2]
        return ToolSpec(
            name=str(name),
            kind="mcp" if config.get("type") == "mcp" else "base_tool",
            class_name=class_name,
            file=lineage.first.shown if lineage else None,
            verl_version=version,
            parents=tuple(item.name for item in lineage.classes[1:]) if lineage else (),
            generation=generation(lineage) if lineage else "unknown",
            reads_episode=bool(lineage and _reads_episode(lineage)),
            own_create=bool(lineage and (made := lineage.method("create")) and made[0].name != BASE),
            parameters=schema,
            config=config,
            traits=self.traits(lineage) if lineage else (),
            source=place,
        )

    def _class(self, class_name: str) -> tuple[Lineage | None, str | None]:
        """The class, looked for in the recipe and its verl, then in the last verl that ships tools."""
        lineage = ClassTree(self._finder, self._importer).dotted(class_name)
        lineage = lineage or self.by_file_name(class_name)
        whole = lineage is not None and (not lineage.ends or lineage.ends == BASE)
        if whole or self._verl.version == LAST_WITH_TOOLS:
            return lineage, None
        try:
            older = source.wheel(LAST_WITH_TOOLS)
        except MachineError:
            return lineage, None
        finder = ModuleFinder(self._finder.project_root, Path(older.root), (self._importer.parent,))
        found = ClassTree(finder, self._importer).dotted(class_name)
        if found is None or (found.ends and found.ends != BASE):
            return lineage, None
        return found, LAST_WITH_TOOLS

    def by_file_name(self, class_name: str) -> Lineage | None:
        """A class that the recipe means to be copied into another package before the run.

        It is the only one of its name below the recipe, in the only file of the module's name.
        """
        module, _, leaf = class_name.rpartition(".")
        wanted = f"{module.rpartition('.')[2]}.py"
        tree = ClassTree(self._finder, self._importer)
        places = [path for path in walk(self._importer.parent) if path.name == wanted]
        found = [lineage for path in places if (lineage := tree.inside(path, leaf)) is not None]
        return found[0] if len(found) == 1 else None

    def traits(self, lineage: Lineage) -> tuple[str, ...]:
        """What the class and the bases that are not verl's do besides computing."""
        names: set[str] = set()
        taken = [item for item in lineage.classes if item is lineage.first or not item.shown.startswith("verl/")]
        for path in {item.path for item in taken}:
            names |= set(find_traits(self._finder.load(path).code))
        return tuple(sorted(names))

    def from_functions(self, text: str) -> list[ToolSpec]:
        """The functions that a file (`multi_turn.function_tool_path`, verl 0.8 and later) registers as tools."""
        path = self._resolve(text)
        if path is None or not path.is_file():
            self._miss("multi-turn-file-missing", f"the file of function tools {text} is not in the recipe", None)
            return []
        shown = self._finder.shown(path)
        tree = ast.parse(self._finder.load(path).code)
        traits = find_traits(self._finder.load(path).code)
        found = [
            ToolSpec(
                name=name,
                kind="function",
                class_name=node.name,
                file=shown,
                generation="function",
                parameters=self._inferred(node, name, SourceRef(file=shown, line=node.lineno)),
                traits=traits,
                source=SourceRef(file=shown, line=node.lineno),
            )
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for name in _registered(node)
        ]
        return sorted(found, key=lambda tool: tool.name)  # as verl's load_function_tools_from_path gives them

    def _inferred(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, name: str, place: SourceRef
    ) -> dict[str, Any] | None:
        try:
            return function_schema(node, name)
        except NoSchema as error:
            self._miss("function-schema", f"the function tool {name} has no schema that can be read: {error}", place)
            return None

    def _miss(self, code: str, text: str, place: SourceRef | None) -> None:
        self.missing.append(Note(code=code, text=text, source=place))


def _registered(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The name under which a function is registered by @function_tool, @function_tool("x") or (name="x")."""
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        target = call.func if call else decorator
        if ast.unparse(target).rpartition(".")[2] != "function_tool":
            continue
        words = [*call.args, *(item.value for item in call.keywords if item.arg == "name")] if call else []
        literal = next((word.value for word in words if isinstance(word, ast.Constant)), None)
        yield literal if isinstance(literal, str) else node.name


def _reads_episode(lineage: Lineage) -> bool:
    """Whether a method of the class, or of a base that is not verl's BaseTool, uses verl's agent_data."""
    return any("agent_data" in ast.unparse(item.node) for item in lineage.classes if item.name != BASE)


def generation(lineage: Lineage) -> Any:
    """Which form of BaseTool.execute the class has."""
    found = lineage.method("execute")
    if found is None:
        return "unknown"
    _, node = found
    names = [item.arg for item in (*node.args.posonlyargs, *node.args.args)]
    if len(names) > 2 and names[2] != "parameters" and not names[2].startswith("_"):
        return "direct"
    annotation = ast.unparse(node.returns) if node.returns else ""
    returned = [item.value for item in ast.walk(node) if isinstance(item, ast.Return) and item.value is not None]
    firsts = [item.elts[0] if isinstance(item, ast.Tuple) and item.elts else item for item in returned]
    uses_response = any("ToolResponse(" in ast.unparse(item) for item in firsts)
    if uses_response or (annotation.startswith("tuple[ToolResponse") and not _only_text(firsts)):
        return "response"
    return "text" if firsts else "unknown"


def _only_text(firsts: list[ast.expr]) -> bool:
    """Whether every returned value is a text by its form."""
    return bool(firsts) and all(
        isinstance(item, ast.JoinedStr) or (isinstance(item, ast.Constant) and isinstance(item.value, str))
        for item in firsts
    )


def literal_schema(lineage: Lineage) -> dict[str, Any] | None:
    """The schema that get_openai_tool_schema spells out as a literal; None when it is made otherwise."""
    found = lineage.method("get_openai_tool_schema")
    if found is None or found[0].name == BASE:
        return None
    for node in ast.walk(found[1]):
        if isinstance(node, ast.Dict):
            try:
                value = ast.literal_eval(node)
            except ValueError:
                continue
            if "function" in value:
                return dict(value)
    return None
