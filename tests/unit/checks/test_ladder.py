"""The rungs of the ladder on small hand-made examples."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from migrate_tools.checks import LADDER, CheckContext, run_ladder
from migrate_tools.checks.contract import ContractCheck, hydra_words, verl_imports
from migrate_tools.checks.imports import ImportCheck
from migrate_tools.checks.rehearsal import RehearsalCheck
from migrate_tools.checks.syntax import SyntaxCheck
from migrate_tools.checks.tools import ToolsCheck
from migrate_tools.model import (
    CheckResult,
    DataSpec,
    Example,
    ExampleFile,
    Launch,
    MultiTurn,
    Recipe,
    RewardSpec,
    ToolSpec,
    Translation,
    VerlRef,
)
from migrate_tools.rehearsal import gpu
from migrate_tools.rehearsal.converted import Converted
from migrate_tools.rehearsal.rehearse import RehearsalRun
from migrate_tools.rehearsal.runtime.probe_data import same
from migrate_tools.sandbox import Job, Outcome, Sandbox, open_sandbox

pytestmark = pytest.mark.jail

ARGV = [
    *("--resource", '{"actor":[1,8],"rollout":[1,8]}', "--colocate", "--hf-checkpoint", "/m", "--ref-load", "/m"),
    *("--prompt-data", "/d.parquet", "--custom-rm-path", "examples.toy.reward_toy.reward_func", "--num-rollout", "1"),
    *("--rollout-batch-size", "8", "--n-samples-per-prompt", "4", "--global-batch-size", "32"),
]


class NoSandbox:
    """For checks that must not run anything."""

    name = "none"

    def run(self, job: Job) -> Outcome:
        raise AssertionError(f"a job was started: {job.argv}")


def item(path: str, text: str) -> ExampleFile:
    return ExampleFile(path=path, text=text, origin="rendered")


def context(
    folder: Path,
    files: Mapping[str, str],
    *,
    argv: Sequence[str] | None = None,
    refusal: str = "",
    sandbox: Sandbox | None = None,
    runs: Mapping[str, RehearsalRun] | None = None,
    turns: MultiTurn | None = None,
) -> CheckContext:
    """A context whose rehearsals have already happened."""
    example = Example(algo="toy", files=tuple(item(path, text) for path, text in files.items()))
    for file in example.files:
        path = folder / "stage" / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, "utf-8")
    launch = Launch(
        name="run_toy",
        script="run_toy.sh",
        module="verl.trainer.main_ppo",
        verl=VerlRef(version="0.9.1", root="/", how="made for the test"),
        reward=RewardSpec(kind="none"),
        data=DataSpec(),
        multi_turn=turns,
    )
    recipe = Recipe(name="toy", root=str(folder), project_root=str(folder), sha256="0", launches=(launch,))
    translation = Translation(launch="run_toy", algo="toy", async_refusal=refusal)
    report = {"argv": list(ARGV if argv is None else argv), "failures": [], "warnings": []}
    made: dict[tuple[str, ...], Any] = {
        ("run", "run_toy", mode): (runs or {}).get(mode) or past_run(mode, report) for mode in ("sync", "async")
    }
    made["data", "run_toy"] = Converted(folder / "converted", (), "scripts/tools/process_toy.py", None)
    return CheckContext(
        recipe=recipe,
        translations=(translation,),
        example=example,
        stage=folder / "stage",
        sandbox=sandbox or NoSandbox(),
        work=folder / "work",
        _made=made,
    )


def past_run(mode: Any, report: dict[str, Any] | None, returncode: int = 0, cause: str = "") -> RehearsalRun:
    return RehearsalRun(mode, "examples/toy/run_toy.sh", report, returncode, cause, 0.5)


def only(results: tuple[CheckResult, ...]) -> CheckResult:
    assert len(results) == 1
    return results[0]


def test_the_ladder_has_every_rung_once() -> None:
    assert [check.rung for check in LADDER] == list(range(8))


def test_run_ladder_runs_what_it_is_given(tmp_path: Path) -> None:
    results = run_ladder(context(tmp_path, {"a.py": ""}), only=[SyntaxCheck(), ToolsCheck()])
    assert [(result.rung, result.status) for result in results] == [(0, "passed"), (4, "skipped")]


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("a.py", "def f(:\n", "a.py:1: invalid syntax"),
        ("a.sh", "if true; then\n", "a.sh: line 2: syntax error: unexpected end of file"),
        ("a.sh", "#!/bin/bash\nrm $undefined_thing/*\nread x\n", "SC2162"),
        ("a.yaml", "a: [1\n", "a.yaml: while parsing"),
        ("a.json", "{", "a.json: Expecting property name"),
    ],
)
def test_malformed_files(tmp_path: Path, path: str, text: str, problem: str) -> None:
    result = only(SyntaxCheck().run(context(tmp_path, {path: text})))
    assert result.status == "failed"
    assert any(problem in line for line in result.evidence["problems"]), result.evidence


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("import verl.utils\n", ["a.py:1: imports verl.utils"]),
        ("def f():\n    from verl import x\n", ["a.py:2: imports verl"]),
        ("import importlib\nimportlib.import_module('verl.x')\n", ["a.py:2: imports verl.x"]),
        ("__import__('verl')\n", ["a.py:1: imports verl"]),
        ("# import verl\nimport verlite\nfrom .verl import x\ntext = 'import verl'\n", []),
    ],
)
def test_verl_imports(code: str, lines: list[str]) -> None:
    assert verl_imports(item("a.py", code)) == lines


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("    actor_rollout_ref.rollout.n=8 \\", ["a.sh:1: Hydra override actor_rollout_ref.rollout.n="]),
        ("    +data.custom_cls.path=x", ["a.sh:1: Hydra override +data.custom_cls.path="]),
        ("python3 -m verl.trainer.main_ppo", ["a.sh:1: verl entry point"]),
        ("# data.train_files=x", []),
        ('EXP_NAME="${EXP_NAME:=qwen2.5-grpo}"', []),
        ("    --lr 1e-6", []),
        ('    --custom-rm-path "examples.toy.reward_toy.reward_func"', []),
    ],
)
def test_hydra_words(line: str, found: list[str]) -> None:
    assert hydra_words(item("a.sh", line)) == found


def test_contract_reads_the_recorded_command_lines(tmp_path: Path) -> None:
    result = only(ContractCheck().run(context(tmp_path, {}, argv=[*ARGV, "--reward-keys", "score"])))
    assert result.status == "failed"
    assert result.evidence["problems"] == [
        "[both modes] parse.unknown-flag: --reward-keys is not a flag of Relax; did you mean --reward-key?"
    ]
    assert result.evidence["argv"] == {"run_toy": "recorded"}


def test_contract_names_flags_that_older_versions_lack(tmp_path: Path) -> None:
    result = only(ContractCheck().run(context(tmp_path, {}, argv=[*ARGV, "--lora-rank", "8"])))
    assert result.status == "passed"
    assert result.evidence["missing_in"] == {"infra": ["--lora-rank"]}
    assert result.evidence["flags"] == 11


def test_contract_leaves_a_refused_mode_out(tmp_path: Path) -> None:
    runs = {"async": past_run("async", None, 2, "async is not possible")}
    result = only(ContractCheck().run(context(tmp_path, {}, refusal="rloo is colocate only", runs=runs)))
    assert result.status == "passed"


@pytest.mark.parametrize(
    ("run", "refusal", "status", "summary"),
    [
        (past_run("async", None, 2, "async is not possible: rloo"), "x", "passed", "async is refused: async is not"),
        (past_run("async", {"argv": [], "failures": [], "warnings": []}), "x", "failed", "started the trainer"),
        (past_run("async", None, 0), "x", "failed", "did not refuse"),
        (past_run("async", None, 2, ""), "x", "failed", "without saying why"),
        (past_run("async", None, 1, "no such file"), "", "failed", "before the trainer started: no such file"),
    ],
)
def test_refusals(tmp_path: Path, run: RehearsalRun, refusal: str, status: str, summary: str) -> None:
    results = RehearsalCheck().run(context(tmp_path, {}, refusal=refusal, runs={"async": run}))
    assert results[1].name == "rehearsal:run_toy:async"
    assert results[1].status == status
    assert summary in results[1].summary


AGENTS = {"sessions": 8, "requests": 8, "sessions_with_calls": 0, "sessions_with_observations": 0}
SAMPLES = {"samples": 8, "samples_with_results": 0, "num_turns": {}}


@pytest.mark.parametrize(
    ("seen", "tools", "status", "summary"),
    [
        ({"agentic": AGENTS}, False, "not_checkable", "none of 8 processes of the agent showed the model a tool"),
        ({"agentic": {**AGENTS, "sessions_with_calls": 3}}, False, "failed", "called tools in 3 processes, and none"),
        ({"agentic": {**AGENTS, "sessions_with_observations": 1}}, False, "passed", "1 processes sent results"),
        ({"turns": SAMPLES, "engine": {"call": 4}}, True, "not_checkable", "none of 8 samples saw a result of a tool"),
        ({"turns": SAMPLES}, True, "not_checkable", "nobody here writes calls in the form kimi"),
        ({"turns": {**SAMPLES, "samples_with_results": 8}}, True, "passed", "8 samples saw results"),
        ({"turns": SAMPLES}, False, "passed", "no invariant broken"),
    ],
)
def test_a_rollout_in_which_no_tool_is_used_does_not_pass(
    tmp_path: Path, seen: dict[str, Any], tools: bool, status: str, summary: str
) -> None:
    rollout = {"prompts": 2, "prompts_of_a_rollout": 2, "samples_per_prompt": 4}
    run = past_run("sync", {"argv": [], "failures": [], "warnings": [], "rollout": rollout, **seen})
    look = ToolSpec(name="look", kind="base_tool", class_name="Look")
    turns = MultiTurn(format="kimi", tools=(look,) if tools else ())
    result = RehearsalCheck().run(context(tmp_path, {}, runs={"sync": run}, turns=turns))[0]
    assert result.status == status
    assert summary in result.summary


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("def reward_func(args, sample): ...\n", ""),
        ("import torch\ndef reward_func(args, sample): ...\n", "ImportError: a hook must not import torch"),
        ("try:\n    import ray\nexcept ImportError:\n    ray = None\nreward_func = None\n", "not callable"),
        ("def other(): ...\n", "AttributeError"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
    ],
)
def test_hooks_import_without_heavy_packages(tmp_path: Path, code: str, problem: str) -> None:
    files = {"examples/toy/__init__.py": "", "examples/toy/reward_toy.py": code}
    result = only(ImportCheck().run(context(tmp_path, files, sandbox=open_sandbox("bubblewrap"))))
    assert result.evidence["hooks"] == ["examples.toy.reward_toy.reward_func"]
    assert result.status == ("failed" if problem else "passed")
    assert problem in result.summary


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1, 1.0, False),
        (True, 1, False),
        (float("nan"), float("nan"), True),
        ([{"a": 1}], [{"a": 1}], True),
        ("1", 1, False),
    ],
)
def test_lossless_means_same_type_and_value(left: Any, right: Any, equal: bool) -> None:
    assert same(left, right) is equal


def answer(code: int, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], code, text, "")


def test_smoke_is_skipped_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu.shutil, "which", lambda name: None)
    assert (gpu.obstacle() or "").startswith("there is no NVIDIA GPU on this machine")
    monkeypatch.setattr(gpu.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert "the image" in (gpu.obstacle(lambda argv, seconds: answer(argv[0] == "docker", "H100")) or "")
    assert gpu.obstacle(lambda argv, seconds: answer(0, "H100")) is None


def test_smoke_runs_one_step_with_overrides_after_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu.shutil, "which", lambda name: f"/usr/bin/{name}")
    (tmp_path / "models" / "Qwen3-0.6B").mkdir(parents=True)
    (tmp_path / "tree" / "examples" / "toy").mkdir(parents=True)
    seen: list[list[str]] = []

    def run(argv: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
        seen.append(list(argv))
        return answer(0, "H100\n")

    result = gpu.run_smoke(
        Example(algo="toy", files=()),
        Translation(launch="run_toy", algo="toy", model_dir_name="Qwen3-0.6B"),
        tree=tmp_path / "tree",
        data=tmp_path / "data",
        models=tmp_path / "models",
        place=tmp_path / "smoke",
        run=run,
    )
    assert result.status == "passed"
    command = seen[-1]
    assert command[:2] == ["docker", "run"]
    assert command[command.index("--gpus") + 1] == "all"
    assert f"{tmp_path}/tree/examples/toy:/root/Relax/examples/toy:ro" in command
    assert command[-4] == gpu.IMAGE
    assert command[-1].startswith('bash examples/toy/run_toy.sh sync --resource \'{"actor":[1,1],"rollout":[1,1]}\'')
    assert "--num-rollout 1 " in command[-1]
    assert "--eval-interval" not in command[-1]
