"""An architecture as MODEL_ARGS: Megatron flags, one with its value an item.

With --megatron-to-hf-mode bridge Relax builds the model from the folder's own config.json, compares these flags with it
and copies some of them over it, the router's among them (redai-studio/Relax relax/backends/megatron/model_provider.py
0011f56b, bridge_keys): a flag left out is then its default, not the model's value.
"""

from __future__ import annotations

from collections.abc import Collection

from migrate_tools.mapping.architecture import Architecture, Experts, LatentAttention


def model_args(model: Architecture, known: Collection[str] | None = None) -> tuple[str, ...]:
    """Megatron's MODEL_ARGS, shell-ready; with `known`, only flags that the contract has."""
    args = [
        f"--num-layers {model.layers}",
        f"--hidden-size {model.hidden}",
        f"--ffn-hidden-size {model.ffn}",
        f"--num-attention-heads {model.heads}",
    ]
    if model.groups != model.heads:
        args += ["--group-query-attention", f"--num-query-groups {model.groups}"]
    args += [
        f"--kv-channels {model.head}",
        f"--vocab-size {model.vocab}",
        "--swiglu",
        "--normalization RMSNorm",
        f"--norm-epsilon {model.norm_epsilon:g}",
        "--disable-bias-linear",
        "--use-rotary-position-embeddings",
        "--position-embedding-type rope",
        f"--rotary-base {model.rotary_base}",
        f"--rotary-percent {model.rotary_percent}",
    ]
    if model.qkv_bias:
        args.append("--add-qkv-bias")
    if model.qk_norm:
        args.append("--qk-layernorm")
    if not model.tied:
        args.append("--untie-embeddings-and-output-weights")
    if model.rope_scaling_factor:
        args += ["--use-rope-scaling", f"--rope-scaling-factor {model.rope_scaling_factor:g}"]
    if model.rope_interpolation:
        args.append(f"--rotary-seq-len-interpolation-factor {model.rope_interpolation}")
    if model.latent is not None:
        args += _latent(model.latent)
    if model.experts is not None:
        args += _experts(model.experts)
    if model.vision or model.latent is not None:
        args.append("--no-rope-fusion")
    return tuple(item for item in args if known is None or item.split()[0] in known)


def _latent(latent: LatentAttention) -> list[str]:
    args = ["--multi-latent-attention"]
    if latent.q_lora_rank:
        args.append(f"--q-lora-rank {latent.q_lora_rank}")
    return [
        *args,
        f"--kv-lora-rank {latent.kv_lora_rank}",
        f"--qk-head-dim {latent.qk_head}",
        f"--qk-pos-emb-head-dim {latent.qk_rotary}",
        f"--v-head-dim {latent.v_head}",
        f"--rotary-scaling-factor {latent.scaling_factor:g}",
        f"--mscale {latent.mscale:g}",
        f"--mscale-all-dim {latent.mscale_all:g}",
        "--attention-softmax-in-fp32",
    ]


def _experts(experts: Experts) -> list[str]:
    """verl adds no balancing loss of its own, hence the coefficient of 0 (a recipe's own value replaces it)."""
    frequency = "1"
    if experts.sparse_layers:
        frequency = f"'[{','.join(str(item) for item in experts.sparse_layers)}]'"
    args = [
        f"--num-experts {experts.count}",
        f"--moe-layer-freq {frequency}",
        f"--moe-ffn-hidden-size {experts.ffn}",
        f"--moe-router-topk {experts.topk}",
        f"--moe-router-score-function {experts.scoring}",
        "--moe-aux-loss-coeff 0",
        "--moe-router-dtype fp32",
        "--moe-token-dispatcher-type alltoall",
        "--moe-grouped-gemm",
        "--moe-permute-fusion",
    ]
    if experts.pre_softmax:
        args.append("--moe-router-pre-softmax")
    if experts.shared_ffn:
        args.append(f"--moe-shared-expert-intermediate-size {experts.shared_ffn}")
    if experts.shared_gate:
        args.append("--moe-shared-expert-gate")
    if experts.expert_bias:
        # The bias is part of the checkpoint; RL leaves it as it is.
        args += ["--moe-router-enable-expert-bias", "--moe-router-bias-update-rate 0"]
        args.append("--moe-router-load-balancing-type seq_aux_loss")
    if experts.groups:
        args += [f"--moe-router-num-groups {experts.groups}", f"--moe-router-group-topk {experts.group_topk}"]
    if experts.scale:
        args.append(f"--moe-router-topk-scaling-factor {experts.scale:g}")
    return args


def without(args: tuple[str, ...], written: Collection[str]) -> tuple[str, ...]:
    """MODEL_ARGS without flags that the recipe itself sets elsewhere in the script."""
    return tuple(item for item in args if item.split()[0] not in written)
