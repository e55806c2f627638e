"""Hand-made launches: verl's defaults (0.9 style or older) and a few settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from migrate_tools.model import (
    DataFile,
    DataSpec,
    Launch,
    MultiTurn,
    RewardSpec,
    Setting,
    SourceRef,
    Translation,
    VerlRef,
)

ACTOR = "actor_rollout_ref.actor."
ROLLOUT = "actor_rollout_ref.rollout."

DEFAULTS: dict[str, Any] = {
    "algorithm.adv_estimator": "gae",
    "algorithm.gamma": 1.0,
    "algorithm.lam": 1.0,
    "algorithm.norm_adv_by_std_in_grpo": True,
    "algorithm.use_kl_in_reward": False,
    "algorithm.kl_penalty": "kl",
    "algorithm.kl_ctrl.type": "fixed",
    "algorithm.kl_ctrl.kl_coef": 0.001,
    "algorithm.filter_groups.enable": False,
    "algorithm.rollout_correction.rollout_is": None,
    "algorithm.rollout_correction.rollout_is_threshold": 2.0,
    "algorithm.rollout_correction.rollout_rs": None,
    "algorithm.rollout_correction.bypass_mode": False,
    ACTOR + "strategy": "fsdp",
    ACTOR + "ppo_mini_batch_size": 256,
    ACTOR + "ppo_micro_batch_size": None,
    ACTOR + "ppo_micro_batch_size_per_gpu": None,
    ACTOR + "use_dynamic_bsz": False,
    ACTOR + "ppo_max_token_len_per_gpu": 16384,
    ACTOR + "clip_ratio": 0.2,
    ACTOR + "clip_ratio_low": 0.2,
    ACTOR + "clip_ratio_high": 0.2,
    ACTOR + "clip_ratio_c": 3.0,
    ACTOR + "policy_loss.loss_mode": "vanilla",
    ACTOR + "loss_agg_mode": "token-mean",
    ACTOR + "entropy_coeff": 0,
    ACTOR + "use_kl_loss": False,
    ACTOR + "kl_loss_coef": 0.001,
    ACTOR + "kl_loss_type": "low_var_kl",
    ACTOR + "ppo_epochs": 1,
    ACTOR + "grad_clip": 1.0,
    ACTOR + "ulysses_sequence_parallel_size": 1,
    ACTOR + "optim.lr": 1e-6,
    ACTOR + "optim.lr_warmup_steps": -1,
    ACTOR + "optim.lr_warmup_steps_ratio": 0.0,
    ACTOR + "optim.weight_decay": 0.01,
    ACTOR + "optim.betas": [0.9, 0.999],
    ACTOR + "optim.lr_scheduler_type": "constant",
    ACTOR + "optim.min_lr_ratio": 0.0,
    ROLLOUT + "mode": "async",
    ROLLOUT + "n": 1,
    ROLLOUT + "temperature": 1.0,
    ROLLOUT + "top_p": 1,
    ROLLOUT + "top_k": -1,
    ROLLOUT + "do_sample": True,
    ROLLOUT + "tensor_model_parallel_size": 2,
    ROLLOUT + "gpu_memory_utilization": 0.5,
    ROLLOUT + "val_kwargs.temperature": 0,
    ROLLOUT + "val_kwargs.top_p": 1.0,
    ROLLOUT + "val_kwargs.top_k": -1,
    ROLLOUT + "val_kwargs.n": 1,
    ROLLOUT + "val_kwargs.do_sample": False,
    "data.train_batch_size": 1024,
    "data.max_prompt_length": 512,
    "data.max_response_length": 512,
    "data.truncation": "error",
    "data.filter_overlong_prompts": False,
    "data.shuffle": True,
    "data.seed": None,
    "trainer.nnodes": 1,
    "trainer.n_gpus_per_node": 8,
    "trainer.total_epochs": 30,
    "trainer.total_training_steps": None,
    "trainer.save_freq": -1,
    "trainer.test_freq": -1,
    "trainer.val_before_train": True,
    "trainer.balance_batch": True,
    "trainer.resume_mode": "auto",
    "trainer.logger": ["console", "wandb"],
}
"""The part of verl 0.9's composed defaults that this package reads."""

BASE: dict[str, Any] = {
    "algorithm.adv_estimator": "grpo",
    "data.train_batch_size": 512,
    ACTOR + "ppo_mini_batch_size": 128,
    ROLLOUT + "n": 8,
    "actor_rollout_ref.model.path": "Qwen/Qwen3-8B",
}
"""A small GRPO recipe; tests change what they are about."""

Make = Callable[..., Translation]


def make_launch(
    settings: Mapping[str, Any],
    *,
    drop: tuple[str, ...] = (),
    version: str = "0.9.1",
    module: str = "verl.trainer.main_ppo",
    rows: int | None = None,
    val: tuple[str, ...] = ("$HOME/data/gsm8k/test.parquet",),
    data: DataSpec | None = None,
    reward: RewardSpec | None = None,
    multi_turn: MultiTurn | None = None,
    environment: Mapping[str, str] | None = None,
) -> Launch:
    """A launch with these settings over the defaults; `drop` takes keys out of the version's defaults."""
    config = {key: value for key, value in DEFAULTS.items() if key not in drop} | dict(settings)
    spec = data or DataSpec(
        train=(DataFile(text="$HOME/data/gsm8k/train.parquet", rows=rows),),
        val=tuple(DataFile(text=text) for text in val),
        known_from="files",
        prompt_form="chat",
    )
    return Launch(
        name="run_grpo",
        script="run_grpo.sh",
        module=module,
        settings=tuple(
            Setting(key=key, value=value, text=str(value), source=SourceRef(file="run_grpo.sh", line=number))
            for number, (key, value) in enumerate(settings.items(), 2)
        ),
        config=config,
        verl=VerlRef(version=version, root="/nowhere", how="hand-made"),
        reward=reward or RewardSpec(kind="custom", path="reward.py", function="compute_score"),
        data=spec,
        multi_turn=multi_turn,
        environment=dict(environment or {}),
    )


def flag_values(item: Translation, mode: str = "SYNC") -> dict[str, str | None]:
    """Flags of one mode by name."""
    return {flag.name: flag.value for flag in item.flags if flag.group not in ("SYNC", "ASYNC") or flag.group == mode}


def outcome(item: Translation, key: str) -> tuple[str, str]:
    """Status and risk of one setting."""
    found = next(setting for setting in item.settings if setting.key == key)
    return found.status, found.risk
