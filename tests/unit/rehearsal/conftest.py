"""A small hand-made example in the form the writer gives, and its translation."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from migrate_tools.model import (
    DataFile,
    DataSpec,
    Example,
    ExampleFile,
    GpuPlan,
    Launch,
    Recipe,
    RewardSpec,
    Translation,
    VerlRef,
)
from migrate_tools.sandbox import Sandbox, open_sandbox

REWARD = """
from relax.utils.types import Sample


def compute_score(text, truth):
    right = f"{truth}" in text and "no, certainly" not in text
    return {"score": 1.0 if right else 0.0, "acc": float(right)}


async def reward_func(args, sample: Sample, **kwargs):
    if isinstance(sample, list):
        return [compute_score(item.response, item.label) for item in sample]
    return compute_score(sample.response, sample.label)
"""

PROCESS = """
import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def convert(row):
    extra = dict(row.get("extra_info") or {})
    extra.setdefault("data_source", row["data_source"])
    return {**row, "label": row["reward_model"]["ground_truth"], "extra_info": extra}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", nargs="*", default=[])
    parser.add_argument("--val", nargs="*", default=[])
    parser.add_argument("--output-dir", required=True)
    args = parser.parse_args()
    target = Path(args.output_dir)
    target.mkdir(parents=True, exist_ok=True)
    for split in ("train", "val"):
        files = getattr(args, split)
        for number, name in enumerate(files):
            rows = [convert(row) for row in pq.read_table(name).to_pylist()]
            stem = split if len(files) == 1 else f"{split}_{number}"
            pq.write_table(pa.Table.from_pylist(rows), target / f"{stem}.parquet")


main()
"""

SCRIPT = """#!/bin/bash
set -ex
set -o pipefail
MODE=${1:-${MODE:-"sync"}}
[ $# -eq 0 ] || shift
SCRIPT_DIR="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" &>/dev/null && pwd)"
if [ -z "${RELAX_ENTRYPOINT_MODE:-}" ]; then
    source "${SCRIPT_DIR}/../../scripts/entrypoint/local.sh"
fi
source "${MODEL_CONFIG_DIR}/qwen3-0.6B.sh"
: "${MODEL_DIR:?}" "${DATA_DIR:?}"
cd "${SCRIPT_DIR}/../.."
TRAIN_ARGS=(
    --hf-checkpoint "${MODEL_DIR}/Qwen3-0.6B"
    --ref-load "${MODEL_DIR}/Qwen3-0.6B"
    --prompt-data "['${DATA_DIR}/toy/train.parquet']"
    --input-key prompt
    --label-key label
    --metadata-key extra_info
    --reward-key score
    --apply-chat-template
    --custom-rm-path examples.toy.reward_toy.reward_func
    --num-rollout 3
    --rollout-batch-size 8
    --n-samples-per-prompt 8
    --global-batch-size 64
    --rollout-max-prompt-len 128
    --rollout-max-response-len 64
    --rollout-shuffle
    --eval-interval 5
    --eval-prompt-data toy "${DATA_DIR}/toy/val.parquet"
    --advantage-estimator grpo
    --use-kl-loss
    --kl-loss-coef 0.001
    --kl-loss-type low_var_kl
)
if [ "$MODE" = sync ]; then
    MODE_ARGS=(--resource '{"actor":[1,8],"rollout":[1,8]}' --colocate --max-staleness 0)
else
    MODE_ARGS=(
        --resource '{"actor":[1,4],"rollout":[1,2],"reference":[1,1],"actor_fwd":[1,1],"advantages":[1,0]}'
        --fully-async --max-staleness 3
    )
fi
python3 relax/entrypoints/train.py "${MODE_ARGS[@]}" "${MODEL_ARGS[@]}" "${TRAIN_ARGS[@]}" "$@"
"""


def toy_rows(count: int = 20) -> list[dict[str, Any]]:
    """Rows as a verl preparation script writes them."""
    return [
        {
            "data_source": "toy",
            "prompt": [{"role": "user", "content": f"What is {number} + {number}?"}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(2 * number)},
            "extra_info": {"index": number, "split": "train"},
        }
        for number in range(count)
    ]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    """A parquet file of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    return open_sandbox("bubblewrap")


@pytest.fixture
def toy_files() -> dict[str, str]:
    return {
        "examples/toy/__init__.py": "",
        "examples/toy/reward_toy.py": REWARD,
        "examples/toy/run_toy.sh": SCRIPT,
        "scripts/tools/process_toy.py": PROCESS,
    }


@pytest.fixture
def make_example() -> Callable[[Mapping[str, str]], Example]:
    def make(files: Mapping[str, str]) -> Example:
        return Example(
            algo="toy",
            files=tuple(
                ExampleFile(path=path, text=text, origin="rendered", executable=path.endswith(".sh"))
                for path, text in files.items()
            ),
        )

    return make


@pytest.fixture
def toy_translation() -> Translation:
    return Translation(
        launch="run_toy",
        algo="toy",
        model_dir_name="Qwen3-0.6B",
        gpus=GpuPlan(
            total=8,
            per_node=8,
            nodes=1,
            tensor_parallel=1,
            pipeline_parallel=1,
            context_parallel=1,
            expert_parallel=1,
            gpus_per_engine=1,
            async_split={"actor": 4, "rollout": 2, "reference": 1, "actor_fwd": 1, "advantages": 0},
        ),
    )


@pytest.fixture
def toy_recipe(tmp_path: Path) -> Recipe:
    train = write_rows(tmp_path / "recipe" / "train.parquet", toy_rows())
    val = write_rows(tmp_path / "recipe" / "val.parquet", toy_rows(6))
    launch = Launch(
        name="run_toy",
        script="run_toy.sh",
        module="verl.trainer.main_ppo",
        verl=VerlRef(version="0.9.1", root=str(tmp_path), how="made for the test"),
        reward=RewardSpec(kind="custom", path="reward.py", function="compute_score"),
        data=DataSpec(
            train=(DataFile(text="train.parquet", path=str(train), rows=20),),
            val=(DataFile(text="val.parquet", path=str(val), rows=6),),
            known_from="files",
        ),
    )
    return Recipe(
        name="toy", root=str(tmp_path / "recipe"), project_root=str(tmp_path / "recipe"), sha256="0", launches=(launch,)
    )


@pytest.fixture
def stage_files() -> Callable[[Example, Path], Path]:
    def stage(example: Example, folder: Path) -> Path:
        shutil.rmtree(folder, ignore_errors=True)
        for item in example.files:
            path = folder / item.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(item.text, "utf-8")
        return folder

    return stage
