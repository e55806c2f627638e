"""The converter's modules as the text of one file, which needs nothing but pyarrow."""

from __future__ import annotations

import ast
from pathlib import Path

MODULES = (
    "plan",
    "shape",
    "sources",
    "selection",
    "rowmap",
    "pickled",
    "media",
    "columns",
    "output",
    "flow",
    "pipeline",
    "sharded",
    "convert",
)
"""In the order in which they need each other."""
USER = "rowmap"
FOLDER = Path(__file__).parent
OWN = "migrate_tools."


def bundle(recipe: str = "") -> str:
    """The text: one docstring, all imports, then every module under a line with its name.

    Args:
        recipe: a module text with the function recipe_row, which is put before the module that calls it.

    Raises:
        ValueError: two modules define one name.
    """
    imports: dict[str, None] = {}
    bodies: list[str] = []
    owners: dict[str, str] = {}
    doc = ""
    for name in MODULES:
        text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        if name == USER and recipe:
            own = ast.parse(recipe)
            owners.update(dict.fromkeys(_names(own), "the recipe"))
            imports.update(dict.fromkeys(_imports(own)))
            bodies.append(f"# {'-' * 64} the recipe's own code\n\n{_body(recipe, own)}")
        tree = ast.parse(text)
        doc = ast.get_docstring(tree) or ""
        for defined in _names(tree):
            if defined in owners:
                raise ValueError(f"{defined} is defined in {owners[defined]} and in {name}")
            owners[defined] = name
        imports.update(dict.fromkeys(_imports(tree)))
        title = doc.partition("\n")[0]
        head = f"# {'-' * 64} {name}" + ("" if name == MODULES[-1] else f"\n# {title}")
        bodies.append(f"{head}\n\n{_body(text, tree)}")
    start = f'"""{doc}\n"""\n\nfrom __future__ import annotations\n\n' + "\n".join(imports)
    return "\n\n\n".join((start, *bodies)) + "\n"


def _imports(tree: ast.Module) -> list[str]:
    found = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return [ast.unparse(node) for node in found if not _is_own(node) and ast.unparse(node) != _FUTURE]


_FUTURE = "from __future__ import annotations"


def _is_own(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith(OWN)


def _body(text: str, tree: ast.Module) -> str:
    lines = text.splitlines()
    drop: list[ast.stmt] = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    if ast.get_docstring(tree) is not None:
        drop.append(tree.body[0])
    gone = {number for node in drop for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return "\n".join(line for number, line in enumerate(lines, 1) if number not in gone).strip("\n")


def _names(tree: ast.Module) -> list[str]:
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
    return names
