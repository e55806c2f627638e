"""The table of algorithms against verl's own registries, the hook library and the page made from it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from migrate_tools.mapping import algorithms_page
from migrate_tools.mapping.algorithm_table import AGGREGATIONS, ESTIMATORS, LOSSES
from migrate_tools.model import VerlRef
from migrate_tools.verl.source import cache_root

MADE_BY_VERL = {"reinforce", "gvpo"}
"""Names of the table that no registry has: what bypass mode computes, and a recipe's own loss."""


def number(text: str) -> tuple[int, ...]:
    return tuple((*(int(part) for part in re.findall(r"\d+", text)[:3]), 0, 0)[:3])


def registries(core: Path) -> tuple[set[str], set[str], set[str]]:
    """Estimators, losses and aggregations of one release, from its source text."""
    text = core.read_text(encoding="utf-8")
    enum = next((node for node in ast.parse(text).body if getattr(node, "name", "") == "AdvantageEstimator"), None)
    if isinstance(enum, ast.ClassDef):
        names = {
            node.value.value
            for node in enum.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        }
    else:  # before 0.4 the trainer names them
        trainer = (core.parent / "ray_trainer.py").read_text(encoding="utf-8")
        names = set(
            re.findall(r"""^    [A-Z_]+ = ["'](\w+)["']""", trainer.partition("class AdvantageEstimator")[2], re.M)
        )
        names |= set(re.findall(r"""adv_estimator [=!]= ["'](\w+)["']""", trainer))
    losses = set(re.findall(r'@register_policy_loss\("(\w+)"\)', text)) | {"vanilla"}
    modes = set(re.findall(r'"(token-\w+|seq-mean-token-[\w-]+)"', text.partition("def agg_loss")[2])) or {"token-mean"}
    return names, losses, modes


def cores() -> list[Path]:
    """core_algos.py of every release in the user's cache; the newest is always there in CI."""
    return sorted((cache_root() / "verl").glob("*/verl/trainer/ppo/core_algos.py"))


def test_the_newest_release_is_covered(verl_source: VerlRef) -> None:
    names, losses, modes = registries(Path(verl_source.root, "verl", "trainer", "ppo", "core_algos.py"))
    assert names == set(ESTIMATORS)
    assert losses == set(LOSSES) - MADE_BY_VERL - {"rollout_correction"}
    assert modes == set(AGGREGATIONS)


def test_since_is_right_for_every_release_at_hand(verl_source: VerlRef) -> None:
    found = cores()
    assert found, verl_source
    for core in found:
        version = number(core.parents[3].name)
        names, losses, modes = registries(core)
        for table, have in ((ESTIMATORS, names), (LOSSES, losses), (AGGREGATIONS, modes)):
            expected = {name for name, row in table.items() if row.since and number(row.since) <= version}
            expected -= MADE_BY_VERL
            if version != (0, 6, 1):
                expected.discard("rollout_correction")
            assert have == expected, (core, have ^ expected)


def test_the_page_is_fresh_and_names_everything() -> None:
    assert algorithms_page.main(["--check"]) == 0
    text = algorithms_page.render()
    for name in (*ESTIMATORS, *LOSSES, *AGGREGATIONS):
        assert f"| `{name}` |" in text


def test_a_stale_page_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(algorithms_page, "resource_dir", lambda name: tmp_path)
    (tmp_path / "references").mkdir()
    assert algorithms_page.main(["--check"]) == 1
    assert algorithms_page.main([]) == 0
    assert algorithms_page.main(["--check"]) == 0


def test_a_row_is_a_hook_or_flags_or_a_refusal() -> None:
    for name, row in ESTIMATORS.items():
        assert bool(row.refusal) != bool(row.relax), name
        assert bool(row.hook) == (row.advantage == "hook"), name
    for name, loss in LOSSES.items():
        assert bool(loss.refusal) != bool(loss.hook), name
        assert bool(loss.estimator) == (loss.native_when != "never"), name
