"""The tables: what load rejects, what lookup finds, transforms, the generated reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from migrate_tools.mapping import reference
from migrate_tools.mapping.tables import TableError, load_tables, lookup
from migrate_tools.mapping.transforms import OMIT, TRANSFORMS
from migrate_tools.relax.contract import FlagContract

GOOD: dict[str, Any] = {
    "id": "lr",
    "keys": ["a.lr"],
    "unit": "ratio",
    "status": "exact",
    "reason": "learning rate",
    "relax": ["--lr"],
    "transform": "copy",
    "group": "OPTIMIZER",
    "evidence": {"verl": "x.yaml:1@1"},
}


def load(folder: Path, contract: FlagContract, *rows: dict[str, Any]) -> None:
    (folder / "keys_test.yaml").write_text(yaml.safe_dump({"rows": list(rows)}))
    load_tables(contract, folder)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"relax": ["--lrr"]}, "unknown flag --lrr"),
        ({"unit": None}, "unit"),
        ({"unit": "none"}, "unit 'none' for a copied value"),
        ({"transform": "positive", "unit": "text"}, "unit 'text' for a number"),
        ({"transform": "halve"}, "unknown transform 'halve'"),
        ({"transform": "", "combiner": "magic", "group": ""}, "unknown combiner 'magic'"),
        ({"combiner": "batch"}, "both transform and combiner"),
        ({"transform": ""}, "neither transform nor combiner"),
        ({"group": ""}, "exactly one flag and a group"),
        ({"status": "approximate", "reason": ""}, "approximate without a reason"),
        ({"status": "good"}, "status"),
        ({"surplus": 1}, "surplus"),
        ({"keys": []}, "keys"),
        ({"status": "no_effect", "reason": ""}, "no_effect without a reason"),
        ({"values": [{"match": ["x"], "status": "automatic", "reason": ""}]}, "automatic without a reason"),
        ({"versions": "since 0.6"}, "versions 'since 0.6'"),
        ({"evidence": "x.yaml:1@1"}, "row lr"),
    ],
)
def test_a_wrong_row_names_file_and_row(
    tmp_path: Path, contract: FlagContract, change: dict[str, Any], word: str
) -> None:
    with pytest.raises(TableError) as caught:
        load(tmp_path, contract, {**GOOD, **change})
    assert "keys_test.yaml, row lr" in caught.value.message
    assert word in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("versions", ["0.6", "0.3-0.6", "0.7-", "-0.4.1", "fork", "0.2-0.6, fork"])
def test_ranges_of_versions(tmp_path: Path, contract: FlagContract, versions: str) -> None:
    load(tmp_path, contract, {**GOOD, "versions": versions})


def test_defaults_of_a_file_reach_its_rows(tmp_path: Path, contract: FlagContract) -> None:
    bare = {"id": "seed", "keys": ["a.seed"], "reason": "seed", "status": "no_effect", "evidence": {"relax": "here"}}
    defaults = {"unit": "none", "risk": "speed", "evidence": {"verl": "x.yaml:1@1"}}
    path = tmp_path / "keys_test.yaml"
    path.write_text(yaml.safe_dump({"defaults": defaults, "rows": [bare, GOOD]}))
    first, second = load_tables(contract, tmp_path).rows
    assert (first.unit, first.risk) == ("none", "speed")
    assert (first.evidence.verl, first.evidence.relax) == ("x.yaml:1@1", "here")
    assert (second.unit, second.risk) == ("ratio", "speed")
    path.write_text(yaml.safe_dump({"defaults": {"id": "x"}, "rows": [GOOD]}))
    with pytest.raises(TableError, match="defaults"):
        load_tables(contract, tmp_path)


def test_two_sources_of_one_flag_need_a_combiner(tmp_path: Path, contract: FlagContract) -> None:
    with pytest.raises(TableError, match="--lr is also made by row lr"):
        load(tmp_path, contract, GOOD, {**GOOD, "id": "lr-2", "keys": ["b.lr"]})
    shared = {"transform": "", "group": "", "combiner": "optimizer"}
    load(tmp_path, contract, {**GOOD, **shared}, {**GOOD, **shared, "id": "lr-2", "keys": ["b.lr"]})


def test_doubled_ids_and_keys(tmp_path: Path, contract: FlagContract) -> None:
    with pytest.raises(TableError, match="the id is also in keys_test.yaml"):
        load(tmp_path, contract, GOOD, {**GOOD, "keys": ["b.lr"], "relax": ["--min-lr"]})
    with pytest.raises(TableError, match="a.lr is also in row lr"):
        load(tmp_path, contract, GOOD, {**GOOD, "id": "lr-2", "relax": ["--min-lr"]})


def test_broken_files(tmp_path: Path, contract: FlagContract) -> None:
    (tmp_path / "keys_test.yaml").write_text("rows: [")
    with pytest.raises(TableError, match="keys_test.yaml: not YAML"):
        load_tables(contract, tmp_path)
    (tmp_path / "keys_test.yaml").write_text("- 1")
    with pytest.raises(TableError, match="no list `rows`"):
        load_tables(contract, tmp_path)


@pytest.mark.parametrize(
    ("key", "row"),
    [
        ("data.train_batch_size", "train-batch-size"),
        ("actor_rollout_ref.actor.fsdp_config.param_offload", "fsdp-offload"),
        ("actor_rollout_ref.actor.fsdp_config.forward_prefetch", "fsdp-other"),
        ("actor_rollout_ref.rollout.engine_kwargs.vllm.kv_cache_dtype", "engine-kv-dtype"),
        ("actor_rollout_ref.rollout.engine_kwargs.vllm.swap_space", "engine-kwargs-speed"),
        ("actor_rollout_ref.rollout.engine_kwargs.vllm.hf_overrides", "engine-kwargs-vllm"),
        ("critic.optim.lr", "critic-lr"),
        ("critic.optim.weight_decay", "critic-optim"),
        ("actor_rollout_ref.actor.profiler.ranks", "profiling"),
    ],
)
def test_the_most_specific_row_wins(key: str, row: str) -> None:
    found = lookup(key)
    assert found is not None
    assert found.id == row


@pytest.mark.parametrize("key", ["data.foo", "trainer.bar", "actor_rollout_ref.actor.unheard_of", "algorithm.magic"])
def test_a_key_that_nobody_knows(key: str) -> None:
    assert lookup(key) is None


def test_values_decide(contract: FlagContract) -> None:
    row = lookup("actor_rollout_ref.rollout.ignore_eos")
    assert row is not None
    assert row.judge(False)[0] == "automatic"
    assert row.judge("True")[0::2] == ("unsupported", "training")


def test_a_key_that_moved_is_a_key_of_the_row(tmp_path: Path, contract: FlagContract) -> None:
    load(tmp_path, contract, {**GOOD, "keys": ["a.lr", "b.lr"], "moved": {"a.lr": "b.lr"}})
    with pytest.raises(TableError, match=r"moved: b\.lr is no key of the row"):
        load(tmp_path, contract, {**GOOD, "moved": {"a.lr": "b.lr"}})


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("copy", 1e-6, "1e-06"),
        ("copy", 3, "3"),
        ("copy", "a b", "'a b'"),
        ("copy", None, OMIT),
        ("switch", True, None),
        ("switch", "true", None),
        ("switch", False, OMIT),
        ("switch_when_false", False, None),
        ("switch_when_false", True, OMIT),
        ("switch_when_false", None, OMIT),
        ("positive", 20, "20"),
        ("positive", -1, OMIT),
        ("positive", 0, OMIT),
        ("positive", None, OMIT),
        ("above_one", 2, "2"),
        ("above_one", 1, OMIT),
        ("top_k", -1, "-1"),
        ("top_k", 0, "-1"),
        ("top_k", 50, "50"),
        ("top_k", None, OMIT),
        ("as_json", {"a": True}, "'{\"a\": true}'"),
        ("as_json", {}, OMIT),
    ],
)
def test_transforms(name: str, value: Any, wanted: Any) -> None:
    assert TRANSFORMS[name](value) == wanted


def test_every_transform_is_tested_above() -> None:
    assert {"copy", "switch", "switch_when_false", "positive", "above_one", "top_k", "as_json"} == set(TRANSFORMS)


def test_the_reference_is_fresh() -> None:
    assert reference.main(["--check"]) == 0


def test_the_reference_notices_a_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "references").mkdir()
    (tmp_path / "references" / "migration_mapping.md").write_text("old")
    monkeypatch.setattr(reference, "resource_dir", lambda _name: tmp_path)
    assert reference.main(["--check"]) == 1
    assert reference.main([]) == 0
    assert reference.main(["--check"]) == 0
