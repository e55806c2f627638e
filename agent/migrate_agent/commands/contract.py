"""`migrate-agent contract`: flags and hooks of a Relax checkout, read from its syntax trees, never imported."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from migrate_tools.errors import RefusedInput
from migrate_tools.model import SourceRef

SHOWN = 20


def contract(relax_root: Path, *, as_json: bool) -> int:
    """Prints what the checkout has and how it differs from the built-in contract.

    Raises:
        RefusedInput: the folder is no Relax checkout.
    """
    from migrate_tools.relax.contract import load_contract

    flags = read_flags(relax_root)
    built_in = {name: info for name, info in load_contract("latest").flags.items() if info.family == "relax"}
    document: dict[str, Any] = {
        "relax_root": str(relax_root),
        "flags": {name: f"{source.file}:{source.line}" for name, source in sorted(flags.items())},
        "hooks": sorted(name for name in flags if name.endswith("-path")),
        "only_in_checkout": sorted(set(flags) - set(built_in)),
        "only_in_built_in": sorted(set(built_in) - set(flags)),
    }
    print(json.dumps(document, indent=1) if as_json else _page(document))
    return 0


def read_flags(relax_root: Path) -> dict[str, SourceRef]:
    """Every flag that a file below relax/ adds to a parser by a literal name.

    Raises:
        RefusedInput: there is no folder relax/, or no such file adds a flag.
    """
    package = relax_root / "relax"
    if not package.is_dir():
        raise RefusedInput(
            f"{relax_root} is not a Relax checkout: it has no folder relax/", "give the root of a checkout"
        )
    flags: dict[str, SourceRef] = {}
    for path in sorted(package.rglob("*.py")):
        for name, line in _added(path):
            flags.setdefault(name, SourceRef(file=path.relative_to(relax_root).as_posix(), line=line))
    if not flags:
        raise RefusedInput(f"no flag is added below {package}", "give the root of a Relax checkout")
    return flags


def _added(path: Path) -> Iterator[tuple[str, int]]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") != "add_argument":
            continue
        for argument in node.args:
            if isinstance(argument, ast.Constant) and str(argument.value).startswith("--"):
                yield str(argument.value), node.lineno
                break


def _page(document: dict[str, Any]) -> str:
    lines = [f"{document['relax_root']}: {len(document['flags'])} flags, {len(document['hooks'])} hooks"]
    for key, title in (
        ("only_in_checkout", "not in the built-in contract"),
        ("only_in_built_in", "in the built-in contract, not added here by a literal name"),
    ):
        names = document[key]
        rest = f" and {len(names) - SHOWN} more (--json)" if len(names) > SHOWN else ""
        lines.append(f"{len(names)} {title}: {', '.join(names[:SHOWN]) or 'none'}{rest}")
    return "\n".join(lines)
