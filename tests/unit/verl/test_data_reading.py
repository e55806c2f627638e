"""The data of a launch: from files, else from what preparation scripts, known names and the reward say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from migrate_tools.errors import RefusedInput
from migrate_tools.model import DataSpec, Note, RewardSpec, Setting, SourceRef, VerlRef
from migrate_tools.verl.data_reader import as_list, read_data
from migrate_tools.verl.extract import extract_reward
from migrate_tools.verl.parquet_facts import _prompt_form
from migrate_tools.verl.prompt_form import with_prompt_form
from test_extract_closure import write

DISPATCH = """\
def default_compute_score(data_source, solution_str, ground_truth, extra_info=None):
    if data_source == "openai/gsm8k":
        from . import gsm8k

        return gsm8k.compute_score(solution_str, ground_truth)
    else:
        raise NotImplementedError
"""
GSM8K = "def compute_score(solution_str, ground_truth):\n    return float(ground_truth in solution_str)\n"
BUILTIN = RewardSpec(kind="builtin", path="verl/utils/reward_score/__init__.py", function="default_compute_score")
CUSTOM = RewardSpec(kind="custom", path="reward.py", function="compute_score")
PREP = """\
import datasets


def extract(text):
    return text.split("####")[1].strip()


data_source = "me/sums"
dataset = datasets.load_dataset("x")


def row(example, idx):
    return {
        "data_source": data_source,
        "prompt": [{"role": "user", "content": example["q"]}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": extract(example["a"])},
        "extra_info": {"split": "train", "index": idx},
    }


dataset.map(row).to_parquet("~/data/sums/train.parquet")
"""


def row(source: str = "openai/gsm8k", truth: Any = "4", **more: Any) -> dict[str, Any]:
    return {
        "data_source": source,
        "prompt": [{"role": "user", "content": "2+2?"}],
        "reward_model": {"style": "rule", "ground_truth": truth},
        **more,
    }


def save(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), path)


def read(
    root: Path, config: Mapping[str, Any], reward: RewardSpec = CUSTOM, texts: Mapping[str, str] | None = None
) -> tuple[DataSpec, tuple[Note, ...]]:
    write(
        root / "installed",
        {"verl/utils/reward_score/__init__.py": DISPATCH, "verl/utils/reward_score/gsm8k.py": GSM8K},
    )
    if not (root / "reward.py").exists():
        write(
            root,
            {
                "reward.py": "def compute_score(data_source, solution_str, ground_truth, "
                "extra_info=None):\n    return 1.0\n"
            },
        )
    settings = [
        Setting(key=k, value=v, text=(texts or {}).get(k, str(v)), source=SourceRef(file="run.sh", line=5))
        for k, v in config.items()
    ]
    return read_data(
        config,
        settings,
        project_root=root,
        recipe_root=root,
        verl=VerlRef(version="0.9.1", root=str(root / "installed"), how="test"),
        reward=reward,
        resolve=lambda text: path if (path := root / text).exists() else None,
    )


def test_a_parquet_file_says_everything(tmp_path: Path) -> None:
    save(tmp_path / "d/train.parquet", [row("b", extra_info={"index": 1, "split": "train"}), row("a"), row("b")])
    save(tmp_path / "d/val.parquet", [row("a", images=[{"bytes": b"x"}])])
    spec, notes = read(tmp_path, {"data.train_files": "d/train.parquet", "data.val_files": ["d/val.parquet"]})
    assert spec.known_from == "files"
    assert [(file.rows, file.path) for file in spec.train] == [(3, str(tmp_path / "d/train.parquet"))]
    assert [(s.name, s.split, s.rows, s.file) for s in spec.sources] == [
        ("a", "train", 1, "d/train.parquet"),
        ("b", "train", 2, "d/train.parquet"),
        ("a", "val", 1, "d/val.parquet"),
    ]
    assert (spec.truth, spec.prompt_form, spec.multimodal) == ("string", "chat", ("images",))
    assert set(spec.extra_info_keys) == {"index", "split"}
    assert spec.columns["data_source"] == "string"
    assert spec.example_rows == ()
    assert notes == ()


@pytest.mark.parametrize(
    ("truth", "kind"),
    [("4", "string"), (4, "number"), (2.5, "number"), (["a"], "list"), ({"target": ["a"]}, "dict"), (None, "none")],
)
def test_the_kind_of_the_ground_truth(tmp_path: Path, truth: Any, kind: str) -> None:
    save(tmp_path / "t.parquet", [row(truth=truth)])
    assert read(tmp_path, {"data.train_files": "t.parquet"})[0].truth == kind


MARKED = "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n"
APPLIES = "def prompt(self, chat):\n    return self.tokenizer.apply_chat_template(chat)\n"
TAKES_TEXT = "def prompt(self, chat):\n    # self.tokenizer.apply_chat_template(chat)\n    return chat[0]['content']\n"


@pytest.mark.parametrize(
    ("prompt", "dataset", "form", "codes"),
    [
        ("2+2?", APPLIES, "string", []),
        ([{"role": "user", "content": "2+2?"}], APPLIES, "chat", []),
        (MARKED, APPLIES, "string", ["prompt-templated-twice"]),
        ([{"role": "user", "content": MARKED}], APPLIES, "chat", ["prompt-templated-twice"]),
        ([{"role": "user", "content": MARKED}], TAKES_TEXT, "templated", ["prompt-raw"]),
        ([{"role": "user", "content": "2+2?"}], TAKES_TEXT, "templated", ["prompt-raw"]),
        ("2+2?", TAKES_TEXT, "templated", ["prompt-raw"]),
    ],
)
def test_whether_a_template_follows_is_what_this_verl_does(
    tmp_path: Path, prompt: Any, dataset: str, form: str, codes: list[str]
) -> None:
    place = tmp_path / "source" / "verl" / "utils" / "dataset"
    place.mkdir(parents=True)
    (place / "rl_dataset.py").write_text(dataset)
    data = DataSpec(
        prompt_form=_prompt_form(prompt), columns={"prompt": "string" if isinstance(prompt, str) else "list"}
    )
    result, notes = with_prompt_form(data, str(tmp_path / "source"))
    assert (result.prompt_form, [note.code for note in notes]) == (form, codes)


def test_folders_and_patterns(tmp_path: Path) -> None:
    save(tmp_path / "d/a/0.parquet", [row()])
    save(tmp_path / "d/b/1.parquet", [row(), row()])
    save(tmp_path / "d/b/2.parquet", [row()])
    assert read(tmp_path, {"data.train_files": "d"})[0].train[0].rows == 4
    assert read(tmp_path, {"data.train_files": "d/b/*.parquet"})[0].train[0].rows == 3


def test_the_same_file_twice_stays_twice(tmp_path: Path) -> None:
    save(tmp_path / "t.parquet", [row()])
    spec, _ = read(tmp_path, {"data.train_files": ["t.parquet", "t.parquet"]})
    assert [file.rows for file in spec.train] == [1, 1]


def test_variables_of_the_script_stay_in_the_text(tmp_path: Path) -> None:
    spec, _ = read(
        tmp_path,
        {"data.train_files": ["/home/x/a.parquet", "/home/x/b.parquet"]},
        texts={"data.train_files": "['$HOME/a.parquet', '$HOME/b.parquet']"},
    )
    assert [file.text for file in spec.train] == ["$HOME/a.parquet", "$HOME/b.parquet"]


def test_configured_column_names(tmp_path: Path) -> None:
    save(tmp_path / "t.parquet", [{"origin": "z", "question": "q", "reward_model": {"ground_truth": "1"}}])
    spec, _ = read(
        tmp_path, {"data.train_files": "t.parquet", "data.prompt_key": "question", "data.reward_fn_key": "origin"}
    )
    assert (spec.prompt_key, spec.reward_fn_key, spec.sources[0].name) == ("question", "origin", "z")


def test_a_raw_file_names_the_preparation_script(tmp_path: Path) -> None:
    save(tmp_path / "raw.parquet", [{"question": "q", "answer": "a #### 1"}])
    with pytest.raises(RefusedInput) as caught:
        read(tmp_path, {"data.train_files": "raw.parquet"})
    assert "run.sh:5: raw.parquet has no column prompt and no column reward_model" in caught.value.message
    assert "examples/data_preprocess/gsm8k.py" in caught.value.hint


def test_a_dataset_class_may_read_other_columns(tmp_path: Path) -> None:
    save(tmp_path / "raw.parquet", [{"question": "q"}])
    spec, _ = read(
        tmp_path,
        {"data.train_files": "raw.parquet", "data.custom_cls.path": "d.py", "data.custom_cls.name": "Mine"},
    )
    assert spec.custom_class == "d.py:Mine"


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"not parquet at all")
    with pytest.raises(RefusedInput, match=r"t\.parquet \(t\.parquet\): cannot be read as parquet"):
        read(tmp_path, {"data.train_files": "t.parquet"})


@pytest.mark.parametrize("source", ["", "/home/me/data/gsm8k", "mirror/gsm8k"])
def test_a_source_without_a_scorer_is_an_error(tmp_path: Path, source: str) -> None:
    save(tmp_path / "t.parquet", [row(), row(source), row(source)])
    with pytest.raises(RefusedInput) as caught:
        read(tmp_path, {"data.train_files": "t.parquet"}, BUILTIN)
    assert f"data_source {source!r} (2 rows of t.parquet) selects no scorer" in caught.value.message


def test_sources_with_a_scorer_pass(tmp_path: Path) -> None:
    save(tmp_path / "t.parquet", [row()])
    assert read(tmp_path, {"data.train_files": "t.parquet"}, BUILTIN)[1] == ()


# ---------------------------------------------------------------- no files


def test_a_preparation_script_gives_the_contract(tmp_path: Path) -> None:
    write(tmp_path, {"prepare.py": PREP})
    spec, notes = read(tmp_path, {"data.train_files": "/x/data/sums/train.parquet"})
    assert (spec.known_from, spec.prep_script) == ("prep_script", "prepare.py")
    assert [(s.name, s.rows) for s in spec.sources] == [("me/sums", None)]
    assert (spec.truth, spec.prompt_form, spec.extra_info_keys) == ("string", "chat", ("split", "index"))
    assert [note.code for note in notes] == ["data-not-at-hand"]
    assert len(spec.example_rows) == 8
    first = spec.example_rows[0]
    assert first["data_source"] == "me/sums"
    assert first["prompt"][0]["role"] == "user"
    assert first["extra_info"] == {"split": "train", "index": 0}
    json.dumps(spec.example_rows)


def test_a_known_path_gives_the_contract(tmp_path: Path) -> None:
    spec, _ = read(tmp_path, {"data.train_files": "$HOME/data/gsm8k/train.parquet"}, BUILTIN)
    assert (spec.known_from, spec.sources[0].name, spec.truth) == ("known_dataset", "openai/gsm8k", "string")
    assert spec.example_rows[0]["reward_model"]["ground_truth"] == "18"
    verl = VerlRef(version="0.9.1", root=str(tmp_path / "installed"), how="test")
    found = extract_reward(BUILTIN, spec, project_root=tmp_path, verl=verl)
    space: dict[str, Any] = {}
    exec(found.code, space)
    assert space[found.entry]("openai/gsm8k", "it is 18", "18") == 1.0
    assert len(found.dropped) == 0
    assert "NotImplementedError" not in found.code


def test_unknown_data_for_verls_dispatch_has_the_names_that_it_knows(tmp_path: Path) -> None:
    spec, _ = read(tmp_path, {"data.train_files": "/x/placeholder.parquet"}, BUILTIN)
    assert (spec.known_from, [s.name for s in spec.sources]) == ("reward", ["openai/gsm8k"])
    assert spec.example_rows[0]["data_source"] == "openai/gsm8k"
    verl = VerlRef(version="0.9.1", root=str(tmp_path / "installed"), how="test")
    code = extract_reward(BUILTIN, spec, project_root=tmp_path, verl=verl).code
    assert "NotImplementedError" in code, "a guess leaves the whole dispatch"


FORK = """\
def _select_rm_score_fn(data_source):
    if data_source in ["riddles", "maps"]:
        return exact
    raise NotImplementedError


def exact(solution_str, ground_truth):
    return float(any(item in solution_str for item in ground_truth["target"]))
"""


def test_unknown_data_for_the_dispatch_of_a_fork_has_the_names_and_labels_that_it_reads(tmp_path: Path) -> None:
    write(tmp_path, {"installed/verl/trainer/main_ppo.py": FORK})
    fork = RewardSpec(kind="builtin", path="verl/trainer/main_ppo.py", function="_select_rm_score_fn")
    spec, _ = read(tmp_path, {"data.train_files": "/x/placeholder.parquet"}, fork)
    assert (spec.known_from, [s.name for s in spec.sources], spec.truth) == ("reward", ["riddles", "maps"], "dict")
    assert {row["data_source"] for row in spec.example_rows} == {"riddles", "maps"}
    assert all("target" in row["reward_model"]["ground_truth"] for row in spec.example_rows)


def test_a_script_for_other_data_is_not_taken(tmp_path: Path) -> None:
    write(tmp_path, {"one.py": PREP, "two.py": PREP.replace("sums", "products")})
    spec, _ = read(tmp_path, {"data.train_files": "/x/data/products/train.parquet"})
    assert spec.prep_script == "two.py"
    assert read(tmp_path, {"data.train_files": "/x/elsewhere/train.parquet"})[0].prep_script is None


def test_the_reward_itself_gives_the_contract(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "reward.py": "def inside(point, box):\n    x1, y1, x2, y2 = box\n    return x1 <= point[0] <= x2\n\n\n"
            "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
            "    if data_source == 'point':\n        hit = inside(eval(solution_str), extra_info['bbox'])\n"
            "        return float(hit) * float(extra_info['weight'])\n"
            "    if data_source in ('choice', 'multi'):\n"
            "        return float(ground_truth['answer'].strip() == solution_str)\n"
            "    return float(any(word in solution_str for word in ground_truth['words']))\n"
        },
    )
    spec, _ = read(tmp_path, {"data.train_files": "/x/unknown.parquet"})
    assert (spec.known_from, spec.truth) == ("reward", "dict")
    assert [s.name for s in spec.sources] == ["point", "choice", "multi"]
    assert set(spec.extra_info_keys) == {"bbox", "weight"}
    truth, extra = spec.example_rows[1]["reward_model"]["ground_truth"], spec.example_rows[1]["extra_info"]
    assert isinstance(truth["answer"], str)
    assert [type(word) for word in truth["words"]] == [str, str]
    assert [type(side) for side in extra["bbox"]] == [float] * 4
    assert extra["bbox"][0] < extra["bbox"][2]
    assert extra["weight"] != 0


def made_up(tmp_path: Path, reward: str) -> DataSpec:
    """What is made up for a reward whose data are not at hand."""
    write(tmp_path, {"reward.py": reward})
    return read(tmp_path, {"data.train_files": "/x/unknown.parquet"})[0]


def test_made_up_labels_have_texts_of_their_own_and_both_truths(tmp_path: Path) -> None:
    spec = made_up(
        tmp_path,
        "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
        "    wanted = ground_truth.get('has_error', False)\n"
        "    if wanted != ('error' in solution_str) or extra_info.get('no_think', False):\n"
        "        return 0.0\n"
        "    wrong, right = ground_truth['wrong_sentence'], ground_truth['corrected_sentence']\n"
        "    return float(wrong in solution_str) + float(right in solution_str)\n",
    )
    truths = [row["reward_model"]["ground_truth"] for row in spec.example_rows]
    assert {truth.get("has_error") for truth in truths} >= {True, False}
    assert {row["extra_info"].get("no_think") for row in spec.example_rows} >= {True, False}
    assert all(isinstance(truth["corrected_sentence"], str) for truth in truths)
    assert all(truth["wrong_sentence"] != truth["corrected_sentence"] for truth in truths)


def test_a_label_that_the_reward_takes_for_a_bool_is_one(tmp_path: Path) -> None:
    spec = made_up(
        tmp_path,
        "def known(text, found: bool):\n"
        "    return float(('unknown' in text) != found)\n\n\n"
        "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
        "    if ground_truth['open'] is True:\n"
        "        return 0.5\n"
        "    return known(solution_str, ground_truth.get('found', None))\n",
    )
    truths = [row["reward_model"]["ground_truth"] for row in spec.example_rows]
    assert {truth.get("found") for truth in truths} == {True, False, None}  # None: the key is left out
    assert {truth["open"] for truth in truths} == {True, False}


def test_a_guess_never_narrows_a_reward_that_knows_other_names(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "prepare.py": PREP,
            "reward.py": "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
            "    if data_source == 'left':\n        return 1.0\n    return 0.5\n",
        },
    )
    spec, _ = read(tmp_path, {"data.train_files": "/x/data/sums/train.parquet"})
    verl = VerlRef(version="0.9.1", root=str(tmp_path / "installed"), how="test")
    assert "left" in extract_reward(CUSTOM, spec, project_root=tmp_path, verl=verl).code


def test_keys_that_the_manager_adds_are_not_data(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "reward.py": "def compute_score(data_source, solution_str, ground_truth, extra_info):\n"
            "    return extra_info['num_turns'] + extra_info.get('bonus', 0.5)\n"
        },
    )
    spec, _ = read(tmp_path, {"data.train_files": "/x/unknown.parquet"})
    assert spec.extra_info_keys == ("bonus",)
    assert spec.example_rows[0]["extra_info"] == {"bonus": 0.5}


def test_made_up_rows_are_deterministic(tmp_path: Path) -> None:
    write(tmp_path, {"prepare.py": PREP})
    config = {"data.train_files": "/x/data/sums/train.parquet"}
    assert read(tmp_path, config)[0] == read(tmp_path, config)[0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, []),
        ("a.parquet", ["a.parquet"]),
        ("['a', 'b']", ["a", "b"]),
        ("[a,b ]", ["a", "b"]),
        ('["a"]', ["a"]),
        ('"[a, b]"', ["a", "b"]),
        (["a b/x", "c"], ["a b/x", "c"]),
    ],
)
def test_lists_of_files(value: Any, expected: list[str]) -> None:
    assert as_list(value) == expected


def test_json_lines_are_read_like_parquet(tmp_path: Path) -> None:
    rows = [row("a", json.dumps({"x": 1}), extra_info={"index": 1}), row("b", "5"), row("a", "6")]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    spec, notes = read(tmp_path, {"data.train_files": "rows.jsonl", "data.val_files": "rows.jsonl"})
    assert spec.known_from == "files"
    assert [(item.name, item.rows, item.split) for item in spec.sources][:2] == [("a", 2, "train"), ("b", 1, "train")]
    assert (spec.truth, spec.prompt_form, spec.train[0].rows) == ("string", "chat", 3)
    assert spec.extra_info_keys == ("index",)
    assert notes == ()


def test_json_text_of_a_chat_is_a_chat() -> None:
    assert _prompt_form(json.dumps([{"role": "user", "content": "hi"}])) == "chat"
    assert _prompt_form("[1] is a footnote") == "string"


def test_media_columns_keep_their_kind(tmp_path: Path) -> None:
    save(tmp_path / "t.parquet", [row(clips=["a.mp4"])])
    spec, _ = read(tmp_path, {"data.train_files": "t.parquet", "data.video_key": "clips"})
    assert spec.multimodal == ("clips",)
    assert spec.media_kinds["clips"] == "video"
