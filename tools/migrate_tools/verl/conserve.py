"""The ledger of an extracted reward: every branch and every import of the original, and what became of it.

The original is read anew from its files and counted apart from the code that was made, so that a branch or an import
which got lost on the way is seen: it ends in the state "lost".
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from migrate_tools.model import Conserved, Note, SourceRef
from migrate_tools.verl.extract_graph import Graph
from migrate_tools.verl.module_finder import ModuleFinder
from migrate_tools.verl.prune import ALWAYS, DROPPED
from migrate_tools.verl.pymodule import ImportedName, PyModule

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
SHOWN = 120
_WHY = {
    "dropped": "no row of the data selects it",
    "always_taken": "every row of the data selects it, so its test is not needed",
    "inside_dropped": "lies in a branch that no row of the data selects",
    "lost": "it is in the original and not in the module that was made",
}


def conserve(finder: ModuleFinder, graph: Graph, code: str, pruned: Iterable[Note]) -> tuple[Conserved, ...]:
    """The items of the areas reward_branch and import.

    Args:
        graph: what was taken, over the finder's (perhaps specialised) files.
        code: the module that was made of it.
        pruned: notes of the specialisation; their lines are those of the original files.
    """
    by_place = {
        (note.source.file, note.source.line): {DROPPED: "dropped", ALWAYS: "always_taken"}.get(note.code, "")
        for note in pruned
        if note.source
    }
    branches: list[Conserved] = []
    imports: list[Conserved] = []
    for path in graph.order:
        module = finder.load(path)
        for definition in _originals(module, graph.needed[path]):
            branches += _branches(definition.body, module.shown, by_place, inside=False)
        imports += _imports(finder, module, graph, code)
    return (*_checked(branches, code), *imports)


def _originals(module: PyModule, needed: Iterable[int]) -> Iterator[Definition]:
    """The taken functions and classes as the file on disk has them (a definition that was made for a fork is not)."""
    try:
        body = ast.parse(module.path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return
    there: dict[str, list[Definition]] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            there.setdefault(node.name, []).append(node)
    seen: Counter[str] = Counter()
    wanted = set(needed)
    for statement in module.statements:
        if statement.is_definition:
            (name,) = statement.binds or {""}
            same = there.get(name, [])
            if statement.index in wanted and seen[name] < len(same):
                yield same[seen[name]]
            seen[name] += 1


def _branches(
    body: Sequence[ast.AST], shown: str, by_place: Mapping[tuple[str, int | None], str], *, inside: bool
) -> Iterator[Conserved]:
    """Every `if` and `elif` below `body`, in the order of the file."""
    for node in body:
        if not isinstance(node, ast.If):
            yield from _branches(list(ast.iter_child_nodes(node)), shown, by_place, inside=inside)
            continue
        state = by_place.get((shown, node.lineno), "inside_dropped" if inside else "kept")
        yield Conserved(
            area="reward_branch",
            name=" ".join(ast.unparse(node.test).split())[:SHOWN],
            state=state,
            reason=_WHY.get(state, ""),
            source=SourceRef(file=shown, line=node.lineno),
        )
        yield from _branches(list(ast.iter_child_nodes(node.test)), shown, by_place, inside=inside)
        yield from _branches(node.body, shown, by_place, inside=inside or state == "dropped")
        yield from _branches(node.orelse, shown, by_place, inside=inside or state == "always_taken")


def _checked(branches: list[Conserved], code: str) -> list[Conserved]:
    """The branches; when the made module has fewer than were kept, the missing ones are lost."""
    tops = [node for node in ast.parse(code).body if isinstance(node, Definition)]
    there = Counter(_shape(node.test) for top in tops for node in ast.walk(top) if isinstance(node, ast.If))
    checked: list[Conserved] = []
    for item in branches:
        if item.state == "kept":
            shape = _shape(ast.parse(item.name, mode="eval").body) if len(item.name) < SHOWN else None
            if shape is not None and not there[shape]:
                item = item.model_copy(update={"state": "lost", "reason": _WHY["lost"]})
            elif shape is not None:
                there[shape] -= 1
        checked.append(item)
    return checked


class _Nameless(ast.NodeTransformer):
    """Makes names and `module.name` chains alike, since both may be renamed when files are joined."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(id="_", ctx=ast.Load())

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        inner = self.visit(node.value)
        if isinstance(inner, ast.Name):
            return ast.Name(id="_", ctx=ast.Load())
        return ast.Attribute(value=inner, attr=node.attr, ctx=ast.Load())


def _shape(node: ast.expr) -> str:
    """The structure of an expression without its names."""
    return ast.dump(_Nameless().visit(ast.parse(ast.unparse(node), mode="eval").body))


def _imports(finder: ModuleFinder, module: PyModule, graph: Graph, code: str) -> Iterator[Conserved]:
    """Every name that the file imports, at module level or in a taken function."""
    needed = graph.needed[module.path]
    used = {
        item for index in needed for reference in module.statements[index].references for item in reference.imported
    }
    bound = {item: None for items in module.imports.values() for item in items} | dict.fromkeys(used)
    roots = _roots(code)
    for item in bound:
        state, reason = "unused", "nothing that was taken uses it"
        if item in used:
            state, reason = _import_state(finder, module, item, roots)
        yield Conserved(
            area="import", name=item.text(item.local), state=state, reason=reason, source=SourceRef(file=module.shown)
        )


def _import_state(finder: ModuleFinder, module: PyModule, item: ImportedName, roots: set[str]) -> tuple[str, str]:
    if finder.find(item, module.path) is not None:
        return "copied", "its definition is in the module that was made"
    if item.level or item.root in roots:
        return "kept", ""
    if item.root in sys.stdlib_module_names and item.root in ("__future__", "typing", "collections", "types"):
        return "kept", "used in annotations only"
    return "lost", "it is used, and the module that was made does not import it"


def _roots(code: str) -> set[str]:
    """Root packages that a module imports anywhere."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found
