"""Which file an import of a recipe means: a file of the recipe, a module of verl, or somebody else's package."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Hashable
from functools import lru_cache
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from migrate_tools.errors import RefusedInput
from migrate_tools.verl.pymodule import ImportedName, PyModule

T = TypeVar("T")
Stamp: TypeAlias = tuple[int, int]
"""Time of the last change in nanoseconds, and size in bytes."""


def stamp(path: Path) -> Stamp | None:
    """State of a file; None when it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


class ModuleFinder:
    """Finds and parses the modules that a reward may be made of; each file is parsed once."""

    def __init__(self, project_root: Path, verl_root: Path, extra_roots: tuple[Path, ...] = ()) -> None:
        self.project_root = project_root.resolve()
        self.verl_root = verl_root.resolve()
        self._roots = (*extra_roots, self.project_root)
        self._modules: dict[Path, PyModule] = {}
        self._edited: dict[Path, str] = {}
        self._aliases: dict[str, Path] = {}
        self._moved: dict[Path, list[str]] = {}

    def shown(self, path: Path) -> str:
        """The path as reports print it: "verl/..." below the verl source, else relative to the project."""
        path = path.resolve()
        if path.is_relative_to(self.verl_root / "verl"):
            return path.relative_to(self.verl_root).as_posix()
        for root in (self.project_root, self.verl_root):
            if path.is_relative_to(root):
                return path.relative_to(root).as_posix()
        return path.name

    def load(self, path: Path) -> PyModule:
        """The parsed file.

        Raises:
            RefusedInput: it cannot be read, or is not valid Python.
        """
        path = path.resolve()
        if path not in self._modules:
            code = self._edited.get(path)
            if code is None:
                code = read_source(path, self.shown(path))
            stem = path.parent.name if path.name == "__init__.py" else path.stem
            stem = "".join(c if c.isalnum() else "_" for c in stem)
            self._modules[path] = parsed(path, self.shown(path), expand_stars(self, path, code), stem)
        return self._modules[path]

    def files(self) -> dict[Path, Stamp | None]:
        """Every file that was loaded so far, with its state now."""
        return {path: stamp(path) for path in {*self._modules, *self._edited}}

    def edit(self, path: Path, code: str) -> None:
        """Use `code` instead of the text of the file from now on."""
        path = path.resolve()
        self._edited[path] = code
        self._modules.pop(path, None)

    def alias(self, name: str, path: Path) -> None:
        """Take a dotted module name as this file, wherever it is imported."""
        self._aliases[name] = path.resolve()

    def moved(self, path: Path, package: str) -> None:
        """The file is copied into a package before a run: its imports are those of a module there."""
        self._moved[path.resolve()] = package.split(".")

    def find(self, item: ImportedName, importer: Path) -> Path | None:
        """File of the module part of an import, or None when it is not the recipe's or verl's."""
        parts = item.module.split(".") if item.module else []
        if not item.level:
            return self.find_absolute(parts, importer)
        base = importer.parent
        for _ in range(item.level - 1):
            base = base.parent
        found = module_file(base, parts)
        package = self._moved.get(importer.resolve())
        if found is None and package is not None and item.level <= len(package):
            found = self.find_absolute([*package[: len(package) + 1 - item.level], *parts], importer)
        return found

    def find_absolute(self, parts: list[str], importer: Path) -> Path | None:
        """File of an absolute dotted name as seen from `importer`."""
        if (known := self._aliases.get(".".join(parts))) is not None:
            return known
        if not parts or parts[0] in sys.stdlib_module_names:
            return None
        if parts[0] == "verl":
            return module_file(self.verl_root, parts) or self._moved_along(parts, importer)
        if parts[0] == "recipe":
            return (
                module_file(self.project_root, parts)
                or module_file(self.project_root, parts[1:])
                or module_file(self.verl_root, parts)
            )
        for root in (importer.parent, *self._roots):
            found = module_file(root, parts)
            if found is not None:
                return found
        return None

    def _moved_along(self, parts: list[str], importer: Path) -> Path | None:
        """A module that is copied into verl together with its importer: it lies beside it, under its last name."""
        if importer.resolve() not in self._moved:
            return None
        found = module_file(importer.parent, parts[-1:])
        if found is not None:
            self.moved(found, ".".join(parts[:-1]))
        return found

    def submodule(self, package: PyModule, name: str) -> Path | None:
        """File of `name` inside a package."""
        return module_file(package.path.parent, [name]) if package.is_package else None


class Memo(Generic[T]):
    """Results by key, each good while the files that it was made from stay as they are."""

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[T, dict[Path, Stamp | None]]] = {}

    def get(self, key: Hashable, finder: ModuleFinder, make: Callable[[], T]) -> T:
        """The result for a key; `make` makes it with what `finder`, a fresh one, loads."""
        if key in self._made:
            made, files = self._made[key]
            if all(stamp(path) == state for path, state in files.items()):
                return made
        made = make()
        self._made[key] = made, finder.files()
        return made


@lru_cache(maxsize=512)
def parsed(path: Path, shown: str, code: str, stem: str) -> PyModule:
    """A parsed file; the launches of a recipe mostly share their reward files."""
    return PyModule(path, shown, code, stem=stem)


def module_file(root: Path, parts: list[str]) -> Path | None:
    """`root/a/b.py` or `root/a/b/__init__.py` for ["a", "b"].

    For a namespace package (a folder of Python files without `__init__.py`) the path that its `__init__.py` would have.
    """
    base = root.joinpath(*parts)
    package = base / "__init__.py"
    if package.is_file():
        return package
    if parts and base.with_name(base.name + ".py").is_file():
        return base.with_name(base.name + ".py")
    if base.is_dir() and next(base.glob("*.py"), None) is not None:
        return package
    return None


def read_source(path: Path, shown: str) -> str:
    """Text of a Python file; a namespace package has none.

    Raises:
        RefusedInput: missing, unreadable or not UTF-8.
    """
    if path.name == "__init__.py" and not path.exists() and path.parent.is_dir():
        return ""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise RefusedInput(f"{shown}: not UTF-8 text (byte {error.start})", "save the file as UTF-8") from None
    except OSError as error:
        raise RefusedInput(f"{shown}: cannot be read ({error.strerror})", "make the file readable") from None


def expand_stars(finder: ModuleFinder, path: Path, code: str) -> str:
    """Write the names out in star imports from the recipe's own modules; others stay as they are."""
    if "import *" not in code:
        return code
    import ast

    try:
        tree = ast.parse(code)
    except SyntaxError:
        return code
    lines = code.splitlines(keepends=True)
    for node in tree.body:
        if not (isinstance(node, ast.ImportFrom) and node.names[0].name == "*"):
            continue
        found = finder.find(ImportedName(node.module or "", node.level, "*", "*", False), path)
        if found is not None:
            names = ", ".join(public_names(finder.load(found))) or "__name__"
            start = lines[node.lineno - 1]
            lines[node.lineno - 1] = start.replace("*", f"({names})", 1)
    return "".join(lines)


def public_names(module: PyModule) -> list[str]:
    """What `from module import *` binds."""
    import ast

    for index in module.bindings.get("__all__", ()):
        try:
            value = ast.literal_eval(module.tree.code_for_node(module.statements[index].node).split("=", 1)[1].strip())
        except (ValueError, SyntaxError, IndexError):
            continue
        return [str(name) for name in value]
    return sorted(name for name in module.bindings if not name.startswith("_"))


def parse(code: str, shown: str) -> ast.Module:
    """The syntax tree of a file of the recipe.

    Raises:
        RefusedInput: it is not valid Python; names file and line.
    """
    try:
        return ast.parse(code)
    except SyntaxError as error:
        raise RefusedInput(
            f"{shown}:{error.lineno}: not valid Python ({error.msg})", "fix the file; verl cannot load it either"
        ) from None
    except ValueError as error:
        raise RefusedInput(f"{shown}: not valid Python ({error})", "fix the file") from None
