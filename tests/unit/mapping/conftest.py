"""Fixtures of the mapping tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from mapping_launches import BASE, Make, make_launch
from migrate_tools.mapping.translate import translate
from migrate_tools.model import Recipe, Translation
from migrate_tools.relax.contract import FlagContract, load_contract


@pytest.fixture(scope="session")
def contract() -> FlagContract:
    """The newest flag contract."""
    return load_contract()


@pytest.fixture
def make(contract: FlagContract) -> Make:
    """Translates BASE with changes: `make({"key": value}, policy="faithful", ...)`."""

    def build(
        changes: Mapping[str, Any] | None = None,
        *,
        policy: str = "on-policy",
        model_configs: Mapping[str, Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> Translation:
        launch = make_launch({**BASE, **(changes or {})}, **options)
        recipe = Recipe(name="r", root="/nowhere", project_root="/nowhere", sha256="0" * 64, launches=(launch,))
        return translate(
            recipe,
            launch,
            algo="gsm8k",
            batch_policy=policy,  # type: ignore[arg-type]
            contract=contract,
            model_configs=model_configs,
        )

    return build
