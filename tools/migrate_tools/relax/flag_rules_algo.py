"""Rules on checkpoints, precision and algorithms (flag rules, sections 5 and 6).

Source: redai-studio/Relax relax/utils/arguments.py 6c0099bb and the two older versions named in flags.json.
"""

from __future__ import annotations

from collections.abc import Iterator

from migrate_tools.relax.flag_rules_base import Line, rule

_READS_GAMMA = ("ppo", "reinforce_plus_plus")


@rule("checkpoint.model", "5")
def model(line: Line) -> Iterator[str]:
    if not line.hf_checkpoint:
        yield "--hf-checkpoint is missing: tokenizer and inference engine load from it"


@rule("checkpoint.reference", "5")
def reference(line: Line) -> Iterator[str]:
    if (line.kl_coef != 0 or line.use_kl_loss) and not line.ref_load and not line.offline:
        yield "a KL term needs --ref-load"


@rule("checkpoint.save-interval", "5")
def save_interval(line: Line) -> Iterator[str]:
    if line.save_interval is not None and not line.save:
        yield "--save-interval needs --save"


@rule("checkpoint.rotate", "5")
def rotate(line: Line) -> Iterator[str]:
    if line.rotate_ckpt:
        needs = (("--save", line.save), ("--save-interval", line.save_interval), ("--async-save", line.async_save))
        yield from (f"--rotate-ckpt needs {name}" for name, value in needs if not value)


@rule("checkpoint.param-lists", "5")
def param_lists(line: Line) -> Iterator[str]:
    if line.only_train_params_name_list and line.freeze_params_name_list:
        yield "--only-train-params-name-list and --freeze-params-name-list exclude each other"


@rule("checkpoint.save-hf", "5")
def save_hf(line: Line) -> Iterator[str]:
    if line.newer and not line.save_hf and (line.save_hf_dtype == "fp8" or line.save_hf_post_hook_path):
        yield "--save-hf-dtype fp8 and --save-hf-post-hook-path need --save-hf"


@rule("checkpoint.save-lora", "5")
def save_lora(line: Line) -> Iterator[str]:
    if line.save_lora_only and not (line.lora_rank and line.save and line.ckpt_format == "torch_dist"):
        yield "--save-lora-only needs --lora-rank, --save and the torch_dist format"


@rule("optimizer.cpu-offload", "5")
def cpu_offload(line: Line) -> Iterator[str]:
    if line.optimizer_cpu_offload and not line.use_precision_aware_optimizer:
        yield "--optimizer-cpu-offload needs --use-precision-aware-optimizer"


@rule("optimizer.loss-scale", "5")
def loss_scale(line: Line) -> Iterator[str]:
    if line.fp16 and line.given("min_loss_scale", "initial_loss_scale"):
        low, start = line.min_loss_scale or 1, line.initial_loss_scale or 32768
        if low > start:
            yield f"--min-loss-scale {low} is above --initial-loss-scale {start}"


@rule("kl.exclusive", "6")
def kl_exclusive(line: Line) -> Iterator[str]:
    if line.kl_coef != 0 and line.kl_loss_coef != 0:
        yield "--kl-coef and --kl-loss-coef exclude each other, with or without --use-kl-loss"


@rule("kl.loss-off", "6", "warning")
def kl_loss_off(line: Line) -> Iterator[str]:
    if line.kl_loss_coef != 0 and not line.use_kl_loss:
        yield "--kl-loss-coef acts only with --use-kl-loss"


@rule("kl.ppo-off", "6", "warning")
def kl_ppo(line: Line) -> Iterator[str]:
    kl = line.use_kl_loss or line.kl_coef != 0
    if line.newer and line.advantage_estimator == "ppo" and kl and not line.pipelined:
        yield "synchronous ppo turns --use-kl-loss and --kl-coef off"


@rule("ppo.version", "6")
def ppo_version(line: Line) -> Iterator[str]:
    if line.advantage_estimator == "ppo" and not line.newer:
        yield "this Relax version accepts ppo on the command line and then refuses it"


@rule("ppo.placement", "6")
def ppo_placement(line: Line) -> Iterator[str]:
    if line.advantage_estimator != "ppo" or not line.newer:
        return
    if "critic" not in line.roles:
        yield "ppo needs a critic entry in --resource"
    if line.pipelined:
        yield "ppo excludes --fully-async and --hybrid"
    if line.colocate and line.max_staleness != 0:
        yield "ppo under --colocate needs --max-staleness 0"


@rule("reinforce.placement", "6")
def reinforce_placement(line: Line) -> Iterator[str]:
    name = line.advantage_estimator
    if name not in ("reinforce_plus_plus", "reinforce_plus_plus_baseline"):
        return
    if not line.normalize_advantages:
        yield f"{name} needs --normalize-advantages"
    if not line.newer:
        return
    if line.pipelined or not line.colocate:
        yield f"{name} needs --colocate, without --fully-async or --hybrid"
    if line.context_parallel_size > 1:
        yield f"{name} needs --context-parallel-size 1"
    if line.calculate_per_token_loss:
        yield f"{name} excludes --calculate-per-token-loss"


@rule("reinforce.kl", "6")
def reinforce_kl(line: Line) -> Iterator[str]:
    if line.advantage_estimator != "reinforce_plus_plus" or not line.newer:
        return
    if not line.kl_coef > 0:
        yield "reinforce_plus_plus needs --kl-coef above 0"
    if line.kl_loss_type != "k1":
        yield f"reinforce_plus_plus needs --kl-loss-type k1, not {line.kl_loss_type}"
    if line.use_kl_loss or line.kl_loss_coef != 0:
        yield "reinforce_plus_plus excludes --use-kl-loss and --kl-loss-coef"


@rule("reinforce-baseline.kl", "6")
def reinforce_baseline_kl(line: Line) -> Iterator[str]:
    if line.advantage_estimator != "reinforce_plus_plus_baseline" or not line.newer:
        return
    if line.kl_coef != 0 or not line.use_kl_loss or not line.kl_loss_coef > 0:
        yield "reinforce_plus_plus_baseline needs --use-kl-loss with --kl-loss-coef above 0 and --kl-coef 0"
    if line.kl_loss_type != "k2":
        yield f"reinforce_plus_plus_baseline needs --kl-loss-type k2, not {line.kl_loss_type}"
    if line.use_unbiased_kl:
        yield "reinforce_plus_plus_baseline excludes --use-unbiased-kl"


@rule("reinforce-baseline.group", "6")
def reinforce_baseline_group(line: Line) -> Iterator[str]:
    if line.advantage_estimator != "reinforce_plus_plus_baseline" or not line.newer:
        return
    if line.n_samples_per_prompt < 2:
        yield "reinforce_plus_plus_baseline needs --n-samples-per-prompt above 1"
    if line.custom_reward_post_process_path or line.agentic_custom_advantage_path:
        yield "reinforce_plus_plus_baseline excludes custom reward post-processing"
    if not line.rewards_normalization:
        yield "reinforce_plus_plus_baseline excludes --disable-rewards-normalization"


@rule("rloo.colocate", "6")
def rloo_mode(line: Line) -> Iterator[str]:
    if line.advantage_estimator == "rloo" and (line.pipelined or line.max_staleness != 0 or line.partial_rollout):
        yield "rloo excludes --fully-async, --hybrid and --partial-rollout and needs --max-staleness 0"


@rule("rloo.settings", "6")
def rloo_settings(line: Line) -> Iterator[str]:
    if line.advantage_estimator != "rloo":
        return
    if line.kl_coef != 0:
        yield "rloo needs --kl-coef 0"
    if not line.calculate_per_token_loss:
        yield "rloo needs --calculate-per-token-loss"
    if not line.rewards_normalization or line.normalize_advantages:
        yield "rloo needs rewards normalisation on and --normalize-advantages off"


@rule("rloo.batch", "6")
def rloo_batch(line: Line) -> Iterator[str]:
    if line.advantage_estimator != "rloo":
        return
    if line.n_samples_per_prompt < 2:
        yield "rloo needs --n-samples-per-prompt of at least 2"
    if line.use_dynamic_global_batch_size or line.num_steps_per_rollout not in (None, 1):
        yield "rloo needs one update a rollout (no dynamic global batch size, --num-steps-per-rollout 1)"
    if line.samples_per_rollout != line.samples_per_update:
        yield (
            f"rloo needs rollout_batch_size x n_samples_per_prompt ({line.samples_per_rollout}) equal to "
            f"global_batch_size ({line.samples_per_update})"
        )


@rule("m2po.context", "6")
def m2po_context(line: Line) -> Iterator[str]:
    split = line.context_parallel_size > 1 or line.dynamic_context_parallel
    if line.is_latest and line.advantage_estimator == "m2po" and split:
        yield "m2po needs --context-parallel-size 1"


@rule("clip.dual", "6")
def clip_dual(line: Line) -> Iterator[str]:
    if line.eps_clip_c is not None and not line.eps_clip_c > 1:
        yield f"--eps-clip-c must be above 1, not {line.eps_clip_c}"


@rule("clip.dual-unread", "6", "warning")
def clip_dual_unread(line: Line) -> Iterator[str]:
    if line.eps_clip_c is not None:
        yield "--eps-clip-c is parsed, yet the policy loss does not pass it on (studio 0405262)"


@rule("algo.gamma-unread", "6", "warning")
def gamma_unread(line: Line) -> Iterator[str]:
    name = line.advantage_estimator
    if line.gamma != 1.0 and name not in _READS_GAMMA:
        yield f"--gamma {line.gamma} is not read by {name}"
    if line.lambd != 1.0 and name != "ppo":
        yield f"--lambd {line.lambd} is not read by {name}"


@rule("tis.exclusive", "6")
def tis_exclusive(line: Line) -> Iterator[str]:
    if line.use_tis and line.use_rollout_logprobs:
        yield "--use-tis and --use-rollout-logprobs exclude each other"


@rule("tis.metrics", "6")
def tis_metrics(line: Line) -> Iterator[str]:
    if line.get_mismatch_metrics and not line.custom_tis_function_path:
        yield "--get-mismatch-metrics needs --custom-tis-function-path"


@rule("loss.custom", "6")
def loss_custom(line: Line) -> Iterator[str]:
    if line.loss_type == "custom_loss" and not line.custom_loss_function_path:
        yield "--loss-type custom_loss needs --custom-loss-function-path"


@rule("loss.custom-unused", "6", "warning")
def loss_custom_unused(line: Line) -> Iterator[str]:
    if line.custom_loss_function_path and line.loss_type != "custom_loss":
        yield "--custom-loss-function-path acts only with --loss-type custom_loss"


@rule("rollout.partial-routing", "6")
def partial_routing(line: Line) -> Iterator[str]:
    if line.partial_rollout and line.use_rollout_routing_replay:
        yield "--partial-rollout and --use-rollout-routing-replay exclude each other"


@rule("mtp.layers", "6")
def mtp_layers(line: Line) -> Iterator[str]:
    if line.enable_mtp_training and not line.mtp_num_layers:
        yield "--enable-mtp-training needs --mtp-num-layers"


@rule("mtp.only", "6")
def mtp_only(line: Line) -> Iterator[str]:
    if line.mtp_only_training and line.loss_type not in ("sft", "sft_loss", "sft-loss"):
        yield "--mtp-only-training needs --loss-type sft"


@rule("mtp.paths", "6")
def mtp_paths(line: Line) -> Iterator[str]:
    paths = line.mtp_detach_paths or []
    if line.newer and "none" in paths and len(paths) > 1:
        yield "--mtp-detach-paths none stands alone"


@rule("lora.mode", "6")
def lora_mode(line: Line) -> Iterator[str]:
    if not line.lora_rank:
        return
    if line.lora_merge_mode and line.lora_adapter_mode:
        yield "--lora-merge-mode and --lora-adapter-mode exclude each other"
    if line.lora_adapter_mode and (line.sglang_dp_size or 1) > 1:
        yield "--lora-adapter-mode needs --sglang-dp-size 1"
    if "router" in (line.lora_target_modules or []) and not line.lora_adapter_mode:
        yield "the LoRA target router needs --lora-adapter-mode"
