"""The stand-in for relax/entrypoints/train.py: one rehearsed rollout, no training, a JSON report.

It parses the flags strictly, loads the rows as Relax does, rolls prompts out against a scripted engine, calls the
named hooks the way Relax calls them, and asserts what Relax would trip over later.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from migrate_tools.rehearsal.runtime import convert
from migrate_tools.rehearsal.runtime.agentic import agents
from migrate_tools.rehearsal.runtime.bpe import template_notes
from migrate_tools.rehearsal.runtime.dataset import DataError, Dataset
from migrate_tools.rehearsal.runtime.debug_data import write_debug_data
from migrate_tools.rehearsal.runtime.drills import Drills
from migrate_tools.rehearsal.runtime.engine import Engine, Script
from migrate_tools.rehearsal.runtime.generate import OWN, GenerateState, SingletonMeta, sampling_params
from migrate_tools.rehearsal.runtime.hooks import LAG_LIMIT, Loop, RewardHook, describe, load_function
from migrate_tools.rehearsal.runtime.rollout import Rollout, take_prompts
from migrate_tools.rehearsal.runtime.sample import Sample, SampleStatus
from migrate_tools.rehearsal.runtime.taped import install_tape
from migrate_tools.rehearsal.runtime.training_hooks import check_training_hooks
from migrate_tools.rehearsal.runtime.watched import environment_name
from migrate_tools.relax.contract import Parsed, load_contract
from migrate_tools.relax.flag_rules import check_config_keys, check_rules
from migrate_tools.relax.metadata_names import ROLLOUT_METADATA

REPORT_VARIABLE = "MIGRATE_REHEARSAL_REPORT"
"""Environment variable: where the report goes."""
CALLS_VARIABLE = "MIGRATE_REHEARSAL_CALLS"
"""Environment variable: texts with tool calls, as a JSON list, for examples with tools."""
VERSION_VARIABLE = "MIGRATE_REHEARSAL_RELAX"
"""Environment variable: the Relax version of the contract."""


DRILLS_VARIABLE = "MIGRATE_REHEARSAL_DRILLS"
"""Environment variable: set when a rollout of the example's own is to be drilled."""
DEBUG_VARIABLE = "MIGRATE_REHEARSAL_DEBUG_DATA"
"""Environment variable: where the samples go, in the form of Relax's --load-debug-rollout-data."""


class Stop(Exception):
    """The rehearsal cannot go on; the failures are in the report."""


class Report:
    """What happened, written to a file whatever comes."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.data: dict[str, Any] = {"argv": list(argv), "failures": [], "warnings": []}

    def fail(self, text: str) -> None:
        """Add a failure, once."""
        if text not in self.data["failures"]:
            self.data["failures"].append(text)

    def warn(self, text: str) -> None:
        """Add a warning, once."""
        if text not in self.data["warnings"]:
            self.data["warnings"].append(text)

    def write(self) -> None:
        """Write the report where the rehearsal wants it, if it says so."""
        target = os.environ.get(REPORT_VARIABLE)
        if target:
            Path(target).write_text(json.dumps(self.data, default=str), encoding="utf-8")


def main(argv: Sequence[str]) -> int:
    """Run the rehearsal of one command line; 0 when nothing failed."""
    report = Report(argv)
    report.data["taped"] = install_tape()
    try:
        _rehearse(argv, report)
    except Stop:
        pass
    except Exception as error:
        report.fail(f"the rehearsal ended with {describe(error)}")
    finally:
        report.write()
    for text in report.data["failures"]:
        print(f"rehearsal: {text}", file=sys.stderr)
    return 1 if report.data["failures"] else 0


def _rehearse(argv: Sequence[str], report: Report) -> None:
    args = _arguments(argv, report)
    SingletonMeta._instances.clear()
    state = GenerateState(args)
    report.data["tokenizer"] = state.tokenizer_is
    if state.tokenizer_is == OWN and args.custom_generate_function_path:
        for role in ("tool", "user"):
            for text in template_notes(state.tokenizer, role):
                report.warn(text)
    train = _dataset(args, state, report)
    script = Script(state.tokenizer, json.loads(os.environ.get(CALLS_VARIABLE, "[]")))
    loop = Loop()
    with Engine(script) as engine, agents(args, state.tokenizer) as played:
        args.sglang_router_ip, args.sglang_router_port = "127.0.0.1", engine.port
        reward = _reward_hook(args, loop, report)
        try:
            rollout = Rollout(args, loop, reward, played.generate if played else None)
            _train(args, rollout, script, train, report)
            _evaluate(args, rollout, script, state, report)
            if args.custom_generate_function_path and os.environ.get(DRILLS_VARIABLE):
                drills = Drills(args, rollout.generate, engine, train.samples, script.calls)
                problems, report.data["drills"] = drills.run(loop)
                for text in problems:
                    report.fail(text)
        finally:
            if reward is not None:
                reward.close()
    report.data["engine"] = dict(script.kinds)
    if played:
        report.data["agentic"] = played.facts()
    for text in (*rollout.failures, *engine.requests, *(played.server.problems if played else ())):
        report.fail(text)
    report.data["loop_lag_seconds"] = round(loop.lag, 3)
    if loop.lag > LAG_LIMIT:
        report.fail(f"a hook blocked the event loop for {loop.lag:.1f} s")


def _arguments(argv: Sequence[str], report: Report) -> Namespace:
    version = os.environ.get(VERSION_VARIABLE, "latest")
    contract = load_contract(version)
    parsed = contract.parse(argv)
    problems = (*parsed.problems, *check_rules(parsed))
    report.data["relax"] = version
    for problem in problems:
        (report.fail if problem.severity == "error" else report.warn)(f"{problem.rule}: {problem.text}")
    args = Namespace(**parsed.values)
    _derive(args, parsed)
    if args.custom_config_path:
        _custom_config(args, report)
    return args


def _derive(args: Namespace, parsed: Parsed) -> None:
    """Values that Relax fills in after parsing (flag rules, sections 4 to 8)."""
    args.eval_reward_key = args.eval_reward_key or args.reward_key
    if not args.rollout_batch_size and args.global_batch_size:
        args.rollout_batch_size = args.global_batch_size // max(args.n_samples_per_prompt, 1)
    if args.rollout_max_context_len and not args.rollout_max_prompt_len:
        args.rollout_max_prompt_len = args.rollout_max_context_len - 1
    if args.eps_clip_high is None:
        args.eps_clip_high = args.eps_clip
    if args.n_samples_per_prompt == 1:
        args.grpo_std_normalization = False


def _custom_config(args: Namespace, report: Report) -> None:
    """Set every key of the YAML on args, as Relax does late in its validation (flag rules, section 13)."""
    import yaml

    path = Path(args.custom_config_path)
    if not path.is_file():
        report.fail(f"--custom-config-path {path}: no such file")
        raise Stop
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        report.fail(f"--custom-config-path {path}: not a YAML mapping")
        raise Stop
    for problem in check_config_keys(content, load_contract(report.data["relax"])):
        report.fail(f"{problem.rule}: {problem.text}")
    for key, value in content.items():
        setattr(args, key, value)
    report.data["config_keys"] = sorted(map(str, content))


def _dataset(args: Namespace, state: GenerateState, report: Report) -> Dataset:
    if not args.prompt_data:
        raise Stop
    try:
        data = Dataset(
            args,
            args.prompt_data,
            state.tokenizer,
            max_prompt_len=args.rollout_max_prompt_len,
            input_key=args.input_key,
            label_key=args.label_key,
            metadata_key=args.metadata_key,
            tool_key=args.tool_key,
            prompt_hook=args.custom_prompt_path,
        )
    except DataError as error:
        report.fail(f"--prompt-data: {error}")
        raise Stop from error
    report.data["data"] = {"rows": len(data.samples), "columns": data.columns, "too_long_by_estimate": data.too_long}
    if not data.samples:
        report.fail("--prompt-data holds no rows")
        raise Stop
    if data.all_too_long:
        report.warn("by an estimate of tokens every prompt is over --rollout-max-prompt-len")
    return data


def _reward_hook(args: Namespace, loop: Loop, report: Report) -> RewardHook | None:
    if not args.custom_rm_path:
        return None
    try:
        hook = RewardHook(args.custom_rm_path, loop)
    except Exception as error:
        report.fail(f"--custom-rm-path {args.custom_rm_path}: {describe(error)}")
        raise Stop from error
    report.data["reward_kind"] = "async" if hook.is_async else "sync"
    return hook


def _announce(args: Namespace, script: Script, groups: Sequence[Sequence[Sample]]) -> None:
    tokenizer = GenerateState(args).tokenizer
    for group in groups:
        script.expect(tokenizer.encode(str(group[0].prompt)), group[0].label)


def _train(args: Namespace, rollout: Rollout, script: Script, data: Dataset, report: Report) -> None:
    per_prompt = args.n_samples_per_prompt
    groups = take_prompts(args, data.samples, args.rollout_batch_size, per_prompt)
    _announce(args, script, groups)
    groups = rollout.run(groups, sampling_params(args))
    for text in rollout.failures:  # the cause, before what it leads to
        report.fail(text)
    samples = [sample for group in groups for sample in group]
    report.data["rollout"] = {
        "prompts": len(groups),
        "prompts_of_a_rollout": args.rollout_batch_size,
        "samples_per_prompt": per_prompt,
        "statuses": dict(Counter(sample.status.name for sample in samples)),
    }
    _check_samples(samples, per_prompt, report)
    if target := os.environ.get(DEBUG_VARIABLE):
        state = GenerateState(args)
        stand_in = state.tokenizer if state.tokenizer_is != OWN else None
        write_debug_data(Path(target), samples, stand_in=stand_in)
    if args.custom_generate_function_path:
        _check_turns(environment_name(args, rollout.generate), samples, script, report)
    if rollout.reward is None:
        report.data["rewards"] = {"source": args.rm_type or "metadata", "scored": False}
        return
    values = rollout.values(samples, args.reward_key)
    _check_rewards(values, report, "train")
    if any(convert.reward_problem(value) for value in values):
        return
    _filter(args, groups, report)
    _normalise(args, samples, values, report)


def _check_samples(samples: Sequence[Sample], per_prompt: int, report: Report) -> None:
    logprobs = samples[0].rollout_log_probs is not None
    for sample in samples:
        for text in convert.sample_problems(sample, logprobs=logprobs):
            report.fail(f"sample: {text}")
    for text in convert.group_problems(samples, per_prompt):
        report.fail(text)


def _rollout_says(sample: Sample) -> dict[str, Any]:
    found = sample.metadata.get(ROLLOUT_METADATA)
    return found if isinstance(found, dict) else {}


def _check_turns(environment: str | None, samples: Sequence[Sample], script: Script, report: Report) -> None:
    """Multi-turn samples: what was trained is what the engine said, and results of tools were seen and not trained.

    An environment answers every call; a loop of the recipe's own may read calls of another form, or none.
    """
    observed = 0
    for sample in samples:
        for text in convert.turn_problems(sample, script.said):
            report.fail(f"sample: {text}")
        observed += bool(sample.loss_mask and 0 in sample.loss_mask)
    report.data["turns"] = {
        "samples": len(samples),
        "samples_with_results": observed,
        "num_turns": dict(Counter(str(_rollout_says(sample).get("num_turns")) for sample in samples)),
    }
    if script.calls and environment and not observed:
        asks = getattr(sys.modules.get(environment), "USERS", None)
        if asks and not any(sample.metadata.get("interaction_kwargs") for sample in samples):
            report.fail("no row names a simulated user in interaction_kwargs, so that none is asked; verl stops there")
        else:
            report.fail("the engine called tools, and no result of a tool reached a sample")


def _check_rewards(values: Sequence[Any], report: Report, name: str) -> None:
    for value in values:
        problem = convert.reward_problem(value)
        if problem:
            report.fail(f"{name}: {problem}")
    numbers = [float(value) for value in values if type(value) in (int, float)]
    counts = Counter(round(number, 6) for number in numbers)
    report.data.setdefault("rewards", {})[name] = {str(key): count for key, count in counts.most_common(12)}
    if len(numbers) > 1 and len(counts) == 1:
        report.warn(f"{name}: all {len(numbers)} rewards are {numbers[0]}")


def _filter(args: Namespace, groups: Sequence[Sequence[Sample]], report: Report) -> None:
    if not args.dynamic_sampling_filter_path:
        return
    try:
        keep = load_function(args.dynamic_sampling_filter_path)
        kept = [getattr(answer := keep(args, list(group)), "keep", answer) for group in groups]
    except Exception as error:
        report.fail(f"--dynamic-sampling-filter-path {args.dynamic_sampling_filter_path}: {describe(error)}")
        return
    try:
        keep(args, [Sample(status=SampleStatus.ABORTED) for _ in groups[0]])
    except Exception as error:
        report.fail(f"the dynamic sampling filter raises on an aborted group (rewards None): {describe(error)}")
    if any(not isinstance(answer, bool) for answer in kept):
        report.fail("the dynamic sampling filter returned neither a bool nor a DynamicFilterOutput")
    report.data["filter"] = {"kept": sum(map(bool, kept)), "dropped": len(kept) - sum(map(bool, kept))}


def _normalise(args: Namespace, samples: Sequence[Sample], values: list[float], report: Report) -> None:
    done: Sequence[Any]
    parts = _transfers(args, samples)
    if args.custom_reward_post_process_path:
        try:
            done = [item for part in parts for item in _post_process(args, part)]
        except Exception as error:
            report.fail(f"--custom-reward-post-process-path: {describe(error)}")
            return
    else:
        done = convert.normalise(args, samples, values)
    for text in convert.normalisation_problems(args, samples, values, done):
        report.fail(text)
    report.data["normalised"] = {
        "estimator": args.advantage_estimator,
        "zero_variance_groups": convert.zero_variance_groups(samples, values),
        **(
            {"hook": args.custom_reward_post_process_path, "calls": len(parts)}
            if args.custom_reward_post_process_path
            else {}
        ),
    }
    if len(done) == len(samples):
        hooks = check_training_hooks(args, samples, done, report.fail)
        if hooks:
            report.data["training_hooks"] = hooks


def _transfers(args: Namespace, samples: Sequence[Sample]) -> list[list[Sample]]:
    """Batches in which samples travel to training: the whole rollout, or parts of whole groups in fully async mode."""
    groups = len(samples) // args.n_samples_per_prompt
    if not args.fully_async or groups < 2:
        return [list(samples)]
    half = (groups // 2) * args.n_samples_per_prompt
    return [list(samples[:half]), list(samples[half:])]


def _post_process(args: Namespace, samples: list[Sample]) -> list[Any]:
    """The processed rewards; a tuple of two is (raw, processed).

    Raises:
        ValueError: there is not one for each sample.
    """
    answer = load_function(args.custom_reward_post_process_path)(args, list(samples))
    both = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, answer)
    for name, values in zip(("raw", "processed"), both, strict=True):
        if len(values) != len(samples):
            raise ValueError(f"{len(values)} {name} rewards for {len(samples)} samples")
    return list(both[1])


def _evaluate(args: Namespace, rollout: Rollout, script: Script, state: GenerateState, report: Report) -> None:
    if args.eval_interval is None or not args.eval_prompt_data:
        return
    words = args.eval_prompt_data
    pairs = [("aime", words[0])] if len(words) == 1 else list(zip(words[::2], words[1::2], strict=False))
    params = {**sampling_params(args), **_eval_params(args)}
    for name, path in pairs:
        try:
            data = Dataset(
                args,
                path,
                state.tokenizer,
                max_prompt_len=args.eval_max_prompt_len or args.rollout_max_prompt_len,
                input_key=args.eval_input_key or args.input_key,
                label_key=args.eval_label_key or args.label_key,
                metadata_key=args.metadata_key,
                tool_key=args.eval_tool_key or args.tool_key,
            )
        except DataError as error:
            report.fail(f"--eval-prompt-data {name}: {error}")
            continue
        groups = take_prompts(args, data.samples, 8, args.n_samples_per_eval_prompt)
        _announce(args, script, groups)
        groups = rollout.run(groups, params, evaluation=True)
        samples = [sample for group in groups for sample in group]
        report.data.setdefault("eval", {})[name] = {"rows": len(data.samples), "prompts": len(groups)}
        if rollout.reward is not None:
            _check_rewards(rollout.values(samples, args.eval_reward_key), report, f"eval {name}")


def _eval_params(args: Namespace) -> dict[str, Any]:
    """Evaluation's own sampling parameters; an unset one falls through to the rollout's."""
    chosen = {
        "temperature": args.eval_temperature,
        "top_p": args.eval_top_p,
        "top_k": args.eval_top_k,
        "max_new_tokens": args.eval_max_response_len,
    }
    return {key: value for key, value in chosen.items() if value is not None}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
