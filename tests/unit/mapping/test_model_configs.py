"""config.json -> MODEL_ARGS: families, named gaps, and the numbers of models whose size and flags are published."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from mapping_launches import Make
from migrate_tools.errors import UsageError
from migrate_tools.mapping.architecture import Architecture, Gap
from migrate_tools.mapping.hf_config import load_config, parse_config
from migrate_tools.mapping.model_args import model_args, without
from migrate_tools.mapping.models import find_architecture, load_models
from migrate_tools.relax.contract import FlagContract

PATH = "actor_rollout_ref.model.path"
DENSE: dict[str, Any] = {
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
MLA = {
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
    "n_routed_experts": 16,
    "n_shared_experts": 2,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
}


def args_of(kind: str, **fields: Any) -> set[str]:
    found = parse_config({"model_type": kind, **DENSE, **fields})
    assert isinstance(found, Architecture), found
    return set(model_args(found))


def gap_of(kind: str, **fields: Any) -> str:
    found = parse_config({"model_type": kind, **DENSE, **fields})
    assert isinstance(found, Gap), found
    return found.reason


@pytest.mark.parametrize(
    ("kind", "fields", "has", "lacks"),
    [
        ("llama", {}, {"--num-query-groups 2", "--kv-channels 8"}, {"--add-qkv-bias", "--qk-layernorm"}),
        ("llama", {"num_key_value_heads": None}, {"--num-attention-heads 8"}, {"--group-query-attention"}),
        ("llama", {"head_dim": 16}, {"--kv-channels 16"}, set()),
        ("llama", {"tie_word_embeddings": True}, set(), {"--untie-embeddings-and-output-weights"}),
        ("mistral", {"sliding_window": None}, {"--norm-epsilon 1e-05"}, {"--add-qkv-bias"}),
        ("qwen2", {}, {"--add-qkv-bias", "--untie-embeddings-and-output-weights"}, {"--qk-layernorm"}),
        ("qwen3", {"head_dim": 32}, {"--qk-layernorm", "--kv-channels 32"}, {"--add-qkv-bias"}),
        ("qwen3", {}, {"--kv-channels 128"}, set()),
        ("qwen2_moe", {**EXPERTS, "shared_expert_intermediate_size": 96},
         {"--moe-shared-expert-intermediate-size 96", "--moe-shared-expert-gate", "--moe-router-pre-softmax",
          "--num-experts 8", "--moe-ffn-hidden-size 32", "--moe-router-topk 2", "--add-qkv-bias"}, set()),
        ("qwen3_moe", {**EXPERTS, "norm_topk_prob": True}, {"--moe-layer-freq 1", "--qk-layernorm"},
         {"--moe-router-pre-softmax", "--moe-shared-expert-gate"}),
        ("qwen3_moe", {**EXPERTS, "decoder_sparse_step": 2, "mlp_only_layers": [3]},
         {"--moe-layer-freq '[0,1,0,0]'"}, set()),
        ("mixtral", {"num_local_experts": 8, "num_experts_per_tok": 2}, {"--moe-ffn-hidden-size 192"},
         {"--moe-router-pre-softmax"}),
        ("deepseek_v3", {**MLA, "n_group": 4, "topk_group": 2, "routed_scaling_factor": 2.5},
         {"--multi-latent-attention", "--q-lora-rank 24", "--kv-lora-rank 16", "--qk-head-dim 8",
          "--qk-pos-emb-head-dim 4", "--v-head-dim 8", "--moe-router-score-function sigmoid",
          "--moe-router-enable-expert-bias", "--moe-router-num-groups 4", "--moe-router-group-topk 2",
          "--moe-router-topk-scaling-factor 2.5", "--moe-shared-expert-intermediate-size 64",
          "--moe-layer-freq '[0,1,1,1]'", "--rotary-scaling-factor 1"}, {"--group-query-attention"}),
        ("deepseek_v2", {**MLA, "q_lora_rank": None, "n_group": 1, "topk_group": 1, "norm_topk_prob": False,
                         "topk_method": "greedy", "scoring_func": "softmax"},
         {"--moe-router-pre-softmax", "--moe-router-score-function softmax"},
         {"--moe-router-enable-expert-bias", "--moe-router-num-groups 1"}),
        ("glm4_moe", {**{k: v for k, v in MLA.items() if "head_dim" not in k and "rank" not in k},
                      "attention_bias": True, "norm_topk_prob": True},
         {"--rotary-percent 0.5", "--add-qkv-bias", "--moe-router-enable-expert-bias"}, {"--qk-layernorm"}),
        ("llama", {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                    "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}},
         {"--use-rope-scaling", "--rope-scaling-factor 8"}, set()),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 4.0}},
         {"--rotary-seq-len-interpolation-factor 4"}, {"--use-rope-scaling"}),
        ("qwen2", {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, {"--rotary-base 1000000"}, set()),
    ],
)  # fmt: skip
def test_families(kind: str, fields: dict[str, Any], has: set[str], lacks: set[str], contract: FlagContract) -> None:
    found = args_of(kind, **fields)
    assert has <= found
    assert not {item for item in found if item in lacks or item.split()[0] in lacks}
    parsed = contract.parse([word for item in sorted(found) for word in shlex.split(item)])
    assert parsed.problems == ()


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("gemma", {}, "scales its embeddings"),
        ("gpt_oss", {}, "attention sinks"),
        ("nobody_knows", {}, "'nobody_knows' is not among the layouts"),
        ("llama", {"attention_bias": True}, "attention_bias is true"),
        ("llama", {"mlp_bias": True}, "mlp_bias is true"),
        ("llama", {"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_scaling of type 'yarn'"),
        ("llama", {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 2.0}},
         "low_freq_factor is 2"),
        ("llama", {"rope_theta": 10000.5}, "rope_theta 10000.5 is no whole number"),
        ("mixtral", {"num_experts_per_tok": 2}, "has no num_local_experts"),
        ("qwen2", {"hidden_size": "wide"}, "of another kind than expected"),
        ("deepseek_v2", {**MLA, "n_group": 4, "topk_group": 2, "topk_method": "group_limited_greedy",
                         "scoring_func": "softmax"}, "group_limited_greedy"),
        ("deepseek_v3", {**MLA, "norm_topk_prob": False}, "norm_topk_prob is false"),
    ],
)  # fmt: skip
def test_named_gaps(kind: str, fields: dict[str, Any], said: str) -> None:
    assert said in gap_of(kind, **fields)


def test_yarn_of_latent_attention() -> None:
    rope = {"type": "yarn", "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707, "beta_fast": 32, "beta_slow": 1}
    found = args_of("deepseek_v3", **MLA, rope_scaling={**rope, "original_max_position_embeddings": 4096})
    assert {"--rotary-scaling-factor 40", "--mscale 0.707", "--mscale-all-dim 0.707"} <= found
    assert "original_max_position" in gap_of(
        "deepseek_v3", **MLA, rope_scaling={**rope, "original_max_position_embeddings": 8192}
    )


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("Qwen3-0.6B", 0.596),
        ("Qwen3-1.7B", 1.72),
        ("Qwen3-4B", 4.02),
        ("Qwen3-8B", 8.19),
        ("Qwen3-32B", 32.8),
        ("Qwen3-30B-A3B", 30.5),
        ("Qwen3-235B-A22B", 235.0),
        ("Mixtral-8x7B-v0.1", 46.7),
        ("DeepSeek-R1", 671.0),
        ("Moonlight-16B-A3B-Instruct", 16.0),
        ("GLM-4.5-Air", 106.0),
    ],
)
def test_known_models_have_the_published_size(name: str, billions: float) -> None:
    found = find_architecture(name)
    assert found is not None
    assert found.billions == pytest.approx(billions, rel=0.02)


@pytest.mark.parametrize(
    ("name", "script"),
    [
        # The flags of scripts/models of Relax for models that it has: redai-studio/Relax qwen25-7B.sh 53ad8a47,
        # qwen3-1.7B.sh b71db72d; haod0ng/Agentic-MLLM-RL qwen3-30B-A3B.sh 4c5af9e3.
        ("Qwen2.5-7B", "--swiglu --num-layers 28 --hidden-size 3584 --ffn-hidden-size 18944 --num-attention-heads 28 "
         "--group-query-attention --num-query-groups 4 --use-rotary-position-embeddings --disable-bias-linear "
         "--add-qkv-bias --normalization RMSNorm --norm-epsilon 1e-6 --rotary-base 1000000 --vocab-size 152064 "
         "--kv-channels 128 --untie-embeddings-and-output-weights"),
        ("Qwen3-1.7B", "--swiglu --num-layers 28 --hidden-size 2048 --ffn-hidden-size 6144 --num-attention-heads 16 "
         "--group-query-attention --num-query-groups 8 --use-rotary-position-embeddings --disable-bias-linear "
         "--normalization RMSNorm --norm-epsilon 1e-6 --rotary-base 1000000 --vocab-size 151936 --kv-channels 128 "
         "--qk-layernorm"),
        ("Qwen3-30B-A3B", "--disable-bias-linear --qk-layernorm --group-query-attention --num-attention-heads 32 "
         "--num-query-groups 4 --kv-channels 128 --num-layers 48 --hidden-size 2048 --ffn-hidden-size 6144 "
         "--normalization RMSNorm --position-embedding-type rope --norm-epsilon 1e-6 --rotary-percent 1.0 --swiglu "
         "--untie-embeddings-and-output-weights --vocab-size 151936 --rotary-base 1000000 --moe-ffn-hidden-size 768 "
         "--moe-router-score-function softmax --moe-token-dispatcher-type alltoall --moe-router-topk 8 "
         "--num-experts 128 --moe-grouped-gemm --moe-token-drop-policy probs --moe-router-dtype fp32 "
         "--moe-permute-fusion --moe-aux-loss-coeff 0 --moe-layer-freq 1"),
    ],
)  # fmt: skip
def test_generated_flags_mean_what_the_scripts_of_relax_say(name: str, script: str, contract: FlagContract) -> None:
    found = find_architecture(name)
    assert found is not None
    mine = contract.parse([word for item in model_args(found) for word in shlex.split(item)]).values
    theirs = contract.parse(shlex.split(script)).values
    different = {dest for dest in mine if mine[dest] != theirs[dest]}
    # Two spellings of rotary embeddings, of which a script has one or the other.
    assert different <= {"position_embedding_type", "use_rotary_position_embeddings"}


def test_every_shipped_configuration_is_an_architecture() -> None:
    models = load_models()
    for name in (*models.architectures, *models.configs, *models.aliases):
        assert find_architecture(name) is not None, name


def test_flags_that_the_recipe_sets_itself_are_left_to_it(make: Make) -> None:
    assert without(("--moe-aux-loss-coeff 0", "--num-layers 4"), {"--moe-aux-loss-coeff"}) == ("--num-layers 4",)
    key = "actor_rollout_ref.actor.megatron.override_transformer_config.moe_aux_loss_coeff"
    item = make({PATH: "Qwen/Qwen3-235B-A22B", "actor_rollout_ref.actor.strategy": "megatron", key: 0.01})
    assert not any(line.startswith("--moe-aux-loss-coeff") for line in item.model_args)
    assert any(flag.name == "--moe-aux-loss-coeff" and flag.value == "0.01" for flag in item.flags)


def test_a_config_given_by_the_user_names_the_model(make: Make) -> None:
    config = {"model_type": "qwen2", **DENSE}
    changes = {PATH: "$HOME/models/my-sft", "trainer.n_gpus_per_node": 8}
    for given in ({"my-sft": config}, {"": config}):
        item = make(changes, model_configs=given)
        assert item.model_script == ""
        assert "--num-layers 4" in item.model_args
        note = next(note for note in item.notes if note.code == "model-args")
        assert "--model-config" in note.text
    other = make(changes, model_configs={"another": config})
    assert "MODEL_CONFIG" in other.model_script


def test_a_gap_is_named_and_asks_for_a_script(make: Make) -> None:
    item = make({PATH: "my/gemma-tuned"}, model_configs={"": {"model_type": "gemma", **DENSE}})
    assert "MODEL_CONFIG" in item.model_script
    assert item.model_args == ()
    note = next(note for note in item.notes if note.code == "model-unknown")
    assert "scales its embeddings" in note.text


def test_a_script_of_relax_is_not_used_for_a_changed_model(make: Make) -> None:
    """A checkpoint called Qwen3-8B whose config.json has another rotary base gets flags of its own."""
    config = {"model_type": "qwen3", "num_hidden_layers": 36, "hidden_size": 4096, "intermediate_size": 12288,
              "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
              "rope_theta": 1000000, "rms_norm_eps": 1e-6}  # fmt: skip
    assert make({PATH: "Qwen/Qwen3-8B"}, model_configs={"": config}).model_script == "qwen3-8B"
    changed = make({PATH: "Qwen/Qwen3-8B"}, model_configs={"": {**config, "rope_theta": 5000000}})
    assert changed.model_script == ""
    assert "--rotary-base 5000000" in changed.model_args


def test_config_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    assert load_config(tmp_path) == load_config(tmp_path / "config.json") == {"model_type": "llama"}
    for text, said in (("{", "is not JSON"), ("{}", "names no model_type")):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(UsageError, match=said):
            load_config(tmp_path)
    with pytest.raises(UsageError, match="No such file"):
        load_config(tmp_path / "absent.json")


def test_an_attention_window_shorter_than_the_sequences_is_named(make: Make) -> None:
    config = {"model_type": "mistral", **DENSE, "sliding_window": 600}
    item = make({PATH: "mistral-x"}, model_configs={"": config})
    assert any("looks back 600 tokens" in reason for reason in item.cap_reasons)
    assert not make({PATH: "mistral-x"}, model_configs={"": {**config, "sliding_window": 4096}}).cap_reasons


def test_models_that_no_flags_describe_are_named(make: Make) -> None:
    for name, said in (
        ("lmsys/gpt-oss-20b-bf16", "attention sinks"),
        ("/m/Qwen3-Next-80B-A3B-Instruct", "linear attention"),
    ):
        item = make({PATH: name})
        assert "MODEL_CONFIG" in item.model_script
        assert said in next(note.text for note in item.notes if note.code == "model-unknown")


@pytest.mark.parametrize("path", ["$HOME/models/mine", "${HOME}/models/mine", "~/models/mine"])
def test_a_model_at_home_is_found(make: Make, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "MODEL_CONFIG" in make({PATH: path}).model_script
    folder = tmp_path / "models" / "mine"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen2", **DENSE}))
    item = make({PATH: path})
    assert "--num-layers 4" in item.model_args
    assert str(tmp_path) not in item.model_dump_json()
