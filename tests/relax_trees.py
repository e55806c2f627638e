"""Synthetic Relax checkouts: the flags of a built-in contract as plain `add_argument` calls."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from textwrap import dedent

from migrate_tools.relax.contract import load_contract


def write_tree(root: Path, **files: str) -> Path:
    """Write files below `root`: `arguments="..."` is relax/utils/arguments.py; other names are paths with __ for /."""
    files = {"relax__entrypoints__train": "from relax.utils.arguments import parse_args\n", **files}
    for name, text in files.items():
        path = root / ("relax/utils/arguments" if name == "arguments" else name.replace("__", "/"))
        path = path if path.suffix == ".sh" else path.with_name(path.name + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return root


def relax_checkout(
    root: Path, version: str = "latest", *, without: Collection[str] = (), extra: str = "", **files: str
) -> Path:
    """A checkout that adds every Relax flag of a built-in version but those in `without`, then runs `extra`."""
    lines = ["import argparse, json", "def add(parser):"]
    for info in load_contract(version).flags.values():
        if info.family != "relax" or info.name in without:
            continue
        kind = {"": "", "json": ", type=json.loads"}.get(info.type, f", type={info.type}")
        action = f", action={info.action!r}" if info.action else ""
        action = action.replace("'boolean_optional'", "argparse.BooleanOptionalAction")
        names = ", ".join(repr(name) for name in (info.name, *info.aliases))
        lines.append(
            f"    parser.add_argument({names}, dest={info.dest!r}{kind}{action}, nargs={info.nargs!r}, "
            f"default={info.default!r}, choices={list(info.choices) or None!r})"
        )
    return write_tree(root, arguments="\n".join(lines) + "\n" + extra, **files)
