"""Names, run ids and the run folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from migrate_agent.request import RunRequest, algo_name, checked_algo_name, fingerprint, run_id
from migrate_agent.runs import new_run, open_run, runs_home
from migrate_tools.errors import UsageError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("char_count", "char_count"),
        ("Infigui-G1", "infigui_g1"),
        ("2048 game", "r2048_game"),
        ("../../etc", "etc"),
        ("a--b__c", "a_b_c"),
    ],
)
def test_algo_name_is_an_identifier(text: str, name: str) -> None:
    assert algo_name(text) == name
    assert name.isidentifier()


@pytest.mark.parametrize("text", ["", "...", "class", "__"])
def test_no_name_can_be_made(text: str) -> None:
    with pytest.raises(UsageError, match="no Python name"):
        algo_name(text)


@pytest.mark.parametrize("text", ["../x", "a-b", "A", "for", "x/y", "1a", ""])
def test_a_given_name_must_be_an_identifier(text: str) -> None:
    with pytest.raises(UsageError):
        checked_algo_name(text)


def test_run_id_follows_content_and_options(request_value: RunRequest, toy_recipe: Path) -> None:
    first = run_id(request_value)
    assert run_id(request_value) == first
    assert run_id(request_value.model_copy(update={"batch_policy": "faithful"})) != first
    (toy_recipe / "run_a.sh").write_text("python3 -m verl.trainer.main_ppo a=2\n")
    assert run_id(request_value) != first


def test_fingerprint_sees_names_and_does_not_follow_links(toy_recipe: Path, tmp_path: Path) -> None:
    before = fingerprint(toy_recipe)
    outside = tmp_path / "secret"
    outside.write_text("x")
    (toy_recipe / "link").symlink_to(outside)
    for tool in (".hypothesis", ".venv", "__pycache__"):
        (toy_recipe / tool).mkdir()
        (toy_recipe / tool / "made.py").touch()
    assert fingerprint(toy_recipe) == before
    (toy_recipe / "run_a.sh").rename(toy_recipe / "run_b.sh")
    assert fingerprint(toy_recipe) != before


def test_fingerprint_of_a_large_file_does_not_read_it_all(toy_recipe: Path) -> None:
    with (toy_recipe / "big.bin").open("wb") as stream:
        stream.truncate(1 << 30)
    first = fingerprint(toy_recipe)
    with (toy_recipe / "big.bin").open("r+b") as stream:
        stream.write(b"x")
    assert fingerprint(toy_recipe) != first


def test_objects_are_found_by_their_digest_and_a_changed_one_is_noticed(request_value: RunRequest) -> None:
    run = new_run(request_value)
    digest = run.put({"a": [1, "ä", None]})
    assert run.get(digest) == {"a": [1, "ä", None]}
    assert run.put({"a": [1, "ä", None]}) == digest
    (run.root / "objects" / digest).write_text("{}")
    with pytest.raises(UsageError, match="damaged"):
        run.get(digest)


def test_a_new_run_forgets_the_old_one(request_value: RunRequest) -> None:
    run = new_run(request_value)
    (run.root / "stale").write_text("x")
    again = new_run(request_value)
    assert again.root == run.root
    assert not (run.root / "stale").exists()
    assert again.request() == request_value


@pytest.mark.parametrize("text", ["", "../x", "0123456789abcdef", "ABC"])
def test_unknown_run_ids_are_named(text: str, request_value: RunRequest) -> None:
    run = new_run(request_value)
    with pytest.raises(UsageError) as caught:
        open_run(text)
    assert run.id in caught.value.line()
    assert str(runs_home()) in caught.value.line()


def test_one_run_is_not_entered_twice(request_value: RunRequest) -> None:
    run = new_run(request_value)
    with run.locked(), pytest.raises(UsageError, match="in progress"), open_run(run.id).locked():
        pass


def test_model_configs_by_name_or_for_every_model(tmp_path: Path) -> None:
    from migrate_agent.commands.run import read_model_configs

    file = tmp_path / "config.json"
    file.write_text('{"model_type": "llama"}')
    assert read_model_configs((str(file),)) == {"": {"model_type": "llama"}}
    assert read_model_configs((f"my-model={tmp_path}",)) == {"my-model": {"model_type": "llama"}}
    with pytest.raises(UsageError, match="twice for every model"):
        read_model_configs((str(file), str(tmp_path)))
    with pytest.raises(UsageError, match=r"absent.json"):
        read_model_configs((str(tmp_path / "absent.json"),))


def test_a_model_config_is_part_of_the_run_id(tmp_path: Path) -> None:
    plain = RunRequest(recipe=str(tmp_path), algo="a", destination=str(tmp_path))
    given = plain.model_copy(update={"model_configs": {"": {"model_type": "llama"}}})
    assert run_id(plain) != run_id(given)
