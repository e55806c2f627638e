"""What a function needs: the top-level statements, across files, that it refers to directly or through others."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import libcst as cst

from migrate_tools.errors import RefusedInput
from migrate_tools.verl.module_finder import ModuleFinder
from migrate_tools.verl.pymodule import ImportedName, PyModule, Reference, TopStatement

Definition: TypeAlias = tuple[Path, str]
"""A top-level name of a file."""
MODULE_NAMES = frozenset({"__name__", "__file__", "__doc__", "__package__", "__spec__", "__builtins__"})


class NotExtractable(RefusedInput):
    """The code uses something that cannot be carried into one module; says what and where."""


@dataclass(frozen=True)
class Use:
    """A reference to a definition that is written `node` in the source (a name, or `module.name`)."""

    node: cst.BaseExpression
    target: Definition
    via_alias: bool
    keep: bool = False
    """The text stays, because the name is bound to the target inside the function."""
    local: bool = False
    """Reached through an import inside a function: the original loads that file only when the line runs."""


@dataclass
class Graph:
    """The needed statements of every file, and how they refer to each other."""

    order: list[Path] = field(default_factory=list)
    """Files, dependencies first."""
    needed: dict[Path, set[int]] = field(default_factory=dict)
    uses: dict[Path, list[Use]] = field(default_factory=dict)
    """Uses whose text must change (they cross files), and those of own names."""
    externals: dict[Path, set[ImportedName]] = field(default_factory=dict)
    """Third-party and standard library names bound by module-level import statements that are needed."""
    foreign_uses: dict[Path, list[tuple[cst.BaseExpression, ImportedName, cst.Name]]] = field(default_factory=dict)
    """References to those names: the expression, what it means, and the name it starts with."""
    evaluated: set[tuple[Path, ImportedName]] = field(default_factory=set)
    """Those of them that are used outside annotations."""
    aliased: set[Definition] = field(default_factory=set)
    crossing: set[Definition] = field(default_factory=set)
    stars: set[str] = field(default_factory=set)
    """Star imports that a needed name may come from."""
    unresolved: set[tuple[str, str]] = field(default_factory=set)

    def eager(self, root: Path) -> set[Path]:
        """Files that the original loads together with `root`; the others are loaded when a function imports them."""
        found, queue = {root}, [root]
        while queue:
            for use in self.uses.get(queue.pop(), ()):
                if not use.local and use.target[0] not in found:
                    found.add(use.target[0])
                    queue.append(use.target[0])
        return found


class GraphBuilder:
    """Follows references from one definition."""

    def __init__(self, finder: ModuleFinder) -> None:
        self.finder = finder
        self.graph = Graph()
        self._entered: set[Path] = set()
        self._pending: list[tuple[PyModule, TopStatement]] = []

    def build(self, root: Path, name: str) -> tuple[Graph, Definition]:
        """The graph of `name` in `root`, and where the name is really defined.

        Raises:
            NotExtractable: the name does not exist there, or a module object is used as a value.
        """
        module = self.finder.load(root)
        target = self.resolve(module, name)
        if not isinstance(target, tuple):
            raise NotExtractable(f"{module.shown}: no function {name}", "check the name in the launch script")
        self._need(target)
        while True:
            while self._pending:
                self._follow(*self._pending.pop())
            if not self._add_side_effects():
                break
        self._sort(self.finder.load(target[0]).path)
        return self.graph, target

    # ------------------------------------------------------------ names

    def resolve(self, module: PyModule, name: str, depth: int = 0) -> Definition | ImportedName | PyModule | None:
        """What a module-level name stands for: a definition, a foreign import, a module of the recipe, or nothing."""
        indexes = module.bindings.get(name)
        if indexes is None:
            found = self.finder.submodule(module, name)
            return self.finder.load(found) if found else None
        if depth > 20:
            raise NotExtractable(f"{module.shown}: imports of {name} go round in a circle")
        for item in module.imports.get(name, ()):
            if item.name and self.finder.find(item, module.path) == module.path:
                found = self.finder.submodule(module, item.name)
                return self.finder.load(found) if found else None
            target = self.resolve_import(module, item, depth)
            if not isinstance(target, ImportedName) and target is not None:
                return target
        imports = module.imports.get(name, [])
        if imports and all(module.statements[i].is_import for i in indexes):
            return None if is_own(imports[0]) else imports[0]
        return (module.path, name)

    def resolve_import(
        self, module: PyModule, item: ImportedName, depth: int = 0
    ) -> Definition | ImportedName | PyModule | None:
        """What an imported name stands for; None when it should be a file of the recipe or of verl and is not there."""
        if item.name is None and not item.renamed:
            found = self.finder.find_absolute([item.root], module.path)
        else:
            found = self.finder.find(item, module.path)
        if found is None:
            return None if is_own(item) else item
        inner = self.finder.load(found)
        return inner if item.name is None else self.resolve(inner, item.name, depth + 1)

    def chain(
        self, module: PyModule, start: PyModule, node: cst.BaseExpression
    ) -> Use | tuple[cst.BaseExpression, ImportedName]:
        """Follow `alias.a.b` from a module alias to the definition it means."""
        current: Definition | ImportedName | PyModule | None = start
        expression = node
        while isinstance(current, PyModule):
            attribute = module.attribute_of(expression)
            if attribute is None:
                raise NotExtractable(
                    f"{module.shown}: module {current.shown} is used as a value, not through its names",
                    "call its functions by name",
                )
            holder, expression = current, attribute
            current = self.resolve(current, attribute.attr.value)
            if current is None:
                raise NotExtractable(f"{module.shown}: {holder.shown} has no {attribute.attr.value}")
        if isinstance(current, ImportedName):
            return expression, current
        assert current is not None
        return Use(expression, current, True)

    # ------------------------------------------------------------ closure

    def _need(self, target: Definition) -> None:
        path, name = target
        module = self.finder.load(path)
        for index in module.bindings[name]:
            self._need_statement(module, module.statements[index])

    def _need_statement(self, module: PyModule, statement: TopStatement) -> None:
        needed = self.graph.needed.setdefault(module.path, set())
        if statement.index not in needed:
            needed.add(statement.index)
            self._pending.append((module, statement))

    def _follow(self, module: PyModule, statement: TopStatement) -> None:
        for name in statement.mutated_globals:
            if name in module.bindings:
                self._need((module.path, name))
        for reference in statement.references:
            if reference.is_global or not reference.imported:
                self._follow_global(module, reference)
            else:
                self._follow_local_import(module, reference)
        if not statement.is_import:
            for name in statement.binds:
                self._need((module.path, name))

    def _follow_global(self, module: PyModule, reference: Reference) -> None:
        if not reference.is_global:
            if module.stars:
                self.graph.stars.update(module.stars)
            elif reference.name not in MODULE_NAMES:
                self.graph.unresolved.add((module.shown, reference.name))
            return
        target = self.resolve(module, reference.name)
        if target is None:
            raise missing(module, reference)
        if isinstance(target, ImportedName):
            self._use_foreign(module, reference, reference.node, target)
        else:
            self._use(module, reference, target)

    def _use_foreign(
        self, module: PyModule, reference: Reference, node: cst.BaseExpression, item: ImportedName
    ) -> None:
        self.graph.externals.setdefault(module.path, set()).add(item)
        self.graph.foreign_uses.setdefault(module.path, []).append((node, item, reference.node))
        if not reference.in_annotation:
            self.graph.evaluated.add((module.path, item))

    def _follow_local_import(self, module: PyModule, reference: Reference) -> None:
        targets = [self.resolve_import(module, item) for item in reference.imported]
        if all(target is None for target in targets):
            raise missing(module, reference)
        own = [target for target in targets if target is not None and not isinstance(target, ImportedName)]
        if not own:
            return
        modules = [target for target in own if isinstance(target, PyModule)]
        if reference.unique or (modules and len(own) == 1):
            self._use(module, reference, own[0])
            return
        if modules:
            raise NotExtractable(
                f"{module.shown}: {reference.name} is one of several modules, chosen while running", "name them apart"
            )
        for target in own:
            assert isinstance(target, tuple)
            self._record(module, Use(reference.node, target, False, keep=True, local=True))

    def _use(self, module: PyModule, reference: Reference, target: Definition | PyModule) -> None:
        local = not reference.is_global
        if isinstance(target, tuple):
            self._record(module, Use(reference.node, target, False, local=local))
            return
        use = self.chain(module, target, reference.node)
        if isinstance(use, tuple):
            node, item = use
            self._use_foreign(module, reference, node, item)
        else:
            self._record(module, replace(use, local=local))

    def _record(self, module: PyModule, use: Use) -> None:
        self.graph.uses.setdefault(module.path, []).append(use)
        if use.via_alias:
            self.graph.aliased.add(use.target)
        if use.target[0] != module.path:
            self.graph.crossing.add(use.target)
        self._need(use.target)

    # ------------------------------------------------------------ statements without a name of their own

    def _add_side_effects(self) -> bool:
        """Take statements that change what is needed: `TABLE["x"] = 1`, `logger.setLevel(..)`, `random.seed(0)`."""
        for path in list(self.graph.needed):
            module = self.finder.load(path)
            for statement in module.statements:
                if statement.index not in self.graph.needed[path] and self._is_wanted_effect(module, statement):
                    self._need_statement(module, statement)
        return bool(self._pending)

    def _is_wanted_effect(self, module: PyModule, statement: TopStatement) -> bool:
        if statement.is_import or is_docstring(statement.node) or is_main_guard(statement.node):
            return False
        if statement.binds and not isinstance(statement.node, cst.For | cst.While | cst.With):
            return False
        if touches_path(statement.node):
            return False
        names = {reference.name for reference in statement.references}
        own = {n for n in names if n in module.bindings and n not in module.imports} - statement.binds
        if any(not self._name_needed(module, name) for name in own):
            return False
        foreign = {n for n in names if n in module.imports}
        if any(not self._import_at_hand(module, name) for name in foreign):
            return False
        return bool(own) or bool(foreign)

    def _name_needed(self, module: PyModule, name: str) -> bool:
        return any(index in self.graph.needed[module.path] for index in module.bindings[name])

    def _import_at_hand(self, module: PyModule, name: str) -> bool:
        taken = {item.local for item in self.graph.externals.get(module.path, ())}
        return name in taken or all(
            item.level == 0 and item.root in sys.stdlib_module_names for item in module.imports[name]
        )

    # ------------------------------------------------------------ order

    def _sort(self, root: Path) -> None:
        done: list[Path] = []
        self._visit(root, set(), done)
        for path in self.graph.needed:
            if path not in done:
                self._visit(path, set(done), done)
        self.graph.order = [path for path in done if path in self.graph.needed]

    def _visit(self, path: Path, seen: set[Path], done: list[Path]) -> None:
        if path in seen or path in done:
            return
        seen.add(path)
        for use in self.graph.uses.get(path, ()):
            self._visit(use.target[0], seen, done)
        if path not in done:
            done.append(path)


def is_own(item: ImportedName) -> bool:
    """Whether an import can only mean a file of the recipe or of verl."""
    return item.level > 0 or item.root in ("verl", "recipe")


def missing(module: PyModule, reference: Reference) -> NotExtractable:
    """The error for an import that leads to no file."""
    item = reference.imported[0] if reference.imported else None
    what = item.text(item.local) if item else reference.name
    line = module.positions[reference.node].start.line
    return NotExtractable(
        f"{module.shown}:{line}: {what!r} leads to no file of the recipe or of verl", "add the missing file"
    )


def is_docstring(node: cst.CSTNode) -> bool:
    """Whether a statement is a bare string."""
    return (
        isinstance(node, cst.SimpleStatementLine)
        and isinstance(node.body[0], cst.Expr)
        and isinstance(node.body[0].value, cst.SimpleString | cst.ConcatenatedString)
    )


def is_main_guard(node: cst.CSTNode) -> bool:
    """Whether a statement is `if __name__ == ...:`."""
    return (
        isinstance(node, cst.If)
        and isinstance(node.test, cst.Comparison)
        and isinstance(node.test.left, cst.Name)
        and node.test.left.value == "__name__"
    )


def touches_path(node: cst.CSTNode) -> bool:
    """Whether a statement changes where Python looks for modules (pointless in a self-contained module)."""
    return "sys.path" in cst.Module(body=[]).code_for_node(node)
