"""Writes run_<algo>.sh in the guide's form: both modes, arrays by concern, further flags passed through."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from migrate_tools.model import DataFile, Flag, Launch, Mode, Translation
from migrate_tools.relax.formatting import format_shell, render_template
from migrate_tools.relax.shell_names import safe_name
from migrate_tools.verl.prompt_form import draws_samples

ARRAYS: Final = (
    ("CKPT", "CKPT_ARGS"), ("ROLLOUT", "ROLLOUT_ARGS"), ("PERF", "PERF_ARGS"), ("ALGO", "ALGO_ARGS"),
    ("OPTIMIZER", "OPTIMIZER_ARGS"), ("SGLANG", "SGLANG_ARGS"), ("LOG", "LOG_ARGS"), ("MISC", "MISC_ARGS"),
    ("EVAL", "EVAL_ARGS"),
)  # fmt: skip
"""Flag group -> array, in the order of the guide; ALGO is GRPO_ARGS for grpo."""
FOLDERS: Final = {
    "MODEL_DIR": "the folder that holds the model checkpoints",
    "DATA_DIR": "the folder that holds the converted data",
    "SAVE_DIR": "the folder for checkpoints of this run",
}
ALWAYS: Final = ("MODEL_DIR", "DATA_DIR")
NO_MODEL: Final = "${MODEL_CONFIG:?set MODEL_CONFIG to the scripts/models/<name>.sh that fits the model}"
SKIP_SPECIAL: Final = "--rollout-skip-special-tokens"


class ScriptFacts(NamedTuple):
    """What a script needs besides its translation."""

    launch: Launch
    algo: str
    reward_module: str
    """Module of the reward without package; empty when there is none."""
    config_name: str
    """File name of the YAML configuration; empty when there is none."""
    origin: str
    mode_default: Mode = "sync"
    """Mode when none is given; a launch that cannot run async keeps sync."""


def script_name(translation: Translation) -> str:
    """run_<algo>.sh, or run_<algo>_<variant>.sh."""
    variant = re.sub(r"[^A-Za-z0-9._-]+", "_", translation.variant).strip("._")
    return f"run_{translation.algo}_{variant}.sh" if variant else f"run_{translation.algo}.sh"


def render_script(translation: Translation, facts: ScriptFacts) -> str:
    """The text of a run script.

    Raises:
        ValueError: a flag's value is not shell text.
    """
    flags = script_flags(translation, facts)
    groups: dict[str, list[Flag]] = {}
    for flag in flags:
        groups.setdefault(flag.group, []).append(flag)
    arrays = [
        {
            "name": _array_name(name, flags),
            "lines": [line for flag in groups[group] for line in _lines(flag, translation)],
        }
        for group, name in ARRAYS
        if groups.get(group)
    ]
    launch = facts.launch
    values: dict[str, Any] = {
        "title": f"{facts.algo}: {_estimator(flags)} on {translation.model_dir_name or 'the model'}, moved from verl.",
        "origin": facts.origin,
        "algo": facts.algo,
        "script": script_name(translation),
        "data_steps": data_steps(facts.algo, launch),
        "folders": " ".join(f"{name}=..." for name in _required(flags)),
        "model_hint": f"the model is expected in ${{MODEL_DIR}}/{translation.model_dir_name or '<model>'}",
        "remarks": _remarks(translation),
        "async_refusal": _refusal(translation),
        "mode_default": "sync" if translation.async_refusal else facts.mode_default,
        "required": [(name, FOLDERS[name]) for name in _required(flags)],
        "model_source": _model_source(translation),
        "model_args": translation.model_args,
        "project": safe_name(_written(launch, "trainer.project_name"), f"Relax/dev/{facts.algo}"),
        "experiment": _experiment(translation, launch),
        "arrays": arrays,
        "uses": _uses([str(array["name"]) for array in arrays]),
        "sync_flags": _mode_lines(groups.get("SYNC", ())),
        "async_flags": _mode_lines(groups.get("ASYNC", ())),
        "async_split": _split(translation),
    }
    return format_shell(render_template("run.sh.j2", **values))


def script_flags(translation: Translation, facts: ScriptFacts) -> tuple[Flag, ...]:
    """The flags as the script has them: the hook of this launch's reward, and the configuration file."""
    kept: list[Flag] = []
    for flag in translation.flags:
        if flag.name == "--custom-rm-path":
            if not facts.reward_module:
                continue
            hook = f"examples.{facts.algo}.{facts.reward_module}.reward_func"
            flag = flag.model_copy(update={"value": hook})
        if flag.name == SKIP_SPECIAL and not facts.launch.reward.skip_special_tokens:
            continue
        if flag.name != "--custom-config-path":
            kept.append(flag)
    if facts.config_name:
        path = f'"${{SCRIPT_DIR}}/{facts.config_name}"'
        kept.append(Flag(name="--custom-config-path", value=path, group="ROLLOUT", comment="arguments of the scorer"))
    return tuple(kept)


def data_steps(algo: str, launch: Launch) -> list[str]:
    """The command that converts the recipe's own files, a line each."""
    lines = [f"1. Convert the data:  python3 scripts/tools/process_{algo}.py \\"]
    for option, files in (("--train", launch.data.train), ("--val", launch.data.val)):
        if files:
            lines.append(f"        {option} {' '.join(_path_text(item) for item in files)} \\")
    if len(lines) == 1:
        lines.append("        --train /path/to/verl/train.parquet --val /path/to/verl/test.parquet \\")
    lines += [f"        {text} \\" for text in _limits(launch)]
    return [*lines, f'        --output-dir "${{DATA_DIR}}/{algo}"']


def _limits(launch: Launch) -> list[str]:
    """Options of the conversion for data.train_max_samples and data.val_max_samples."""
    found = [f"--{split}-max-samples {int(rows)}" for split in ("train", "val")
             if isinstance(rows := launch.get(f"data.{split}_max_samples"), int | float) and rows > 0]  # fmt: skip
    if found and launch.get("data.shuffle", True) and draws_samples(launch.verl.root):
        seed = launch.get("data.seed")
        found.append("--draw-samples" + (f" --sample-seed {seed}" if isinstance(seed, int) else ""))
    return found


def _path_text(item: DataFile) -> str:
    text = item.text.replace("\n", " ")
    if re.fullmatch(r"[\w./@%+=:,-]+", text):
        return text
    escaped = re.sub(r'(["`\\])', r"\\\1", text)
    return f'"{escaped}"'


def _lines(flag: Flag, translation: Translation) -> Iterable[str]:
    if flag.name == "--global-batch-size" and translation.batch is not None:
        batch = translation.batch
        yield (
            f"# {batch.rollout_batch_size} prompts x {batch.n_samples_per_prompt} samples = "
            f"{batch.rollout_batch_size * batch.n_samples_per_prompt} samples a rollout, "
            f"{batch.updates_per_rollout} update(s) of {batch.global_batch_size} samples"
        )
    comment = f" # {flag.comment}" if flag.comment else ""
    yield f"{_flag_text(flag)}{comment}"


def _flag_text(flag: Flag) -> str:
    return flag.name if flag.value is None else f"{flag.name} {flag.value}"


def _mode_lines(flags: Sequence[Flag]) -> list[str]:
    return [_flag_text(flag) for flag in flags]


def _array_name(name: str, flags: Sequence[Flag]) -> str:
    return "GRPO_ARGS" if name == "ALGO_ARGS" and _estimator(flags) == "grpo" else name


def _uses(names: Sequence[str]) -> list[str]:
    """The arrays as the command uses them, three a line."""
    words = [f'"${{{name}[@]}}"' for name in ("MODEL_ARGS", *names)]
    return [" ".join(words[start : start + 3]) for start in range(0, len(words), 3)]


def _estimator(flags: Sequence[Flag]) -> str:
    return next((flag.value or "" for flag in flags if flag.name == "--advantage-estimator"), "grpo")


def _required(flags: Sequence[Flag]) -> list[str]:
    text = " ".join(flag.value or "" for flag in flags)
    return [name for name in FOLDERS if name in ALWAYS or f"${{{name}}}" in text or f"${name}" in text]


def _model_source(translation: Translation) -> str:
    script = translation.model_script
    if script.startswith("${"):
        return script
    if script:
        return f"${{MODEL_CONFIG_DIR}}/{script.removesuffix('.sh')}.sh"
    return "" if translation.model_args else NO_MODEL


def _refusal(translation: Translation) -> str:
    if not translation.async_refusal:
        return ""
    return shlex.quote(f"async is not possible here: {' '.join(translation.async_refusal.split())}. Use sync.")


def _remarks(translation: Translation) -> list[str]:
    """Lines of the header on what only async or sync can do."""
    if translation.async_refusal:
        return ["", f"async is refused: {' '.join(translation.async_refusal.split())}"]
    return []


def _written(launch: Launch, key: str) -> str:
    """A value as the recipe writes it, its variables kept; else verl's default, in which nothing is a variable."""
    found = next((item for item in launch.settings if item.key == key and item.origin == "command_line"), None)
    if found is not None:
        return found.text.strip().strip("\"'")
    return re.sub(r"[$`]", r"\\\g<0>", str(launch.get(key) or ""))


def _experiment(translation: Translation, launch: Launch) -> str:
    default = "-".join(part for part in (translation.model_dir_name, translation.algo, translation.variant) if part)
    return safe_name(_written(launch, "trainer.experiment_name"), default, separator="-")


def _split(translation: Translation) -> str:
    plan = translation.gpus
    if plan is None or not plan.async_split:
        return ""
    return " (" + ", ".join(f"{role} {count}" for role, count in plan.async_split.items()) + ")"
