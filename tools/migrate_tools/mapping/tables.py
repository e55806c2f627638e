"""The mapping tables `skill/mapping/keys_*.yaml`: loaded, validated against the flag contract, searched by key."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from migrate_tools.errors import MigrateError
from migrate_tools.mapping.evidence import lacking
from migrate_tools.mapping.row import DROPS, NUMBER_UNITS, RANGE, Row, key_pattern
from migrate_tools.mapping.transforms import COMBINERS, NUMERIC, TRANSFORMS
from migrate_tools.relax.contract import FlagContract, load_contract
from migrate_tools.resources import resource_dir

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's safe loader where it is built in: ten times as fast."""


SHARED = frozenset({"unit", "status", "reason", "risk", "group", "evidence", "versions"})
"""What `defaults` of a file may say for its rows."""


class TableError(MigrateError):
    """A mapping table is wrong; the message names file and row."""


@dataclass(frozen=True)
class Tables:
    """All rows; `lookup` finds the most specific one for a key."""

    rows: tuple[Row, ...]
    by_key: dict[str, Row]
    patterns: tuple[tuple[re.Pattern[str], int, Row], ...]

    def lookup(self, key: str) -> Row | None:
        """The row for a dotted key: an exact key wins, then the pattern with most literal characters."""
        found = self.candidates(key)
        return found[0] if found else None

    def candidates(self, key: str) -> tuple[Row, ...]:
        """The rows that speak for a key with equal right; more than one is a fault of the tables."""
        if key in self.by_key:
            return (self.by_key[key],)
        hits = [(weight, row) for pattern, weight, row in self.patterns if pattern.match(key)]
        best = max((weight for weight, _ in hits), default=0)
        return tuple({row.id: row for weight, row in hits if weight == best}.values())


def _read(path: Path) -> list[Row]:
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)
    except yaml.YAMLError as error:
        raise TableError(f"{path.name}: not YAML: {error}", "correct the table") from None
    items = data.get("rows") if isinstance(data, dict) else None
    if not isinstance(items, list):
        raise TableError(f"{path.name}: no list `rows`", "a table is a mapping with a list `rows`")
    defaults = data.get("defaults", {})
    if not isinstance(defaults, dict) or not set(defaults) <= SHARED:
        raise TableError(f"{path.name}: defaults", f"a mapping of {', '.join(sorted(SHARED))} for all rows of the file")
    rows = []
    for index, item in enumerate(items):
        name = item.get("id", f"number {index + 1}") if isinstance(item, dict) else f"number {index + 1}"
        try:
            merged = {**defaults, **item, "file": path.name}
            merged["evidence"] = {**defaults.get("evidence", {}), **item.get("evidence", {})}
            rows.append(Row.model_validate(merged))
        except (ValidationError, TypeError, AttributeError) as error:
            detail = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
            field = ".".join(str(part) for part in detail["loc"])
            raise TableError(f"{path.name}, row {name}: {field}: {detail['msg']}", "correct the row") from None
    return rows


def _check_row(row: Row, contract: FlagContract) -> None:
    def wrong(text: str, hint: str) -> TableError:
        return TableError(f"{row.file}, row {row.id}: {text}", hint)

    for flag in row.relax:
        if flag.startswith("--") and flag not in contract.flags and flag not in load_contract().flags:
            raise wrong(f"unknown flag {flag}", "take its name from the flag contract")
    if row.transform and row.transform not in TRANSFORMS:
        raise wrong(f"unknown transform {row.transform!r}", f"one of {', '.join(sorted(TRANSFORMS))}")
    if row.combiner and row.combiner not in COMBINERS:
        raise wrong(f"unknown combiner {row.combiner!r}", f"one of {', '.join(sorted(COMBINERS))}")
    if row.transform and row.combiner:
        raise wrong("both transform and combiner", "a row is made by one of them")
    if row.transform and (len(row.relax) != 1 or not row.group):
        raise wrong("a transform needs exactly one flag and a group", "name them, or use a combiner")
    if row.relax and not (row.transform or row.combiner):
        raise wrong(f"{row.relax[0]} has neither transform nor combiner", "say what makes the flag")
    if row.transform in NUMERIC and row.unit not in NUMBER_UNITS:
        raise wrong(f"unit {row.unit!r} for a number", f"one of {', '.join(sorted(NUMBER_UNITS))}")
    if row.transform == "copy" and row.unit in ("none", "bool"):
        raise wrong(f"unit {row.unit!r} for a copied value", "give its unit, or text")
    for status, reason in ((row.status, row.reason), *((rule.status, rule.reason) for rule in row.values)):
        if status in DROPS | {"approximate"} and not reason:
            raise wrong(f"{status} without a reason", "say why")
    for key in (*row.moved, *row.moved.values()):
        if key not in row.keys:
            raise wrong(f"moved: {key} is no key of the row", "name it under keys")
    if row.versions and not RANGE.match(row.versions):
        raise wrong(f"versions {row.versions!r}", "a range such as 0.3-0.6, 0.7-, or the words recipe, fork")


def check_rows(rows: list[Row], contract: FlagContract) -> Tables:
    """Validate all rows together.

    Raises:
        TableError: unknown flag, transform or combiner, missing unit, duplicate id or key, two sources of one flag
            without a shared combiner.
    """
    ids: dict[str, Row] = {}
    by_key: dict[str, Row] = {}
    makers: dict[str, Row] = {}
    patterns = []
    for row in rows:
        _check_row(row, contract)
        if row.id in ids:
            raise TableError(f"{row.file}, row {row.id}: the id is also in {ids[row.id].file}", "rename one")
        ids[row.id] = row
        for key in row.keys:
            if "*" in key:
                patterns.append((key_pattern(key), len(key.replace("*", "")), row))
            elif key in by_key:
                raise TableError(f"{row.file}, row {row.id}: {key} is also in row {by_key[key].id}", "keep one")
            else:
                by_key[key] = row
        for flag in row.relax:
            other = makers.setdefault(flag, row)
            if other is not row and (not row.combiner or row.combiner != other.combiner):
                raise TableError(
                    f"{row.file}, row {row.id}: {flag} is also made by row {other.id} ({other.file})",
                    "give both rows the same combiner",
                )
    return Tables(rows=tuple(rows), by_key=by_key, patterns=tuple(patterns))


def check_evidence(tables: Tables) -> None:
    """Every row has evidence on both sides, its own or that of the data.

    Raises:
        TableError: a row lacks it.
    """
    for row in tables.rows:
        if problem := lacking(row):
            raise TableError(
                f"{row.file}, row {row.id}: {problem}", "name it, or add the key with benchmarks/key_facts.py"
            )


def load_tables(contract: FlagContract | None = None, folder: Path | None = None) -> Tables:
    """Read and validate every `keys_*.yaml`.

    Raises:
        TableError: a table is wrong; file and row are named.
    """
    if folder is None and contract is None:
        return _shipped()
    place = folder if folder is not None else resource_dir("skill") / "mapping"
    rows = [row for path in sorted(place.glob("keys_*.yaml")) for row in _read(path)]
    return check_rows(rows, contract if contract is not None else load_contract())


@cache
def _shipped() -> Tables:
    tables = load_tables(load_contract(), resource_dir("skill") / "mapping")
    check_evidence(tables)
    return tables


def lookup(key: str) -> Row | None:
    """The row of the shipped tables for a dotted verl key; None when no table knows it."""
    return load_tables().lookup(key)
