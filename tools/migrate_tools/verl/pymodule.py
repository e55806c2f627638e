"""One Python file of a recipe as libcst sees it: top-level statements, what each binds and what each refers to.

Nothing is imported or executed.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import libcst as cst
from libcst.metadata import (
    Assignment,
    BaseAssignment,
    GlobalScope,
    ImportAssignment,
    MetadataWrapper,
    PositionProvider,
    ScopeProvider,
)

from migrate_tools.errors import RefusedInput

Statement: TypeAlias = cst.SimpleStatementLine | cst.BaseCompoundStatement
BUILTIN_NAMES = frozenset(dir(builtins))


@dataclass(frozen=True)
class ImportedName:
    """One alias of an import statement."""

    module: str
    """Dotted text after `from`, or the whole dotted name of `import a.b`."""
    level: int
    """Leading dots of a relative import."""
    name: str | None
    """Name after `import` in a from-import; None for `import a.b`."""
    local: str
    """Name that the alias binds ("a" for `import a.b`)."""
    renamed: bool
    """Whether the alias has an `as`."""

    @property
    def root(self) -> str:
        """First part of the dotted module name."""
        return self.module.split(".")[0]

    def text(self, local: str) -> str:
        """The alias as an import statement that binds `local`."""
        if self.name is None:
            return (
                f"import {self.module}"
                if not self.renamed and local == self.root
                else (f"import {self.module} as {local}")
            )
        suffix = "" if local == self.name else f" as {local}"
        return f"from {'.' * self.level}{self.module} import {self.name}{suffix}"


@dataclass(frozen=True)
class Reference:
    """A use of a name inside a top-level statement."""

    node: cst.Name
    name: str
    imported: tuple[ImportedName, ...]
    """The imports that bind the name, at module level or inside a function."""
    is_global: bool
    """Whether the binding is at module level."""
    unique: bool
    """Whether one import, perhaps repeated, is all that binds the name in its scope."""
    in_annotation: bool = False
    """Whether the use is (part of) a type annotation."""


@dataclass
class TopStatement:
    """A statement at module level."""

    index: int
    node: Statement
    line: int
    binds: set[str] = field(default_factory=set)
    references: list[Reference] = field(default_factory=list)
    mutated_globals: set[str] = field(default_factory=set)
    """Names that a function of this statement assigns through `global`."""
    local_names: set[str] = field(default_factory=set)
    """Names bound in the scopes below module level."""

    @property
    def is_import(self) -> bool:
        """Whether the statement consists of imports only."""
        return isinstance(self.node, cst.SimpleStatementLine) and all(
            isinstance(part, cst.Import | cst.ImportFrom) for part in self.node.body
        )

    @property
    def is_definition(self) -> bool:
        """Whether the statement is a plain function or class definition."""
        return isinstance(self.node, cst.FunctionDef | cst.ClassDef)


def dotted(node: cst.BaseExpression | None) -> str:
    """`a.b.c` of a Name or Attribute chain; empty for None."""
    if node is None:
        return ""
    if isinstance(node, cst.Attribute):
        return f"{dotted(node.value)}.{node.attr.value}"
    assert isinstance(node, cst.Name)
    return node.value


def aliases(node: cst.Import | cst.ImportFrom) -> list[tuple[cst.ImportAlias, ImportedName]]:
    """The aliases of an import statement; none for a star import."""
    if isinstance(node.names, cst.ImportStar):
        return []
    found = []
    for alias in node.names:
        asname = alias.asname.name.value if alias.asname and isinstance(alias.asname.name, cst.Name) else None
        name = dotted(alias.name)
        if isinstance(node, cst.Import):
            item = ImportedName(name, 0, None, asname or name.split(".")[0], asname is not None)
        else:
            item = ImportedName(dotted(node.module), len(node.relative), name, asname or name, asname is not None)
        found.append((alias, item))
    return found


class _Index(cst.CSTVisitor):
    """Which statement a node belongs to, and the attribute that a name or attribute is the value of."""

    def __init__(self) -> None:
        self.owner: dict[int, int] = {}
        self.attribute_of: dict[int, cst.Attribute] = {}
        self.global_items: dict[str, list[cst.Name]] = {}
        self.current = 0

    def on_visit(self, node: cst.CSTNode) -> bool:
        self.owner[id(node)] = self.current
        if isinstance(node, cst.Attribute):
            self.attribute_of[id(node.value)] = node
        if isinstance(node, cst.Global):
            for item in node.names:
                self.global_items.setdefault(item.name.value, []).append(item.name)
        return True


class PyModule:
    """A parsed file.

    Raises:
        RefusedInput: the file is not valid Python (the message names file and line).
    """

    def __init__(self, path: Path, shown: str, code: str, *, stem: str) -> None:
        self.path = path
        self.shown = shown
        self.stem = stem
        self.code = code
        try:
            wrapper = MetadataWrapper(cst.parse_module(code))
        except cst.ParserSyntaxError as error:
            raise RefusedInput(
                f"{shown}:{error.raw_line}: not valid Python ({error.message})",
                "fix the file; verl cannot load it either",
            ) from None
        self.tree = wrapper.module
        positions = wrapper.resolve(PositionProvider)
        self.positions = positions
        self._index = _Index()
        self.statements: list[TopStatement] = []
        for number, node in enumerate(self.tree.body):
            self._index.current = number
            node.visit(self._index)
            assert isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement)
            self.statements.append(TopStatement(number, node, positions[node].start.line))
        self.imports: dict[str, list[ImportedName]] = {}
        self.sites: dict[str, list[cst.Name]] = dict(self._index.global_items)
        """Where a top-level name is written to or declared `global`."""
        self.shared_aliases: set[tuple[int, str]] = set()
        """(id of an import statement, local name) below module level where the name has other bindings too."""
        self.stars = [
            self.tree.code_for_node(part)
            for statement in self.statements
            if isinstance(statement.node, cst.SimpleStatementLine)
            for part in statement.node.body
            if isinstance(part, cst.ImportFrom) and isinstance(part.names, cst.ImportStar)
        ]
        """Star imports of other people's packages."""
        self._read_scopes(wrapper)
        self.bindings: dict[str, list[int]] = {}
        for statement in self.statements:
            for name in statement.binds:
                self.bindings.setdefault(name, []).append(statement.index)

    @property
    def is_package(self) -> bool:
        """Whether the file is the `__init__` of a package."""
        return self.path.name == "__init__.py"

    def line_of(self, name: str) -> int | None:
        """Line of the last binding of a top-level name."""
        found = self.bindings.get(name)
        return self.statements[found[-1]].line if found else None

    def attribute_of(self, node: cst.BaseExpression) -> cst.Attribute | None:
        """The attribute expression that has `node` as its value."""
        return self._index.attribute_of.get(id(node))

    def _owner(self, node: cst.CSTNode) -> TopStatement | None:
        number = self._index.owner.get(id(node))
        return None if number is None else self.statements[number]

    def _read_scopes(self, wrapper: MetadataWrapper) -> None:
        scopes = {scope for scope in wrapper.resolve(ScopeProvider).values() if scope is not None}
        for scope in scopes:
            for assignment in scope.assignments:
                if isinstance(scope, GlobalScope):
                    self._bind(assignment)
                elif isinstance(assignment, Assignment) and (owner := self._owner(assignment.node)) is not None:
                    owner.local_names.add(assignment.name)
                    if isinstance(assignment, ImportAssignment) and not only_one_import(scope[assignment.name]):
                        self.shared_aliases.add((id(assignment.node), assignment.name))
            for access in scope.accesses:
                node: cst.CSTNode = access.node
                while isinstance(node, cst.Attribute):
                    node = node.value
                owner = self._owner(node)
                if owner is not None and isinstance(node, cst.Name):
                    reference = self._reference(node, list(access.referents), access.is_annotation)
                    if reference is not None:
                        owner.references.append(reference)

    def _bind(self, assignment: BaseAssignment) -> None:
        if not isinstance(assignment, Assignment):
            return
        owner = self._owner(assignment.node)
        if owner is None:
            return
        inside = isinstance(owner.node, cst.FunctionDef | cst.ClassDef) and assignment.node is not owner.node
        (owner.mutated_globals if inside else owner.binds).add(assignment.name)
        if isinstance(assignment, ImportAssignment):
            self.imports.setdefault(assignment.name, [])
            self.imports[assignment.name] += [i for i in imported(assignment) if i not in self.imports[assignment.name]]
        elif isinstance(assignment.node, cst.FunctionDef | cst.ClassDef):
            self.sites.setdefault(assignment.name, []).append(assignment.node.name)
        elif isinstance(assignment.node, cst.Name):
            self.sites.setdefault(assignment.name, []).append(assignment.node)

    def _reference(self, node: cst.Name, referents: list[BaseAssignment], annotation: bool) -> Reference | None:
        known = [item for item in referents if isinstance(item, Assignment)]
        if not known:
            return None if node.value in BUILTIN_NAMES else Reference(node, node.value, (), False, True)
        is_global = any(isinstance(item.scope, GlobalScope) for item in known)
        imports = tuple(sorted({i for item in known for i in imported(item)}, key=repr))
        if not is_global and not imports:
            return None
        return Reference(node, node.value, imports, is_global, only_one_import(known[0].scope[node.value]), annotation)


def imported(assignment: BaseAssignment) -> list[ImportedName]:
    """The import aliases that an assignment stands for."""
    statement = assignment.node if isinstance(assignment, ImportAssignment) else None
    if not isinstance(statement, cst.Import | cst.ImportFrom):
        return []
    return [item for _, item in aliases(statement) if item.local == assignment.name]


def only_one_import(assignments: Iterable[BaseAssignment]) -> bool:
    """Whether all the assignments are the same import."""
    found = [imported(item) for item in assignments]
    return all(found) and len({item for items in found for item in items}) == 1
