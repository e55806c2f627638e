"""Writes the statements of a Graph as one module: names made unique, imports of the recipe's own files removed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import libcst as cst

from migrate_tools.verl.extract_graph import Definition, Graph, GraphBuilder
from migrate_tools.verl.module_finder import ModuleFinder
from migrate_tools.verl.pymodule import BUILTIN_NAMES, ImportedName, PyModule, TopStatement, aliases
from migrate_tools.verl.traits import FRAMEWORKS

Replaced: TypeAlias = cst.BaseSmallStatement | cst.FlattenSentinel[cst.BaseSmallStatement] | cst.RemovalSentinel
GENERIC = frozenset({"compute_score", "main", "run", "score", "evaluate", "reward_func", "reward_fn"})
"""Names that say nothing without their module: prefixed when reached as `module.name`."""


class Names:
    """Final name of every definition and of every foreign import."""

    def __init__(self, finder: ModuleFinder, graph: Graph, root: Definition) -> None:
        self.definitions: dict[Definition, str] = {}
        self.imports: dict[tuple[Path, ImportedName], str] = {}
        self._taken: dict[str, Definition | str] = {}
        self._modules = {path: finder.load(path) for path in graph.order}
        statements = [(self._modules[p], self._modules[p].statements[i]) for p in graph.order for i in graph.needed[p]]
        self._locals = {name for _, statement in statements for name in statement.local_names}
        self._graph = graph
        paths = [root[0], *(path for path in reversed(graph.order) if path != root[0])]
        self._give(root, self._modules[root[0]], keep=True)
        for path in paths:
            self._name_module(self._modules[path], keep=path == root[0])

    def _name_module(self, module: PyModule, *, keep: bool) -> None:
        for item in sorted(self._graph.externals.get(module.path, ()), key=lambda i: (i.local, i.module)):
            self._give_import(module, item)
        for index in sorted(self._graph.needed[module.path]):
            for name in sorted(module.statements[index].binds):
                self._give((module.path, name), module, keep=keep)

    def _give_import(self, module: PyModule, item: ImportedName) -> None:
        meaning = item.text(item.local)
        local = item.local
        if self._taken.get(local, meaning) != meaning:
            local = self._free(f"{module.stem}_{item.local}")
            meaning = item.text(local)
        self._taken[local] = meaning
        self.imports[module.path, item] = local

    def _give(self, definition: Definition, module: PyModule, *, keep: bool) -> None:
        if definition in self.definitions:
            return
        name = definition[1]
        clash = name in self._taken or (
            not keep
            and definition in self._graph.crossing
            and (
                name in self._locals or name in BUILTIN_NAMES or (name in GENERIC and definition in self._graph.aliased)
            )
        )
        if clash:
            private = name.startswith("_") and not name.startswith("__")
            name = self._free(f"_{module.stem}{name}" if private else f"{module.stem}_{name}")
        self._taken[name] = definition
        self.definitions[definition] = name

    def _free(self, wanted: str) -> str:
        wanted = wanted if wanted.isidentifier() else f"m_{wanted}"
        name, number = wanted, 2
        while name in self._taken or name in self._locals or name in BUILTIN_NAMES:
            name, number = f"{wanted}_{number}", number + 1
        return name


class _Rewrite(cst.CSTTransformer):
    """Replaces names, and import statements by the statements that take their place."""

    def __init__(self, names: Mapping[int, str], imports: Mapping[int, list[str]]) -> None:
        super().__init__()
        self._names = names
        self._imports = imports

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        new = self._names.get(id(original_node))
        return updated_node if new is None else updated_node.with_changes(value=new)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        new = self._names.get(id(original_node))
        return updated_node if new is None else cst.Name(new, lpar=updated_node.lpar, rpar=updated_node.rpar)

    def _replaced(self, original: cst.CSTNode, updated: cst.BaseSmallStatement) -> Replaced:
        if id(original) not in self._imports:
            return updated
        parts: list[cst.BaseSmallStatement] = []
        for text in self._imports[id(original)]:
            statement = cst.parse_statement(text)
            assert isinstance(statement, cst.SimpleStatementLine)
            parts.extend(part for part in statement.body)
        return cst.FlattenSentinel(parts) if parts else cst.RemoveFromParent()

    def leave_Import(self, original_node: cst.Import, updated_node: cst.Import) -> Replaced:
        return self._replaced(original_node, updated_node)

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> Replaced:
        return self._replaced(original_node, updated_node)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        return updated_node if updated_node.body else cst.RemoveFromParent()


class _NameSites(cst.CSTVisitor):
    """All names at any depth."""

    def __init__(self) -> None:
        self.found: list[cst.Name] = []

    def visit_Name(self, node: cst.Name) -> bool:
        self.found.append(node)
        return False


def names_in(node: cst.CSTNode) -> list[cst.Name]:
    """Name nodes at any depth."""
    sites = _NameSites()
    node.visit(sites)
    return sites.found


def names_of_types(function: cst.FunctionDef) -> list[cst.Name]:
    """Name nodes in the annotations of a function's parameters and result."""
    notes = [parameter.annotation for parameter in _parameters(function.params)]
    return [name for note in (*notes, function.returns) if note is not None for name in names_in(note)]


def _parameters(held: cst.Parameters) -> Iterator[cst.Param]:
    yield from (*held.posonly_params, *held.params, *held.kwonly_params)
    yield from (item for item in (held.star_arg, held.star_kwarg) if isinstance(item, cst.Param))


def with_imports(function: cst.FunctionDef, lines: list[str]) -> cst.FunctionDef:
    """The function with import lines at its start, after the docstring."""
    if not lines:
        return function
    if isinstance(function.body, cst.SimpleStatementSuite):  # def f(x): return x
        own = cst.SimpleStatementLine(function.body.body)
        return function.with_changes(body=cst.IndentedBlock([*map(cst.parse_statement, lines), own]))
    body: list[cst.BaseStatement] = list(function.body.body)  # type: ignore[arg-type]
    at = 1 if function.get_docstring() is not None else 0
    body[at:at] = [cst.parse_statement(line) for line in lines]
    return function.with_changes(body=function.body.with_changes(body=body))


class _ImportSites(cst.CSTVisitor):
    """Import statements at any depth."""

    def __init__(self) -> None:
        self.found: list[cst.Import | cst.ImportFrom] = []

    def visit_Import(self, node: cst.Import) -> bool:
        self.found.append(node)
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        self.found.append(node)
        return False


def inner_imports(statement: TopStatement) -> list[cst.Import | cst.ImportFrom]:
    """Import statements at any depth of a statement."""
    sites = _ImportSites()
    statement.node.visit(sites)
    return sites.found


class Flattener:
    """The text of the needed statements, file by file."""

    def __init__(self, builder: GraphBuilder, names: Names, root: Path) -> None:
        self._builder = builder
        self._graph = builder.graph
        self._names = names
        self._annotated: set[tuple[Path, ImportedName]] = set()
        """Imports that annotations use."""
        self._deferred = self._find_deferred(self._graph.eager(root))
        self.kept_imports: list[ImportedName] = []
        """Foreign imports that stay where they are (inside functions and try blocks)."""

    def import_lines(self) -> list[str]:
        """Module-level import lines, `from __future__` first, without doubles.

        Third-party names that only annotations use are imported for type checkers alone: the module then runs without
        the package.
        """
        modules = [self._builder.finder.load(path) for path in self._graph.order]
        future = future_imports(modules)
        found: dict[str, bool] = {}
        typing_only: set[str] = set()
        for (path, item), local in self._names.imports.items():
            text = item.text(local)
            if (path, item) in self._deferred:
                if (path, item) in self._annotated:
                    typing_only.add(text)
                continue
            if is_standard(item) or (path, item) in self._graph.evaluated:
                found[text] = is_standard(item)
            else:
                typing_only.add(text)
        typing_only -= set(found)
        if typing_only:
            future = sorted({*future, "annotations"})
            found["from typing import TYPE_CHECKING"] = True
        lines = [f"from __future__ import {name}" for name in future]
        lines += sorted(self._graph.stars)
        lines += sorted(found, key=lambda text: (not found[text], text.split()[1], text))
        if typing_only:
            lines += ["", "if TYPE_CHECKING:", *(f"    {text}" for text in sorted(typing_only))]
        return lines

    def module_code(self, path: Path) -> str:
        """The statements taken from one file, in their order."""
        module = self._builder.finder.load(path)
        names = self._renames(module)
        parts = []
        for index in sorted(self._graph.needed[path]):
            statement = module.statements[index]
            if statement.is_import:
                continue
            rewrite = _Rewrite(names, self._import_changes(module, statement))
            node = statement.node.visit(rewrite)
            if isinstance(node, cst.FunctionDef) and isinstance(statement.node, cst.FunctionDef):
                node = with_imports(node, self._deferred_lines(module, statement.node))
            if isinstance(node, cst.CSTNode):
                parts.append(module.tree.code_for_node(node))
        return "".join(parts)

    def _find_deferred(self, eager: set[Path]) -> set[tuple[Path, ImportedName]]:
        """Third-party imports that can wait for the first call: all that uses them are bodies of functions, and
        annotations.

        Those of lazily loaded files stay lazy so; frameworks become it, since Relax loads a reward in processes that
        may not have them.
        """
        found: set[tuple[Path, ImportedName]] = set()
        for path, uses in self._graph.foreign_uses.items():
            module = self._builder.finder.load(path)
            statements = [module.statements[index].node for index in self._graph.needed[path]]
            functions = [node for node in statements if isinstance(node, cst.FunctionDef)]
            inside = {id(name) for function in functions for name in names_in(function.body)}
            types = {id(name) for function in functions for name in names_of_types(function)}
            outside = {item for _, item, name in uses if id(name) not in inside | types}
            inner = {item for _, item, name in uses if id(name) in inside and not is_standard(item)} - outside
            self._annotated |= {(path, item) for _, item, name in uses if id(name) in types}
            found |= {(path, item) for item in inner if path not in eager or item.root in FRAMEWORKS}
        return found

    def _deferred_lines(self, module: PyModule, function: cst.FunctionDef) -> list[str]:
        own = {id(name) for name in names_in(function.body)}
        items = {
            item
            for _, item, name in self._graph.foreign_uses.get(module.path, ())
            if id(name) in own and (module.path, item) in self._deferred
        }
        return sorted(item.text(self._names.imports[module.path, item]) for item in items)

    def _renames(self, module: PyModule) -> dict[int, str]:
        names: dict[int, str] = {}
        for (path, name), new in self._names.definitions.items():
            if path == module.path and new != name:
                names.update({id(site): new for site in module.sites.get(name, ())})
        for use in self._graph.uses.get(module.path, ()):
            new = self._names.definitions[use.target]
            if not use.keep and not (isinstance(use.node, cst.Name) and use.node.value == new):
                names[id(use.node)] = new
        for node, item, _ in self._graph.foreign_uses.get(module.path, ()):
            new = self._names.imports[module.path, item]
            if not (isinstance(node, cst.Name) and node.value == new):
                names[id(node)] = new
        return names

    def _import_changes(self, module: PyModule, statement: TopStatement) -> dict[int, list[str]]:
        changes: dict[int, list[str]] = {}
        for node in inner_imports(statement):
            texts = [self._alias_text(module, node, item) for _, item in aliases(node)]
            if isinstance(node.names, cst.ImportStar) or all(text is None for text in texts):
                continue
            changes[id(node)] = [
                item.text(item.local) if text is None else text
                for text, (_, item) in zip(texts, aliases(node), strict=True)
                if text != ""
            ]
        return changes

    def _alias_text(self, module: PyModule, node: cst.Import | cst.ImportFrom, item: ImportedName) -> str | None:
        """What stands for one alias now: None for the same text, "" for nothing."""
        target = self._builder.resolve_import(module, item)
        if isinstance(target, ImportedName):
            self.kept_imports.append(item)
            new = self._names.definitions.get((module.path, item.local), item.local)
            return None if new == item.local or item.local not in module.bindings else item.text(new)
        if target is None:
            return f"raise ImportError({item.text(item.local)!r})"
        if isinstance(target, tuple) and (id(node), item.local) in module.shared_aliases:
            return f"{item.local} = {self._names.definitions[target]}"
        return ""


def future_imports(modules: list[PyModule]) -> list[str]:
    """`from __future__` names of the modules, sorted."""
    names = {
        item.name
        for module in modules
        for statement in module.statements
        if isinstance(statement.node, cst.SimpleStatementLine)
        for part in statement.node.body
        if isinstance(part, cst.ImportFrom)
        for _, item in aliases(part)
        if item.module == "__future__" and item.name
    }
    return sorted(names)


def is_standard(item: ImportedName) -> bool:
    """Whether an import is of the standard library."""
    return item.level == 0 and item.root in sys.stdlib_module_names
