"""GPUs, schedule, evaluation, optimizer, model, data, loggers, balance."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from mapping_launches import ACTOR, BASE, ROLLOUT, Make, flag_values, make_launch, outcome
from migrate_tools.mapping.architecture import Architecture
from migrate_tools.mapping.effective import argv_of
from migrate_tools.mapping.gpus import split_async
from migrate_tools.mapping.hf_config import read_config
from migrate_tools.mapping.model_args import model_args
from migrate_tools.mapping.models import find_architecture, find_script
from migrate_tools.mapping.parallel import default_tensor
from migrate_tools.mapping.translate import check_balance, translate
from migrate_tools.model import DataFile, DataSpec, Recipe, RewardSpec, SourceCount, Translation
from migrate_tools.relax.contract import FlagContract

KL = {ACTOR + "use_kl_loss": True}
OPTIM = ACTOR + "optim."


@pytest.mark.parametrize(
    ("total", "reference", "actor_fwd", "wanted"),
    [
        (8, True, True, {"actor": 4, "rollout": 2, "reference": 1, "actor_fwd": 1, "advantages": 0}),
        (16, True, True, {"actor": 8, "rollout": 4, "reference": 2, "actor_fwd": 2, "advantages": 0}),
        (8, True, False, {"actor": 4, "rollout": 2, "reference": 2, "advantages": 0}),
        (8, False, True, {"actor": 4, "rollout": 2, "actor_fwd": 2, "advantages": 0}),
        (8, False, False, {"actor": 4, "rollout": 4, "advantages": 0}),
        (4, True, True, {"actor": 1, "rollout": 1, "reference": 1, "actor_fwd": 1, "advantages": 0}),
        (2, False, False, {"actor": 1, "rollout": 1, "advantages": 0}),
        (24, True, False, {"actor": 8, "rollout": 10, "reference": 6, "advantages": 0}),
        (3, True, True, {}),
        (1, False, False, {}),
    ],
)
def test_async_split(total: int, reference: bool, actor_fwd: bool, wanted: dict[str, int]) -> None:
    split = split_async(total, reference, actor_fwd)
    assert split == wanted
    assert not split or sum(split.values()) == total


def test_async_roles_follow_kl_and_policy(make: Make) -> None:
    faithful = make(KL, policy="faithful")
    assert faithful.gpus is not None
    assert faithful.gpus.async_split == {"actor": 4, "rollout": 2, "reference": 1, "actor_fwd": 1, "advantages": 0}
    values = flag_values(faithful, "ASYNC")
    assert json.loads(shlex.split(values["--resource"] or "")[0])["reference"] == [1, 1]
    assert json.loads(shlex.split(values["--ref-actor-config"] or "")[0])["tensor_model_parallel_size"] == 1
    assert "--fully-async" in values
    assert "--colocate" not in values
    fresh = make(KL)
    assert fresh.gpus is not None
    assert fresh.gpus.async_split == {"actor": 4, "rollout": 2, "reference": 2, "advantages": 0}


def test_engines_that_do_not_divide_the_async_rollout_get_a_size_a_mode(make: Make) -> None:
    item = make({**KL, ROLLOUT + "tensor_model_parallel_size": 4})
    assert flag_values(item, "SYNC")["--rollout-num-gpus-per-engine"] == "4"
    assert flag_values(item, "ASYNC")["--rollout-num-gpus-per-engine"] == "2"
    assert item.async_refusal == ""


def test_too_few_gpus_for_async(make: Make) -> None:
    item = make({**KL, "trainer.n_gpus_per_node": 2})
    assert "at least 3 GPUs" in item.async_refusal
    values = flag_values(item)
    assert values["--num-gpus-per-node"] == "2"
    assert "actor" in (values["--resource"] or "")


def test_sync_mode_has_no_staleness(make: Make) -> None:
    item = make()
    assert flag_values(item)["--max-staleness"] == "0"
    assert any(note.code == "guide-staleness" for note in item.guide_differences)


@pytest.mark.parametrize(
    ("billions", "limit", "heads", "groups", "wanted"),
    [
        (0.5, 8, 14, 2, 1),
        (1.5, 8, 12, 2, 1),
        (3.0, 8, 16, 2, 2),
        (7.6, 4, 28, 4, 4),
        (32.0, 4, 40, 8, 4),
        (72.0, 8, 64, 8, 8),
        (7.6, 6, 28, 4, 2),
        (None, 4, None, None, 4),
    ],
)
def test_tensor_size_for_fsdp_recipes(
    billions: float | None, limit: int, heads: int | None, groups: int | None, wanted: int
) -> None:
    assert default_tensor(billions, limit, heads, groups) == wanted


def test_megatron_sizes_are_kept(make: Make) -> None:
    prefix = ACTOR + "megatron."
    item = make(
        {
            ACTOR + "strategy": "megatron",
            prefix + "tensor_model_parallel_size": 2,
            prefix + "pipeline_model_parallel_size": 2,
            prefix + "expert_model_parallel_size": 4,
            prefix + "override_transformer_config.moe_router_dtype": "fp32",
            prefix + "override_transformer_config.apply_rope_fusion": False,
            prefix + "override_transformer_config.moe_permute_fusion": True,
            prefix + "override_transformer_config.num_layers_in_last_pipeline_stage": 11,
            prefix + "override_transformer_config.unheard_of": 1,
        }
    )
    values = flag_values(item)
    assert values["--tensor-model-parallel-size"] == "2"
    assert values["--pipeline-model-parallel-size"] == "2"
    assert values["--expert-model-parallel-size"] == "4"
    assert values["--moe-router-dtype"] == "fp32"
    assert values["--decoder-last-pipeline-num-layers"] == "11"
    assert {"--no-rope-fusion", "--moe-permute-fusion"} <= set(values)
    assert outcome(item, prefix + "override_transformer_config.unheard_of") == ("unsupported", "speed")


def test_megatron_sizes_that_do_not_divide_are_refused(make: Make) -> None:
    item = make({ACTOR + "strategy": "megatron", ACTOR + "megatron.tensor_model_parallel_size": 3})
    assert "3 x 1 x 1 = 3 does not divide 8 GPUs" in item.refusals[0]


def test_ulysses_becomes_context_parallel_only_with_a_loss_per_token(make: Make) -> None:
    key = ACTOR + "ulysses_sequence_parallel_size"
    allowed, refused = make({key: 2}), make({key: 2, ACTOR + "loss_agg_mode": "seq-mean-token-mean"})
    assert flag_values(allowed)["--context-parallel-size"] == "2"
    assert flag_values(refused)["--context-parallel-size"] == "1"
    assert outcome(refused, key) == ("approximate", "speed")


def test_r30_epochs_without_steps_saving_or_eval_data(make: Make) -> None:
    item = make(
        {
            "actor_rollout_ref.model.path": "Qwen/Qwen2.5-0.5B",
            "trainer.total_epochs": 3,
            "trainer.total_training_steps": None,
            "trainer.save_freq": -1,
            "trainer.test_freq": 5,
        },
        val=(),
    )
    values = flag_values(item)
    assert values["--num-epoch"] == "3"
    assert not {"--num-rollout", "--save", "--save-interval", "--eval-interval", "--eval-prompt-data"} & set(values)
    assert any(note.code == "R30-eval-without-data" for note in item.notes)
    assert values["--hf-checkpoint"] == '"${MODEL_DIR}/Qwen2.5-0.5B"'
    assert values["--ref-load"] == '"${MODEL_DIR}/Qwen2.5-0.5B"'


def test_cadences_are_scaled_by_rollouts_a_step(make: Make) -> None:
    changes = {
        "trainer.total_training_steps": 100,
        "trainer.save_freq": 20,
        "trainer.test_freq": 5,
        OPTIM + "lr_warmup_steps": 10,
    }
    fresh, faithful = make(changes), make(changes, policy="faithful")
    values = flag_values(fresh)
    assert values["--num-rollout"] == "400"
    assert (values["--save-interval"], values["--eval-interval"]) == ("80", "20")
    assert values["--save"] == values["--load"] == '"${SAVE_DIR}/gsm8k"'
    kept = flag_values(faithful)
    assert (kept["--num-rollout"], kept["--save-interval"], kept["--eval-interval"]) == ("100", "20", "5")
    # Megatron's warm-up counts updates: four a verl step under either policy.
    assert values["--lr-warmup-iters"] == kept["--lr-warmup-iters"] == "40"
    for item in (fresh, faithful):
        rows = {row.name: row for row in item.effective}
        assert rows["length of training"].same
        assert rows["checkpoints"].same
        assert rows["learning-rate schedule"].same


def test_the_earlier_of_epochs_and_steps_wins_when_rows_are_known(make: Make) -> None:
    changes = {"trainer.total_training_steps": 100, "trainer.total_epochs": 2}
    assert flag_values(make(changes, rows=5120))["--num-epoch"] == "2"  # 10 steps an epoch
    assert flag_values(make(changes, rows=512000))["--num-rollout"] == "400"


def test_checkpoints_that_are_rotated(make: Make) -> None:
    values = flag_values(make({"trainer.save_freq": 5, "trainer.max_actor_ckpt_to_keep": 2}))
    assert values["--max-actor-ckpt-to-keep"] == "2"
    assert "--save" in values
    # Rotation would save after every rollout.
    assert not {"--rotate-ckpt", "--async-save"} & set(values)
    assert "--load" not in flag_values(make({"trainer.save_freq": 5, "trainer.resume_mode": "disable"}))


def test_evaluation_flags(make: Make) -> None:
    item = make(
        {
            "trainer.test_freq": 5,
            "trainer.val_before_train": False,
            ROLLOUT + "val_kwargs.n": 4,
            ROLLOUT + "val_kwargs.temperature": 0.6,
            ROLLOUT + "val_kwargs.do_sample": True,
        },
        val=("$HOME/data/gsm8k/test.parquet", "$HOME/data/math/test.parquet"),
    )
    values = flag_values(item)
    assert values["--eval-prompt-data"] == (
        'gsm8k "${DATA_DIR}/gsm8k/val_0.parquet" math "${DATA_DIR}/gsm8k/val_1.parquet"'
    )
    assert values["--n-samples-per-eval-prompt"] == "4"
    assert values["--eval-temperature"] == "0.6"
    assert "--skip-eval-before-train" in values
    row = next(row for row in item.effective if row.name == "evaluation")
    assert row.verl_value == {"prompts": 5 * 512, "before": False, "besides": "at the end"}
    assert row.relax_value == {"prompts": 5 * 512, "before": False, "besides": "at the end of each epoch"}
    assert "end of each epoch" in row.why


def test_greedy_evaluation_of_the_synchronous_rollout(make: Make) -> None:
    changes = {"trainer.test_freq": 5, ROLLOUT + "mode": "sync", ROLLOUT + "val_kwargs.temperature": 0.6}
    item = make(changes, version="0.4")
    assert flag_values(item)["--eval-temperature"] == "0.0"
    assert outcome(item, ROLLOUT + "val_kwargs.temperature")[0] == "no_effect"
    assert flag_values(make({**changes, ROLLOUT + "mode": "async"}))["--eval-temperature"] == "0.6"


def test_optimizer(make: Make) -> None:
    item = make(
        {
            OPTIM + "lr": 5e-7,
            OPTIM + "lr_warmup_steps_ratio": 0.1,
            OPTIM + "lr_scheduler_type": "cosine",
            OPTIM + "min_lr_ratio": 0.1,
            OPTIM + "weight_decay": 0.1,
            OPTIM + "betas": "[0.9,0.95]",
        }
    )
    values = flag_values(item)
    assert (values["--lr"], values["--lr-decay-style"], values["--weight-decay"]) == ("5e-07", "cosine", "0.1")
    assert values["--lr-warmup-fraction"] == "0.1"
    assert float(values["--min-lr"] or 0) == pytest.approx(5e-8)
    assert (values["--adam-beta1"], values["--adam-beta2"]) == ("0.9", "0.95")
    assert {"--optimizer-cpu-offload", "--overlap-cpu-optimizer-d2h-h2d", "--use-precision-aware-optimizer"} <= set(
        values
    )


@pytest.mark.parametrize(
    ("truncation", "filtered", "status", "risk"),
    [
        ("left", False, "approximate", "training"),
        ("error", False, "approximate", "none"),
        ("left", True, "no_effect", "none"),
    ],
)
def test_prompts_that_are_too_long(make: Make, truncation: str, filtered: bool, status: str, risk: str) -> None:
    item = make({"data.truncation": truncation, "data.filter_overlong_prompts": filtered})
    assert outcome(item, "data.truncation") == (status, risk)


def test_loggers(make: Make) -> None:
    item = make({"trainer.logger": "['console','wandb','swanlab']", "trainer.project_name": "my project"})
    values = flag_values(item)
    assert values["--wandb-project"] == '"${PROJECT_NAME}"'
    assert "--use-wandb" in values
    assert outcome(item, "trainer.logger") == ("unsupported", "none")
    assert item.verdict_cap == "verified"


def test_data_flags(make: Make) -> None:
    data = DataSpec(
        train=(DataFile(text="a.parquet"), DataFile(text="b.parquet")),
        prompt_form="chat",
        multimodal=("images",),
        sources=(SourceCount(name="x", split="train"), SourceCount(name="y", split="train")),
        truth="dict",
    )
    item = make({"data.apply_chat_template_kwargs.enable_thinking": False}, data=data)
    values = flag_values(item)
    assert values["--prompt-data"] == ("\"['${DATA_DIR}/gsm8k/train_0.parquet','${DATA_DIR}/gsm8k/train_1.parquet']\"")
    assert values["--multimodal-keys"] == '\'{"image": "images"}\''
    assert values["--apply-chat-template-kwargs"] == "'{\"enable_thinking\": false}'"
    assert "--apply-chat-template" in values
    assert {"guide-dispatch", "guide-label"} <= {note.code for note in item.guide_differences}


def test_templated_prompts_get_no_template(make: Make) -> None:
    item = make(data=DataSpec(train=(DataFile(text="a"),), prompt_form="templated"))
    assert "--apply-chat-template" not in flag_values(item)


def test_reward_arguments_get_a_private_prefix(make: Make) -> None:
    reward = RewardSpec(kind="custom", path="r.py", function="f", kwargs={"lr": 0.1})
    item = make({"custom_reward_function.reward_kwargs.lr": 0.1}, reward=reward)
    assert item.config_yaml == {"gsm8k_lr": 0.1}
    found = next(setting for setting in item.settings if setting.key.endswith("reward_kwargs.lr"))
    assert found.relax == ("gsm8k_config.yaml: gsm8k_lr",)


def test_r22_keys_of_other_versions(make: Make) -> None:
    item = make(
        {
            ACTOR + "fsdp_config.grad_offload": False,
            "trainer.val_generations_to_log_to_wandb": 1,
            "data.foo": 1,
            "trainer.bar": 2,
        }
    )
    assert outcome(item, ACTOR + "fsdp_config.grad_offload")[0] == "automatic"
    assert outcome(item, "trainer.val_generations_to_log_to_wandb")[0] == "no_effect"
    unknown = [setting for setting in item.settings if setting.status == "unknown"]
    assert [setting.key for setting in unknown] == ["data.foo", "trainer.bar"]
    assert all(setting.source is not None and setting.source.line for setting in unknown)
    assert item.verdict_cap == "partial"


def removing(contract: FlagContract, *keys: str) -> Translation:
    """BASE with these keys taken out of verl's configuration by `~`."""
    launch = make_launch({**BASE, **dict.fromkeys(keys)}, drop=keys)
    settings = tuple(item.model_copy(update={"prefix": "~"}) if item.key in keys else item for item in launch.settings)
    config = {key: value for key, value in launch.config.items() if key not in keys}
    launch = launch.model_copy(update={"settings": settings, "config": config})
    recipe = Recipe(name="r", root="/n", project_root="/n", sha256="0", launches=(launch,))
    return translate(recipe, launch, algo="a", contract=contract)


def test_a_removed_key_makes_no_flag(contract: FlagContract) -> None:
    item = removing(contract, "data.shuffle", "data.baz", "trainer.balance_batch", "trainer.device")
    assert outcome(item, "data.baz") == ("no_effect", "none")
    assert outcome(item, "trainer.device") == ("no_effect", "none")
    assert outcome(item, "data.shuffle") == ("approximate", "training")
    assert not {"--rollout-shuffle", "--rollout-seed", "--balance-data"} & set(flag_values(item))
    kept = removing(contract, "data.baz")
    assert {"--rollout-shuffle", "--rollout-seed", "--balance-data"} <= set(flag_values(kept))


def test_settings_that_do_not_balance_raise(make: Make) -> None:
    launch, item = make_launch(BASE), make()
    check_balance(launch, item.settings)
    with pytest.raises(RuntimeError, match=r"5 settings, 4 outcomes.*model\.path"):
        check_balance(launch, item.settings[:-1])
    with pytest.raises(RuntimeError, match="not balanced"):
        check_balance(launch, (*item.settings, item.settings[0]))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        KL,
        {"algorithm.adv_estimator": "rloo"},
        {ACTOR + "policy_loss.loss_mode": "gspo"},
        {"trainer.save_freq": 5, "trainer.test_freq": 5},
        {"algorithm.adv_estimator": "gae", ROLLOUT + "n": 1},
    ],
)
def test_flags_parse_strictly_in_both_modes(make: Make, contract: FlagContract, changes: dict[str, Any]) -> None:
    item = make(changes)
    modes = ["SYNC"] if item.async_refusal else ["SYNC", "ASYNC"]
    for mode in modes:
        assert contract.parse(argv_of(item.flags, mode)).problems == ()


def test_a_wrong_flag_shows_in_the_effective_table(make: Make, contract: FlagContract) -> None:
    """The Relax side comes from the flags alone: change one and its row differs."""
    from migrate_tools.mapping.draft import Draft
    from migrate_tools.mapping.effective import effective_rows
    from migrate_tools.mapping.facts import Facts

    item = make()
    wrong = [flag.model_copy(update={"value": "0.5"}) if flag.name == "--lr" else flag for flag in item.flags]
    draft = Draft(Facts(make_launch(BASE)), contract, "gsm8k")
    rows = {row.name: row for row in effective_rows(draft, wrong)}
    assert (rows["learning rate"].relax, rows["learning rate"].same) == ("0.5", False)


@pytest.mark.parametrize(
    ("name", "script"),
    [("Qwen/Qwen3-8B", "qwen3-8B"), ("Qwen2.5-7B-Instruct", "qwen25-7B"), ("Qwen2.5-3B", ""), ("my-sft", "")],
)
def test_model_scripts(name: str, script: str) -> None:
    found = find_script(name)
    assert (found.script if found else "") == script


def test_model_args_of_a_known_model(make: Make) -> None:
    item = make({"actor_rollout_ref.model.path": "/data/models/Qwen2.5-0.5B-Instruct/"})
    assert item.model_dir_name == "Qwen2.5-0.5B-Instruct"
    assert item.model_script == ""
    assert {"--num-layers 24", "--hidden-size 896", "--num-query-groups 2", "--add-qkv-bias"} <= set(item.model_args)
    assert "--untie-embeddings-and-output-weights" not in item.model_args


def test_model_that_nobody_knows(make: Make) -> None:
    item = make({"actor_rollout_ref.model.path": "$HOME/models/my-sft"})
    assert "MODEL_CONFIG" in item.model_script
    assert any(note.code == "model-unknown" for note in item.notes)
    assert item.verdict_cap == "verified"


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("Qwen2.5-0.5B", 0.49),
        ("Qwen2.5-7B", 7.62),
        ("Qwen2.5-72B", 72.7),
        ("Llama-3.1-8B", 8.03),
        ("SmolLM2-360M", 0.36),
    ],
)
def test_known_architectures_have_the_published_size(name: str, billions: float) -> None:
    found = find_architecture(name)
    assert found is not None
    assert found.billions == pytest.approx(billions, rel=0.02)


def test_config_json_of_a_local_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps(
            {
                "model_type": "qwen3",
                "num_hidden_layers": 2,
                "hidden_size": 64,
                "intermediate_size": 128,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "vocab_size": 100,
                "head_dim": 32,
                "rope_theta": 1000000,
                "rms_norm_eps": 1e-6,
                "tie_word_embeddings": True,
            }
        )
    )
    found = read_config(tmp_path)
    assert isinstance(found, Architecture)
    args = model_args(found)
    assert {"--kv-channels 32", "--qk-layernorm", "--rotary-base 1000000"} <= set(args)
    assert "--add-qkv-bias" not in args
    assert read_config(tmp_path / "absent") is None


@pytest.mark.parametrize("path", ["/data/Qwen_Qwen2.5-1.5B-Instruct", "models--Qwen--Qwen2.5-1.5B-Instruct"])
def test_names_with_an_organisation_in_front(path: str) -> None:
    found = find_architecture(path)
    assert found is not None
    assert (found.layers, found.hidden) == (28, 1536)


def test_a_folder_called_huggingface_gets_a_telling_name(make: Make) -> None:
    item = make({"actor_rollout_ref.model.path": "$HOME/sft/global_step_140/huggingface"})
    assert item.model_dir_name == "global_step_140-huggingface"


def test_a_whole_mapping_is_as_good_as_its_worst_leaf(make: Make) -> None:
    key = "actor_rollout_ref.model.override_config"
    item = make({key: {"attention_dropout": 0.0, "rope_theta": 5}})
    assert outcome(item, key) == ("approximate", "training")
    assert outcome(make({"data.foo": {"a": 1}}), "data.foo")[0] == "unknown"


def test_the_table_shows_the_gpus_of_both_modes(make: Make) -> None:
    row = next(row for row in make(KL, policy="faithful").effective if row.name == "GPUs")
    assert row.same
    assert (
        row.relax == "8 (actor 8, rollout 8, shared); async actor 4, rollout 2, reference 1, actor_fwd 1, advantages 0"
    )


def test_every_row_that_differs_says_why(make: Make) -> None:
    changes: list[dict[str, Any]] = [
        {},
        KL,
        {"algorithm.adv_estimator": "gae", ROLLOUT + "n": 1},
        {"algorithm.adv_estimator": "rloo", "algorithm.use_kl_in_reward": True},
        {"algorithm.rollout_correction.rollout_is": "sequence"},
        {ACTOR + "optim.lr_scheduler_type": "polynomial", "data.truncation": "left", "trainer.test_freq": 5},
        {ACTOR + "loss_agg_mode": "seq-mean-token-sum", ACTOR + "ppo_epochs": 4},
    ]
    for change in changes:
        for row in make(change).effective:
            assert row.same or (row.why and not row.why.startswith("see")), (change, row)


def test_image_column_of_data_that_is_not_at_hand(make: Make) -> None:
    blind = DataSpec(train=(DataFile(text="a"),), prompt_form="chat")
    item = make({"data.image_key": "images"}, data=blind)
    assert flag_values(item)["--multimodal-keys"] == '\'{"image": "images"}\''
    assert any(note.code == "column-assumed" for note in item.notes)
    seen = make({"data.image_key": "images"}, data=blind.model_copy(update={"columns": {"prompt": "list"}}))
    assert "--multimodal-keys" not in flag_values(seen)
    assert outcome(seen, "data.image_key")[0] == "no_effect"


def test_too_few_rows_are_named(make: Make) -> None:
    assert any(note.code == "too-few-rows" for note in make(rows=16).notes)
    assert not any(note.code == "too-few-rows" for note in make(rows=512).notes)


def test_defaults_of_verl_are_marked(make: Make) -> None:
    """What a recipe leaves to verl is written out and shown as such."""
    rows = {row.name: row for row in make({ACTOR + "clip_ratio_high": 0.28}).effective}
    assert rows["entropy bonus"].verl == "0.0 (verl's default)"
    assert rows["clipping"].verl == "0.2 / 0.28"
    assert "default" not in rows["estimator"].verl


def test_an_older_relax_lacks_estimators_and_flags() -> None:
    from migrate_tools.mapping.translate import translate
    from migrate_tools.model import Recipe
    from migrate_tools.relax.contract import load_contract

    older = load_contract("infra")
    discounted = {"algorithm.adv_estimator": "reinforce_plus_plus", "algorithm.gamma": 0.9}
    for changes, cap in ((discounted, "refused"), ({"algorithm.adv_estimator": "rloo"}, "verified"), ({}, "verified")):
        launch = make_launch({**BASE, **changes})
        recipe = Recipe(name="r", root="/n", project_root="/n", sha256="0", launches=(launch,))
        item = translate(recipe, launch, algo="a", contract=older)
        assert item.verdict_cap == cap
        assert all(flag.name in older.flags for flag in item.flags)
    assert older.parse(argv_of(item.flags)).problems == ()


def test_the_seed_of_the_trainer_is_that_of_the_engine_in_use(make: Make) -> None:
    seeds = {ACTOR + "fsdp_config.seed": 5, ACTOR + "megatron.seed": 6}
    assert flag_values(make(seeds))["--seed"] == "5"
    assert flag_values(make({**seeds, ACTOR + "strategy": "megatron"}))["--seed"] == "6"
    assert "--seed" not in flag_values(make())
