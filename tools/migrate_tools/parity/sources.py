"""What the source of a reward tells before it runs: what it looks for, imports and writes, which lines it has."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import sys
from collections.abc import Set
from pathlib import Path

from migrate_tools.errors import MigrateError
from migrate_tools.model import Launch, Recipe
from migrate_tools.packages import requirements
from migrate_tools.parity import oldjob
from migrate_tools.parity.mine import mine
from migrate_tools.parity.stubs import CLIENTS, HEAVY
from migrate_tools.verl.extract import extract_reward
from migrate_tools.verl.traits import file_writes, imported_modules


class Sources:
    """The source of a reward: what it looks for, what it imports, which lines it has."""

    def __init__(self, recipe: Recipe, launch: Launch) -> None:
        self._recipe = recipe
        self._launch = launch
        self.code = self.entry = ""
        self._third_party: tuple[str, ...] = ()
        self._files: list[tuple[Path, str]] = []
        self.traits: tuple[str, ...] = launch.reward.traits
        self._read()
        self.mined = mine([self.code] if self.code else [path.read_text("utf-8", "replace") for path, _ in self._files])

    def _read(self) -> None:
        spec = self._launch.reward
        names = [spec.path] if spec.path else []
        try:
            root, verl = Path(self._recipe.project_root), self._launch.verl
            extracted = extract_reward(spec, self._launch.data, project_root=root, verl=verl)
            self.code, self._third_party, self.entry = extracted.code, extracted.third_party, extracted.entry
            names += [origin.file for origin in extracted.origins]
        except (MigrateError, SyntaxError, OSError, ValueError):
            pass  # the original file alone still tells what the scorer looks for
        found = (oldjob.inside_name(self._recipe, name) for name in dict.fromkeys(names))
        self._files = [place for place in found if place is not None]

    def imports(self) -> list[str]:
        """Modules of third-party packages that the reward imports, also those inside functions."""
        found = set(imported_modules(ast.parse(self.code))) if self.code else set[str]()
        return sorted(name for name in found if name.partition(".")[0] in self._third_party)

    def missing_packages(self) -> tuple[list[str], list[str]]:
        """Third-party packages that this machine lacks: what loading the reward imports, and what only its calls do."""
        missing = _not_installed({name.partition(".")[0] for name in self._third_party})
        loaded = {name.partition(".")[0] for name in imported_modules(ast.parse(self.code), loading=True)}
        return sorted(missing & loaded), sorted(missing - loaded)

    def beside(self) -> list[str]:
        """What the files of the reward may import and the reward itself has no use for: frameworks, none of them when
        unsure, and packages that this machine lacks."""
        if not self.code:
            return []
        frameworks = frozenset[str]() if requirements(self._third_party) & HEAVY else HEAVY
        return sorted(frameworks | self._missing_beside())

    def _missing_beside(self) -> set[str]:
        """Packages that the files import at their top in any case, not installed here; the reward does without them."""
        found: set[str] = set()
        for path, _ in self._files:
            with contextlib.suppress(SyntaxError):
                body = ast.parse(path.read_text("utf-8", "replace")).body
                plain: list[ast.stmt] = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
                found |= {name.partition(".")[0] for name in imported_modules(ast.Module(plain, []))}
        return _not_installed(found - {*self._third_party, "__main__", ""})

    def writes(self) -> list[str]:
        """Calls by which the files of the reward make files or folders."""
        found: set[str] = set()
        for path, _ in self._files:
            with contextlib.suppress(SyntaxError):
                found.update(file_writes(path.read_text("utf-8", "replace")))
        return sorted(found)

    @property
    def is_slow(self) -> bool:
        """A call may wait for a signal, a process or a server, or spend its time in a package."""
        return bool({"signal", "process", "http", "judge"} & set(self.traits) or set(self._third_party) - {"numpy"})

    def search_factor(self) -> int:
        """Inputs tried for two cases: fewer where a call may be slow."""
        return 3 if self.is_slow else 8

    def functions(self) -> list[str]:
        """Functions of the reward as "file:function", files as named inside the sandbox."""
        names = _function_names(self.code) or []
        return [f"{inside}:{name}" for _, inside in self._files for name in names]


def _not_installed(roots: Set[str]) -> set[str]:
    """Packages that this machine lacks and that nothing here stands for."""
    wanted = roots - set(sys.stdlib_module_names) - HEAVY - CLIENTS - {"verl", "recipe"}
    return {name for name in wanted if importlib.util.find_spec(name) is None}


def _function_names(code: str) -> list[str] | None:
    if not code:
        return None
    nodes = ast.walk(ast.parse(code))
    return [node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
