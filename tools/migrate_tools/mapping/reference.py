"""Writes skill/references/migration_mapping.md: `python -m migrate_tools.mapping.reference [--check]`."""

from __future__ import annotations

import sys
from pathlib import Path

from migrate_tools.mapping.evidence import relax_places, verl_places
from migrate_tools.mapping.row import Row
from migrate_tools.mapping.tables import load_tables
from migrate_tools.resources import resource_dir
from migrate_tools.verl.key_facts import key_facts

HEAD = """# verl to Relax: mapping of settings

Generated from `skill/mapping/keys_*.yaml` and `verl_keys.tsv` by `python -m migrate_tools.mapping.reference`; do not
edit by hand.

A status says what becomes of a setting: **exact** (same meaning), **derived** (computed from several), **approximate**
(near, and why), **automatic** (Relax does it itself), **no_effect** (speed or logging only), **unsupported** (no
counterpart). A key in no table becomes **unknown**. Values that decide otherwise stand below the reason. The risk after
the status says what a wrong translation would change: speed, or training.

Behind a key stand the verl releases whose configuration declares it ("0.7.1-": since 0.7.1; 0.10 is the main branch
after 0.9.1; *recipe*, *fork*: only such projects have it; *with +*: no configuration declares it). Units are verl's:
its batch sizes count prompts, Relax's `--global-batch-size` counts samples. *By* names the transform of one value, or
the area of code that makes the flags out of several. Evidence is `file:line@version` in verl (or a recipe, or a
fork), then where Relax declares the flag, or a section of the contract.
"""
RENAMES = """
## Keys that moved

One setting under another key in later releases. Both are translated.

| before | after |
|---|---|
"""
PLACES = 2
"""Places that a cell names; more are counted."""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _key(key: str) -> str:
    fact = key_facts().get(key)
    if fact is None:
        return f"`{key}`"
    return f"`{key}` ({fact.versions.replace('recipe', '*recipe*').replace('fork', '*fork*') or '*with +*'})"


def _evidence(row: Row) -> str:
    places = [row.evidence.verl] if row.evidence.verl else []
    places += [place for place in dict.fromkeys(verl_places(row).values()) if place not in places]
    shown = places[: 1 if row.evidence.verl else PLACES]
    if len(places) > len(shown):
        shown.append(f"and {len(places) - len(shown)} more")
    return _cell("; ".join([*shown, *relax_places(row)]))


def _line(row: Row) -> str:
    keys = "<br>".join(_key(key) for key in row.keys)
    flags = "<br>".join(f"`{flag}`" for flag in row.relax) or "-"
    reason = _cell(row.reason)
    for rule in row.values:
        reason += f"<br>*{', '.join(value or 'empty' for value in rule.match)}*: {rule.status}, {_cell(rule.reason)}"
    for text in (row.versions and f"holds for verl {row.versions}", row.history):
        if text:
            reason += f"<br>({_cell(text)})"
    risk = "" if row.risk == "none" else f", {row.risk}"
    made = row.transform or row.combiner or "-"
    return f"| {keys} | {row.unit} | {flags} | {made} | {row.status}{risk} | {reason} | {_evidence(row)} |"


def render() -> str:
    """The whole document."""
    parts = [HEAD]
    tables: dict[str, list[Row]] = {}
    for row in load_tables().rows:
        tables.setdefault(row.file, []).append(row)
    for file, rows in tables.items():
        title = file.removeprefix("keys_").removesuffix(".yaml").capitalize()
        parts.append(f"\n## {title} (`{file}`)\n\n| verl | unit | Relax | by | status | reason | evidence |\n")
        parts.append("|---|---|---|---|---|---|---|\n" + "\n".join(_line(row) for row in rows) + "\n")
    parts.append(RENAMES)
    moves = [(old, new) for row in load_tables().rows for old, new in row.moved.items()]
    parts += [f"| {_key(old)} | {_key(new)} |\n" for old, new in moves]
    return "".join(parts)


def main(arguments: list[str]) -> int:
    """Write the document, or with --check say whether it is up to date (exit code 1 when not)."""
    path: Path = resource_dir("skill") / "references" / "migration_mapping.md"
    text = render()
    if "--check" in arguments:
        fresh = path.is_file() and path.read_text(encoding="utf-8") == text
        if not fresh:
            print(f"{path} is stale; run python -m migrate_tools.mapping.reference", file=sys.stderr)
        return 0 if fresh else 1
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
