"""The frozen oracle on disk: rows, cases and the old reward's answers, with their hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from migrate_tools.errors import UsageError

ORACLE = "oracle.json"
CASES = "cases.jsonl"
OUTCOMES = "outcomes.jsonl"


@dataclass(frozen=True)
class Budget:
    """What the old side may use: wall-clock seconds for all cases, and the number of cases."""

    seconds: float = 20.0
    cases: int = 600
    salt: int = 0
    """Another number makes other cases of the same kinds."""


@dataclass(frozen=True)
class FrozenCases:
    """A closed oracle folder; nothing in it changes after `close`."""

    folder: Path
    meta: Mapping[str, Any]
    """Content of oracle.json."""

    @property
    def reason(self) -> str:
        """Why nothing can be compared, or empty."""
        return str(self.meta["reason"])

    @property
    def row_files(self) -> list[str]:
        """Names of the parquet files, in row order."""
        return list(self.meta["rows"])

    @property
    def known_keys(self) -> frozenset[str] | None:
        """Keys that some result of the old side has; None where the oracle does not say."""
        keys = self.meta.get("keys")
        return None if keys is None else frozenset(keys)

    def cases(self) -> list[dict[str, Any]]:
        """The cases in order."""
        return _lines(self.folder / CASES)

    def outcomes(self) -> list[dict[str, Any]]:
        """The old side's record of every case."""
        return _lines(self.folder / OUTCOMES)

    def verify(self) -> list[str]:
        """Names of files that are no longer what was frozen; empty when all is well."""
        return [
            name
            for name, digest in self.meta["sha256"].items()
            if not (self.folder / name).is_file() or sha256(self.folder / name) != digest
        ]


def close(
    folder: Path, meta: Mapping[str, Any], cases: Iterable[str], outcomes: Iterable[Mapping[str, Any]]
) -> FrozenCases:
    """Writes cases, outcomes and oracle.json with the hashes of all, and makes the files read-only."""
    (folder / CASES).write_text("".join(f"{line}\n" for line in cases), encoding="utf-8")
    (folder / OUTCOMES).write_text("".join(f"{json.dumps(record)}\n" for record in outcomes), encoding="utf-8")
    names = [*meta["rows"], CASES, OUTCOMES]
    full = {**meta, "sha256": {name: sha256(folder / name) for name in names}}
    (folder / ORACLE).write_text(json.dumps(full, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    for name in (*names, ORACLE):
        (folder / name).chmod(0o444)
    return FrozenCases(folder, full)


def load(folder: Path) -> FrozenCases:
    """Opens an oracle folder that was closed before.

    Raises:
        UsageError: there is none, or it is not one of ours.
    """
    try:
        meta = json.loads((folder / ORACLE).read_text(encoding="utf-8"))
        meta["rows"], meta["sha256"], meta["reason"]
    except (OSError, json.JSONDecodeError, KeyError) as error:
        raise UsageError(f"no parity oracle in {folder}", "run the migration again") from error
    return FrozenCases(folder, meta)


def sha256(path: Path) -> str:
    """Hash of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
