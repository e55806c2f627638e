"""What a recipe's own data set class does to a row is done while converting, or named."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from migrate_tools.model import DataSpec
from migrate_tools.relax.process_script import render_process
from migrate_tools.verl.dataset_class import DatasetFacts, read_dataset_class, tool_images
from migrate_tools.verl.module_finder import ModuleFinder

HEAD = """\
import datasets
from helpers import HINT, add_hint
from verl.utils.dataset import RLHFDataset

AGENT = "tool_agent"
"""
MAPPED = """
class Rows(RLHFDataset):
    def _read_files_and_tokenize(self):
        frames = []
        for file in self.data_files:
            frame = datasets.load_dataset("parquet", data_files=file)["train"]
            if "hub/name" in file:
                frame = frame.map(self.from_hub, fn_kwargs={"name": "x"})
            else:
                frame = frame.map(self.with_hint, num_proc=4)
            frames.append(frame)
        self.dataframe = datasets.concatenate_datasets(frames)

    def from_hub(self, row, *, name):
        return {"prompt": row["Problem"]}

    def with_hint(self, row):
        row["prompt"][-1]["content"] += HINT
        row["agent_name"] = AGENT
        return row
"""
REWRITTEN = """
class Rows(RLHFDataset):
    def __getitem__(self, item):
        row_dict: dict = self.dataframe[item]
        row_dict[self.prompt_key] = [
            {"role": "system", "content": "Use the tools."},
            {"role": "user", "content": row_dict[self.prompt_key][-1]["content"]},
        ]
        row_dict["agent_name"] = "tool_agent"
        model_inputs = self.tokenizer(row_dict[self.prompt_key])
        row_dict["input_ids"] = model_inputs["input_ids"]
        row_dict["tools_kwargs"] = {"zoom": {"create_kwargs": {"image": model_inputs}}}
        return row_dict

    def on_batch_end(self, batch):
        self.dataframe = self.dataframe
"""


def facts(folder: Path, text: str, name: str = "Rows") -> DatasetFacts:
    (folder / "helpers.py").write_text(
        'HINT = "\\nAnswer in a box."\n\n\ndef add_hint(row):\n    row["reward_model"] = 1\n'
    )
    path = folder / "data.py"
    path.write_text(HEAD + dedent(text))
    return read_dataset_class(path, name, ModuleFinder(folder, folder / "none", (folder,)), "prompt")


def converted(folder: Path, code: str, *options: str) -> list[dict[str, object]]:
    """Rows through the generated script with the recipe's own code in it."""
    script = folder / "process_demo.py"
    script.write_text(render_process("demo", [DataSpec(row_code=code)]))
    row = {
        "prompt": [{"role": "user", "content": "1 + 1?"}],
        "data_source": "s",
        "reward_model": {"style": "rule", "ground_truth": "2"},
        "extra_info": {"index": 0},
        "images": [{"bytes": b"\x01"}],
    }
    pq.write_table(pa.Table.from_pylist([row, row]), folder / "in.parquet")
    command = [sys.executable, str(script), "--train", str(folder / "in.parquet"), "--output-dir", str(folder / "out")]
    subprocess.run([*command, *options], check=True, capture_output=True, timeout=120)
    rows: list[dict[str, object]] = pq.read_table(folder / "out" / "train.parquet").to_pylist()
    return rows


def test_a_function_over_the_rows_is_applied_while_converting(tmp_path: Path) -> None:
    found = facts(tmp_path, MAPPED)
    assert found.moved == ["with_hint over every row"]
    assert found.left == ["from_hub with arguments of its own, for data from a hub: convert such data yourself"]
    first, second = converted(tmp_path, found.code)
    assert first["prompt"] == [{"role": "user", "content": "1 + 1?\nAnswer in a box."}]
    assert first["agent_name"] == "tool_agent"
    assert first["extra_info"] == {"index": 0, "data_source": "s", "style": "rule", "agent_name": "tool_agent"}
    assert first["label"] == "2"
    assert first["images"] == [{"bytes": b"\x01"}]
    assert first == second
    assert converted(tmp_path, found.code, "--no-row-function")[0]["prompt"] == [{"role": "user", "content": "1 + 1?"}]


def test_a_prompt_that_is_rewritten(tmp_path: Path) -> None:
    found = facts(tmp_path, REWRITTEN)
    assert found.moved == ["Rows.__getitem__ rewrites prompt", "Rows.__getitem__ rewrites agent_name"]
    assert found.left == [
        "Rows.__getitem__ computes tools_kwargs",
        "Rows.on_batch_end is its own (what happens after a batch)",
    ]
    (first, _) = converted(tmp_path, found.code)
    assert first["prompt"] == [
        {"role": "system", "content": "Use the tools."},
        {"role": "user", "content": "1 + 1?"},
    ]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            MAPPED.replace('row["agent_name"] = AGENT', 'row["reward_model"] = {"ground_truth": "3"}'),
            "with_hint sets reward_model, which the reward may read",
        ),
        (MAPPED.replace("self.with_hint, num", "add_hint, num"), "add_hint over every row, which sets reward_model"),
        (
            MAPPED.replace("+= HINT", "+= self.tokenizer.eos_token"),
            "with_hint over every row, which uses self.tokenizer",
        ),
        ("class Other:\n    pass\n", "data.py has no class Rows"),
        ("class Rows(:\n", "data.py cannot be read"),
    ],
    ids=["reward", "imported", "self", "absent", "broken"],
)
def test_what_cannot_be_done_offline_is_named(tmp_path: Path, text: str, left: str) -> None:
    found = facts(tmp_path, text)
    assert (found.code, found.moved) == ("", [])
    assert any(line.startswith(left) for line in found.left), found.left


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ('{"zoom": {"create_kwargs": {"image": images[0]}}}', {"zoom": {"image": 0}}),
        (
            '{"a": {"create_kwargs": {"all": images}}, "b": {"create_kwargs": {"x": images[1]}}}',
            {"a": {"all": None}, "b": {"x": 1}},
        ),
        ('{"zoom": {"create_kwargs": {"image": other[0]}}}', {}),
        ('{"zoom": {"execute_kwargs": {"image": images[0]}}}', {}),
        ('{"zoom": {"create_kwargs": {"image": images[0], "index": 3}}}', {}),
        ("{}", {}),
        ("kwargs", {"zoom": {"image": 0}}),
    ],
)
def test_tools_that_get_the_images_of_their_row(value: str, wanted: dict[str, Any]) -> None:
    source = f"""
def __getitem__(self, item):
    row_dict = self.dataframe[item]
    images = []
    images = [Image.open(io.BytesIO(image["bytes"])) for image in row_dict["images"]]
    other = [1]
    kwargs = {{"zoom": {{"create_kwargs": {{"image": images[0]}}}}}}
    row_dict["tools_kwargs"] = {value}
"""
    getter = ast.parse(source).body[0]
    assert isinstance(getter, ast.FunctionDef)
    last = getter.body[-1]
    assert isinstance(last, ast.Assign)
    assert tool_images(getter, last.value) == wanted
