"""Numeric tests: generated hooks against verl's own functions. Torch is needed; in CI it is an error to lack it.

They import little, so that they also run on a machine with a GPU and no network:
MIGRATE_VERL_ROOTS=FOLDER PYTHONPATH=tools python -m pytest tests/numeric --confcutdir=tests/numeric
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import pytest
from verl_functions import Verl, roots

DEVICES = ["cpu"]
collect_ignore_glob: list[str] = []
try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch
except ModuleNotFoundError:
    if os.environ.get("CI"):
        raise
    collect_ignore_glob = ["test_*.py"]
else:
    torch.set_num_threads(1)
    DEVICES += ["cuda"] if torch.cuda.is_available() else []


def pytest_report_header() -> list[str]:
    """Says it where the numeric tests are left out."""
    return ["numeric tests are left out: pip install -e '.[numeric]'"] if collect_ignore_glob else []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "numeric" in str(item.path):
            item.add_marker(pytest.mark.torch)


@pytest.fixture(scope="session")
def releases() -> dict[str, Verl]:
    """Every release at hand, by version."""
    found = [Verl(root) for root in roots()]
    return {verl.version: verl for verl in found}


@pytest.fixture(scope="session")
def verl(releases: dict[str, Verl]) -> Verl:
    """The newest release at hand."""
    return releases[max(releases, key=lambda text: [int(part) for part in text.split(".")[:3]])]


@pytest.fixture
def release(releases: dict[str, Verl], request: pytest.FixtureRequest) -> Verl:
    """The release that the test's parameter names; skipped where only other wheels are at hand."""
    version: Any = request.param
    if version not in releases:
        pytest.skip(f"no wheel of verl {version} among {sorted(releases)}")
    return releases[version]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """Every device of this machine."""
    return str(request.param)
