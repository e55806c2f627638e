"""The facts about verl's keys: every known key has one row, and the facts are those of the verl release at hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from migrate_tools.mapping.declared import declared, leaf_lines
from migrate_tools.mapping.evidence import PLACE, flag_place, lacking, relax_places, verl_places
from migrate_tools.mapping.row import Evidence, Row
from migrate_tools.mapping.tables import TableError, Tables, check_evidence, load_tables
from migrate_tools.model import VerlRef
from migrate_tools.verl.key_facts import (
    MEASURED,
    KeyFact,
    in_ranges,
    key_facts,
    key_versions,
    ranges,
    read_facts,
    write_facts,
)
from migrate_tools.verl.settings import known_in


def test_no_key_of_any_public_script_is_unknown_and_each_has_one_row() -> None:
    """Keys of verl-recipe, of verl's examples and of the rest of verl, of several versions."""
    tables = load_tables()
    found = {key: tables.candidates(key) for key, fact in key_facts().items() if fact.scripts}
    assert len(found) >= 890
    assert not [key for key, rows in found.items() if not rows], "unknown"
    assert not {key: [row.id for row in rows] for key, rows in found.items() if len(rows) > 1}, "ambiguous"


def test_no_other_key_of_the_facts_is_unknown() -> None:
    """Configuration files of recipes, and keys of forks."""
    tables = load_tables()
    assert not [key for key in key_facts() if len(tables.candidates(key)) != 1]


def test_the_facts_hold_for_the_release_at_hand(verl_source: VerlRef) -> None:
    keys = declared(Path(verl_source.root))
    assert len(keys) > 1000
    wrong = [key for key, fact in key_facts().items() if in_ranges("0.9.1", fact.versions) != (key in keys)]
    assert not wrong


def test_evidence_at_the_release_at_hand_names_the_key(verl_source: VerlRef) -> None:
    """The line that is cited mentions the last part of one of the row's keys."""
    checked = 0
    for row in load_tables().rows:
        places = verl_places(row) | ({"": row.evidence.verl} if row.evidence.verl else {})
        for key, place in places.items():
            match = PLACE.match(place)
            assert match, place
            if match["at"] != "0.9.1":
                continue
            lines = (Path(verl_source.root) / match["file"]).read_text("utf-8").splitlines()
            text = lines[int(match["line"]) - 1]
            names = {part for name in ((key,) if key else row.keys) for part in re.split(r"[.@*]+", name) if part}
            assert any(re.search(rf"\b{re.escape(name)}\b", text) for name in names), (row.id, key, place, text)
            checked += 1
    assert checked > 500


@pytest.mark.parametrize(
    ("present", "text"),
    [
        (MEASURED, "0.1-"),
        (("0.3",), "0.3"),
        (("0.2", "0.3", "0.4.0"), "0.2-0.4.0"),
        (("0.1", "0.2", "0.9.1", "0.10"), "0.1-0.2, 0.9.1-"),
        (("0.10",), "0.10-"),
        ((), ""),
    ],
)
def test_ranges(present: tuple[str, ...], text: str) -> None:
    assert ranges(present) == text
    assert tuple(version for version in MEASURED if in_ranges(version, text)) == present


def test_words_are_no_ranges() -> None:
    assert not any(in_ranges(version, "recipe, fork") for version in MEASURED)


def test_known_moves() -> None:
    """verl 0.7.1 moved the reward function below `reward`, and dropped the worker of the old trainer after it."""
    assert key_versions("reward.custom_reward_function.path") == "0.7.1-"
    assert key_versions("trainer.use_legacy_worker_impl") == "0.5-0.7.1"
    assert key_versions("actor_rollout_ref.rollout.n_agent") == "fork"
    assert key_versions("never.heard.of") == ""


def test_a_moved_key_is_older_than_the_one_that_took_its_place() -> None:
    facts = key_facts()

    def first(key: str) -> int:
        return min(
            (MEASURED.index(version) for version in MEASURED if in_ranges(version, facts[key].versions)), default=-1
        )

    moves = [(old, new) for row in load_tables().rows for old, new in row.moved.items()]
    assert len(moves) >= 20
    known = [(old, new) for old, new in moves if old in facts and new in facts and min(first(old), first(new)) >= 0]
    assert len(known) >= 10
    assert not [(old, new) for old, new in known if first(old) > first(new)]


def test_facts_survive_the_file(tmp_path: Path) -> None:
    facts = [KeyFact("b.c", "0.2-", "x.yaml:3@0.9.1", 1, 2, 3), KeyFact("a", "fork", "y.sh:1@abc")]
    write_facts(facts, tmp_path / "facts.tsv", "two\nlines")
    assert read_facts(tmp_path / "facts.tsv") == {"a": facts[1], "b.c": facts[0]}
    assert facts[0].scripts == 6


def test_lines_of_a_yaml_text() -> None:
    text = "a:\n  b: 1\n  'c-d': {e: 2}\nlist:\n- x\n"
    assert leaf_lines(text) == {"a": 1, "a.b": 2, "a.c-d": 3, "a.c-d.e": 3, "list": 4}
    assert leaf_lines("") == {}


def test_groups_of_a_defaults_list(tmp_path: Path) -> None:
    folder = tmp_path / "verl" / "trainer" / "config"
    (folder / "optim").mkdir(parents=True)
    (folder / "optim" / "adam.yaml").write_text("lr: 1\n")
    (folder / "sft_trainer.yaml").write_text("defaults:\n  - optim@actor.optim: adam\n  - _self_\ndata:\n  path: x\n")
    file = "verl/trainer/config/sft_trainer.yaml"
    assert declared(tmp_path) == {"data": (file, 4), "data.path": (file, 5), "actor.optim.lr": (file, 2)}


ROW = Row(id="r", keys=("a.b",), unit="none", status="automatic", reason="x")
FACTS = {"a.b": KeyFact("a.b", "0.2-", "x.yaml:1@0.9.1")}


@pytest.mark.parametrize(
    ("row", "word"),
    [
        (ROW, "no evidence in Relax"),
        (ROW.model_copy(update={"status": "no_effect"}), ""),
        (ROW.model_copy(update={"evidence": Evidence(relax="Relax contract, section 7")}), ""),
        (ROW.model_copy(update={"relax": ("--lr",)}), ""),
        (ROW.model_copy(update={"keys": ("a.b", "a.c")}), "no evidence in verl for a.c"),
        (ROW.model_copy(update={"keys": ("a.*",), "status": "no_effect"}), ""),
        (ROW.model_copy(update={"keys": ("z.*",)}), r"no evidence in verl for z.*"),
        (ROW.model_copy(update={"evidence": Evidence(verl="somewhere")}), "'somewhere' is no file:line@version"),
    ],
)
def test_what_a_row_lacks(row: Row, word: str) -> None:
    assert lacking(row, FACTS) == word or (word and word in lacking(row, FACTS))


def test_a_row_without_evidence_is_refused_by_name() -> None:
    with pytest.raises(TableError, match=r"row r: no evidence in verl for never\.heard"):
        check_evidence(Tables(rows=(ROW.model_copy(update={"keys": ("never.heard",)}),), by_key={}, patterns=()))


def test_where_flags_are_declared() -> None:
    assert flag_place("--rollout-batch-size") == "redai-studio/Relax relax/utils/arguments.py@6c0099bb"
    assert flag_place("--lr") == "Megatron-LM megatron/training/arguments.py@85bced0a"
    assert flag_place("--sglang-context-length") == "SGLang 0.5.17 server arguments"
    row = ROW.model_copy(update={"relax": ("--lr", "--min-lr"), "evidence": Evidence(relax="here")})
    assert relax_places(row) == ("here", "Megatron-LM megatron/training/arguments.py@85bced0a")


def test_no_key_that_the_release_at_hand_declares_is_unknown(verl_source: VerlRef) -> None:
    """Every leaf of every entry point's configuration, whether or not a public script sets it."""
    tables = load_tables()
    keys = declared(Path(verl_source.root))
    leaves = [key for key in keys if not any(other.startswith(key + ".") for other in keys)]
    assert len(leaves) > 900
    assert not [key for key in leaves if len(tables.candidates(key)) != 1]


@pytest.mark.parametrize(
    ("key", "prefix", "text"),
    [
        ("trainer.use_legacy_worker_impl", "", "; declared by verl 0.5-0.7.1"),
        ("actor_rollout_ref.rollout.n_agent", "", "; only a fork declares it"),
        ("trainer.rl_logging_board_dir", "+", ""),
        ("never.heard.of", "", ""),
    ],
)
def test_a_key_of_other_releases_says_which(key: str, prefix: str, text: str) -> None:
    assert known_in(key, prefix) == text
