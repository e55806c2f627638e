"""Launch scripts: what is recorded, where each setting stands, and the text that keeps its variables."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from migrate_tools.errors import RefusedInput
from migrate_tools.model import Launch, Recipe, Setting
from migrate_tools.sandbox import Sandbox
from migrate_tools.verl.reader import read_recipe

Read = Callable[..., Recipe]


def setting(launch: Launch, key: str) -> Setting:
    """The only setting with that key."""
    (found,) = [item for item in launch.settings if item.key == key]
    return found


def line(found: Setting) -> int | None:
    """The line of a setting."""
    assert found.source is not None
    return found.source.line


TRAIN = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.rollout.name=vllm \\\n"


def test_lists_mean_the_same_in_every_quoting_and_home_stays(read: Read) -> None:
    script = f"""A=$HOME/x.parquet
B=$HOME/y.parquet
{TRAIN} data.train_files="['$HOME/a b/x.parquet','$HOME/y.parquet']" data.val_files=[$A,$B] \\
  trainer.logger=['console','wandb']
"""
    (launch,) = read(script).launches
    assert setting(launch, "data.train_files").value == ["$HOME/a b/x.parquet", "$HOME/y.parquet"]
    assert setting(launch, "data.train_files").text == "['$HOME/a b/x.parquet','$HOME/y.parquet']"
    assert setting(launch, "data.val_files").value == ["$HOME/x.parquet", "$HOME/y.parquet"]
    assert setting(launch, "trainer.logger").value == ["console", "wandb"]
    assert launch.config["trainer.logger"] == ["console", "wandb"]


def test_places_and_texts_of_arrays_variables_and_dates(read: Read) -> None:
    script = f"""set -xeuo pipefail
MODEL_PATH=${{MODEL_PATH:-Qwen/Qwen3-8B}}
size=${{SIZE:-}}
size=${{size:-4}}
ARGS=(
  actor_rollout_ref.model.path="$MODEL_PATH"
  trainer.nnodes=$size
)
ARGS+=(data.max_response_length=$((2 * 512)))
export NCCL_DEBUG=INFO
{TRAIN} "${{ARGS[@]}}" trainer.experiment_name=run_$(date +%Y%m%d) "$@" 2>&1 | tee log.txt
"""
    (launch,) = read(script).launches
    assert launch.how == "executed"
    model = setting(launch, "actor_rollout_ref.model.path")
    assert (model.value, model.text, line(model)) == ("Qwen/Qwen3-8B", "${MODEL_PATH:-Qwen/Qwen3-8B}", 6)
    nodes = setting(launch, "trainer.nnodes")
    assert (nodes.value, nodes.text, line(nodes)) == (4, "${SIZE:-4}", 7)
    length = setting(launch, "data.max_response_length")
    assert (length.value, length.text, line(length)) == (1024, "1024", 9)
    assert setting(launch, "trainer.experiment_name").text == "run_$(date +%Y%m%d)"
    assert launch.environment["NCCL_DEBUG"] == "INFO"


def test_prefixes_duplicates_and_unknown_keys_are_all_kept(read: Read) -> None:
    script = f"""{TRAIN} +data.foo=1 \\
  ++trainer.bar=2 \\
  ~data.seed \\
  trainer.total_epochs=3 \\
  trainer.total_epochs=5 \\
  trainer.no_such_key=7
"""
    (launch,) = read(script).launches
    assert setting(launch, "data.foo").prefix == "+"
    assert setting(launch, "trainer.bar").prefix == "++"
    assert setting(launch, "data.seed").prefix == "~"
    assert "data.seed" not in launch.config
    epochs = setting(launch, "trainer.total_epochs")
    assert (epochs.value, line(epochs), [ref.line for ref in epochs.overridden]) == (5, 6, [5])
    assert launch.config["trainer.total_epochs"] == 5
    assert setting(launch, "trainer.no_such_key").value == 7
    (skew,) = [note for note in launch.notes if note.code == "version-skew"]
    assert "trainer.no_such_key" in skew.text
    assert skew.source is not None
    assert skew.source.line == 7


def test_comment_inside_a_continued_command_ends_it(read: Read) -> None:
    script = f"""{TRAIN} trainer.nnodes=2 \\
  # trainer.save_freq=10 \\
  trainer.total_epochs=9
"""
    (launch,) = read(script).launches
    keys = {item.key for item in launch.settings}
    assert "trainer.nnodes" in keys
    assert not {"trainer.save_freq", "trainer.total_epochs"} & keys


def test_unset_variables_are_named_and_kept_in_the_text(read: Read) -> None:
    script = f"set -u\n{TRAIN} actor_rollout_ref.model.path=$MY_MODEL trainer.nnodes=${{NODES:?give it}}\n"
    (launch,) = read(script).launches
    assert set(launch.unset) == {"MY_MODEL", "NODES"}
    assert setting(launch, "actor_rollout_ref.model.path").text == "${MY_MODEL}"
    assert setting(launch, "actor_rollout_ref.model.path").value == "$MY_MODEL"
    assert {note.text.split()[3] for note in launch.notes if note.code == "unset-variable"} == {"$MY_MODEL", "$NODES"}


def test_branches_not_taken_are_noted(read: Read) -> None:
    script = f"""BACKEND=${{BACKEND:-vllm}}
EXTRA=()
if [ "$BACKEND" = sglang ]; then
  EXTRA+=(trainer.nnodes=7)
fi
{TRAIN} trainer.total_epochs=1 "${{EXTRA[@]}}"
"""
    (launch,) = read(script).launches
    assert all(item.key != "trainer.nnodes" for item in launch.settings)
    (note,) = [item for item in launch.notes if item.code == "branch-not-taken"]
    assert note.source is not None
    assert note.source.line == 3
    assert "1 setting" in note.text


def test_ray_job_submit_is_unwrapped_and_its_runtime_environment_read(read: Read) -> None:
    script = """ray job submit --address=http://x:8265 --runtime-env=env.yaml -- python3 -m verl.trainer.main_ppo \\
  algorithm.adv_estimator=grpo actor_rollout_ref.rollout.name=vllm trainer.nnodes=2
"""
    (launch,) = read(script, env_dot_yaml="env_vars:\n  VLLM_USE_V1: '1'\n").launches
    assert launch.module == "verl.trainer.main_ppo"
    assert setting(launch, "trainer.nnodes").value == 2
    assert line(setting(launch, "trainer.nnodes")) == 2
    assert launch.environment["VLLM_USE_V1"] == "1"


def test_own_configuration_gives_settings_with_their_lines(read: Read) -> None:
    yaml = """hydra:
  searchpath:
    - file://verl/trainer/config
defaults:
  - ppo_trainer
  - _self_
data:
  max_prompt_length: 77
trainer:
  total_epochs: 4
"""
    script = """python3 -m verl.trainer.main_ppo --config-path=config --config-name=mine \\
  actor_rollout_ref.rollout.name=vllm algorithm.adv_estimator=grpo trainer.total_epochs=6
"""
    (launch,) = read(script, config__mine_dot_yaml=yaml).launches
    length = setting(launch, "data.max_prompt_length")
    assert (length.value, length.origin, line(length)) == (77, "recipe_config", 8)
    epochs = setting(launch, "trainer.total_epochs")
    assert (epochs.value, epochs.origin, [ref.line for ref in epochs.overridden]) == (6, "command_line", [10])
    assert launch.config["data.max_prompt_length"] == 77
    assert launch.config["trainer.total_epochs"] == 6


def test_several_commands_and_sourced_files(read: Read) -> None:
    script = f"source common.sh\nfor n in 1; do\n{TRAIN} trainer.nnodes=$NODES\ndone\n{TRAIN} trainer.nnodes=3\n"
    recipe = read(script, common_dot_sh="NODES=${NODES:-2}\n")
    assert [launch.name for launch in recipe.launches] == ["run_it_1", "run_it_2"]
    assert setting(recipe.launches[0], "trainer.nnodes").text == "${NODES:-2}"
    assert [setting(launch, "trainer.nnodes").value for launch in recipe.launches] == [2, 3]


def test_a_script_that_cannot_run_is_read_from_its_text(read: Read) -> None:
    script = f"while true; do sleep 1; done\n{TRAIN} trainer.nnodes=${{NODES:-4}}\n"
    (launch,) = read(script).launches
    assert launch.how == "static"
    assert setting(launch, "trainer.nnodes").value == 4
    assert [note.code for note in launch.notes if note.code == "read-without-running"] == ["read-without-running"]


def test_side_effects_are_named_and_never_done(read: Read, tmp_path: Path) -> None:
    keep = tmp_path / "recipe" / "keep.txt"
    script = f"sed -i s/a/b/ keep.txt\nrm -rf keep.txt $HOME/x\npip install verl\n{TRAIN} trainer.nnodes=1\n"
    recipe = read(script, keep_dot_txt="aaa")
    assert keep.read_text() == "aaa"
    assert [(n.text.split("`")[1], n.source.line if n.source else 0) for n in recipe.shell_features] == [
        ("sed -i", 1),
        ("rm -rf", 2),
        ("pip install", 3),
    ]


def test_the_machine_does_not_leak_in(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_PATH", "from-outside")
    monkeypatch.setenv("OPENAI_API_KEY", "outside-secret")
    (launch,) = read(f"{TRAIN} trainer.nnodes=1 actor_rollout_ref.model.path=${{MODEL_PATH:-inside}}\n").launches
    assert setting(launch, "actor_rollout_ref.model.path").value == "inside"
    assert "outside" not in launch.model_dump_json()


def test_secrets_are_found_and_removed(read: Read) -> None:
    key = "sk-" + "a1B2c3D4" * 4
    (launch,) = (recipe := read(f"export OPENAI_API_KEY={key}\n{TRAIN} trainer.nnodes=1 +x.api_key={key}\n")).launches
    assert [(s.source.line, s.kind) for s in recipe.secrets] == [(1, "OpenAI-style key"), (3, "OpenAI-style key")]
    assert key not in recipe.model_dump_json()
    assert launch.environment["OPENAI_API_KEY"] == "<secret removed>"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("python3 -m verl.trainer.main_eval data.path=x a.b=1 c.d=2", "evaluation only: verl.trainer.main_eval"),
        ("torchrun --nproc_per_node=8 -m verl.trainer.sft_trainer data.a=1 b.c=2 d.e=3", "supervised fine-tuning"),
        ("python3 -m recipe.dance_grpo.main_dance a.b=1 c.d=2 e.f=3", "diffusion model training"),
        ("python3 -m verl.trainer.main config=x.yaml worker.actor.a=1 data.b=2 trainer.c=3", "EasyR1 dialect"),
        ("python3 -m verl_tool.trainer.main_ppo actor_rollout_ref.a=1 data.b=2 trainer.c=3", "verl-tool dialect"),
        ("deepspeed --module openrlhf.cli.train_ppo_ray --actor_lr 1", "OpenRLHF dialect"),
    ],
)
def test_what_is_no_verl_rl_training_is_refused_by_name(read: Read, script: str, reason: str) -> None:
    with pytest.raises(RefusedInput) as caught:
        read(script + "\n")
    assert reason in caught.value.message


def test_bad_folders_are_refused_in_one_line(read: Read, tmp_path: Path, jail: Sandbox) -> None:
    with pytest.raises(RefusedInput, match="no such folder"):
        read_recipe(tmp_path / "nowhere", sandbox=jail)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RefusedInput, match="is empty"):
        read_recipe(tmp_path / "empty", sandbox=jail)
    with pytest.raises(RefusedInput, match="no RL training command"):
        read("echo hello python\n")
    with pytest.raises(RefusedInput, match="sources itself in a circle: a.sh -> b.sh -> a.sh"):
        read(None, a_dot_sh="source ./b.sh\npython3 x\n", b_dot_sh="source ./a.sh\npython3 y\n", run_it_dot_sh="")


def test_broken_yaml_is_named_with_its_line(read: Read) -> None:
    script = "python3 -m verl.trainer.main_ppo --config-path=config --config-name=mine a.b=1 c.d=2 trainer.nnodes=1\n"
    with pytest.raises(RefusedInput, match=r"config/mine\.yaml:3: broken YAML"):
        read(script, config__mine_dot_yaml="data:\n  x: [1, 2\ntrainer: {}\n")


def test_links_out_large_files_and_other_encodings(read: Read, tmp_path: Path) -> None:
    outside = tmp_path / "outside.sh"
    outside.write_text(f"{TRAIN} trainer.nnodes=99\n")
    folder = tmp_path / "recipe"
    folder.mkdir()
    (folder / "link.sh").symlink_to(outside)
    with (folder / "huge.sh").open("wb") as stream:
        os.truncate(stream.fileno(), 1 << 30)
    (folder / "latin.sh").write_bytes(b"# caf\xe9\n" + f"{TRAIN} trainer.nnodes=1\n".encode())
    recipe = read()
    assert [launch.name for launch in recipe.launches] == ["latin"]
    assert [(item.file, item.reason) for item in recipe.skipped] == [
        ("huge.sh", "1024 MB: too large for a launch script")
    ]


def test_launches_can_be_chosen(read: Read) -> None:
    other = f"{TRAIN} trainer.nnodes=2\n"
    recipe = read(f"{TRAIN} trainer.nnodes=1\n", launches=("other",), other_dot_sh=other)
    assert [launch.name for launch in recipe.launches] == ["other"]
    with pytest.raises(RefusedInput, match="no launch script missing"):
        read(launches=("missing",))


def test_placeholders_are_named_with_their_line(read: Read) -> None:
    (launch,) = read(f"{TRAIN} 'actor_rollout_ref.model.path=<path_to_model>'\n").launches
    (note,) = [item for item in launch.notes if item.code == "placeholder"]
    assert note.source is not None
    assert note.source.line == 2
    assert setting(launch, "actor_rollout_ref.model.path").value == "<path_to_model>"
