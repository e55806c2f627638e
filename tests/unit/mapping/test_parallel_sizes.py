"""Parallel sizes: kept for Megatron recipes, chosen for FSDP ones, every division checked."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from mapping_launches import ACTOR, ROLLOUT, Make, flag_values, outcome

MEGATRON = ACTOR + "megatron."
OVERRIDE = MEGATRON + "override_transformer_config."
PATH = "actor_rollout_ref.model.path"
MOE = {PATH: "Qwen/Qwen3-30B-A3B"}


def megatron(**sizes: Any) -> dict[str, Any]:
    return {ACTOR + "strategy": "megatron", **{MEGATRON + name: value for name, value in sizes.items()}}


def test_an_empty_expert_tensor_size_is_the_tensor_size(make: Make) -> None:
    sizes = {"tensor_model_parallel_size": 2, "expert_model_parallel_size": 4, "expert_tensor_parallel_size": None}
    item = make({**MOE, **megatron(**sizes)})
    assert flag_values(item)["--expert-tensor-parallel-size"] == "2"
    assert outcome(item, MEGATRON + "expert_tensor_parallel_size")[0] == "derived"
    given = make({**MOE, **megatron(**{**sizes, "expert_tensor_parallel_size": 1})})
    assert flag_values(given)["--expert-tensor-parallel-size"] == "1"
    dense = make(megatron(tensor_model_parallel_size=2))
    assert flag_values(dense)["--expert-tensor-parallel-size"] == "1"


def test_sequence_parallel_follows_the_recipe(make: Make) -> None:
    on = make(megatron(tensor_model_parallel_size=2))
    off = make(megatron(tensor_model_parallel_size=2, sequence_parallel=False))
    assert "--sequence-parallel" in flag_values(on)
    assert "--sequence-parallel" not in flag_values(off)
    experts = make({**MOE, **megatron(tensor_model_parallel_size=2, sequence_parallel=False)})
    assert "--sequence-parallel" in flag_values(experts)
    assert outcome(experts, MEGATRON + "sequence_parallel")[0] == "approximate"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({**MOE, **megatron(tensor_model_parallel_size=8)}, "tensor parallel size 8 does not divide 4 query groups"),
        ({**megatron(tensor_model_parallel_size=8), PATH: "Qwen/Qwen2.5-7B"}, "does not divide 28 attention heads"),
        ({**megatron(pipeline_model_parallel_size=8), PATH: "Qwen/Qwen3-8B"}, "36 layers do not divide among 8"),
        ({**MOE, **megatron(expert_model_parallel_size=3), "trainer.n_gpus_per_node": 6},
         "does not divide 128 experts"),
        ({**MOE, **megatron(expert_model_parallel_size=8, expert_tensor_parallel_size=2)},
         "= 16 does not divide 8 GPUs"),
        (megatron(expert_model_parallel_size=2), "for a model without experts"),
        ({"trainer.n_gpus_per_node": 6, **megatron()}, "6 copies of the model"),
    ],
)  # fmt: skip
def test_what_does_not_divide_caps_the_verdict(make: Make, changes: dict[str, Any], said: str) -> None:
    item = make(changes)
    assert item.refusals == ()
    assert any(said in reason for reason in item.cap_reasons), item.cap_reasons
    assert item.verdict_cap == "partial"


@pytest.mark.parametrize(
    ("changes", "whole"),
    [
        ({"pipeline_model_parallel_size": 4}, True),
        ({"pipeline_model_parallel_size": 8, "ends": (4, 2)}, True),  # 36 - 4 - 2 = 30 layers on 6 stages
        ({"pipeline_model_parallel_size": 8, "ends": (4, None)}, False),  # 32 layers on 7 stages
        ({"pipeline_model_parallel_size": 2, "ends": (20, 16)}, True),
        ({"pipeline_model_parallel_size": 2, "virtual_pipeline_model_parallel_size": 5}, False),
    ],
)
def test_layers_and_stages(make: Make, changes: dict[str, Any], whole: bool) -> None:
    ends = changes.pop("ends", (None, None))
    settings = {**megatron(**changes), PATH: "Qwen/Qwen3-8B", "trainer.nnodes": 2}
    for name, count in zip(("first", "last"), ends, strict=True):
        if count is not None:
            settings[f"{OVERRIDE}num_layers_in_{name}_pipeline_stage"] = count
    reasons = [reason for reason in make(settings).cap_reasons if "pipeline stages" in reason]
    assert (reasons == []) is whole


def test_the_tensor_size_of_an_fsdp_recipe_respects_query_groups(make: Make) -> None:
    """Qwen2.5-7B has 4 query groups, Qwen2.5-3B 2: Megatron wants a divisor."""
    item = make({PATH: "Qwen/Qwen2.5-3B", ACTOR + "ppo_mini_batch_size": 128})
    assert flag_values(item)["--tensor-model-parallel-size"] == "2"
    moe = make({PATH: "Qwen/Qwen3-235B-A22B", "trainer.nnodes": 8})
    assert flag_values(moe)["--tensor-model-parallel-size"] == "4"
    assert flag_values(moe)["--expert-model-parallel-size"] == "32"
    assert moe.cap_reasons == ()


def test_the_tensor_size_grows_until_the_copies_divide_the_prompts(make: Make) -> None:
    sizes = {"data.train_batch_size": 4, ACTOR + "ppo_mini_batch_size": 4}
    item = make({**sizes, PATH: "Qwen/Qwen3-0.6B"})
    assert flag_values(item)["--tensor-model-parallel-size"] == "2"
    assert item.cap_reasons == ()
    wide = make({"data.train_batch_size": 4, ACTOR + "ppo_mini_batch_size": 4, PATH: "Qwen/Qwen3-0.6B",
                 "trainer.nnodes": 3})  # fmt: skip
    assert any("do not divide the 4 prompts" in reason for reason in wide.cap_reasons)


def test_async_is_refused_where_the_copies_do_not_divide_the_prompts(make: Make) -> None:
    item = make({"data.train_batch_size": 6, ACTOR + "ppo_mini_batch_size": 6, PATH: "Qwen/Qwen3-0.6B",
                 "trainer.n_gpus_per_node": 6})  # fmt: skip
    assert item.cap_reasons == ()
    assert item.async_refusal == "" or "copies of the model do not divide the 6 prompts" in item.async_refusal


def test_engines_with_data_and_expert_parallelism(make: Make) -> None:
    item = make(
        {
            **MOE,
            "trainer.nnodes": 4,
            ROLLOUT + "tensor_model_parallel_size": 2,
            ROLLOUT + "data_parallel_size": 4,
            ROLLOUT + "expert_parallel_size": 8,
        }
    )
    values = flag_values(item)
    assert values["--rollout-num-gpus-per-engine"] == "8"
    assert (values["--sglang-dp-size"], values["--sglang-ep-size"]) == ("4", "8")
    assert "--sglang-enable-dp-attention" in values
    assert outcome(item, ROLLOUT + "data_parallel_size") == ("derived", "speed")
    plain = make({ROLLOUT + "data_parallel_size": 1})
    assert not any(name.startswith("--sglang-dp") for name in flag_values(plain))
    assert outcome(plain, ROLLOUT + "data_parallel_size")[0] == "exact"


def test_sizes_of_the_veomni_engine(make: Make) -> None:
    prefix = ACTOR + "veomni."
    item = make({**MOE, prefix + "ulysses_parallel_size": 2, prefix + "expert_parallel_size": 4})
    values = flag_values(item)
    assert (values["--context-parallel-size"], values["--expert-model-parallel-size"]) == ("2", "4")
    assert outcome(item, prefix + "expert_parallel_size")[0] == "exact"


def test_a_recipe_that_generates_apart_keeps_its_pool(make: Make) -> None:
    """8 GPUs train, 8 generate: sync shares the 16, async gives generation its own 8."""
    pool = {"rollout.nnodes": 1, "rollout.n_gpus_per_node": 8}
    item = make({**pool, ACTOR + "use_kl_loss": True})
    assert item.gpus is not None
    assert (item.gpus.total, item.gpus.per_node, item.gpus.nodes) == (16, 8, 2)
    assert item.gpus.async_split == {"actor": 4, "rollout": 8, "reference": 4, "advantages": 0}
    row = next(row for row in item.effective if row.name == "GPUs")
    assert row.same
    assert row.verl == "16 (trainer 8, rollout 8)"
    assert outcome(item, "rollout.nnodes") == ("derived", "none")
    sizes = {"data.train_batch_size": 96, ACTOR + "ppo_mini_batch_size": 96, "trainer.n_gpus_per_node": 6}
    small = make({**sizes, "rollout.nnodes": 1, "rollout.n_gpus_per_node": 2})
    assert small.gpus is not None
    assert (small.gpus.total, small.gpus.per_node) == (8, 8)
    assert small.gpus.async_split["rollout"] == 2


def test_optimizer_offload_is_what_the_script_has_anyway(make: Make) -> None:
    key = ACTOR + "fsdp_config.optimizer_offload"
    assert outcome(make({key: True}), key) == ("exact", "speed")
    assert outcome(make({key: False}), key) == ("approximate", "speed")


@pytest.mark.parametrize(("mode", "flag"), [("R2", "--use-routing-replay"), ("R3", "--use-rollout-routing-replay")])
def test_expert_routes_are_replayed(make: Make, mode: str, flag: str) -> None:
    key = MEGATRON + "router_replay.mode"
    item = make({**MOE, **megatron(), key: mode})
    assert flag in flag_values(item)
    assert outcome(item, key)[0] == "exact"
    assert not any("routing-replay" in name for name in flag_values(make({**MOE, **megatron(), key: "disabled"})))


def test_experts_are_spread_over_what_async_leaves(make: Make) -> None:
    """30B in 128 experts on 8 GPUs: 8 ways in sync, 4 where async gives the actor 4, 2 on the reference's 2."""
    item = make({**MOE, ACTOR + "use_kl_loss": True})
    assert flag_values(item, "SYNC")["--expert-model-parallel-size"] == "8"
    values = flag_values(item, "ASYNC")
    assert values["--expert-model-parallel-size"] == "4"
    config = json.loads(shlex.split(values["--ref-actor-config"] or "")[0])
    assert config["expert_model_parallel_size"] == 2
    assert item.async_refusal == ""
    whole = megatron(tensor_model_parallel_size=2, expert_model_parallel_size=2, expert_tensor_parallel_size=2)
    kept = make({**MOE, **whole, ACTOR + "use_kl_loss": True})
    assert flag_values(kept, "ASYNC")["--expert-model-parallel-size"] == "2"
    config = json.loads(shlex.split(flag_values(kept, "ASYNC")["--ref-actor-config"] or "")[0])
    assert config["expert_tensor_parallel_size"] == 1


def test_lists_of_transformer_options(make: Make) -> None:
    changes = {
        OVERRIDE + "recompute_granularity": "selective",
        OVERRIDE + "recompute_modules": ["core_attn", "moe_act"],
    }
    item = make({**megatron(), **changes})
    values = flag_values(item)
    assert values["--recompute-granularity"] == "selective"
    assert values["--recompute-modules"] == "core_attn moe_act"
    assert outcome(item, OVERRIDE + "recompute_modules")[0] == "exact"


def test_sync_goes_first_where_async_leaves_too_little_room(make: Make) -> None:
    """One prompt an update on 8 GPUs wants one copy of the model: 8 GPUs wide, which async's actor of 4 is not."""
    sizes = {"data.train_batch_size": 4, ACTOR + "ppo_mini_batch_size": 1, PATH: "Qwen/Qwen3-8B"}
    item = make(sizes)
    assert flag_values(item)["--tensor-model-parallel-size"] == "8"
    assert item.cap_reasons == ()
    assert "async leaves 4" in item.async_refusal
