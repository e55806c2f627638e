"""The strict parse of a Relax command line."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from migrate_tools.relax.contract import VERSIONS, load_contract, missing_in


def rules(argv: list[str], version: str = "latest") -> list[str]:
    return [problem.rule for problem in load_contract(version).parse(argv).problems]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("argv", "dest", "value"),
    [
        (["--rollout-batch-size", "8"], "rollout_batch_size", 8),
        (["--lr=1e-6"], "lr", 1e-6),
        (["--resource", '{"actor":[1,8]}'], "resource", {"actor": [1, 8]}),
        (["--no-use-tensorboard"], "use_tensorboard", False),
        (["--use-tensorboard"], "use_tensorboard", True),
        (["--no-offload-train"], "offload_train", False),
        (["--disable-grpo-std-normalization"], "grpo_std_normalization", False),
        (
            ["--eval-prompt-data", "a", "a.parquet", "b", "b.parquet"],
            "eval_prompt_data",
            list("a") + ["a.parquet", "b", "b.parquet"],
        ),
        (["--rollout-stop-token-ids", "1", "2"], "rollout_stop_token_ids", [1, 2]),
        (["--rollout-top-k", "-1"], "rollout_top_k", -1),
        (["--custom-dataset-class-path", "a.b"], "custom_dataset_class_path", "a.b"),
        (["--norm-epsilon", "1e-6"], "layernorm_epsilon", 1e-6),
        (["--sglang-data-parallel-size", "2"], "sglang_dp_size", 2),
        (["--teacher-sglang-dp-size", "2"], "teacher_sglang_dp_size", 2),
        (["--router-prefill", "a", "1", "--router-prefill", "b", "2"], "router_prefill", [["a", "1"], ["b", "2"]]),
    ],
)
def test_values(argv: list[str], dest: str, value: object) -> None:
    parsed = load_contract().parse(argv)
    assert parsed.problems == ()
    assert parsed.get(dest) == value
    assert parsed.is_given(dest)


def test_defaults_are_those_of_relax() -> None:
    parsed = load_contract().parse([])
    assert (parsed.get("advantage_estimator"), parsed.get("kl_loss_type"), parsed.get("eps_clip")) == (
        "grpo",
        "k1",
        0.2,
    )
    assert parsed.get("metadata_key") == "metadata"
    assert not parsed.is_given("kl_loss_type")


@pytest.mark.parametrize(
    ("argv", "rule"),
    [
        (["--rollout-batchsize", "8"], "parse.unknown-flag"),
        (["--rollout-batch", "8"], "parse.unknown-flag"),
        (["--sglang-mem-fraction", "0.5"], "parse.unknown-flag"),
        (["--lr", "1", "--lr", "2"], "parse.duplicate"),
        (["--use-tensorboard", "--no-use-tensorboard"], "parse.duplicate"),
        (["--lr", "fast"], "parse.bad-type"),
        (["--rollout-batch-size", "8.0"], "parse.bad-type"),
        (["--resource", "{actor: 8}"], "parse.bad-type"),
        (["--kl-loss-type", "low_var"], "parse.bad-choice"),
        (["--lr"], "parse.missing-value"),
        (["--lr", "--bf16"], "parse.missing-value"),
        (["--save-hf-fp8-block-size", "128"], "parse.missing-value"),
        (["--bf16=1"], "parse.surplus-value"),
        (["data.train_batch_size=8"], "parse.stray-word"),
        (["--lr", "1", "2"], "parse.stray-word"),
    ],
)
def test_faults(argv: list[str], rule: str) -> None:
    assert rules(argv) == [rule]


def test_unknown_flag_names_the_nearest_one_and_parsing_goes_on() -> None:
    parsed = load_contract().parse(["--reward-keys", "score", "--lr", "0.5"])
    assert [problem.text for problem in parsed.problems] == [
        "--reward-keys is not a flag of Relax; did you mean --reward-key?"
    ]
    assert parsed.get("lr") == 0.5


def test_a_badly_typed_value_leaves_the_default() -> None:
    assert load_contract().parse(["--eps-clip", "wide"]).get("eps_clip") == 0.2


def test_versions_differ() -> None:
    assert rules(["--advantage-estimator", "rloo"]) == []
    assert rules(["--advantage-estimator", "rloo"], "infra") == ["parse.bad-choice"]
    assert missing_in(["--lr", "--save-lora-only", "--lora-rank"], "studio") == ("--save-lora-only",)
    assert missing_in(["--lr", "--save-lora-only", "--lora-rank"], "infra") == ("--save-lora-only", "--lora-rank")
    text = load_contract("infra").parse(["--lora-rank", "8"]).problems[0].text
    assert text == "--lora-rank does not exist in this version (only in studio, latest)"


def test_sglang_flags_follow_the_image_of_the_version() -> None:
    # 0.5.9 registers --sglang-dp-size as an alias of --sglang-data-parallel-size, 0.5.17 the other way round
    assert load_contract("infra").parse(["--sglang-dp-size", "2"]).get("sglang_data_parallel_size") == 2
    assert load_contract("latest").parse(["--sglang-dp-size", "2"]).get("sglang_dp_size") == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_names_its_source(version: str) -> None:
    contract = load_contract(version)  # type: ignore[arg-type]
    assert contract.source["repository"] in ("redai-infra/Relax", "redai-studio/Relax")
    assert len(contract.source["relax/utils/arguments.py"]) == 40
    assert len(contract.flags) > 1800


def test_unknown_version() -> None:
    with pytest.raises(ValueError, match="no Relax version 'newest'"):
        load_contract("newest")  # type: ignore[arg-type]


def test_loads_fast_and_from_the_standard_library_alone() -> None:
    program = (
        "import sys, time, json\n"
        "began = time.process_time()\n"
        "from migrate_tools.relax.flag_rules import check_rules\n"
        "from migrate_tools.relax.contract import load_contract\n"
        "load_contract()\n"
        "heavy = [n for n in ('pydantic', 'yaml', 'pyarrow', 'numpy') if n in sys.modules]\n"
        "print(json.dumps([time.process_time() - began, heavy]))\n"
    )
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    seconds, heavy = json.loads(done.stdout)
    assert heavy == []
    assert seconds < 1.0, f"{time.monotonic() - began:.2f} s"
