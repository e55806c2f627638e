"""Flags of Relax and rows of the mapping tables, by name or by a piece of text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from migrate_tools.mapping.evidence import relax_places, verl_places
from migrate_tools.mapping.row import Row
from migrate_tools.mapping.tables import load_tables
from migrate_tools.relax.contract import FlagContract, FlagInfo, load_contract

MOST = 30


def find_flags(text: str, contract: FlagContract | None = None) -> dict[str, Any]:
    """The flag of this name in full, else all whose name or meaning holds the text."""
    known = contract or load_contract()
    name = text if text.startswith("-") else f"--{text}"
    exact = known.find(name)
    if exact is not None:
        return {"contract": known.title, "flag": _flag(exact), "spelling_known": True}
    word = text.lstrip("-").lower()
    hits = [item for item in known.flags.values() if word in item.name.lower() or word in item.meaning.lower()]
    return {
        "contract": known.title,
        "spelling_known": False,
        "nearest": known.nearest(name),
        "only_in": known.elsewhere.get(name),
        "found": len(hits),
        "flags": [{"name": item.name, "meaning": item.meaning} for item in hits[:MOST]],
    }


def find_rows(text: str) -> dict[str, Any]:
    """The row that speaks for this verl key, else all rows with a key or flag that holds the text."""
    tables = load_tables()
    row = tables.lookup(text)
    if row is not None:
        return {"row": _row(row)}
    word = text.lower()
    hits = [item for item in tables.rows if any(word in name.lower() for name in (*item.keys, *item.relax))]
    brief = [{"id": item.id, "keys": item.keys, "status": item.status, "relax": item.relax} for item in hits[:MOST]]
    return {"row": None, "found": len(hits), "rows": brief}


def _flag(info: FlagInfo) -> dict[str, Any]:
    return {name: value for name, value in asdict(info).items() if value not in (None, "", ())}


def _row(row: Row) -> dict[str, Any]:
    document = row.model_dump(mode="json", exclude_defaults=True, exclude={"file", "evidence"})
    return {**document, "table": row.file, "verl_source": verl_places(row), "relax_source": relax_places(row)}
