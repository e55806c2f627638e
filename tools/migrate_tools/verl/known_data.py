"""Facts about public data sets and verl's scorers, from skill/mapping/{datasets,scorers}.yaml."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Literal

from pydantic import Field

from migrate_tools.model import Frozen
from migrate_tools.resources import resource_dir

TruthKind = Literal["string", "number", "list", "dict", "none", "mixed", "unknown"]


class KnownDataset(Frozen):
    """One row of datasets.yaml."""

    id: str
    path: str
    data_source: str
    truth: TruthKind
    example: str
    extra_info: tuple[str, ...] = ()
    images: bool = False
    script: str = ""
    verl: str = ""


class KnownSource(Frozen):
    """A data_source name of a scorer."""

    name: str
    match: Literal["exact", "prefix", "substring"] = "exact"
    verl: str = ""

    def fits(self, data_source: str) -> bool:
        """Whether a data_source is meant."""
        if self.match == "prefix":
            return data_source.startswith(self.name)
        return self.name in data_source if self.match == "substring" else self.name == data_source


class KnownScorer(Frozen):
    """One row of scorers.yaml."""

    scorer: str
    truth: TruthKind
    example: str
    needs: tuple[str, ...] = ()
    sources: tuple[KnownSource, ...] = Field(min_length=1)


def _load(name: str) -> dict[str, Any]:
    import yaml

    path = resource_dir("skill") / "mapping" / name
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict) or data.get("schema") != 1:
        raise ValueError(f"{path}: schema 1 expected")
    return data


@cache
def known_datasets() -> tuple[KnownDataset, ...]:
    """All rows of datasets.yaml.

    Raises:
        ValueError: a row is not valid.
    """
    return tuple(KnownDataset.model_validate(row) for row in _load("datasets.yaml")["datasets"])


@cache
def known_scorers() -> tuple[KnownScorer, ...]:
    """All rows of scorers.yaml.

    Raises:
        ValueError: a row is not valid.
    """
    return tuple(KnownScorer.model_validate(row) for row in _load("scorers.yaml")["scorers"])


def dataset_for(path: str) -> KnownDataset | None:
    """The data set that a path as written in a launch names."""
    text = path.strip("'\" ").replace("\\", "/")
    return next((row for row in known_datasets() if re.search(row.path, text, re.IGNORECASE)), None)


def scorer_for(data_source: str) -> KnownScorer | None:
    """The scorer of verl that a data_source selects, exact names first."""
    rows = [(row, source) for row in known_scorers() for source in row.sources if source.fits(data_source)]
    rows.sort(key=lambda pair: pair[1].match != "exact")
    return rows[0][0] if rows else None
