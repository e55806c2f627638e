"""The fact tables, and what is read from preparation scripts and from the use of arguments."""

from __future__ import annotations

from pathlib import Path

import pytest
from migrate_tools.model import VerlRef
from migrate_tools.verl.builtin import find_builtin, read_dispatch
from migrate_tools.verl.known_data import dataset_for, known_datasets, known_scorers, scorer_for
from migrate_tools.verl.prep_reader import match_score, read_prep
from migrate_tools.verl.usage import compared_constants, read_usage


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("$HOME/data/gsm8k/train.parquet", "gsm8k"),
        ("~/data/rlhf/math/test.parquet", "math-lighteval"),
        ("${RAY_DATA_HOME}/data/dapo-math-17k.parquet", "dapo-math-17k"),
        ("data/aime-2024.parquet", "aime-2024"),
        ("/d/geo3k/train.parquet", "geometry3k"),
        ("/d/math500.parquet", "math-500"),
        ("/d/mathematics/train.parquet", None),
        ("/d/my_data/train.parquet", None),
    ],
)
def test_well_known_paths(path: str, name: str | None) -> None:
    found = dataset_for(path)
    assert (found.id if found else None) == name


def test_every_row_of_the_tables_is_used_by_its_own_example_family() -> None:
    from migrate_tools.verl.example_rows import VALUES

    rows = [*known_datasets(), *known_scorers()]
    assert {row.example for row in rows} <= set(VALUES)
    assert len({row.id for row in known_datasets()}) == len(known_datasets())


@pytest.mark.parametrize(
    ("source", "scorer"), [("openai/gsm8k", "gsm8k"), ("aime2025", "math_dapo"), ("kk_logic", "kk"), ("zz", None)]
)
def test_known_scorers(source: str, scorer: str | None) -> None:
    found = scorer_for(source)
    assert (found.scorer if found else None) == scorer


def test_the_table_agrees_with_the_dispatch_of_verl(verl_source: VerlRef) -> None:
    file, function = find_builtin(Path(verl_source.root))
    dispatch = read_dispatch(Path(verl_source.root) / file, file, function)
    for row in known_scorers():
        for source in row.sources:
            if source.match == "exact" and not source.verl.startswith("<"):
                branch = dispatch.select(source.name)
                assert branch is not None, source.name
                assert branch.scorer == "sandbox_fusion.compute_score" or row.scorer in branch.scorer
    assert dispatch.select("mirror/gsm8k") is None
    assert dispatch.select("") is None


def prep(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "prep.py"
    path.write_text(body)
    return path


def test_columns_that_are_appended_to(tmp_path: Path) -> None:
    facts = read_prep(
        prep(
            tmp_path,
            "rows = {'data_source': [], 'prompt': [], 'reward_model': [], 'extra_info': []}\n"
            "for a in x:\n    rows['data_source'].append('letters')\n    rows['prompt'].append([{'role': 'user'}])\n"
            "    rows['reward_model'].append({'style': 'rule', 'ground_truth': len(a)})\n"
            "    rows['extra_info'].append({'word': a})\n",
        )
    )
    assert facts is not None
    assert (facts.data_sources, facts.open_sources, facts.truth) == (("letters",), False, "number")
    assert (facts.extra_info_keys, facts.prompt_form) == (("word",), "chat")


def test_a_computed_source_leaves_the_list_open(tmp_path: Path) -> None:
    facts = read_prep(
        prep(
            tmp_path,
            "def f(e, name='one'):\n    tag = name if e else f'x_{e}'\n"
            "    return {'data_source': tag, 'prompt': e, 'reward_model': {'ground_truth': {'target': e, 'other': 1}}}\n",  # noqa: E501
        )
    )
    assert facts is not None
    assert (facts.data_sources, facts.open_sources) == (("one",), True)
    assert (facts.truth, facts.truth_keys, facts.has_extra_info) == ("dict", ("target", "other"), False)


def test_a_script_that_builds_no_rows(tmp_path: Path) -> None:
    assert read_prep(prep(tmp_path, "x = {'ground_truth': 1}\n")) is None
    assert read_prep(prep(tmp_path, "def broken(:\n")) is None


@pytest.mark.parametrize(
    ("path", "matches"),
    [("/x/data/letters/train.parquet", True), ("/x/data/other/train.parquet", False), ("train.parquet", False)],
)
def test_a_script_is_matched_by_telling_parts_only(tmp_path: Path, path: str, matches: bool) -> None:
    facts = read_prep(
        prep(
            tmp_path, "d = {'reward_model': {'ground_truth': 'x'}}\nout = '~/data/letters'\nname = 'a/train.parquet'\n"
        )
    )
    assert facts is not None
    assert (match_score(facts, path) > 0) is matches


def test_usage_is_followed_through_calls_and_names() -> None:
    usage = read_usage(
        "import json\n\ndef check(found, "
        "wanted):\n    return found == wanted['name'].lower() and wanted['count'] > 2\n\n"
        "def compute_score(solution_str, ground_truth, **k):\n    data = json.loads(ground_truth)\n"
        "    for item in data['items']:\n        check(solution_str, item)\n"
        "    return data.get('mode', 'fast') == 'slow'\n",
        "ground_truth",
    )
    assert "json" in usage.at()
    assert set(usage.keys()) == {"items", "mode"}
    assert "loop" in usage.at(("items",))
    assert "string" in usage.at(("items", "*", "name"))
    assert "number" in usage.at(("items", "*", "count"))
    assert usage.at(("mode",)) >= {"value:'fast'", "value:'slow'"}


def test_sources_that_a_reward_names() -> None:
    code = (
        "TABLE = {'a': 1, 'b': 2}\n\ndef f(data_source):\n    if data_source == 'c' or data_source in ['d', 'e']:\n"
        "        return 1\n    return TABLE.get(data_source) or TABLE[data_source]\n"
    )
    assert set(compared_constants(code, "data_source")) == {"a", "b", "c", "d", "e"}
