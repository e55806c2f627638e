"""A whole example: which files, the same bytes again, and how it is put into a checkout."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from migrate_tools.errors import RefusedInput, UsageError
from migrate_tools.mapping.turns import MAX_TURNS
from migrate_tools.model import DataSpec, Example, ExampleFile, MultiTurn, ToolSpec
from migrate_tools.relax import install
from migrate_tools.relax.install import write_example
from migrate_tools.relax.render import render_example, reward_module_names
from migrate_tools.verl.extract import Extracted
from writer_inputs import make_extracted, make_launch, make_recipe, make_translation

CODE = "def compute_score(solution_str):\n    return 1.0\n"
OTHER = "def compute_score(solution_str):\n    return 2.0\n"


def rendered(launches: list[Any], codes: list[str], **values: Any) -> Example:
    single = len(launches) == 1
    translations = [
        make_translation(launch.name, variant="" if single else launch.name.removeprefix("run_"),
                         config_yaml={f"demo_{key}": item for key, item in launch.reward.kwargs.items()}, **values)
        for launch in launches
    ]  # fmt: skip
    extracted = {launch.name: make_extracted(code) for launch, code in zip(launches, codes, strict=True)}
    return render_example(make_recipe(*launches), translations, extracted, algo="demo", relax_version="latest")


def test_files_of_one_launch() -> None:
    example = rendered([make_launch(kwargs={"form": 0.1})], [CODE])
    assert [file.path for file in example.files] == [
        "examples/demo/README.md",
        "examples/demo/__init__.py",
        "examples/demo/demo_config.yaml",
        "examples/demo/reward_demo.py",
        "examples/demo/run_demo.sh",
        "scripts/tools/process_demo.py",
    ]
    assert yaml.safe_load(example.file("examples/demo/demo_config.yaml").text) == {"demo_form": 0.1}
    assert example.file("examples/demo/run_demo.sh").executable
    assert "--custom-config-path" in example.file("examples/demo/run_demo.sh").text
    assert all(file.text.endswith("\n") for file in example.files)


def test_shared_rewards_are_written_once_and_others_get_their_own_hook() -> None:
    launches = [make_launch(name=name) for name in ("run_a", "run_b", "run_c")]
    example = rendered(launches, [CODE, OTHER, CODE])
    rewards = [file.path for file in example.files if "reward_" in file.path]
    assert rewards == ["examples/demo/reward_demo.py", "examples/demo/reward_demo_b.py"]
    hooks = {
        name: next(line.split()[1] for line in example.file(f"examples/demo/run_demo_{name}.sh").text.splitlines()
                   if "--custom-rm-path" in line)
        for name in "abc"
    }  # fmt: skip
    assert hooks == {
        "a": "examples.demo.reward_demo.reward_func",
        "b": "examples.demo.reward_demo_b.reward_func",
        "c": "examples.demo.reward_demo.reward_func",
    }


def test_other_settings_of_the_manager_are_another_reward() -> None:
    launches = {"a": make_launch(name="a"), "b": make_launch(name="b", manager="prime")}
    translations = [make_translation("a", variant="a"), make_translation("b", variant="b")]
    found = {name: make_extracted(CODE) for name in launches}
    assert reward_module_names(translations, found, launches) == {"a": "reward_demo", "b": "reward_demo_b"}
    assert reward_module_names(translations, {"a": None, "b": found["b"]}, launches) == {"b": "reward_demo"}


def test_the_same_bytes_again() -> None:
    assert rendered([make_launch()], [CODE]) == rendered([make_launch()], [CODE])


def test_the_converter_carries_the_columns_of_the_recipe(tmp_path: Path) -> None:
    data = DataSpec(prompt_key="question", reward_fn_key="origin", multimodal=("images",))
    text = rendered([make_launch(data=data)], [CODE]).file("scripts/tools/process_demo.py").text
    path = tmp_path / "process_demo.py"
    path.write_text(text)
    source = tmp_path / "verl.parquet"
    row = {"question": "Q <image>", "origin": "s", "reward_model": {"ground_truth": "4"}, "images": {"bytes": b"x"}}
    pq.write_table(pa.Table.from_pylist([row]), source)
    command = [sys.executable, str(path), "--val", str(source), "--output-dir", str(tmp_path / "out")]
    subprocess.run(command, check=True, capture_output=True)
    result = pq.ParquetFile(tmp_path / "out" / "val.parquet").read().to_pylist()[0]
    assert (result["prompt"], result["label"], result["images"]) == ("Q <image>", "4", [{"bytes": b"x"}])
    assert result["extra_info"] == {"data_source": "s"}


def test_launches_with_other_columns_are_refused() -> None:
    launches = [make_launch(name="run_a"), make_launch(name="run_b", data=DataSpec(prompt_key="question"))]
    with pytest.raises(RefusedInput, match="columns differently: prompt prompt, .*; prompt question, "):
        rendered(launches, [CODE, CODE])


LOOK = ToolSpec(name="look", kind="base_tool", class_name="a.Look", file="a.py", parameters={"type": "function"})


def turning(limits: list[dict[str, Any]]) -> Example:
    """An example whose launches have the same tool and these limits."""
    launches = [
        make_launch(name=f"run_{number}").model_copy(update={"multi_turn": MultiTurn(tools=(LOOK,), **own)})
        for number, own in enumerate(limits)
    ]
    translations = [
        make_translation(
            launch.name,
            variant=launch.name.removeprefix("run_"),
            config_yaml={MAX_TURNS: own["max_assistant_turns"]} if own.get("max_assistant_turns") else {},
        )
        for launch, own in zip(launches, limits, strict=True)
    ]
    found = make_extracted(CODE, tools=Extracted(code="PARTS = {}\n", entry="PARTS", is_async=False))
    extracted = {launch.name: found for launch in launches}
    return render_example(make_recipe(*launches), translations, extracted, algo="demo", relax_version="latest")


@pytest.mark.parametrize(("limits", "constant"), [((6, 10), 6), ((6, None), None), ((None, 10), None)])
def test_launches_with_other_limits_of_answers_share_an_environment(
    limits: tuple[int | None, ...], constant: int | None
) -> None:
    example = turning([{"max_assistant_turns": limit} for limit in limits])
    environments = [file for file in example.files if "/env_" in file.path]
    assert [file.path for file in environments] == ["examples/demo/env_demo.py"]
    assert f"MAX_ASSISTANT_TURNS = {constant}\n" in environments[0].text
    assert "Tools of run_0.sh, run_1.sh (verl 0.9.1)." in environments[0].text
    told = [yaml.safe_load(file.text) for file in example.files if file.path.endswith(".yaml")]
    assert told == [{MAX_TURNS: limit} for limit in limits if limit]


def test_launches_with_other_limits_of_calls_are_refused_by_name() -> None:
    words = "env_demo.py of run_1.sh has 'MAX_PARALLEL_CALLS = 3' in place of 'MAX_PARALLEL_CALLS = 2'"
    with pytest.raises(RefusedInput, match=words):
        turning([{"max_parallel_calls": 2}, {"max_parallel_calls": 3}])


def test_no_launch_is_refused() -> None:
    with pytest.raises(RefusedInput, match="no launch is left"):
        render_example(make_recipe(), [], {}, algo="demo", relax_version="latest")


def example(**texts: str) -> Example:
    files = tuple(
        ExampleFile(path=path.replace("__", "/"), text=text, origin="rendered") for path, text in texts.items()
    )
    return Example(algo="demo", files=files)


def test_written_files_and_their_manifest(tmp_path: Path) -> None:
    item = ExampleFile(path="examples/demo/run.sh", text="#!/bin/bash\n", origin="rendered", executable=True)
    written = write_example(Example(algo="demo", files=(item,)), tmp_path / "new" / "relax", force=False)
    assert [path.name for path in written] == ["run.sh", "files.json"]
    assert written[0].stat().st_mode & 0o777 == 0o755
    manifest = json.loads(written[1].read_text())
    assert manifest["files"]["examples/demo/run.sh"]["sha256"] == install.sha256("#!/bin/bash\n")


def test_nothing_changes_the_second_time(tmp_path: Path) -> None:
    write_example(example(examples__demo__a="1"), tmp_path, force=False)
    assert write_example(example(examples__demo__a="1"), tmp_path, force=False) == ()
    assert write_example(example(examples__demo__a="2"), tmp_path, force=False)
    assert (tmp_path / "examples/demo/a").read_text() == "2"


def test_edited_and_foreign_files_are_kept_without_force(tmp_path: Path) -> None:
    write_example(example(examples__demo__a="1", examples__demo__b="1"), tmp_path, force=False)
    (tmp_path / "examples/demo/a").write_text("mine")
    (tmp_path / "examples/demo/c").write_text("theirs")
    new = example(examples__demo__a="2", examples__demo__b="2", examples__demo__c="2")
    with pytest.raises(UsageError, match="examples/demo/a, examples/demo/c were edited or not written"):
        write_example(new, tmp_path, force=False)
    assert [(tmp_path / f"examples/demo/{name}").read_text() for name in "abc"] == ["mine", "1", "theirs"]
    write_example(new, tmp_path, force=True)
    assert [(tmp_path / f"examples/demo/{name}").read_text() for name in "abc"] == ["2", "2", "2"]


@pytest.mark.parametrize("path", ["../x", "/etc/x", "examples/../../x", "a\\b", ""])
def test_paths_that_leave_the_target_are_refused(tmp_path: Path, path: str) -> None:
    bad = Example(algo="demo", files=(ExampleFile(path=path, text="x", origin="rendered"),))
    with pytest.raises(UsageError, match="not a path inside the example"):
        write_example(bad, tmp_path / "t", force=True)
    assert not (tmp_path / "t").exists()


def test_links_out_of_the_target_are_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    target = tmp_path / "t"
    target.mkdir()
    (target / "examples").symlink_to(outside)
    with pytest.raises(UsageError, match="a link out of"):
        write_example(example(examples__demo__a="1"), target, force=True)
    assert list(outside.iterdir()) == []


def test_a_failure_half_way_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_example(example(examples__demo__a="1"), tmp_path, force=False)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    original = Path.replace
    moved: list[Path] = []

    def fail(self: Path, target: Path) -> Path:
        if self.name.startswith("new-") and moved:
            raise OSError("disk full")
        moved.append(self)
        return original(self, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_example(example(examples__demo__a="2", scripts__tools__b="2"), tmp_path, force=False)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert not (tmp_path / "scripts").exists()


def test_the_readme_says_how_a_gpu_goes_on_from_the_rehearsed_samples() -> None:
    text = rendered([make_launch()], [CODE]).file("examples/demo/README.md").text
    assert "--rollout-batch-size 2 --global-batch-size" in text
    assert 'load-debug-rollout-data "$PWD/examples/demo/migration/rollout/' in text
