"""Launch scripts as the field writes them: one small script for each trap, all read in one go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from migrate_tools.model import DataSpec, Launch, Recipe, RewardSpec, Setting, VerlRef
from migrate_tools.sandbox import Sandbox
from migrate_tools.verl import launch_reader
from migrate_tools.verl.reader import read_recipe

MAIN = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.rollout.name=vllm"
NODES = "trainer.nnodes"
MODEL = "actor_rollout_ref.model.path"
TRAIN = "data.train_files"
NAME = "trainer.experiment_name"

SCRIPTS: dict[str, tuple[str, dict[str, tuple[Any, str]]]] = {
    "no_space_before_backslash": (
        f"{MAIN}\\\n    {NODES}=2\\\n    {MODEL}=a/b\\\n    {NAME}=x",
        {NODES: (2, "2"), MODEL: ("a/b", "a/b"), NAME: ("x", "x")},
    ),
    "only_a_backslash_and_one_at_the_end": (
        f"{MAIN} \\\n    {NODES}=2 \\\n    \\\n    {MODEL}=a/b \\\n",
        {NODES: (2, "2"), MODEL: ("a/b", "a/b")},
    ),
    "no_indentation": (f"{MAIN} \\\n{NODES}=2 \\\n{MODEL}=a/b", {NODES: (2, "2"), MODEL: ("a/b", "a/b")}),
    "unset_without_set_u": (
        f"{MAIN} {NODES}=${{WORLD_SIZE}} {MODEL}=$BASE/model {TRAIN}=[${{DATA}},$MORE/x.parquet] {NAME}=run$SUFFIX",
        {
            NODES: ("$WORLD_SIZE", "${WORLD_SIZE}"),
            MODEL: ("$BASE/model", "${BASE}/model"),
            TRAIN: (["$DATA", "$MORE/x.parquet"], "[${DATA},${MORE}/x.parquet]"),
            NAME: ("run", "run${SUFFIX}"),
        },
    ),
    "flag_parser_and_function": (
        f"""NODES=1; MODEL=a/b; CLIP=0.2_0.28
while [[ $# -gt 0 ]]; do
  case "$1" in --nodes) NODES="$2"; shift 2;; --model) MODEL="$2"; shift 2;; *) exit 1;; esac
done
low() {{ echo "${{1%%_*}}"; }}
train() {{ {MAIN} {NODES}=$NODES {MODEL}=$MODEL actor_rollout_ref.actor.clip_ratio_low=$(low $CLIP) \\
  actor_rollout_ref.actor.clip_ratio_high=${{CLIP##*_}}; }}
train
""",
        {
            NODES: (1, "1"),
            MODEL: ("a/b", "a/b"),
            "actor_rollout_ref.actor.clip_ratio_low": (0.2, "0.2"),
            "actor_rollout_ref.actor.clip_ratio_high": (0.28, "0.28"),
        },
    ),
    "bc_and_arithmetic": (
        f"""KL=0.001; LEN=$((2 * 512)); USE=False
if (( $(echo "$KL > 0.0" | bc -l) )); then USE=True; fi
{MAIN} actor_rollout_ref.actor.use_kl_loss=$USE data.max_response_length=$LEN \\
  data.max_prompt_length=$(echo "scale=0; $LEN / 3" | bc) {NODES}=1
""",
        {
            "actor_rollout_ref.actor.use_kl_loss": (True, "True"),
            "data.max_response_length": (1024, "1024"),
            "data.max_prompt_length": (341, "341"),
        },
    ),
    "nested_defaults": (
        f"""BASE=${{BASE:-"$HOME/verl"}}
CKPT=${{CKPT:-"${{BASE}}/ckpts/${{EXP:-first}}"}}
{MAIN} trainer.default_local_dir="${{CKPT}}" {NODES}=1 {NAME}=${{EXP:-first}}
""",
        {
            "trainer.default_local_dir": (
                "$HOME/verl/ckpts/first",
                "${CKPT:-${BASE:-$HOME/verl}/ckpts/${EXP:-first}}",
            ),
            NAME: ("first", "${EXP:-first}"),
        },
    ),
    "script_folder": (
        f"""HERE="$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)"
{MAIN} {NODES}=1 {TRAIN}="$HERE/data/x.parquet" {MODEL}=a/b
""",
        {TRAIN: ("data/x.parquet", "data/x.parquet")},
    ),
    "unquoted_brackets": (
        f"A=/d/a.parquet\nB=/d/b.parquet\n{MAIN} {TRAIN}=[$A,${{B}}] data.val_files=\"['$A', '$B']\" {NODES}=1 "
        "trainer.logger=['console','wandb']",
        {
            TRAIN: (["/d/a.parquet", "/d/b.parquet"], "[/d/a.parquet,/d/b.parquet]"),
            "data.val_files": (["/d/a.parquet", "/d/b.parquet"], "['/d/a.parquet', '/d/b.parquet']"),
            "trainer.logger": (["console", "wandb"], "[console,wandb]"),
        },
    ),
    "escaped_json_list": (
        f'FILES="[\\"/d/a.parquet\\",\\"/d/a.parquet\\"]"\n{MAIN} {TRAIN}=$FILES {NODES}=1',
        {TRAIN: (["/d/a.parquet", "/d/a.parquet"], '["/d/a.parquet","/d/a.parquet"]')},
    ),
    "bars_and_ats": (
        f"{MAIN} '{TRAIN}=hub/set@train' {NAME}='a|b@c' {NODES}=1",
        {TRAIN: ("hub/set@train", "hub/set@train"), NAME: ("a|b@c", "a|b@c")},
    ),
    "tee_into_process_substitution": (
        f"mkdir -p logs/x\n{MAIN} {NODES}=2 > >(tee logs/x/out.log) 2> >(tee logs/missing/err.log >&2)",
        {NODES: (2, "2")},
    ),
    "tee_into_a_missing_folder": (f"{MAIN} {NODES}=2 2>&1 | tee ./nowhere/out.log", {NODES: (2, "2")}),
    "same_override_twice": (f"{MAIN} {NODES}=2 \\\n  {MODEL}=a/b \\\n  {NODES}=4", {NODES: (4, "4")}),
    "arguments_in_the_middle": (
        f'{MAIN} {NODES}=2 "$@" {MODEL}=a/b ${{EXTRA:-}}',
        {NODES: (2, "2"), MODEL: ("a/b", "a/b")},
    ),
    "command_in_a_variable": (
        f'ARGS="{NODES}=2 {MODEL}=a/b"\nCMD="{MAIN} $ARGS"\necho $CMD\neval "$CMD"',
        {NODES: (2, "2"), MODEL: ("a/b", "a/b")},
    ),
    "debug_blocks": (
        "DEBUG=False\nif [ \"$DEBUG\" = True ]; then\n  N=1\n  M=tiny\nelse\n  N=8\n  M=a/b\nfi\n"
        f"{MAIN} {NODES}=$N {MODEL}=$M",
        {NODES: (8, "8"), MODEL: ("a/b", "a/b")},
    ),
    "dates": (
        f"STAMP=$(date +%m%d-%H%M)\n{MAIN} {NODES}=1 {NAME}=run-$STAMP trainer.default_local_dir=/c/`date +%Y`",
        {
            NAME: ("run-0203-0405", "run-$(date +%m%d-%H%M)"),
            "trainer.default_local_dir": ("/c/2001", "/c/`date +%Y`"),
        },
    ),
    "stages": (
        f"""set -eu
stage=$1
stop_stage=$2
if [ $stage -le 0 ] && [ $stop_stage -ge 0 ]; then python3 prepare.py --out data; fi
if [ $stage -le 1 ] && [ $stop_stage -ge 1 ]; then {MAIN} {NODES}=1 {MODEL}=a/b; fi
""",
        {NODES: (1, "1"), MODEL: ("a/b", "a/b")},
    ),
    "positional_model": (
        f"set -u\nN=$1\nMODEL=$2\n{MAIN} trainer.n_gpus_per_node=$N {MODEL}=$MODEL {NODES}=1",
        {"trainer.n_gpus_per_node": (8, "8"), MODEL: ("$ARG2", "$ARG2")},
    ),
    "ray_started_and_waited_for": (
        f"""ray stop --force
ray start --head --num-gpus 8 &
until ray status; do sleep 1; done
ray job submit --address=http://127.0.0.1:8265 --working-dir . -- {MAIN} {NODES}=3 {MODEL}=a/b
""",
        {NODES: (3, "3"), MODEL: ("a/b", "a/b")},
    ),
    "on_another_machine": (
        f"M=a/b\nssh -p 22 user@node1 \"cd /data/verl && {MAIN} {NODES}=2 {MODEL}=$M\"",
        {NODES: (2, "2"), MODEL: ("a/b", "a/b")},
    ),
    "in_a_container": (
        f"docker run --rm --gpus all -v $PWD:/w img:1 bash -lc 'cd /w; {MAIN} {NODES}=2 {MODEL}=$HOME/m'",
        {NODES: (2, "2"), MODEL: ("$HOME/m", "$HOME/m")},
    ),
    "in_a_running_container": (f"docker exec -it box {MAIN} {NODES}=2", {NODES: (2, "2")}),
    "over_ssh_from_stdin": (f"ssh node1 <<'EOF'\n{MAIN} {NODES}=2\nEOF", {NODES: (2, "2")}),
    "in_a_terminal_session": (f'tmux send-keys -t a "{MAIN} {NODES}=2" C-m', {NODES: (2, "2")}),
    "as_a_batch_job": (f'sbatch --nodes 2 --wrap "{MAIN} {NODES}=2"', {NODES: (2, "2")}),
    "null_dict_and_floats": (
        f"{MAIN} {NODES}=1 actor_rollout_ref.actor.optim.lr=1e-6 trainer.total_training_steps=null "
        "'+data.apply_chat_template_kwargs={enable_thinking:False,depth:2}' trainer.val_before_train=false",
        {
            "actor_rollout_ref.actor.optim.lr": (1e-6, "1e-6"),
            "trainer.total_training_steps": (None, "null"),
            "data.apply_chat_template_kwargs": (
                {"enable_thinking": False, "depth": 2},
                "{enable_thinking:False,depth:2}",
            ),
            "trainer.val_before_train": (False, "false"),
        },
    ),
    "environment_in_hydra": (
        f"""export CKPT=/ckpts
{MAIN} {NODES}=1 'trainer.default_local_dir=${{oc.env:CKPT}}' '{NAME}=${{oc.env:NOT_THERE,plain}}' \\
  'data.val_batch_size=${{data.train_batch_size}}' data.train_batch_size=64
""",
        {
            "trainer.default_local_dir": ("/ckpts", "\\${oc.env:CKPT}"),
            NAME: ("plain", "\\${oc.env:NOT_THERE,plain}"),
            "data.val_batch_size": (64, "\\${data.train_batch_size}"),
        },
    ),
    "undotted_group": (
        f"{MAIN} {NODES}=1 model_engine=megatron actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2",
        {"model_engine": ("megatron", "megatron")},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory, verl_source: VerlRef, jail: Sandbox) -> Recipe:
    """All scripts of the table, read at once."""
    folder = tmp_path_factory.mktemp("traps")
    for name, (text, _) in SCRIPTS.items():
        (folder / f"{name}.sh").write_text(text if text.endswith("\n") else f"{text}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch_reader.LaunchReader, "_reward", lambda *_: (RewardSpec(kind="none"), ()))
        patch.setattr(launch_reader.LaunchReader, "_data", lambda *_: (DataSpec(), ()))
        patch.setattr(launch_reader.LaunchReader, "_reward", lambda *_: (RewardSpec(kind="none"), ()))
        patch.setattr(launch_reader.LaunchReader, "_data", lambda *_: (DataSpec(), ()))
        return read_recipe(folder, verl_root=Path(verl_source.root), sandbox=jail)


def launch_of(recipe: Recipe, name: str) -> Launch:
    """The only launch of a script."""
    (found,) = [item for item in recipe.launches if item.name == name]
    return found


def setting(launch: Launch, key: str) -> Setting:
    """The only setting with that key."""
    (found,) = [item for item in launch.settings if item.key == key]
    return found


@pytest.mark.parametrize("name", SCRIPTS)
def test_values_arrive(recipe: Recipe, name: str) -> None:
    launch = launch_of(recipe, name)
    found = {key: (setting(launch, key).value, setting(launch, key).text) for key in SCRIPTS[name][1]}
    assert found == SCRIPTS[name][1]
    assert launch.how == "executed"
