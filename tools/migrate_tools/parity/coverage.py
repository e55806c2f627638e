"""Statements and branches that probes saw, of how many.

Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from migrate_tools.parity.probe_rewriter import Site

SIDES: dict[str, tuple[Any, ...]] = {"test": (True, False), "handler": (1,), "case": (1,)}
"""What must have been seen at a site for each of its branches."""
SHOWN = 40


def site_name(site: Site) -> str:
    """The site under a name that is the same in every process."""
    return f"{site.file}:{site.line}.{site.column}:{site.kind}"


def counted(sites: Sequence[Site], seen: Collection[str], functions: Collection[str] = ()) -> dict[str, Any]:
    """Statements and branches of the functions that ran or that are known to be needed.

    Args:
        seen: "name of a site=what was seen there".
        functions: "file:function" that count even when nothing of them ran.
    """
    entered = {(site.file, site.first) for site in sites if f"{site_name(site)}=1" in seen}
    lines: dict[str, bool] = {}
    branches: dict[str, bool] = {}
    for site in sites:
        if (site.file, site.first) not in entered and f"{site.file}:{site.function}" not in functions:
            continue
        name = site_name(site)
        if site.kind == "line":
            place = f"{site.file.split('/', 2)[-1]}:{site.line}"
            lines[place] = lines.get(place, False) or f"{name}=1" in seen
        for side in SIDES.get(site.kind, ()):
            branches[f"{name}={side}"] = f"{name}={side}" in seen
    missed = [name for name, hit in branches.items() if not hit]
    return {
        "lines": len(lines),
        "hit": sum(lines.values()),
        "missed": [place for place, hit in lines.items() if not hit][:SHOWN],
        "branches": len(branches),
        "branches_hit": sum(branches.values()),
        "branches_missed": [_shown(name) for name in missed[:SHOWN]],
        "functions": sorted({site.function for site in sites if (site.file, site.first) in entered}),
    }


def shares(found: dict[str, Any]) -> dict[str, float | None]:
    """Line and branch coverage of one side as shares; None where there is nothing to cover."""
    return {
        "lines": round(found["hit"] / found["lines"], 4) if found.get("lines") else None,
        "branches": round(found["branches_hit"] / found["branches"], 4) if found.get("branches") else None,
    }


def _shown(name: str) -> str:
    """A missed branch for the reader: file:line and the side."""
    place, _, side = name.partition("=")
    file, line, kind = place.rsplit(":", 2)
    word = {"True": "never true", "False": "never false"}.get(side, f"{kind} never reached")
    return f"{file.split('/', 2)[-1]}:{line.partition('.')[0]} {word}"
