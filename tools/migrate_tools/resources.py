"""Finds `skill/` and `prompts/`, installed (inside the wheel) and in a checkout."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path


@cache
def resource_dir(name: str) -> Path:
    """The folder `name` ("skill" or "prompts").

    A checkout wins over an installed copy, so that an editable install sees edits.

    Raises:
        FileNotFoundError: neither a checkout nor an installed copy has it.
    """
    checkout = Path(__file__).resolve().parents[2] / name
    if checkout.is_dir() and (checkout.parent / "pyproject.toml").is_file():
        return checkout
    spec = find_spec("migrate_agent")
    for location in (spec.submodule_search_locations or []) if spec else []:
        installed = Path(location) / name
        if installed.is_dir():
            return installed
    raise FileNotFoundError(f"the package data folder {name!r} is missing; reinstall migrate-agent")
