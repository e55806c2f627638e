"""Fixtures that every area shares."""

from __future__ import annotations

import pytest
from migrate_tools.model import VerlRef
from migrate_tools.sandbox import Sandbox, open_sandbox
from migrate_tools.verl.source import wheel


@pytest.fixture(scope="session")
def verl_source() -> VerlRef:
    """The verl 0.9.1 release, downloaded once and then kept in the user's cache."""
    return wheel("0.9.1")


@pytest.fixture(scope="session")
def jail() -> Sandbox:
    """A sandbox for foreign code."""
    return open_sandbox("bubblewrap")
