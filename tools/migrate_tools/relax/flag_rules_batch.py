"""Rules on batch sizes, lengths, schedule and parallel sizes (flag rules, sections 4, 5 and 12).

`global_batch_size` counts samples, `rollout_batch_size` counts prompts.
Source: redai-studio/Relax relax/utils/arguments.py 6c0099bb; NVIDIA/Megatron-LM 85bced0a.
"""

from __future__ import annotations

from collections.abc import Iterator

from migrate_tools.relax.flag_rules_base import Line, rule


@rule("batch.size-missing", "4")
def size_missing(line: Line) -> Iterator[str]:
    if not line.rollout_batch_size and not line.global_batch_size:
        yield "neither --rollout-batch-size nor --global-batch-size is given"


@rule("batch.samples-positive", "4")
def samples_positive(line: Line) -> Iterator[str]:
    if line.n_samples_per_prompt <= 0:
        yield f"--n-samples-per-prompt must be positive, not {line.n_samples_per_prompt}"


@rule("batch.steps-per-rollout", "4")
def steps_per_rollout(line: Line) -> Iterator[str]:
    steps, samples = line.num_steps_per_rollout, line.samples_per_rollout
    if not steps or not samples:
        return
    derived = samples // steps
    if line.global_batch_size and line.global_batch_size != derived:
        yield (
            f"--num-steps-per-rollout {steps} makes the global batch {derived} samples, "
            f"--global-batch-size says {line.global_batch_size}"
        )


@rule("batch.global-divides", "4")
def global_divides(line: Line) -> Iterator[str]:
    samples, update = line.samples_per_rollout, line.samples_per_update
    if samples and update and not line.offline and not line.use_dynamic_global_batch_size and samples % update:
        yield (
            f"rollout_batch_size x n_samples_per_prompt = {samples} samples is not a multiple of "
            f"global_batch_size {update}"
        )


@rule("batch.over-sampling", "4")
def over_sampling(line: Line) -> Iterator[str]:
    size, rollout = line.over_sampling_batch_size, line.rollout_batch_size
    if size and rollout and size < rollout:
        yield f"--over-sampling-batch-size {size} is below --rollout-batch-size {rollout}"


@rule("batch.over-sampling-waste", "4", "warning")
def over_sampling_waste(line: Line) -> Iterator[str]:
    size, rollout = line.over_sampling_batch_size, line.rollout_batch_size
    if size and rollout and size > rollout and not line.pipelined and not line.partial_rollout:
        yield "--over-sampling-batch-size above the rollout batch: the surplus samples are thrown away"


@rule("batch.single-sample", "4", "warning")
def single_sample(line: Line) -> Iterator[str]:
    grouped = line.advantage_estimator in ("grpo", "gspo", "sapo", "cispo", "m2po") and not line.offline
    if line.n_samples_per_prompt == 1 and grouped:
        yield (
            f"--n-samples-per-prompt 1 with {line.advantage_estimator}: a group of one has zero advantage, "
            "and the division by its deviation is turned off"
        )


@rule("batch.dynamic-tokens", "4")
def dynamic_tokens(line: Line) -> Iterator[str]:
    if line.use_dynamic_batch_size and not line.max_tokens_per_gpu:
        yield "--use-dynamic-batch-size needs --max-tokens-per-gpu"


@rule("batch.dynamic-context", "4")
def dynamic_context(line: Line) -> Iterator[str]:
    tokens, context = line.max_tokens_per_gpu, line.rollout_max_context_len
    if not line.use_dynamic_batch_size or not tokens or not context or line.dynamic_context_parallel:
        return
    held = tokens * line.context_parallel_size
    if held < context:
        yield f"max_tokens_per_gpu x context_parallel_size = {held} is below --rollout-max-context-len {context}"


@rule("batch.bshd", "4")
def bshd(line: Line) -> Iterator[str]:
    if line.qkv_format != "bshd":
        return
    if line.use_dynamic_batch_size:
        yield "--qkv-format bshd excludes --use-dynamic-batch-size"
    if line.train_backend != "megatron":
        yield "--qkv-format bshd needs the megatron backend"


@rule("length.prompt-context", "4")
def prompt_context(line: Line) -> Iterator[str]:
    prompt, context = line.rollout_max_prompt_len, line.rollout_max_context_len
    if prompt and context and prompt > context - 1:
        yield f"--rollout-max-prompt-len {prompt} must be at most --rollout-max-context-len {context} minus 1"


@rule("schedule.end", "4")
def schedule_end(line: Line) -> Iterator[str]:
    if line.num_rollout is None and line.num_epoch is None:
        yield "one of --num-rollout and --num-epoch is needed"


@rule("schedule.epoch-dataset", "4")
def schedule_dataset(line: Line) -> Iterator[str]:
    if line.num_epoch is not None and not line.rollout_global_dataset and not line.offline:
        yield "--num-epoch needs the global dataset (no --disable-rollout-global-dataset)"


@rule("schedule.both", "4", "warning")
def schedule_both(line: Line) -> Iterator[str]:
    if line.num_rollout is not None and line.num_epoch is not None:
        yield "--num-rollout and --num-epoch together: the controller reads --num-epoch only without --num-rollout"


@rule("parallel.context-loss", "5")
def context_loss(line: Line) -> Iterator[str]:
    if (line.context_parallel_size > 1 or line.dynamic_context_parallel) and not line.calculate_per_token_loss:
        yield "--context-parallel-size above 1 needs --calculate-per-token-loss"


@rule("parallel.pipeline-ends", "5")
def pipeline_ends(line: Line) -> Iterator[str]:
    if line.pipeline_model_parallel_size == 1 and (
        line.decoder_first_pipeline_num_layers is not None or line.decoder_last_pipeline_num_layers is not None
    ):
        yield "--decoder-first/last-pipeline-num-layers need a pipeline size above 1"


@rule("parallel.dynamic-context", "5")
def dynamic_context_parallel(line: Line) -> Iterator[str]:
    if not line.dynamic_context_parallel:
        return
    if not (line.use_dynamic_batch_size and line.rollout_max_context_len and line.max_tokens_per_gpu):
        yield (
            "--dynamic-context-parallel needs --use-dynamic-batch-size, --rollout-max-context-len "
            "and --max-tokens-per-gpu"
        )


@rule("parallel.world-divides", "5")
def world_divides(line: Line) -> Iterator[str]:
    world = line.roles.get("actor", 0)
    model = line.tensor_model_parallel_size * line.pipeline_model_parallel_size * line.context_parallel_size
    if world and model and world % model:
        yield f"the actor's {world} GPUs are not a multiple of tensor x pipeline x context = {model}"


@rule("parallel.prompts-divide", "4")
def prompts_divide(line: Line) -> Iterator[str]:
    """redai-studio/Relax relax/backends/megatron/data.py 0011f56b, build_rollout_minibatch_plan."""
    copies, update, samples = _copies(line), line.samples_per_update, line.samples_per_rollout
    if not (line.newer and copies and update and samples) or line.offline or line.use_dynamic_global_batch_size:
        return
    updates = line.num_steps_per_rollout or samples // update
    if updates and line.rollout_batch_size and line.rollout_batch_size % (updates * copies):
        yield (
            f"{line.rollout_batch_size} prompts in {updates} update(s) do not divide among {copies} copies of the "
            "model (actor GPUs / tensor x pipeline x context)"
        )


def _copies(line: Line) -> int:
    world = line.roles.get("actor", 0)
    model = line.tensor_model_parallel_size * line.pipeline_model_parallel_size * line.context_parallel_size
    return int(world // model) if world and model and not world % model else 0


@rule("parallel.heads-divide", "5")
def heads_divide(line: Line) -> Iterator[str]:
    """Megatron-LM megatron/core/transformer/transformer_config.py; only where the line carries the numbers."""
    size, heads = line.tensor_model_parallel_size, line.num_attention_heads
    if heads and heads % size:
        yield f"--tensor-model-parallel-size {size} does not divide --num-attention-heads {heads}"
    groups = line.num_query_groups if line.group_query_attention else None
    if groups and groups % size:
        yield f"--tensor-model-parallel-size {size} does not divide --num-query-groups {groups}"


@rule("parallel.layers-divide", "5")
def layers_divide(line: Line) -> Iterator[str]:
    stages, layers = line.pipeline_model_parallel_size, line.num_layers
    if not layers or stages == 1 or line.pipeline_model_parallel_layout:
        return
    ends = [n for n in (line.decoder_first_pipeline_num_layers, line.decoder_last_pipeline_num_layers) if n is not None]
    extra = bool(line.account_for_embedding_in_pipeline_split) + bool(line.account_for_loss_in_pipeline_split)
    rest, inner = layers + extra - sum(ends), stages - len(ends)
    if rest % inner if inner > 0 else rest:
        yield f"{layers} layers do not divide among --pipeline-model-parallel-size {stages}"


@rule("parallel.experts-divide", "5")
def experts_divide(line: Line) -> Iterator[str]:
    size, world = line.expert_model_parallel_size, line.roles.get("actor", 0)
    if size == 1:
        return
    if line.num_experts and line.num_experts % size:
        yield f"--expert-model-parallel-size {size} does not divide --num-experts {line.num_experts}"
    grid = size * (line.expert_tensor_parallel_size or line.tensor_model_parallel_size)
    grid *= line.pipeline_model_parallel_size
    if world and world % grid:
        yield f"the actor's {world} GPUs are not a multiple of expert x expert tensor x pipeline = {grid}"


@rule("parallel.sequence-alone", "5", "warning")
def sequence_alone(line: Line) -> Iterator[str]:
    if line.sequence_parallel and line.tensor_model_parallel_size == 1:
        yield "--sequence-parallel is turned off at tensor size 1"


@rule("engine.gpus-divide", "12")
def engine_gpus(line: Line) -> Iterator[str]:
    gpus, per_engine = line.roles.get("rollout", 0), line.rollout_num_gpus_per_engine
    if gpus and per_engine and gpus % per_engine:
        yield f"the rollout role's {gpus} GPUs are not a multiple of --rollout-num-gpus-per-engine {per_engine}"


@rule("engine.pipeline-divides", "12")
def engine_pipeline(line: Line) -> Iterator[str]:
    size = line.sglang_pp_size or line.sglang_pipeline_parallel_size or 1
    if line.rollout_num_gpus_per_engine % size:
        yield f"--rollout-num-gpus-per-engine {line.rollout_num_gpus_per_engine} is not a multiple of {size} stages"


@rule("engine.dp-attention", "12")
def engine_dp(line: Line) -> Iterator[str]:
    size = line.sglang_dp_size or line.sglang_data_parallel_size or 1
    if size > 1 and not line.sglang_enable_dp_attention:
        yield "--sglang-dp-size above 1 needs --sglang-enable-dp-attention"


@rule("engine.external", "12")
def engine_external(line: Line) -> Iterator[str]:
    chosen = [
        name
        for name, value in (
            ("--prefill-num-servers", line.prefill_num_servers),
            ("--sglang-config", line.sglang_config),
            ("--rollout-external", line.rollout_external),
        )
        if value
    ]
    if len(chosen) > 1:
        yield f"{' and '.join(chosen)} exclude each other"
