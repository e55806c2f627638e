"""Writes skill/references/migration_mapping.md: `python -m migrate_tools.mapping.reference [--check]`."""

from __future__ import annotations

import sys
from pathlib import Path

from migrate_tools.mapping.tables import Row, load_tables
from migrate_tools.resources import resource_dir

HEAD = """# verl to Relax: mapping of settings

Generated from `skill/mapping/keys_*.yaml` by `python -m migrate_tools.mapping.reference`; do not edit by hand.

A status says what becomes of a setting: **exact** (same meaning), **derived** (computed from several), **approximate**
(near, and why), **automatic** (Relax does it itself), **no_effect** (speed or logging only), **unsupported** (no
counterpart). A key in no table becomes **unknown**. Values that decide otherwise stand below the reason. verl's
batch sizes count prompts, Relax's `--global-batch-size` counts samples.
"""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _line(row: Row) -> str:
    keys = "<br>".join(f"`{key}`" for key in row.keys)
    flags = "<br>".join(f"`{flag}`" for flag in row.relax) or "-"
    reason = _cell(row.reason)
    for rule in row.values:
        reason += f"<br>*{', '.join(value or 'empty' for value in rule.match)}*: {rule.status}, {_cell(rule.reason)}"
    for text in (row.versions and f"holds for verl {row.versions}", row.history):
        if text:
            reason += f"<br>({_cell(text)})"
    risk = "" if row.risk == "none" else f", {row.risk}"
    return f"| {keys} | {row.unit} | {flags} | {row.status}{risk} | {reason} |"


def render() -> str:
    """The whole document."""
    parts = [HEAD]
    tables: dict[str, list[Row]] = {}
    for row in load_tables().rows:
        tables.setdefault(row.file, []).append(row)
    for file, rows in tables.items():
        title = file.removeprefix("keys_").removesuffix(".yaml").capitalize()
        parts.append(f"\n## {title} (`{file}`)\n\n| verl | unit | Relax | status | reason |\n|---|---|---|---|---|\n")
        parts.append("\n".join(_line(row) for row in rows) + "\n")
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
