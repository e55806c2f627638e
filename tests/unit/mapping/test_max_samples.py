"""data.train_max_samples: the conversion command keeps the rows of verl, and the length of training counts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mapping_launches import BASE, make_launch
from migrate_tools.mapping.facts import Facts
from migrate_tools.mapping.schedule import train_rows
from migrate_tools.mapping.translate import translate
from migrate_tools.model import Launch, Recipe, VerlRef
from migrate_tools.relax.contract import load_contract
from migrate_tools.relax.run_script import data_steps


def launch_with(settings: dict[str, Any], root: Path, text: str) -> Launch:
    file = root / "verl/utils/dataset/rl_dataset.py"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    launch = make_launch({**BASE, **settings}, rows=7000)
    return launch.model_copy(update={"verl": VerlRef(version="0.9.1", root=str(root), how="given")})


@pytest.mark.parametrize(
    ("settings", "text", "options", "status"),
    [
        ({"data.seed": 3}, "rng.choice(total)", "--draw-samples --sample-seed 3", "exact"),
        ({}, "rng.choice(total)", "--draw-samples", "approximate"),
        ({"data.shuffle": False}, "rng.choice(total)", "", "exact"),
        ({}, "dataframe[:limit]", "", "exact"),
    ],
    ids=["seed", "no seed", "not shuffled", "older verl"],
)
def test_max_samples(tmp_path: Path, settings: dict[str, Any], text: str, options: str, status: str) -> None:
    launch = launch_with({"data.train_max_samples": 1000, **settings}, tmp_path, text)
    steps = " ".join(" ".join(data_steps("demo", launch)).replace("\\", " ").split())
    assert "--train-max-samples 1000" in steps
    assert ("--draw-samples" in steps) == bool(options)
    assert options in steps
    recipe = Recipe(name="r", root="/nowhere", project_root="/nowhere", sha256="0" * 64, launches=(launch,))
    done = translate(recipe, launch, algo="demo", contract=load_contract())
    found = {item.key: item.status for item in done.settings}
    assert found["data.train_max_samples"] == status
    assert train_rows(Facts(launch)) == 1000


def test_without_a_limit(tmp_path: Path) -> None:
    launch = launch_with({}, tmp_path, "")
    assert "max-samples" not in " ".join(data_steps("demo", launch))
    assert train_rows(Facts(launch)) == 7000
