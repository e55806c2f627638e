"""Every rule between flags: kept by a sound command line, broken by exactly the change that names it."""

from __future__ import annotations

import pytest
from migrate_tools.relax.contract import load_contract
from migrate_tools.relax.flag_rules import RULES, check_config_keys, check_rules

SYNC = {
    "--resource": '{"actor":[1,8],"rollout":[1,8]}',
    "--colocate": None,
    "--hf-checkpoint": "/m",
    "--ref-load": "/m",
    "--prompt-data": "/d.parquet",
    "--custom-rm-path": "examples.a.reward_a.reward_func",
    "--num-rollout": "3",
    "--rollout-batch-size": "8",
    "--n-samples-per-prompt": "4",
    "--global-batch-size": "32",
}
"""A sound synchronous command line."""
ASYNC = {
    **{key: value for key, value in SYNC.items() if key != "--colocate"},
    "--resource": '{"actor":[1,4],"rollout":[1,2],"actor_fwd":[1,1],"reference":[1,1],"advantages":[1,0]}',
    "--fully-async": None,
    "--max-staleness": "3",
}
RPP = {**SYNC, "--advantage-estimator": "reinforce_plus_plus", "--normalize-advantages": None, "--kl-coef": "0.1"}
RPPB = {
    **SYNC,
    "--advantage-estimator": "reinforce_plus_plus_baseline",
    "--normalize-advantages": None,
    "--use-kl-loss": None,
    "--kl-loss-coef": "0.1",
    "--kl-loss-type": "k2",
}
RLOO = {**SYNC, "--advantage-estimator": "rloo", "--calculate-per-token-loss": None}
PPO = {**SYNC, "--advantage-estimator": "ppo", "--resource": '{"actor":[1,8],"rollout":[1,8],"critic":[1,8]}'}
SFT = {
    "--resource": '{"sft":[1,0],"actor":[1,8]}',
    "--loss-type": "sft",
    "--hf-checkpoint": "/m",
    "--prompt-data": "/d",
    "--num-epoch": "1",
    "--use-dynamic-batch-size": None,
    "--max-tokens-per-gpu": "4096",
    "--global-batch-size": "8",
}
OPD = {**SYNC, "--use-opd": None, "--opd-type": "sglang", "--opd-teacher-url": "http://t"}
AGENTIC = {**SYNC, "--use-agentic-rollout": None, "--agent-command": "run", "--agent-cwd": "/a"}


def argv(flags: dict[str, str | None]) -> list[str]:
    return [word for name, value in flags.items() for word in ([name] if value is None else [name, *value.split("|")])]


def broken(flags: dict[str, str | None], gpus: int | None = 8, version: str = "latest") -> set[str]:
    parsed = load_contract(version).parse(argv(flags))  # type: ignore[arg-type]
    assert parsed.problems == ()
    return {problem.rule for problem in check_rules(parsed, gpus=gpus)}


def without(flags: dict[str, str | None], *names: str) -> dict[str, str | None]:
    return {name: value for name, value in flags.items() if name not in names}


@pytest.mark.parametrize("flags", [SYNC, ASYNC, RPP, RPPB, RLOO, PPO, SFT, OPD, AGENTIC])
def test_sound_lines_break_no_rule(flags: dict[str, str | None]) -> None:
    assert broken(flags) == set()


BREACHES: list[tuple[str, dict[str, str | None]]] = [
    ("resource.required", without(SYNC, "--resource")),
    ("resource.shape", SYNC | {"--resource": '{"actor":[2,8],"rollout":[1,8]}'}),
    ("resource.role-unknown", SYNC | {"--resource": '{"actor":[1,8],"rollout":[1,8],"judge":[1,0]}'}),
    ("resource.role-missing", SYNC | {"--resource": '{"actor":[1,8]}'}),
    ("resource.role-not-started", SYNC | {"--resource": '{"actor":[1,8],"rollout":[1,8],"reference":[1,0]}'}),
    (
        "resource.reference",
        ASYNC | {"--resource": '{"actor":[1,4],"rollout":[1,2],"advantages":[1,0]}', "--use-kl-loss": None},
    ),
    (
        "resource.actor-fwd",
        ASYNC | {"--resource": '{"actor":[1,4],"rollout":[1,2],"advantages":[1,0]}', "--global-batch-size": "16"},
    ),
    ("resource.too-many-gpus", SYNC | {"--resource": '{"actor":[1,16],"rollout":[1,16]}'}),
    ("resource.nodes-divide", SYNC | {"--num-gpus-per-node": "3"}),
    ("resource.overrides", SYNC | {"--ref-actor-config": '{"tensor_parallel":1}'}),
    ("resource.overrides-no-effect", SYNC | {"--ref-actor-config": '{"max_tokens_per_gpu":1}'}),
    ("mode.async-colocate", ASYNC | {"--colocate": None}),
    ("mode.async-normalize-advantages", ASYNC | {"--normalize-advantages": None}),
    ("mode.async-opd-megatron", ASYNC | {"--use-opd": None, "--opd-type": "megatron", "--opd-teacher-load": "/t"}),
    ("mode.async-dynamic-batch", ASYNC | {"--use-dynamic-global-batch-size": None}),
    ("mode.staleness", SYNC | {"--max-staleness": "-1"}),
    ("mode.staleness-sync", SYNC | {"--max-staleness": "1"}),
    ("mode.debug-exclusive", SYNC | {"--debug-rollout-only": None, "--debug-train-only": None}),
    ("mode.expandable-segments", SYNC | {"--train-env-vars": '{"PYTORCH_CUDA_ALLOC_CONF":"expandable_segments:True"}'}),
    ("batch.size-missing", without(SYNC, "--rollout-batch-size", "--global-batch-size")),
    ("batch.samples-positive", SYNC | {"--n-samples-per-prompt": "0"}),
    ("batch.steps-per-rollout", SYNC | {"--num-steps-per-rollout": "2"}),
    ("batch.global-divides", SYNC | {"--global-batch-size": "24"}),
    ("batch.over-sampling", SYNC | {"--over-sampling-batch-size": "4"}),
    ("batch.over-sampling-waste", SYNC | {"--over-sampling-batch-size": "16"}),
    ("batch.single-sample", SYNC | {"--n-samples-per-prompt": "1", "--global-batch-size": "8"}),
    ("batch.dynamic-tokens", SYNC | {"--use-dynamic-batch-size": None}),
    (
        "batch.dynamic-context",
        SYNC | {"--use-dynamic-batch-size": None, "--max-tokens-per-gpu": "100", "--rollout-max-context-len": "200"},
    ),
    ("batch.bshd", SYNC | {"--qkv-format": "bshd", "--use-dynamic-batch-size": None, "--max-tokens-per-gpu": "100"}),
    ("length.prompt-context", SYNC | {"--rollout-max-prompt-len": "200", "--rollout-max-context-len": "200"}),
    ("schedule.end", without(SYNC, "--num-rollout")),
    (
        "schedule.epoch-dataset",
        without(SYNC, "--num-rollout") | {"--num-epoch": "1", "--disable-rollout-global-dataset": None},
    ),
    ("schedule.both", SYNC | {"--num-epoch": "1"}),
    ("parallel.context-loss", SYNC | {"--context-parallel-size": "2"}),
    ("parallel.pipeline-ends", SYNC | {"--decoder-first-pipeline-num-layers": "2"}),
    ("parallel.dynamic-context", SYNC | {"--dynamic-context-parallel": None, "--calculate-per-token-loss": None}),
    ("parallel.world-divides", SYNC | {"--tensor-model-parallel-size": "3"}),
    ("parallel.prompts-divide", SYNC | {"--rollout-batch-size": "4", "--global-batch-size": "8"}),
    ("parallel.heads-divide", SYNC | {"--tensor-model-parallel-size": "8", "--num-attention-heads": "28"}),
    (
        "parallel.heads-divide",
        SYNC | {"--tensor-model-parallel-size": "8", "--group-query-attention": None, "--num-query-groups": "4"},
    ),
    ("parallel.layers-divide", SYNC | {"--pipeline-model-parallel-size": "8", "--num-layers": "36"}),
    ("parallel.experts-divide", SYNC | {"--expert-model-parallel-size": "8", "--num-experts": "60"}),
    ("parallel.experts-divide", SYNC | {"--expert-model-parallel-size": "16"}),
    ("parallel.sequence-alone", SYNC | {"--sequence-parallel": None}),
    ("engine.gpus-divide", SYNC | {"--rollout-num-gpus-per-engine": "3"}),
    ("engine.pipeline-divides", SYNC | {"--sglang-pp-size": "2"}),
    ("engine.dp-attention", SYNC | {"--sglang-dp-size": "2"}),
    ("engine.external", SYNC | {"--rollout-external": None, "--sglang-config": "/c.yaml"}),
    ("checkpoint.model", without(SYNC, "--hf-checkpoint")),
    ("checkpoint.reference", without(SYNC, "--ref-load") | {"--use-kl-loss": None}),
    ("checkpoint.save-interval", SYNC | {"--save-interval": "5"}),
    ("checkpoint.rotate", SYNC | {"--rotate-ckpt": None, "--save": "/s", "--save-interval": "1"}),
    ("checkpoint.param-lists", SYNC | {"--only-train-params-name-list": "a", "--freeze-params-name-list": "b"}),
    ("checkpoint.save-hf", SYNC | {"--save-hf-dtype": "fp8"}),
    ("checkpoint.save-lora", SYNC | {"--save-lora-only": None}),
    ("optimizer.cpu-offload", SYNC | {"--optimizer-cpu-offload": None}),
    ("optimizer.loss-scale", SYNC | {"--fp16": None, "--min-loss-scale": "64", "--initial-loss-scale": "2"}),
    ("kl.exclusive", SYNC | {"--kl-coef": "0.1", "--kl-loss-coef": "0.1", "--use-kl-loss": None}),
    ("kl.loss-off", SYNC | {"--kl-loss-coef": "0.1"}),
    ("kl.ppo-off", PPO | {"--use-kl-loss": None}),
    ("ppo.placement", PPO | {"--max-staleness": "1"}),
    ("reinforce.placement", without(RPP, "--colocate")),
    ("reinforce.kl", RPP | {"--kl-coef": "0.0"}),
    ("reinforce-baseline.kl", RPPB | {"--kl-loss-type": "k1"}),
    ("reinforce-baseline.group", RPPB | {"--disable-rewards-normalization": None}),
    ("rloo.colocate", RLOO | {"--partial-rollout": None}),
    ("rloo.settings", without(RLOO, "--calculate-per-token-loss")),
    ("rloo.batch", RLOO | {"--global-batch-size": "16"}),
    (
        "m2po.context",
        SYNC | {"--advantage-estimator": "m2po", "--context-parallel-size": "2", "--calculate-per-token-loss": None},
    ),
    ("clip.dual", SYNC | {"--eps-clip-c": "1.0"}),
    ("clip.dual-unread", SYNC | {"--eps-clip-c": "3.0"}),
    ("algo.gamma-unread", SYNC | {"--gamma": "0.9"}),
    ("tis.exclusive", SYNC | {"--use-tis": None, "--use-rollout-logprobs": None}),
    ("tis.metrics", SYNC | {"--get-mismatch-metrics": None}),
    ("loss.custom", SYNC | {"--loss-type": "custom_loss"}),
    ("loss.custom-unused", SYNC | {"--custom-loss-function-path": "examples.a.loss.f"}),
    ("rollout.partial-routing", SYNC | {"--partial-rollout": None, "--use-rollout-routing-replay": None}),
    ("mtp.layers", SYNC | {"--enable-mtp-training": None}),
    ("mtp.only", SYNC | {"--mtp-only-training": None}),
    ("mtp.paths", SYNC | {"--mtp-detach-paths": "none|backbone"}),
    ("lora.mode", SYNC | {"--lora-rank": "8", "--lora-merge-mode": None, "--lora-adapter-mode": None}),
    ("reward.none", without(SYNC, "--custom-rm-path")),
    ("reward.type", without(SYNC, "--custom-rm-path") | {"--rm-type": "gsm8k"}),
    ("reward.type-bypassed", SYNC | {"--rm-type": "math"}),
    ("reward.fallback", SYNC | {"--rm-type-fallback": "error"}),
    ("reward.key", without(SYNC, "--custom-rm-path") | {"--rm-type": "dapo"}),
    ("reward.url", without(SYNC, "--custom-rm-path") | {"--rm-type": "remote_rm"}),
    ("reward.dotted-path", SYNC | {"--custom-rm-path": "examples/a/reward.py:f"}),
    ("reward.genrm-placement", SYNC | {"--genrm-model-path": "/g"}),
    ("eval.datasets", SYNC | {"--eval-interval": "5"}),
    ("eval.pairs", SYNC | {"--eval-interval": "5", "--eval-prompt-data": "a|a.parquet|b"}),
    ("eval.unused", SYNC | {"--eval-prompt-data": "a|a.parquet"}),
    (
        "eval.config-wins",
        SYNC | {"--eval-interval": "5", "--eval-prompt-data": "a|a.parquet", "--eval-config": "/e.yaml"},
    ),
    ("data.prompts", without(SYNC, "--prompt-data")),
    ("data.tokens-and-template", SYNC | {"--system-prompt": "Be brief."}),
    ("offline.needs", without(SFT, "--use-dynamic-batch-size")),
    ("offline.eval-size", SYNC | {"--eval-size": "0.1"}),
    ("agentic.needs", without(AGENTIC, "--agent-cwd")),
    ("opd.needs", without(OPD, "--opd-teacher-url")),
]


@pytest.mark.parametrize(("rule", "flags"), BREACHES, ids=[rule for rule, _ in BREACHES])
def test_each_rule_is_broken_by_its_own_change(rule: str, flags: dict[str, str | None]) -> None:
    assert rule in broken(flags)


def test_every_rule_has_a_case() -> None:
    only_old = {"ppo.version"}  # see test_ppo_is_refused_by_the_old_version
    assert {rule.id for rule in RULES} - only_old == {rule for rule, _ in BREACHES}


def test_ppo_is_refused_by_the_old_version() -> None:
    assert "ppo.version" in broken(PPO, version="infra")
    assert "ppo.version" not in broken(PPO)


def test_colocated_roles_share_their_gpus() -> None:
    assert "resource.too-many-gpus" not in broken(PPO, gpus=8)
    assert "resource.too-many-gpus" in broken(PPO, gpus=4)
    assert "resource.too-many-gpus" in broken(ASYNC, gpus=7)


def test_on_policy_async_needs_no_forward_role() -> None:
    flags = ASYNC | {"--resource": '{"actor":[1,4],"rollout":[1,2],"advantages":[1,0]}'}
    assert broken(flags) == set()


def test_errors_come_first_and_name_their_section() -> None:
    parsed = load_contract().parse(argv(SYNC | {"--kl-coef": "0.1", "--kl-loss-coef": "0.2"}))
    problems = check_rules(parsed)
    assert [(problem.rule, problem.severity) for problem in problems] == [
        ("kl.exclusive", "error"),
        ("kl.loss-off", "warning"),
    ]
    assert problems[0].section == "6"


def test_config_keys_that_override_an_argument() -> None:
    found = check_config_keys(["sums_form_reward", "lr", "max_turns"], load_contract())
    assert [problem.text for problem in found] == [
        "the key lr of the config file overrides the Relax argument of that name after validation"
    ]
