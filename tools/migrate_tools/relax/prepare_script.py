"""Writes scripts/tools/prepare_<algo>.py: a simple preparation script of the recipe that ends in Relax's columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import libcst as cst
import libcst.matchers as m

from migrate_tools.model import DataSpec
from migrate_tools.relax.formatting import format_python

FILE_HELPERS = frozenset({"verl.utils.hdfs_io", "verl.utils.fs"})
MOST_BYTES = 1 << 18

PRELUDE = '''
import os as _os
import shutil as _shutil
from pathlib import Path as _Path

from process_{algo} import ConvertPlan as _Plan
from process_{algo} import convert as _convert


def _to_relax(data, path, *args, **options):
    """Writes the file as before, then converts it under its name."""
    target = _Path(str(path)).expanduser()
    raw = target.with_name(f".{{target.stem}}.verl.parquet")
    raw.parent.mkdir(parents=True, exist_ok=True)
    data.to_parquet(str(raw), *args, **options)
    try:
        for note in _convert(_Plan(), raw, target).notes:
            print("note:", note)
    finally:
        raw.unlink()
'''
HELPERS = {
    "makedirs": '''
def makedirs(name, *args, **options):
    """Makes a folder; other machines are not reached from here."""
    if "://" in str(name):
        raise SystemExit(f"{name}: copy the files there yourself")
    _os.makedirs(_os.path.expanduser(name), exist_ok=True)
''',
    "copy": '''
def copy(src, dst, *args, **options):
    """Copies a folder or file; other machines are not reached from here."""
    if "://" in str(dst):
        raise SystemExit(f"{dst}: copy {src} there yourself")
    if _os.path.isdir(src):
        _shutil.copytree(src, dst, dirs_exist_ok=True)
    else:
        _shutil.copy(src, dst)
''',
}


def render_prepare(algo: str, specs: Sequence[DataSpec], roots: Sequence[Path]) -> str | None:
    """The text of the script; None when the launches have no one preparation script, or it is not simple.

    Simple: it writes with `to_parquet`, and takes nothing from verl but helpers for files and folders.

    Args:
        roots: folders that DataSpec.prep_script may be relative to.
    """
    names = {spec.prep_script for spec in specs if spec.prep_script}
    if len(names) != 1 or any(spec.row_code for spec in specs):
        return None
    name = names.pop()
    path = next((root / name for root in roots if (root / name).is_file()), None)
    if path is None or path.suffix != ".py" or path.stat().st_size > MOST_BYTES:
        return None
    try:
        tree = cst.parse_module(path.read_text(encoding="utf-8"))
    except (cst.ParserSyntaxError, UnicodeDecodeError):
        return None
    change = _Change()
    changed = tree.visit(change)
    if change.foreign or not change.writes or change.helpers - HELPERS.keys():
        return None
    prelude = PRELUDE.format(algo=algo) + "".join("\n" + HELPERS[item] for item in sorted(change.helpers))
    body = list(changed.body)
    place = _after_imports(body)
    body[place:place] = cst.parse_module(prelude).body
    head = (
        f"# Data of {algo} in the columns of Relax: the recipe's own {name}; what it writes is converted.\n"
        f"# The files keep the names that it gives them; the run script expects train.parquet and val.parquet below\n"
        f"# ${{DATA_DIR}}/{algo}.\n"
    )
    return format_python(head + changed.with_changes(body=body).code)


class _Change(cst.CSTTransformer):
    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.foreign = False
        self.helpers: set[str] = set()

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        if isinstance(updated_node.func, cst.Attribute) and updated_node.func.attr.value == "to_parquet":
            self.writes += 1
            data = cst.Arg(updated_node.func.value)
            return updated_node.with_changes(func=cst.Name("_to_relax"), args=[data, *updated_node.args])
        return updated_node

    def leave_ImportFrom(
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> cst.ImportFrom | cst.RemovalSentinel:
        module = cst.Module([]).code_for_node(original_node.module) if original_node.module else ""
        if original_node.relative or module.split(".")[0] != "verl":
            self.foreign |= bool(original_node.relative)
            return updated_node
        if module not in FILE_HELPERS or isinstance(original_node.names, cst.ImportStar):
            self.foreign = True
            return updated_node
        for item in original_node.names:
            self.foreign |= item.asname is not None
            self.helpers.add(cst.ensure_type(item.name, cst.Name).value)
        return cst.RemoveFromParent()

    def leave_Import(self, original_node: cst.Import, updated_node: cst.Import) -> cst.Import:
        self.foreign |= any(item.evaluated_name.split(".")[0] == "verl" for item in original_node.names)
        return updated_node


def _after_imports(body: Sequence[cst.BaseStatement]) -> int:
    """Index after the module's docstring and first imports."""
    last = 0
    for index, statement in enumerate(body):
        docstring = index == 0 and m.matches(statement, m.SimpleStatementLine([m.Expr(m.SimpleString())]))
        if docstring or m.matches(statement, m.SimpleStatementLine([m.OneOf(m.Import(), m.ImportFrom())])):
            last = index + 1
    return last
