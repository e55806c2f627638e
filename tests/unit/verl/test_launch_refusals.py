"""What is no RL training of verl is refused by name, with what to do; launchers in Python are read or named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from migrate_tools.errors import RefusedInput
from migrate_tools.model import Launch, Recipe, Setting
from migrate_tools.sandbox import Sandbox
from migrate_tools.verl import dialects
from migrate_tools.verl.pylaunch import read_launcher
from migrate_tools.verl.reader import read_recipe

Read = Callable[..., Recipe]
MAIN = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.rollout.name=vllm"


def setting(launch: Launch, key: str) -> Setting:
    """The only setting with that key."""
    (found,) = [item for item in launch.settings if item.key == key]
    return found


OTHERS = (
    (
        "python3 -m verl.trainer.main config=c.yaml worker.actor.global_batch_size=64 data.rollout_batch_size=128",
        "EasyR1 dialect (verl.trainer.main)",
        "worker.actor.global_batch_size its ppo_mini_batch_size",
    ),
    ("python3 -m verl.trainer.main config=c.yaml", "EasyR1 dialect", "rewrite its settings in verl's keys"),
    (
        "python3 -m my_fork.main worker.actor.model.model_path=x data.val_batch_size=2",
        "EasyR1 dialect (worker.actor.model.model_path)",
        "rewrite its settings in verl's keys",
    ),
    (
        "ray job submit -- python3 -m verl_tool.trainer.main_ppo actor_rollout_ref.rollout.n=8 data.a=1",
        "verl-tool dialect",
        "tool server of its own",
    ),
    ("python3 -m vagen.main_ppo data.train_files=x.yaml algorithm.adv_estimator=grpo", "VAGEN dialect", "by hand"),
    ("python3 -m rllm.trainer.verl.train_agent_ppo data.a=1 trainer.b=2", "rllm dialect", "by hand"),
    ("python3 -m agent_r1.src.main_agent algorithm.adv_estimator=grpo tool.env=x", "Agent-R1 dialect", "by hand"),
    ("python3 -m my.main algorithm.adv_estimator=grpo tool.tools=[a] tool.max_turns=5", "Agent-R1 dialect", "hand"),
    ("python3 -m my.main algorithm.adv_estimator=gae rollout_manager.max_turns=3", "VAGEN dialect", "by hand"),
    ("python3 train.py --config-name x es_manager.train.env_groups=8 trainer.n=1", "RAGEN dialect", "by hand"),
    ("python3 -m openrlhf.cli.train_ppo_ray --train_batch_size 128", "OpenRLHF dialect", "counts prompts"),
    ("trl grpo --model_name_or_path a/b --dataset_name c", "TRL dialect (trl.grpo)", "rewrite its settings"),
    ("accelerate launch --num_processes 8 -m trl.scripts.grpo --beta 0.1", "TRL dialect", "rewrite its settings"),
    ("swift rlhf --rlhf_type grpo --model a/b", "ms-swift dialect (swift.rlhf)", "rewrite its settings"),
    ("llamafactory-cli train grpo.yaml", "LLaMA-Factory dialect", "rewrite its settings"),
    (
        "ray job submit -- python3 train.py --rollout-batch-size 32 --n-samples-per-prompt 8 --lr 1e-6",
        "slime dialect (--rollout-batch-size)",
        "migrate-agent verify",
    ),
    ("python3 relax/entrypoints/train.py --rollout-batch-size 32", "Relax dialect", "migrate-agent verify"),
    ("python3 -m areal.launcher.local x.py gconfig.n_samples=4 actor.path=a/b a.b=1", "AReaL dialect", "rewrite"),
    ("python3 examples/start_rlvr_pipeline.py --config_name x", "ROLL dialect", "rewrite its settings"),
    ("uv run x/run_grpo.py grpo.num_prompts_per_step=8 policy.model_name=x a.b=1", "NeMo-RL dialect", "rewrite"),
    ("torchrun -m verl.trainer.fsdp_sft_trainer data.a=1 b.c=2 d.e=3", "supervised fine-tuning", "--loss-type sft"),
    ("python3 -m verl.trainer.main_generation data.path=x a.b=1 c.d=2", "generation only", "no reward to migrate"),
    ("python3 -m verl.trainer.main_eval data.path=x a.b=1 c.d=2", "evaluation only", "no reward to migrate"),
)  # fmt: skip


def test_other_trainers_are_recognised(read: Read) -> None:
    scripts = {f"other{index}_dot_sh": f"{script}\n" for index, (script, _, _) in enumerate(OTHERS)}
    recipe = read(f"{MAIN} trainer.nnodes=1\n", **scripts)
    reasons = {item.file: item.reason for item in recipe.skipped}
    assert [launch.name for launch in recipe.launches] == ["run_it"]
    for index, (script, named, _) in enumerate(OTHERS):
        assert reasons[f"other{index}.sh"].startswith(named), script


@pytest.mark.parametrize("number", [0, 8, 13, 18, 20])
def test_other_trainers_are_refused_by_name_with_what_to_do(read: Read, number: int) -> None:
    script, named, advice = OTHERS[number]
    with pytest.raises(RefusedInput) as caught:
        read(f"{script}\n")
    assert named in caught.value.message
    assert advice in caught.value.hint
    assert "\n" not in caught.value.line()


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("train_dot_py", "from trl import GRPOConfig, GRPOTrainer\nGRPOTrainer(model='a')\n", "TRL dialect (train.py)"),
        ("train_dot_py", "from rllm.trainer.agent_trainer import AgentTrainer\n", "rllm dialect (train.py)"),
        ("run_dot_py", "import openrlhf\n", "OpenRLHF dialect (run.py)"),
        (
            "config_dot_yaml",
            "data:\n  rollout_batch_size: 4\nworker:\n  actor: {}\ntrainer: {}\n",
            "EasyR1 dialect (config.yaml)",
        ),
        ("config_dot_yaml", "grpo:\n  a: 1\npolicy:\n  b: 2\n", "NeMo-RL dialect (config.yaml)"),
    ],
)
def test_recipes_without_a_script_are_named_by_their_files(read: Read, name: str, text: str, named: str) -> None:
    with pytest.raises(RefusedInput) as caught:
        read(None, **{name: text})
    assert named in caught.value.message


def test_plain_pytorch_is_no_verl_recipe(read: Read) -> None:
    with pytest.raises(RefusedInput) as caught:
        read("python3 train.py --epochs 3 --lr 1e-4\n", train_dot_py="import torch\nprint('hello')\n")
    assert "no RL training command of verl" in caught.value.message
    assert "dialect" not in caught.value.message


def test_other_trainers_beside_verl_are_named_and_left_out(read: Read) -> None:
    recipe = read(f"{MAIN} trainer.nnodes=1\n", other_dot_sh="python3 -m openrlhf.cli.train_ppo_ray --a 1\n")
    assert [launch.name for launch in recipe.launches] == ["run_it"]
    assert [(item.file, item.reason) for item in recipe.skipped] == [
        ("other.sh", "OpenRLHF dialect (openrlhf.cli.train_ppo_ray): its settings are not verl's")
    ]


def test_every_dialect_says_what_to_do() -> None:
    for dialect in dialects.DIALECTS:
        assert len(dialect.advice) > 40, dialect.name
        assert "\n" not in dialect.advice
    assert {dialects.of_source(f"import {name}\n") for name in ("torch", "verl", "verl.trainer.main_ppo")} == {None}
    assert dialects.of_command("verl.trainer.main_ppo", ["actor_rollout_ref.rollout.n", "worker_nsight"], []) is None
    assert dialects.of_command("verl.trainer.main", ["actor_rollout_ref.rollout.n"], []) is None


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (
            "-m trainer.nnodes=1,2",
            "a Hydra sweep (-m: trainer.nnodes=1,2) is many training runs",
            "one launch for each",
        ),
        ("--multirun trainer.nnodes=1", "a Hydra sweep (--multirun) is many training runs", "one launch for each"),
        ("trainer.nnodes=1,2", "trainer.nnodes=1,2 is a sweep to Hydra", "key=[a,b]"),
        ("trainer.logger=console,wandb", "verl does not start with it either", "key=[a,b]"),
        ("'trainer.nnodes=range(1,4)'", "is a sweep to Hydra", "one launch for each value"),
        ("'trainer.project_name=choice(a,b)'", "is a sweep to Hydra", "one launch for each value"),
    ],
)
def test_sweeps_are_refused(read: Read, arguments: str, said: str, hint: str) -> None:
    with pytest.raises(RefusedInput) as caught:
        read(f"true\n{MAIN} {arguments}\n")
    assert said in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.message.startswith("run_it.sh:2: ")


def test_a_sweep_does_not_stop_the_other_launches(read: Read) -> None:
    recipe = read(f"{MAIN} trainer.nnodes=1\n", sweep_dot_sh=f"{MAIN} -m trainer.nnodes=1,2\n")
    assert [launch.name for launch in recipe.launches] == ["run_it"]
    assert [(item.file, item.reason.split(":")[0]) for item in recipe.skipped] == [("sweep.sh", "refused")]


def test_a_command_line_that_verl_does_not_have_is_refused(read: Read) -> None:
    with pytest.raises(RefusedInput) as caught:
        read("python3 -m verl.trainer.main_ppo --config c.yaml --reward_fn reward.compute_score\n")
    assert "is started without a single setting, and with --config, --reward_fn" in caught.value.message
    (launch,) = read(f"{MAIN} --fancy trainer.nnodes=1\n").launches
    assert [n.text for n in launch.notes if n.code == "option-unknown"] == [
        "--fancy: no option of verl.trainer.main_ppo, which stops at it; it is left out"
    ]


def test_a_program_with_nothing_but_a_configuration_is_told_by_its_keys(read: Read) -> None:
    script = "python3 train.py --config-path=conf --config-name={}\n"
    files = {
        "train_dot_py": "import hydra\n\n\n@hydra.main()\ndef main(cfg):\n    pass\n",
        "conf__mine_dot_yaml": "actor_rollout_ref:\n  rollout:\n    n: 4\nalgorithm:\n  adv_estimator: grpo\n",
        "conf__easy_dot_yaml": "worker:\n  rollout:\n    n: 4\n",
        "conf__other_dot_yaml": "model:\n  depth: 4\n",
    }
    recipe = read(
        script.format("mine"), easy_dot_sh=script.format("easy"), other_dot_sh=script.format("other"), **files
    )
    (launch,) = recipe.launches
    assert setting(launch, "actor_rollout_ref.rollout.n").value == 4
    assert {item.file: item.reason.partition(":")[0] for item in recipe.skipped} == {
        "easy.sh": "EasyR1 dialect (worker.rollout.n)",
        "other.sh": "not verl training",
    }


def test_variables_can_be_given(read: Read) -> None:
    script = f"set -u\n{MAIN} trainer.nnodes=$WORLD_SIZE actor_rollout_ref.model.path=$BASE/m\n"
    (launch,) = read(script, variables={"WORLD_SIZE": "4"}).launches
    nodes = setting(launch, "trainer.nnodes")
    assert (nodes.value, nodes.text) == (4, "${WORLD_SIZE}")
    assert launch.unset == ("BASE",)


def test_different_generations_are_read_against_their_own_versions(
    tmp_path: Path, jail: Sandbox, only_settings: None
) -> None:
    (tmp_path / "old.sh").write_text(
        f"{MAIN} custom_reward_function.path=r.py critic.model.fsdp_config.param_offload=True\n"
    )
    (tmp_path / "new.sh").write_text(f"{MAIN} reward.custom_reward_function.path=r.py trainer.use_v1=True\n")
    (tmp_path / "plain.sh").write_text(f"{MAIN} trainer.nnodes=1\n")
    recipe = read_recipe(tmp_path, sandbox=jail)
    versions = {launch.name: launch.verl.version for launch in recipe.launches}
    assert versions["old"] == "0.7.1"
    assert versions["new"] == "0.9.1"
    (note,) = [item for item in recipe.notes if item.code == "several-verl-versions"]
    assert "0.7.1: old" in note.text
    (tmp_path / "requirements.txt").write_text("verl==0.7.1\n")
    assert {launch.verl.version for launch in read_recipe(tmp_path, sandbox=jail).launches} == {"0.7.1"}


def test_a_script_is_read_past_its_own_checks(read: Read) -> None:
    script = f"""set -euo pipefail
MODEL=${{MODEL:-}}
if [ -z "$MODEL" ]; then echo "MODEL is not set"; exit 1; fi
[ -f "$HOME/data/train.parquet" ] || {{ echo "prepare the data first"; exit 2; }}
python3 -c "import a_package_that_nobody_has"
mkdir -p /somewhere/else && false
{MAIN} trainer.nnodes=2 actor_rollout_ref.model.path=$MODEL
"""
    (launch,) = read(script).launches
    assert launch.how == "executed"
    assert setting(launch, "trainer.nnodes").value == 2
    model = setting(launch, "actor_rollout_ref.model.path")
    assert (model.value, model.text) == ("$MODEL", "${MODEL:-}")
    assert launch.unset == ("MODEL",)
    assert "script-checks-passed-over" in {note.code for note in launch.notes}


def test_a_wrapper_gives_its_variables_to_the_script_that_it_calls(read: Read) -> None:
    inner = f"SIZE=${{SIZE:-1}}\n{MAIN} trainer.nnodes=$SIZE trainer.total_epochs=$1\n"
    recipe = read("export SIZE=3\nbash inner.sh 7\n", inner_dot_sh=inner)
    found = {launch.name: launch for launch in recipe.launches}
    (wrapped,) = [launch for launch in recipe.launches if launch.script == "run_it.sh"]
    assert setting(wrapped, "trainer.nnodes").value == 3
    assert setting(wrapped, "trainer.total_epochs").value == 7
    assert setting(wrapped, "trainer.nnodes").source == setting(found["inner"], "trainer.nnodes").source


# ---------------------------------------------------------------- Python launchers

SUBPROCESS = """
import argparse, os, subprocess, sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
parser = argparse.ArgumentParser()
parser.add_argument("--nodes", type=int, default=2)
parser.add_argument("--model", required=True)
parser.add_argument("--fast", action="store_true")


def overrides(args):
    values = {
        "data.train_files": f"['{HERE}/data/train.parquet']",
        "trainer.nnodes": args.nodes,
        "actor_rollout_ref.model.path": args.model,
    }
    found = [f"{key}={value}" for key, value in values.items()]
    found.append("trainer.project_name=" + os.environ.get("PROJECT", "mine"))
    if args.fast:
        found += ["trainer.total_epochs=1"]
    else:
        found += ["trainer.total_epochs=9"]
    return found


def main():
    args = parser.parse_args()
    command = [sys.executable, "-m", "verl.trainer.main_ppo", "algorithm.adv_estimator=grpo", *overrides(args)]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
"""


def test_the_argument_list_of_a_python_launcher_is_read(read: Read) -> None:
    (launch,) = read(None, launch_dot_py=SUBPROCESS).launches
    assert (launch.module, launch.how, launch.script, launch.line) == (
        "verl.trainer.main_ppo",
        "static",
        "launch.py",
        30,
    )
    found = {item.key: (item.value, item.text, item.source.line if item.source else None) for item in launch.settings}
    assert found == {
        "algorithm.adv_estimator": ("grpo", "grpo", 29),
        "data.train_files": (["./data/train.parquet"], "['./data/train.parquet']", 14),
        "trainer.nnodes": (2, "2", 15),
        "actor_rollout_ref.model.path": ("$MODEL", "${MODEL}", 16),
        "trainer.project_name": ("mine", "${PROJECT:-mine}", 19),
        "trainer.total_epochs": (9, "9", 23),
    }
    assert launch.unset == ("MODEL",)
    assert "read-from-python" in {note.code for note in launch.notes}


@pytest.mark.parametrize(
    "text",
    [
        'import os\nos.system("python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo trainer.nnodes=3 a.b=c")\n',
        "import sys\nfrom verl.trainer.main_ppo import main\n"
        'sys.argv = ["x", "algorithm.adv_estimator=grpo", "trainer.nnodes=3", "a.b=c"]\nmain()\n',
        "from hydra import compose, initialize_config_dir\nfrom verl.trainer.main_ppo import run_ppo\n"
        'with initialize_config_dir(config_dir="verl/trainer/config"):\n'
        '    cfg = compose("ppo_trainer", overrides=["algorithm.adv_estimator=grpo", "trainer.nnodes=3", "a.b=c"])\n'
        "run_ppo(cfg)\n",
        "import shlex, subprocess\nARGS = 'algorithm.adv_estimator=grpo trainer.nnodes=3'\n"
        'subprocess.Popen(f"python3 -m verl.trainer.main_ppo {ARGS} a.b=c", shell=True)\n',
    ],
)
def test_ways_to_start_verl_from_python(read: Read, text: str) -> None:
    (launch,) = read(None, launch_dot_py=text).launches
    assert setting(launch, "trainer.nnodes").value == 3
    assert setting(launch, "a.b").value == "c"
    assert launch.config["algorithm.adv_estimator"] == "grpo"


def test_a_hydra_entry_of_its_own_takes_its_configuration(read: Read) -> None:
    text = (
        "import hydra\nimport verl.workers.rollout as rollout\nfrom verl.trainer.main_ppo import run_ppo\n"
        "from mine import Rollout\n\n\n"
        '@hydra.main(config_path="configs", config_name="mine", version_base=None)\n'
        "def main(cfg):\n    rollout.Rollout = Rollout\n    run_ppo(cfg)\n\n\n"
        'if __name__ == "__main__":\n    main()\n'
    )
    yaml = "data:\n  max_prompt_length: 77\nalgorithm:\n  adv_estimator: rloo\n"
    (launch,) = read(None, train_dot_py=text, configs__mine_dot_yaml=yaml).launches
    assert {item.key: item.value for item in launch.settings} == {
        "data.max_prompt_length": 77,
        "algorithm.adv_estimator": "rloo",
    }
    assert [(n.code, n.source.line) for n in launch.notes if n.code == "verl-patched" and n.source] == [
        ("verl-patched", 9)
    ]


def test_settings_made_in_code_are_named_with_what_to_do(read: Read) -> None:
    text = (
        "import subprocess, yaml\nprofile = yaml.safe_load(open('p.yaml'))\n"
        'args = [f"{k}={v}" for k, v in profile.items()]\n'
        'subprocess.call(["python3", "-m", "verl.trainer.main_ppo", *args])\n'
    )
    with pytest.raises(RefusedInput) as caught:
        read(None, launch_dot_py=text)
    assert "launch.py: Python launcher: its arguments *args are assembled in code (line 4)" in caught.value.message
    assert "print the command that it starts" in caught.value.hint


def test_a_python_launcher_beside_scripts_is_named_and_read_when_asked_for(read: Read) -> None:
    recipe = read(f"{MAIN} trainer.nnodes=1\n", launch_dot_py=SUBPROCESS)
    assert [launch.name for launch in recipe.launches] == ["run_it"]
    assert [(item.file, item.reason.partition(":")[0]) for item in recipe.skipped] == [("launch.py", "Python launcher")]
    assert [launch.name for launch in read(launches=("launch.py",)).launches] == ["launch"]


def test_a_launcher_is_never_run(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    path = tmp_path / "launch.py"
    path.write_text(
        f"open({str(trace)!r}, 'w').write('ran')\nimport os\nos.system('touch {trace}')\nwhile True:\n    pass\n"
    )
    launcher = read_launcher(path, "launch.py")
    assert launcher.commands == []
    assert not trace.exists()
