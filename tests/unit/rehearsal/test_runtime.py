"""Parts of the stand-in trainer, in this process."""

from __future__ import annotations

import asyncio
import math
import pickle
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from migrate_tools.rehearsal.runtime import convert
from migrate_tools.rehearsal.runtime.dataset import DataError, Dataset, read_rows, split_list, split_slice
from migrate_tools.rehearsal.runtime.engine import KINDS, Engine, Script, truths
from migrate_tools.rehearsal.runtime.filters import check_reward_nonzero_std
from migrate_tools.rehearsal.runtime.generate import post
from migrate_tools.rehearsal.runtime.hooks import HookError, Loop, is_async
from migrate_tools.rehearsal.runtime.sample import Sample, SampleStatus, reward_value
from migrate_tools.rehearsal.runtime.tokenizer import Tokenizer


def rows_file(folder: Path, count: int = 6, **columns: Any) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "rows.parquet"
    rows = [{"prompt": f"question {n}", "label": n, "metadata": {"index": n}, **columns} for n in range(count)]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def data_args(**values: Any) -> Namespace:
    return Namespace(
        **{"apply_chat_template": True, "apply_chat_template_kwargs": {}, "multimodal_keys": None, **values}
    )


def dataset(path: Path, args: Namespace | None = None, **values: Any) -> Dataset:
    keys = {"input_key": "prompt", "label_key": "label", "metadata_key": "metadata", "tool_key": "tools"}
    return Dataset(args or data_args(), str(path), Tokenizer(), **{"max_prompt_len": None, **keys, **values})


def test_prompt_data_lists_and_slices(tmp_path: Path) -> None:
    path = rows_file(tmp_path)
    assert split_list("['a.parquet', \"b.parquet@[0:5]\"]") == ["a.parquet", "b.parquet@[0:5]"]
    assert split_list("(a,b)") == ["a", "b"]
    assert split_slice("a@[1:3]") == ("a", slice(1, 3))
    assert [row["label"] for row in read_rows(f"{path}@[1:3]")] == [1, 2]
    assert [row["label"] for row in read_rows(f"['{path}@[0:2]','{path}@[4:]']@[1:3]")] == [1, 4]
    assert len(list(read_rows(str(tmp_path)))) == 6
    with pytest.raises(DataError, match="negative"):
        list(read_rows(f"{path}@[-2:]"))


def test_rows_become_samples(tmp_path: Path) -> None:
    sample = dataset(rows_file(tmp_path, data_source="toy")).samples[2]
    assert sample.prompt == "<|im_start|>user\nquestion 2<|im_end|>\n<|im_start|>assistant\n"
    assert (sample.label, sample.metadata) == (2, {"index": 2, "data_source": "toy"})


@pytest.mark.parametrize(
    ("columns", "values", "message"),
    [
        ({"metadata": '{"index": 1}'}, {}, "column metadata is str, not a dict"),
        ({"tools": None}, {}, "column tools is NoneType; when it exists it must be a list"),
        ({}, {"label_key": "answer"}, "no column answer"),
        ({"metadata": {"rm_type": 3}}, {}, "rm_type is int"),
        ({"prompt": [{"role": "user", "content": None}]}, {}, "the content of a user message is NoneType"),
    ],
)
def test_rows_that_relax_rejects(tmp_path: Path, columns: dict[str, Any], values: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        dataset(rows_file(tmp_path, **columns), **values)


def test_more_images_than_placeholders(tmp_path: Path) -> None:
    args = data_args(multimodal_keys={"image": "images"})
    path = rows_file(tmp_path, images=["a.png"], prompt="<image> what is it?")
    assert dataset(path, args).samples[0].multimodal_inputs == {"images": ["a.png"]}
    with pytest.raises(DataError, match="1 items in images"):
        dataset(rows_file(tmp_path, images=["a.png"]), args)


def test_long_prompts_are_filtered_and_never_all(tmp_path: Path) -> None:
    path = rows_file(tmp_path)
    assert (dataset(path, max_prompt_len=1000).too_long, dataset(path, max_prompt_len=2).all_too_long) == (0, True)
    assert len(dataset(path, max_prompt_len=2).samples) == 6


def test_tokenizer_is_reversible() -> None:
    tokenizer = Tokenizer()
    text = "<|im_start|>user\nWhat is 12345 × 2?\n\n  naïve_name \U0001f600<|im_end|>"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(tokenizer.encode("yes<|im_end|>"), skip_special_tokens=True) == "yes"


def test_engine_replies_in_every_kind_and_ends_with_the_stop_token() -> None:
    tokenizer = Tokenizer()
    script = Script(tokenizer)
    prompt = tokenizer.encode("two plus two")
    script.expect(prompt, {"ground_truth": ["4"]})
    with Engine(script) as engine:
        url = f"http://127.0.0.1:{engine.port}/generate"
        params = {"max_new_tokens": 64, "no_stop_trim": True, "skip_special_tokens": False}
        body = {"input_ids": prompt, "sampling_params": params, "return_logprob": True}
        replies = [asyncio.run(post(url, body)) for _ in KINDS]
    texts = dict(zip(KINDS, (reply["text"] for reply in replies), strict=True))
    finish = {kind: reply["meta_info"]["finish_reason"]["type"] for kind, reply in zip(KINDS, replies, strict=True)}
    assert replies[0]["text"] == "Let me work it out. The result is \\boxed{4}.<|im_end|>"
    assert texts["empty"] == "<|im_end|>"
    assert finish["truncated"] == "length"
    assert finish["wrong"] == "stop"
    assert len(replies[0]["meta_info"]["output_token_logprobs"]) == replies[0]["meta_info"]["completion_tokens"]


@pytest.mark.parametrize(
    ("label", "answers"),
    [("72", ["72"]), (3, ["3"]), ({"ground_truth": 5}, ["5"]), (["a", "b"], ["a", "b"]), (None, [""]), ([], [""])],
)
def test_truths(label: Any, answers: list[str]) -> None:
    assert truths(label) == answers


def group(rewards: list[float], index: int = 0) -> list[Sample]:
    return [Sample(group_index=index, reward=reward, response_length=1, tokens=[1, 2]) for reward in rewards]


def algo_args(name: str, **values: Any) -> Namespace:
    defaults = {"rewards_normalization": True, "grpo_std_normalization": True, "custom_reward_post_process_path": None}
    return Namespace(**{"advantage_estimator": name, **defaults, **values})


@pytest.mark.parametrize(
    ("name", "values", "wanted"),
    [
        ("grpo", {}, [0.707106, -0.707106]),
        ("grpo", {"grpo_std_normalization": False}, [0.5, -0.5]),
        ("reinforce_plus_plus_baseline", {}, [0.5, -0.5]),
        ("rloo", {}, [1.0, -1.0]),
        ("ppo", {}, [1.0, 0.0]),
        ("grpo", {"rewards_normalization": False}, [1.0, 0.0]),
    ],
)
def test_normalisation(name: str, values: dict[str, Any], wanted: list[float]) -> None:
    done = convert.normalise(algo_args(name, **values), group([1.0, 0.0]), [1.0, 0.0])
    assert done == pytest.approx(wanted, abs=2e-6)


def test_a_group_of_equal_rewards_normalises_to_zero() -> None:
    args, samples = algo_args("grpo"), group([0.3] * 4)
    done = convert.normalise(args, samples, [0.3] * 4)
    assert done == pytest.approx([0.0] * 4)
    assert list(convert.normalisation_problems(args, samples, [0.3] * 4, done)) == []
    assert list(convert.normalisation_problems(args, samples, [0.3] * 4, [math.nan] * 4))
    assert convert.zero_variance_groups(samples, [0.3] * 4) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "the reward value is bool, not a Python float"),
        ("1", "the reward value is str, not a Python float"),
        (None, "the reward value is NoneType, not a Python float"),
        (math.nan, "the reward value is nan"),
        (0.5, None),
    ],
)
def test_reward_values(value: Any, text: str | None) -> None:
    assert convert.reward_problem(value) == text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"response_length": 0}, "2 tokens with a response length of 0"),
        ({"response_length": 3}, "2 tokens with a response length of 3"),
        ({"loss_mask": [1, 1]}, "a loss mask of 2 for a response of 1 tokens"),
        ({"loss_mask": [0]}, "an all-zero loss mask: the sample trains nothing"),
        ({"rollout_log_probs": [0.1]}, "rollout_log_probs are set on some samples only"),
        ({"status": SampleStatus.PENDING}, "the final status is PENDING"),
        ({"train_metadata": {}}, "train_metadata is set, which the default tensor conversion cannot hold"),
    ],
)
def test_conversion_checks(changes: dict[str, Any], text: str) -> None:
    sound = {"tokens": [1, 2], "response_length": 1, "status": SampleStatus.COMPLETED}
    assert list(convert.sample_problems(Sample(**sound), logprobs=False)) == []
    assert list(convert.sample_problems(Sample(**{**sound, **changes}), logprobs=False)) == [text]


def test_incomplete_groups() -> None:
    samples = [*group([1.0, 0.0]), *group([1.0], index=1)]
    assert list(convert.group_problems(samples, 2)) == ["group 1 has 1 samples, not 2"]


def test_reward_value_under_a_key() -> None:
    assert reward_value({"score": 0.5}, "score") == 0.5
    assert reward_value(0.5, None) == 0.5
    with pytest.raises(TypeError, match="--reward-key is not set"):
        reward_value({"score": 0.5}, None)
    with pytest.raises(TypeError, match="not a dict"):
        reward_value(0.5, "score")
    with pytest.raises(KeyError):
        reward_value({"acc": 0.5}, "score")


def test_sample_survives_pickle_and_dict() -> None:
    sample = Sample(prompt="p", label={"a": [1]}, status=SampleStatus.TRUNCATED, reward={"score": 1.0})
    assert pickle.loads(pickle.dumps(sample)) == sample
    assert Sample.from_dict(sample.to_dict()) == sample


def test_filter_drops_groups_of_equal_rewards() -> None:
    args = Namespace(reward_key=None)
    assert check_reward_nonzero_std(args, group([1.0, 0.0])).keep
    assert not check_reward_nonzero_std(args, group([1.0, 1.0])).keep
    assert check_reward_nonzero_std(args, [Sample(reward=None)]).reason == "aborted"


def test_what_counts_as_async() -> None:
    async def coroutine(args: Any, sample: Any) -> float:
        return 0.0

    class Callable:
        async def __call__(self, args: Any, sample: Any) -> float:
            return 0.0

    def plain(args: Any, sample: Any) -> float:
        return 0.0

    assert is_async(coroutine)
    assert is_async(Callable())  # type: ignore[arg-type]
    assert not is_async(plain)


def test_the_loop_measures_how_long_it_was_blocked() -> None:
    async def block() -> None:
        time.sleep(0.3)  # noqa: ASYNC251

    async def rest() -> None:
        await asyncio.sleep(0.2)

    loop = Loop()
    loop.run(rest(), 5)
    loop.run(block(), 5)
    loop.run(rest(), 5)
    assert loop.lag > 0.2
    with pytest.raises(HookError, match="not finished"):
        loop.run(rest(), 0.01)


def test_prompts_begin_with_different_calls() -> None:
    script = Script(Tokenizer(), ["one", "two"])
    texts = [script.tokenizer.decode(script.reply([number], 100)[0]) for number in range(4)]
    assert [text.split()[-1] for text in texts] == ["one<|im_end|>", "two<|im_end|>"] * 2
