"""What the engine says in a drill, the tokenizer's other spellings, and the file for a machine with a GPU."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import pytest
from migrate_tools.rehearsal.runtime.debug_data import write_debug_data
from migrate_tools.rehearsal.runtime.plan import Asked, Plan
from migrate_tools.rehearsal.runtime.sample import Sample, SampleStatus
from migrate_tools.rehearsal.runtime.tokenizer import Tokenizer


def test_an_answer_depends_on_the_conversation_alone() -> None:
    tokenizer = Tokenizer()
    plan = Plan(tokenizer, ("first", "second"))
    prompt = tokenizer.encode("question")
    first, finish, _ = plan.reply(prompt, 99)
    assert (tokenizer.decode(first), finish) == ("first<|im_end|>", "stop")
    observed = [*prompt, *first, *tokenizer.encode("result")]
    assert tokenizer.decode(plan.reply(observed, 99)[0]) == "second<|im_end|>"
    assert plan.reply(prompt, 99)[0] == first
    assert plan.asked[1] == Asked(len(prompt), len(observed), 99)
    # another prompt begins a conversation with the answers of that moment
    plan.begin(["other"])
    assert tokenizer.decode(plan.reply(tokenizer.encode("new"), 99)[0]) == "other<|im_end|>"
    assert plan.reply(prompt, 99)[0] == first


@pytest.mark.parametrize("cut", [0, 3, -2])
def test_an_aborted_answer_is_gone_on_with(cut: int) -> None:
    tokenizer = Tokenizer()
    plan = Plan(tokenizer, ("one long answer", "second"))
    prompt = tokenizer.encode("question")
    plan.cut = (1, cut)
    part, finish, _ = plan.reply(prompt, 99)
    assert finish == "abort"
    rest, finish, _ = plan.reply([*prompt, *part], 99)
    assert (tokenizer.decode([*part, *rest]), finish) == ("one long answer<|im_end|>", "stop")
    assert tuple([*part, *rest]) in plan.said
    assert tokenizer.decode(plan.reply([*prompt, *part, *rest], 99)[0]) == "second<|im_end|>"


def test_an_answer_ends_at_the_limit() -> None:
    tokenizer = Tokenizer()
    plan = Plan(tokenizer, ("a b c d e f",), unended=True)
    assert plan.reply(tokenizer.encode("q"), 4)[:2] == (tokenizer.sampled("a b "), "length")


def test_a_model_spells_words_as_the_tokenizer_would_not() -> None:
    tokenizer = Tokenizer()
    ids = tokenizer.sampled("The answer is 12.")
    assert tokenizer.decode(ids) == "The answer is 12."
    assert tokenizer.encode("The answer is 12.") != ids


def test_the_template_of_a_text_model_takes_no_parts() -> None:
    message = {"role": "tool", "content": [{"type": "image"}, {"type": "text", "text": "seen"}]}
    assert "<image>seen" in Tokenizer(media=True).apply_chat_template([message])
    with pytest.raises(TypeError, match="takes no list of parts"):
        Tokenizer(media=False).apply_chat_template([message])


SAMPLE = Sample(tokens=[1, 2], response_length=1, status=SampleStatus.TRUNCATED, reward={"score": 1.0})


def test_debug_data_is_a_pickle_in_a_zip_archive(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_debug_data(tmp_path / name / "0.pt", [SAMPLE])
    assert (tmp_path / "a" / "0.pt").read_bytes() == (tmp_path / "b" / "0.pt").read_bytes()
    with zipfile.ZipFile(tmp_path / "a" / "0.pt") as archive:
        body = pickle.loads(archive.read("0/data.pkl"))
    assert (body["rollout_id"], body["samples"][0]["status"]) == (0, "truncated")
    # Relax makes objects of these from dicts
    assert (body["samples"][0]["spec_info"], body["samples"][0]["prefix_cache_info"]) == ({}, {})


def test_debug_data_does_not_tell_which_request_came_first(tmp_path: Path) -> None:
    answers = [Sample(group_index=group, tokens=[group, token]) for group in (1, 0) for token in (5, 7, 6)]
    for name, order in (("a", (0, 1, 2, 3, 4, 5)), ("b", (2, 0, 1, 5, 4, 3))):
        samples = [answers[place] for place in order]
        for number, sample in enumerate(samples):
            sample.index = number
        write_debug_data(tmp_path / name / "0.pt", samples)
    assert (tmp_path / "a" / "0.pt").read_bytes() == (tmp_path / "b" / "0.pt").read_bytes()
    with zipfile.ZipFile(tmp_path / "a" / "0.pt") as archive:
        body = pickle.loads(archive.read("0/data.pkl"))
    assert [(item["index"], item["tokens"]) for item in body["samples"][:4]] == [
        (0, [1, 5]), (1, [1, 6]), (2, [1, 7]), (3, [0, 5]),
    ]  # fmt: skip


def test_debug_data_numbers_the_pieces_of_the_stand_in_tokenizer_anew(tmp_path: Path) -> None:
    bodies = []
    for seen in (("first words", "other text"), ("other text", "first words")):
        tokenizer = Tokenizer()
        for text in seen:
            tokenizer.encode(text)
        samples = [
            Sample(group_index=0, index=place, tokens=tokenizer.encode(text), rollout_tokens=tokenizer.encode(text))
            for place, text in enumerate(("other text<|im_end|>", "first words<|im_end|>"))
        ]
        write_debug_data(tmp_path / "0.pt", samples, stand_in=tokenizer)
        bodies.append((tmp_path / "0.pt").read_bytes())
    assert bodies[0] == bodies[1]
    with zipfile.ZipFile(tmp_path / "0.pt") as archive:
        first, second = pickle.loads(archive.read("0/data.pkl"))["samples"]
    assert first["tokens"] == first["rollout_tokens"] == [4, 5, 6, 7, 8, 2]
    assert second["tokens"] == [9, 10, 6, 11, 2]


@pytest.mark.torch
def test_debug_data_is_read_by_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    write_debug_data(tmp_path / "0.pt", [SAMPLE])
    for safe in (True, False):
        (sample,) = torch.load(tmp_path / "0.pt", weights_only=safe)["samples"]
        assert Sample.from_dict({**sample, "spec_info": None, "prefix_cache_info": None}) == SAMPLE
