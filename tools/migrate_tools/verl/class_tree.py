"""Finds a class by its dotted name in a recipe or in verl, with its base classes, without importing anything."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from migrate_tools.errors import RefusedInput
from migrate_tools.verl.module_finder import ModuleFinder
from migrate_tools.verl.pymodule import ImportedName

MAX_BASES = 12


@dataclass(frozen=True)
class FoundClass:
    """A class definition and where it stands."""

    name: str
    path: Path
    shown: str
    node: ast.ClassDef

    @property
    def text(self) -> str:
        """`file.py:Class`."""
        return f"{self.shown}:{self.name}"


@dataclass(frozen=True)
class Lineage:
    """A class and its bases, nearest first; `ends` names the first base that is not at hand, or nothing."""

    classes: tuple[FoundClass, ...]
    ends: str = ""

    @property
    def first(self) -> FoundClass:
        """The class itself."""
        return self.classes[0]

    def method(self, name: str) -> tuple[FoundClass, ast.FunctionDef | ast.AsyncFunctionDef] | None:
        """The definition of a method that the class has, and the class that gives it."""
        for item in self.classes:
            for node in item.node.body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
                    return item, node
        return None


class ClassTree:
    """Classes over the files that a finder reaches."""

    def __init__(self, finder: ModuleFinder, importer: Path) -> None:
        self._finder = finder
        self._importer = importer

    def dotted(self, name: str) -> Lineage | None:
        """The class `package.module.Class`; None when its file or the class is not there."""
        module, _, leaf = name.rpartition(".")
        path = self._finder.find_absolute(module.split("."), self._importer) if module else None
        return self.inside(path, leaf) if path is not None else None

    def inside(self, path: Path, leaf: str) -> Lineage | None:
        """The class `leaf` of a file, followed through imports."""
        classes: list[FoundClass] = []
        place: tuple[Path, str] | None = (path, leaf)
        ends = ""
        while place is not None and len(classes) < MAX_BASES:
            found = self._definition(*place)
            if found is None:
                ends = place[1]
                break
            classes.append(found)
            place, ends = self._base(found)
        return Lineage(tuple(classes), ends) if classes else None

    def _definition(self, path: Path, name: str, depth: int = 0) -> FoundClass | None:
        tree = self._tree(path)
        if tree is None or depth > MAX_BASES:
            return None
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return FoundClass(name, path, self._finder.shown(path), node)
        for item in _imports(tree, name):
            target = self._finder.find(item, path)
            if target is not None and item.name is not None:
                return self._definition(target, item.name, depth + 1)
        return None

    def _base(self, found: FoundClass) -> tuple[tuple[Path, str] | None, str]:
        """Where the first base that matters is defined, or the name of one that is not at hand."""
        for base in found.node.bases:
            text = ast.unparse(base).partition("[")[0]
            if text in ("object", "ABC", "abc.ABC", "Generic", "Protocol"):
                continue
            head, _, leaf = text.rpartition(".")
            if not head:
                if self._definition(found.path, text) is not None:
                    return (found.path, text), ""
                return None, text
            tree = self._tree(found.path)
            for item in _imports(tree, head.partition(".")[0]) if tree is not None else ():
                dotted = ".".join([*(item.module, item.name or ""), *head.split(".")[1:]]).strip(".")
                target = self._finder.find_absolute(dotted.split("."), found.path)
                if target is not None:
                    return (target, leaf), ""
            return None, text
        return None, ""

    def _tree(self, path: Path) -> ast.Module | None:
        try:
            return ast.parse(self._finder.load(path).code)
        except (RefusedInput, SyntaxError, ValueError):
            return None


def registers(decorator: ast.expr, name: str, function: str = "register") -> bool:
    """Whether a decorator is a call of `function` ("register", or "Owner.register") with this name."""
    if not isinstance(decorator, ast.Call) or not f".{ast.unparse(decorator.func)}".endswith(f".{function}"):
        return False
    return any(isinstance(word, ast.Constant) and word.value == name for word in decorator.args)


def _imports(tree: ast.Module, name: str) -> list[ImportedName]:
    """The imports anywhere in a module that bind `name`."""
    found: list[ImportedName] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    found.append(
                        ImportedName(node.module or "", node.level, alias.name, name, alias.asname is not None)
                    )
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if (alias.asname or alias.name.partition(".")[0]) == name:
                    found.append(ImportedName(alias.name, 0, None, name, alias.asname is not None))
    return found
