"""Measures which verl versions declare which configuration keys, and writes skill/mapping/verl_keys.tsv.

    python benchmarks/key_facts.py --verl CHECKOUT --recipe CHECKOUT [--fork NAME=CHECKOUT@COMMIT ...]

Releases come from the package index (kept in the user's cache); the checkouts are verl's main branch and verl-recipe.
Keys and how many scripts set them are taken from the file as it stands; a key of a mapping row that the file lacks is
added. Then the evidence of every row is looked up, and what does not name its key is printed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path

import yaml
from migrate_tools.mapping.declared import declared, leaf_lines
from migrate_tools.mapping.evidence import PLACE
from migrate_tools.mapping.row import Row
from migrate_tools.mapping.tables import load_tables
from migrate_tools.relax.contract import load_contract
from migrate_tools.resources import resource_dir
from migrate_tools.verl.key_facts import MEASURED, NAME, KeyFact, ranges, read_facts, write_facts
from migrate_tools.verl.source import wheel

RELEASES = {"0.2": "0.2.0.post2", "0.3": "0.3.0.post1", "0.5": "0.5.0", "0.8": "0.8.0"}
"""Measured version -> release on the package index, where the names differ."""
HEAD = """Facts about verl's configuration keys. key: dotted. versions: releases whose configuration declares it ("0.10"
is the main branch at {verl}), or recipe / fork when only such a project does; empty: set with + only.
place: file:line@version of the newest declaration, or of a script that sets it (verl-recipe at {recipe}).
recipe, examples, other: scripts of verl-recipe, of verl's examples/, and of the rest of verl that set it.
Written by benchmarks/key_facts.py."""


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--verl", type=Path, required=True)
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--fork", action="append", default=[], help="OWNER/NAME=CHECKOUT@COMMIT")
    options = parser.parse_args()
    path = resource_dir("skill") / "mapping" / NAME
    known = read_facts(path)
    wanted = dict.fromkeys([*known, *(key for row in load_tables(load_contract()).rows for key in row.exact)])
    have: dict[str, list[str]] = {key: [] for key in wanted}
    place: dict[str, str] = {}
    for version in MEASURED:
        last = version == MEASURED[-1]
        tree = options.verl if last else Path(wheel(RELEASES.get(version, version)).root)
        at = commit(tree) if last else RELEASES.get(version, version)
        for key, (file, line) in declared(tree).items():
            if key in have:
                have[key].append(version)
                if not last or key not in place:
                    place[key] = f"{file}:{line}@{at}"
    sources = [("", options.recipe, commit(options.recipe), "recipe"), ("", options.verl, commit(options.verl), "")]
    for text in options.fork:
        name, _, rest = text.partition("=")
        folder, _, at = rest.rpartition("@")
        sources.append((f"{name}/", Path(folder), at[:8], "fork"))
    rest = [key for key in wanted if not have[key]]
    origin: dict[str, str] = {}
    for prefix, folder, at, word in sources:
        for key, (file, line, how) in found_in(folder, rest).items():
            if key not in place:
                place[key] = f"{prefix}{file}:{line}@{at}"
                origin[key] = word if how == "yaml" or word == "fork" else ""
    rows = {key for row in load_tables(load_contract()).rows for key in row.exact}
    facts = [
        KeyFact(
            key, ranges(have[key]) or origin.get(key, ""), place.get(key, "") or free_parent(key, options.verl),
            *((known[key].recipe, known[key].examples, known[key].other) if key in known else ()),
        )
        for key in wanted
        if key in rows or known[key].scripts or have[key] or key in place
    ]  # fmt: skip
    write_facts(facts, path, HEAD.format(verl=commit(options.verl), recipe=commit(options.recipe)))
    lacking = [fact.key for fact in facts if not fact.place]
    print(f"{len(facts)} keys, {len(lacking)} without a place: {' '.join(lacking)}")
    trees = {at: folder for _, folder, at, _ in sources}
    for row in load_tables(load_contract()).rows:
        if row.evidence.verl and (problem := unnamed(row, trees)):
            print(f"{row.file} {row.id}: {problem}")


def unnamed(row: Row, trees: dict[str, Path]) -> str:
    """Why a row's own evidence is doubtful: no such line, or it names none of the row's keys. Empty when it holds."""
    match = PLACE.match(row.evidence.verl)
    if match is None:
        return f"{row.evidence.verl!r} is no file:line@version"
    tree = next(
        (folder for at, folder in trees.items() if at.startswith(match["at"]) or match["at"].startswith(at)), None
    )
    if tree is None:
        tree = Path(wheel(match["at"]).root)
    file = tree / match["file"]
    lines = file.read_text("utf-8", "replace").splitlines() if file.is_file() else []
    if int(match["line"]) > len(lines):
        return f"no {row.evidence.verl}"
    text = lines[int(match["line"]) - 1]
    parts = {part for key in row.keys for part in re.split(r"[.@*]+", key) if part}
    return "" if any(re.search(rf"\b{re.escape(part)}\b", text) for part in parts) else f"{row.evidence.verl}: {text}"


def free_parent(key: str, tree: Path) -> str:
    """Where the main branch declares the nearest parent of a key that a script puts together from variables."""
    found = declared(tree)
    while key.count(".") > 2:
        key = key.rpartition(".")[0]
        if key in found:
            file, line = found[key]
            return f"{file}:{line}@{commit(tree)}"
    return ""


def commit(folder: Path) -> str:
    """The short commit of a checkout."""
    done = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    return done.stdout.strip()[:8]


def found_in(folder: Path, keys: list[str]) -> dict[str, tuple[str, int, str]]:
    """Where a project declares a key in a YAML file, else where one of its scripts sets it."""
    found: dict[str, tuple[str, int, str]] = {}
    for path in sorted(folder.rglob("*.yaml")):
        try:
            lines = leaf_lines(path.read_text("utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError, OSError):  # a template, or several documents
            continue
        for key in keys:
            if key in lines:
                found.setdefault(key, (str(path.relative_to(folder)), lines[key], "yaml"))
    left = {key for key in keys if key not in found}
    override = re.compile(r"(?<![\w.])[+~]{0,2}([a-z_][\w.@-]*)=")
    for path in sorted([*folder.rglob("*.sh"), *folder.rglob("*.slurm"), *folder.rglob("*.py")]):
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for match in override.finditer(line):
                if match[1] in left:
                    found.setdefault(match[1], (str(path.relative_to(folder)), number, "script"))
    return found


if __name__ == "__main__":
    main()
