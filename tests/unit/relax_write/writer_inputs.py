"""Hand-made inputs of the writer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from migrate_tools.model import (
    BatchPlan,
    DataFile,
    DataSpec,
    Flag,
    GpuPlan,
    Launch,
    Recipe,
    RewardSpec,
    SourceRef,
    Translation,
    VerlRef,
)
from migrate_tools.verl.extract import Extracted
from migrate_tools.verl.traits import find_traits

FOUR = ("data_source", "solution_str", "ground_truth", "extra_info")


@dataclass
class FakeSample:
    """The fields of Relax's Sample that a reward may read."""

    response: str = ""
    label: Any = None
    metadata: Any = field(default_factory=dict)
    prompt: Any = "Question?"
    response_length: int = 10


def make_launch(
    *, config: dict[str, Any] | None = None, data: DataSpec | None = None, name: str = "run_x", **reward: Any
) -> Launch:
    spec = RewardSpec(**{"kind": "custom", "path": "reward.py", "function": "compute_score", **reward})
    return Launch(
        name=name,
        script=f"{name}.sh",
        module="verl.trainer.main_ppo",
        config={"actor_rollout_ref.model.path": "Qwen/Qwen3-0.6B", "trainer.project_name": "demo", **(config or {})},
        verl=VerlRef(version="0.9.1", root="/nowhere", how="a test"),
        reward=spec,
        data=data or DataSpec(train=(DataFile(text="$HOME/a b/train.parquet"),), val=(DataFile(text="val.parquet"),)),
    )


def make_extracted(code: str, entry: str = "compute_score", **values: Any) -> Extracted:
    fields = {
        "is_async": f"async def {entry}" in code,
        "traits": find_traits(code),
        "origins": (SourceRef(file="reward.py", line=3),),
        **values,
    }
    return Extracted(code=code, entry=entry, **fields)


def make_translation(
    launch: str = "run_x", *, algo: str = "demo", flags: tuple[Flag, ...] = (), **values: Any
) -> Translation:
    own = (
        Flag(name="--hf-checkpoint", value='"${MODEL_DIR}/Qwen3-0.6B"', group="CKPT"),
        Flag(name="--custom-rm-path", value=f"examples.{algo}.reward_{algo}.reward_func", group="ROLLOUT"),
        Flag(name="--rollout-skip-special-tokens", group="ROLLOUT"),
        Flag(name="--prompt-data", value=f"\"['${{DATA_DIR}}/{algo}/train.parquet']\"", group="ROLLOUT"),
        Flag(name="--global-batch-size", value="32", group="ROLLOUT", comment="samples"),
        Flag(name="--advantage-estimator", value="grpo", group="ALGO"),
        Flag(name="--colocate", group="SYNC"),
        Flag(name="--fully-async", group="ASYNC"),
        *flags,
    )
    plan = {
        "batch": BatchPlan(policy="on-policy", rollout_batch_size=8, n_samples_per_prompt=4, global_batch_size=32,
                           updates_per_rollout=1, rollouts_per_verl_step=2),
        "gpus": GpuPlan(total=4, per_node=4, nodes=1, tensor_parallel=1, pipeline_parallel=1, context_parallel=1,
                        expert_parallel=1, gpus_per_engine=1, async_split={"actor": 2, "rollout": 2}),
        "model_script": "qwen3-0.6B",
        "model_dir_name": "Qwen3-0.6B",
    }  # fmt: skip
    return Translation(**{"launch": launch, "algo": algo, "flags": own, **plan, **values})


def make_recipe(*launches: Launch) -> Recipe:
    return Recipe(name="demo", root="/r", project_root="/r", sha256="0" * 64, launches=launches)
