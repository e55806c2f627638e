"""Rules on rewards, evaluation and offline training (flag rules, sections 7 to 9).

Source: redai-studio/Relax relax/utils/arguments.py 6c0099bb and the two older versions named in flags.json.
"""

from __future__ import annotations

from collections.abc import Iterator

from migrate_tools.relax.flag_rules_base import Line, rule

RM_TYPES = frozenset(
    {
        "remote_rm",
        "dapo-genrm",
        "dummy",
        "deepscaler",
        "geo3k",
        "openr1mm",
        "multiple_choice",
        "dapo",
        "math",
        "mopd",
        "f1",
        "gpqa",
        "ifbench",
        "random",
    }
)
"""Names of the built-in reward registry."""


@rule("reward.none", "7", "warning")
def reward_none(line: Line) -> Iterator[str]:
    sources = (line.custom_rm_path, line.rm_type, line.rm_type_fallback, line.rm_type_infer)
    if not any(sources) and not (line.use_agentic_rollout or line.offline):
        yield "no --custom-rm-path and no --rm-type: every row must name its rm_type in its metadata"


@rule("reward.type", "7")
def reward_type(line: Line) -> Iterator[str]:
    name = line.rm_type
    if name and not line.custom_rm_path and name.removeprefix("boxed_") not in RM_TYPES:
        yield f"--rm-type {name} is no built-in reward; Relax notices only when the first sample is scored"


@rule("reward.type-bypassed", "7", "warning")
def reward_bypassed(line: Line) -> Iterator[str]:
    if line.rm_type and line.custom_rm_path:
        yield "--custom-rm-path wins: --rm-type has no effect"


@rule("reward.fallback", "7")
def reward_fallback(line: Line) -> Iterator[str]:
    known = RM_TYPES | {"zero"} | (set() if line.newer else {"error"})
    if line.rm_type_fallback and line.rm_type_fallback not in known:
        yield f"--rm-type-fallback {line.rm_type_fallback} is neither zero nor a built-in reward"


@rule("reward.key", "7")
def reward_key(line: Line) -> Iterator[str]:
    if line.rm_type == "dapo" and not line.custom_rm_path and not line.reward_key:
        yield "--rm-type dapo returns a dict and needs --reward-key score"


@rule("reward.url", "7")
def reward_url(line: Line) -> Iterator[str]:
    if line.rm_type == "remote_rm" and not line.custom_rm_path and not line.rm_url:
        yield "--rm-type remote_rm needs --rm-url"


@rule("reward.dotted-path", "1 of the recipe contract")
def dotted_path(line: Line) -> Iterator[str]:
    for dest, value in line.parsed.values.items():
        hook = dest.startswith("custom_") and dest.endswith("_path") and dest != "custom_config_path"
        hook = (hook or dest == "dynamic_sampling_filter_path") and line.given(dest) and isinstance(value, str)
        if hook and ("/" in value or ":" in value or "." not in value):
            yield f"--{dest.replace('_', '-')} {value} is not a dotted path package.module.function"


@rule("reward.genrm-placement", "7")
def genrm(line: Line) -> Iterator[str]:
    on = line.genrm_model_path is not None or (line.is_latest and line.genrm_instances)
    if not on:
        return
    roles = line.roles
    if line.is_latest and "genrm" not in roles:
        yield "a generative reward model needs a genrm entry in --resource"
    if not line.colocate or not {"actor", "rollout", "genrm"} <= roles.keys():
        return
    together, actor = roles["rollout"] + roles["genrm"], roles["actor"]
    split = together <= actor if line.is_latest else together == actor
    if not split and not roles["rollout"] == roles["genrm"] == actor:
        yield f"under --colocate rollout + genrm GPUs ({together}) must fit the actor's ({actor}), or all be equal"


@rule("eval.datasets", "8")
def eval_datasets(line: Line) -> Iterator[str]:
    if line.eval_interval is not None and not (line.eval_config or line.eval_prompt_data) and not line.offline:
        yield "--eval-interval needs --eval-prompt-data or --eval-config"


@rule("eval.pairs", "8")
def eval_pairs(line: Line) -> Iterator[str]:
    words = line.eval_prompt_data or []
    if len(words) > 1 and len(words) % 2:
        yield f"--eval-prompt-data takes name path pairs, got {len(words)} words"


@rule("eval.unused", "8", "warning")
def eval_unused(line: Line) -> Iterator[str]:
    if line.eval_interval is None and (line.eval_config or line.eval_prompt_data) and not line.offline:
        yield "evaluation data is given, but without --eval-interval nothing is evaluated"


@rule("eval.config-wins", "8", "warning")
def eval_config_wins(line: Line) -> Iterator[str]:
    if line.eval_config and line.eval_prompt_data:
        yield "--eval-config wins: --eval-prompt-data has no effect"


@rule("data.prompts", "6 of the recipe contract")
def prompts(line: Line) -> Iterator[str]:
    needed = line.rollout_global_dataset and not (line.load_debug_rollout_data or line.debug_train_only)
    if needed and not line.prompt_data and not line.custom_dataset_class_path:
        yield "--prompt-data is missing"


@rule("data.tokens-and-template", "5 of the recipe contract", "warning")
def system_prompt(line: Line) -> Iterator[str]:
    if line.system_prompt and not line.multimodal_keys:
        yield "--system-prompt builds list content, which text-only chat templates cannot render"


@rule("offline.needs", "9")
def offline_needs(line: Line) -> Iterator[str]:
    if not line.offline:
        return
    if not line.use_dynamic_batch_size:
        yield "offline training needs --use-dynamic-batch-size"
    if line.eval_config:
        yield "--eval-config is refused in offline training"
    one_source = bool(line.eval_prompt_data) != bool(line.eval_size) or line.custom_dataset_class_path
    if line.eval_interval is not None and not one_source:
        yield "--eval-interval in offline training needs exactly one of --eval-prompt-data and --eval-size"


@rule("offline.eval-size", "9")
def eval_size(line: Line) -> Iterator[str]:
    if line.eval_size is not None and (not line.offline or not line.eval_size > 0):
        yield "--eval-size is for offline training only and must be above 0"


@rule("agentic.needs", "10")
def agentic(line: Line) -> Iterator[str]:
    if not line.use_agentic_rollout:
        return
    if not line.agent_command or not line.agent_cwd:
        yield "--use-agentic-rollout needs --agent-command and --agent-cwd"
    if line.agent_timeout is not None and not line.agent_timeout > 0:
        yield "--agent-timeout must be above 0"
    for entry in line.agent_env or []:
        if "=" not in entry or entry.startswith("RELAX_"):
            yield f"--agent-env {entry.partition('=')[0]} must be KEY=VALUE with a key that does not start with RELAX_"


@rule("opd.needs", "11")
def distillation(line: Line) -> Iterator[str]:
    if not line.use_opd or line.offline:
        return
    if not line.opd_type:
        yield "--use-opd needs --opd-type"
    if bool(line.opd_kl_coef) == bool(line.opd_loss_coef):
        yield "exactly one of --opd-kl-coef and --opd-loss-coef must be non-zero"
    if line.opd_type == "megatron" and not line.opd_teacher_load:
        yield "--opd-type megatron needs --opd-teacher-load"
    if line.opd_type == "sglang":
        if line.opd_teacher_load:
            yield "--opd-type sglang excludes --opd-teacher-load"
        if not (line.opd_teacher_url or line.teacher_hf_checkpoint or line.opd_teacher_routes):
            yield "--opd-type sglang needs --opd-teacher-url, --teacher-hf-checkpoint or --opd-teacher-routes"
