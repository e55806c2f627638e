"""Parts of reading that need no sandbox: credentials, versions, paths, command lines, the verl cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from migrate_tools.errors import MachineError
from migrate_tools.model import VerlRef
from migrate_tools.verl import choose_verl, source
from migrate_tools.verl.choose_verl import Choice, best_fit
from migrate_tools.verl.commands import classify, parse
from migrate_tools.verl.paths import project_root, resolve
from migrate_tools.verl.secrets import REMOVED, find_secrets, redact, redact_value
from migrate_tools.verl.versions import Hint, nearest_release, neighbours, pin_of, style_of


@pytest.mark.parametrize(
    "text",
    [
        "key = 'sk-" + "abcd1234" * 4 + "'",
        "HF_TOKEN=hf_" + "aB3dE6gH9j" * 3,
        "export WANDB_API_KEY=" + "0123456789abcdef" * 2 + "01234567",
        "git clone https://me:" + "pa55word9" + "@host/x.git",
        "Authorization: Bearer " + "x9y8z7w6" * 3,
        "AKIA" + "ABCDEFGH12345678",
        "token: ghp_" + "a1B2" * 9,
    ],
)
def test_credentials_are_found_and_removed(text: str) -> None:
    assert len(find_secrets(text, "f")) == 1
    shown = redact(text)
    assert REMOVED in shown
    assert redact(shown) == shown
    assert len(find_secrets(shown, "f")) == 0


@pytest.mark.parametrize(
    "text",
    [
        "export OPENAI_API_KEY=${OPENAI_API_KEY:-}",
        "api_key=YOUR_API_KEY_HERE1234567",
        "data.max_token_len_per_gpu=24576",
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384000000000000",
        "tokenizer=Qwen/Qwen2.5-7B-Instruct-1M",
        "ray start --address=http://10.0.0.1:8265",
        "secret_dir=/data/projects/2024/run12345",
    ],
)
def test_ordinary_text_is_no_credential(text: str) -> None:
    assert find_secrets(text, "f") == []
    assert redact(text) == text


def test_credentials_inside_values_are_removed() -> None:
    value = {"api_key": "a1b2c3d4e5f6a7b8c9d0", "names": ["x", "sk-" + "abcd1234" * 4], "n": 3}
    assert redact_value(value) == {"api_key": REMOVED, "names": ["x", REMOVED], "n": 3}


def test_version_pins(tmp_path: Path) -> None:
    (tmp_path / "REQUIRED_VERL.txt").write_text("# tested\nMODE=pinned_tag\nTAG=v0.6.1\n")
    hint = pin_of([tmp_path], tmp_path)
    assert hint == Hint("0.6.1", "REQUIRED_VERL.txt pins 0.6.1", True)
    (tmp_path / "REQUIRED_VERL.txt").unlink()
    (tmp_path / "requirements.txt").write_text("torch\n# verl==0.1\nverl[vllm]==0.7.0\n")
    hint = pin_of([tmp_path], tmp_path)
    assert hint == Hint("0.7.0", "requirements.txt asks for verl==0.7.0", True)


def test_version_from_the_style_of_keys() -> None:
    assert style_of(["reward.custom_reward_function.path"]).version == "0.9.1"
    assert style_of(["custom_reward_function.path"]).version == "0.7.1"
    assert style_of(["actor_rollout_ref.actor.ppo_micro_batch_size"]).version == "0.4.1"
    assert nearest_release("v0.7.0.dev") == "0.7.0"
    assert nearest_release("0.6") == "0.6.0"
    assert neighbours("0.6.1")[:3] == ["0.7.0", "0.6.0", "0.7.1"]


def test_the_release_that_fits_best_is_taken_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(version: str, how: str = "", progress: object = None) -> VerlRef:
        if version == "0.6.0":
            raise MachineError("offline")
        return VerlRef(version=version, root=f"/x/{version}", how=how)

    monkeypatch.setattr(choose_verl, "wheel", fake)
    hint = Hint("0.6.1", "requirements.txt asks for verl==0.6.1", True)
    tried: list[str] = []

    def misfits(verl: VerlRef) -> list[str]:
        tried.append(verl.version)
        return [] if verl.version == "0.7.1" else ["trainer.x does not exist in this version"]

    verl = best_fit(Choice(fake("0.6.1"), hint), misfits)
    assert verl.version == "0.7.1"
    assert tried == ["0.6.1", "0.7.0", "0.7.1"]
    assert verl.how == (
        "release 0.6.1: requirements.txt asks for verl==0.6.1; but trainer.x does not exist in this version, "
        "so release 0.7.1, which fits better, is used"
    )


def test_a_release_that_cannot_be_had_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIGRATE_AGENT_CACHE", str(tmp_path))
    monkeypatch.setattr(source, "_run", lambda command: "ERROR: No matching distribution found for verl==9.9.9")
    with pytest.raises(MachineError, match=r"verl 9\.9\.9 is not cached") as caught:
        source.wheel("9.9.9")
    assert "--verl-root" in caught.value.hint
    assert list((tmp_path / "verl").iterdir()) == []


def test_the_cached_release_has_the_configuration(verl_source: VerlRef) -> None:
    assert verl_source.version == "0.9.1"
    assert (Path(verl_source.root) / "verl/trainer/config/ppo_trainer.yaml").is_file()


def test_paths_as_scripts_write_them(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    reward = folder / "reward.py"
    reward.write_text("")
    (tmp_path / "outside.py").write_text("")
    for text in ("mine/reward.py", "./mine/reward.py", "recipe/mine/reward.py", "/home/x/verl/recipe/mine/reward.py"):
        assert resolve(text, tmp_path) == reward, text
    assert resolve("./reward.py", tmp_path, (folder,)) == reward
    assert resolve("/root/other/place/reward.py", tmp_path) == reward
    assert resolve("../outside.py", folder) is None
    assert resolve("missing.py", tmp_path) is None


def test_project_root_is_the_checkout_but_never_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tmp_path / "home" / "repo" / "recipe"
    recipe.mkdir(parents=True)
    (tmp_path / "home" / ".git").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert project_root(recipe) == recipe
    (tmp_path / "home" / "repo" / ".git").mkdir()
    assert project_root(recipe) == tmp_path / "home" / "repo"


@pytest.mark.parametrize(
    ("argv", "module", "count"),
    [
        ("python3 -u -m verl.trainer.main_ppo a.b=1 --config-name=x", "verl.trainer.main_ppo", 1),
        ("torchrun --nproc_per_node 8 --nnodes=1 -m verl.trainer.sft_trainer a.b=1", "verl.trainer.sft_trainer", 1),
        ("torchrun --nnodes=1 -m glue.launch verl.trainer.sft_trainer a.b=1", "verl.trainer.sft_trainer", 1),
        ("python3 -m glue.launch verl.trainer.main_ppo a.b=1 c.d=2", "verl.trainer.main_ppo", 2),
        ("python3 -m glue.launch other.trainer a.b=1", "glue.launch", 1),
        ("python verl/trainer/main_ppo.py a.b=1 +c=2 ~d", "verl.trainer.main_ppo", 3),
        ("accelerate launch --config_file x.yaml train.py a=1", "train", 1),
        ("python -m torch.distributed.run --nproc_per_node=2 train.py a=1", "train", 1),
    ],
)
def test_python_programs_of_command_lines(argv: str, module: str, count: int) -> None:
    command = parse(argv.split())
    assert command is not None
    assert command.module == module
    assert len(command.overrides) == count
    assert argv.split()[command.first :] == list(command.arguments)


def test_recipes_own_trainers_count_as_training() -> None:
    command = parse(["python3", "-m", "recipe.dapo.main_dapo", "algorithm.adv_estimator=grpo"])
    assert command is not None
    assert classify(command).name == "rl"
