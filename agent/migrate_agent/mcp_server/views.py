"""What an agent needs of a command's JSON: the rest lies in the files, and a context window is small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from migrate_agent.commands.inspect import QUIET

MOST = 200
"""Rows of one list; more are counted."""
Document = Mapping[str, Any]


def recipe_view(document: Document) -> dict[str, Any]:
    """What `inspect` read."""
    recipe = document["recipe"]
    return {
        "recipe": recipe["name"],
        "folder": recipe["root"],
        "launches": [_launch(item["read"]) for item in document["launches"]],
        "left_out": [f"{item['file']}: {item['reason']}" for item in recipe["skipped"]],
        "notes": [_note(item) for item in (*recipe["notes"], *recipe["shell_features"])],
        "secrets": [f"{item['kind']} at {_place(item['source'])}" for item in recipe["secrets"]],
    }


def plan_view(document: Document) -> dict[str, Any]:
    """What would become of every setting; settings with a plain state are only counted."""
    return {"launches": [_translation(item["translation"]) for item in document["launches"]]}


def report_view(document: Document) -> dict[str, Any]:
    """What `run` reports."""
    return {
        "verdict": document["verdict"],
        "reasons": document["reasons"],
        "run_id": document["run_id"],
        "algo": document["algo"],
        "checks": [_check(item) for item in document["checks"]],
        "files": [item["path"] for item in document["files"]],
        "decisions": document["decisions"],
        "left": _most(document["left"]),
        "attempts": document["attempts"],
        "settings": dict(Counter(item["status"] for item in document["settings"])),
    }


def verify_view(document: Document) -> dict[str, Any]:
    """What `verify` reports; the evidence of what failed is in full."""
    return {
        "verdict": document["verdict"],
        "algo": document["algo"],
        "edited": document["edited"],
        "without_recipe": document["without_recipe"],
        "checks": [
            _check(item) | ({"evidence": item["evidence"]} if item["status"] == "failed" else {})
            for item in document["checks"]
        ],
    }


def _launch(read: Document) -> dict[str, Any]:
    data, turns = read["data"], read["multi_turn"]
    return {
        "launch": read["name"],
        "script": f"{read['script']}:{read['line']}" if read["line"] else read["script"],
        "module": read["module"],
        "how": read["how"],
        "verl": f"{read['verl']['version']}: {read['verl']['how']}",
        "reward": {key: read["reward"][key] for key in ("kind", "path", "function", "manager", "kwargs", "traits")},
        "train": [item["text"] for item in data["train"]],
        "val": [item["text"] for item in data["val"]],
        "data_known_from": data["known_from"],
        "data_sources": list(dict.fromkeys(item["name"] for item in data["sources"])),
        "tools": [item["name"] for item in turns["tools"]] if turns else [],
        "settings": len(read["settings"]),
        "unset_variables": read["unset"],
        "notes": [_note(item) for item in read["notes"]],
    }


def _translation(item: Document) -> dict[str, Any]:
    if item["refusals"]:
        return {"launch": item["launch"], "refused": item["refusals"]}
    rows = [row for row in item["settings"] if row["status"] not in QUIET]
    return {
        "launch": item["launch"],
        "at_best": item["verdict_cap"],
        "because": item["cap_reasons"],
        "batch": item["batch"],
        "gpus": item["gpus"],
        "states": dict(Counter(row["status"] for row in item["settings"])),
        "settings_to_look_at": _most(
            {
                "key": row["key"],
                "value": row["value"],
                "state": row["status"],
                "relax": row["relax"],
                "why": row["reason"],
                "where": _place(row["source"]),
            }
            for row in rows
        ),
        "flags": [f"{flag['name']} {flag['value']}".strip() for flag in item["flags"]],
        "decisions": item["decisions"],
        "differences": [row for row in item["effective"] if not row["same"]],
        "notes": [_note(note) for note in item["notes"]],
    }


def _check(item: Document) -> dict[str, Any]:
    return {key: item[key] for key in ("rung", "name", "status", "summary")}


def _note(item: Document) -> str:
    place = _place(item["source"])
    return f"{item['text']} ({place})" if place else str(item["text"])


def _place(source: Document | None) -> str:
    if source is None:
        return ""
    return f"{source['file']}:{source['line']}" if source["line"] else str(source["file"])


def _most(rows: Iterable[Any]) -> list[Any]:
    rows = list(rows)
    return rows if len(rows) <= MOST else [*rows[:MOST], f"and {len(rows) - MOST} more"]
