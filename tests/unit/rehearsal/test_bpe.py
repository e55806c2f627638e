"""A model's own tokenizer and chat template, read from files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from drill_example import load_generate, run_drills, samples, standin_relax, write_example
from migrate_tools.model import DataSpec, Launch, RewardSpec, Translation, VerlRef
from migrate_tools.rehearsal.rehearse import local_model
from migrate_tools.rehearsal.runtime.bpe import LETTERS, BpeTokenizer, template_notes
from migrate_tools.rehearsal.runtime.generate import OWN, model_tokenizer

WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
"""As in the Qwen family, letters of abbreviations apart."""
MERGES = [("h", "e"), ("l", "l"), ("he", "ll"), ("Ġ", "t"), ("Ġt", "he"), ("Ã", "¤")]
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
PLAIN = "<tool_call>"
TEMPLATE = """\
{%- if messages[0].role != 'system' %}
    {{- '<|im_start|>system\\nBe good.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
HIDES = TEMPLATE.replace("message.content + '<|im_end|>", "message.content.split('</think>')[-1] + '<|im_end|>")
FORGETS = TEMPLATE.replace(
    "message.content + '<|im_end|>", "(message.content if loop.last else message.content.split('/')[-1]) + '<|im_end|>"
)
JOINS = TEMPLATE.replace("'<|im_start|>user\\n<tool_response>", "('' if loop.first else 'again ') + '<tool_response>")


def write_model(folder: Path, template: str = TEMPLATE, **changes: Any) -> Path:
    """The files of a model over the 256 bytes with a few merges."""
    vocabulary = {letter: number for number, letter in enumerate(LETTERS.values())}
    vocabulary |= {"".join(pair): 256 + number for number, pair in enumerate(MERGES)}
    added = [{"id": 300 + number, "content": text, "special": True} for number, text in enumerate(SPECIAL)]
    steps = [
        {"type": "Split", "pattern": {"Regex": WORDS}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
    ]
    data: dict[str, Any] = {
        "added_tokens": [*added, {"id": 310, "content": PLAIN, "special": False}],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [" ".join(pair) for pair in MERGES]},
        **changes,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(data))
    config = {"eos_token": {"content": SPECIAL[2]}, "pad_token": SPECIAL[0], "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("hello", ["hell", "o"]),
        ("say the hello", ["s", "a", "y", " the", " ", "hell", "o"]),
        ("a\u0308", ["ä"]),  # NFC, then two bytes that are merged
        ("12", ["1", "2"]),
        ("x<|im_end|>\n<tool_call>", ["x", "<|im_end|>", "\n", "<tool_call>"]),
        ("", []),
    ],
)
def test_texts_become_the_pieces_of_the_merges(tmp_path: Path, text: str, pieces: list[str]) -> None:
    tokenizer = BpeTokenizer(write_model(tmp_path))
    ids = tokenizer.encode(text)
    assert [tokenizer.decode([number]) for number in ids] == pieces
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (302, 300)


def test_bytes_that_are_no_text_and_special_tokens(tmp_path: Path) -> None:
    tokenizer = BpeTokenizer(write_model(tmp_path))
    ids = tokenizer.encode("北<|im_end|><tool_call>")
    assert len(ids) == 5
    assert tokenizer.decode(ids) == "北<|im_end|><tool_call>"
    assert tokenizer.decode(ids, skip_special_tokens=True) == "北<tool_call>"
    assert tokenizer.decode(ids[:2]) == "\ufffd"


def test_a_model_spells_words_as_the_tokenizer_would_not(tmp_path: Path) -> None:
    tokenizer = BpeTokenizer(write_model(tmp_path))
    ids = tokenizer.sampled("I say hello there")
    assert tokenizer.decode(ids) == "I say hello there"
    assert ids != tokenizer.encode("I say hello there")


@pytest.mark.parametrize(
    ("template", "note"),
    [
        (TEMPLATE, ""),
        (HIDES, "shows an answer otherwise than it was said"),
        (FORGETS, "shows an answer otherwise once a message of the role tool follows"),
        (JOINS, "shows a message of the role tool otherwise alone than in a conversation"),
    ],
)
def test_a_template_that_a_conversation_does_not_grow_by_is_named(tmp_path: Path, template: str, note: str) -> None:
    found = list(template_notes(BpeTokenizer(write_model(tmp_path, template)), "tool"))
    assert len(found) == bool(note)
    assert note in "".join(found)


def test_the_template_of_a_file_comes_first(tmp_path: Path) -> None:
    folder = write_model(tmp_path, "no")
    (folder / "chat_template.jinja").write_text("{{ messages | length }} {{ tools | tojson }} {{ eos_token }}")
    made = BpeTokenizer(folder).apply_chat_template([{"role": "user", "content": "a"}], tools=[{"name": "ä"}])
    assert made == '1 [{"name": "ä"}] <|im_end|>'


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"model": {"type": "Unigram"}}, "no byte-level BPE (Unigram)"),
        ({"normalizer": {"type": "Lowercase"}}, "normalises text (Lowercase)"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "is not over bytes"),
        ({"added_tokens": []}, "names no end token"),
    ],
)
def test_a_tokenizer_of_another_kind_is_not_guessed(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    _, which = model_tokenizer(str(write_model(tmp_path, **changes)), media=False)
    assert which.startswith("stand-in: ")
    assert why in which


def test_a_model_that_reads_images_keeps_the_stand_in(tmp_path: Path) -> None:
    folder = str(write_model(tmp_path))
    assert model_tokenizer(folder, media=False)[1] == OWN
    tokenizer, which = model_tokenizer(folder, media=True)
    assert tokenizer.media
    assert which.startswith("stand-in: the processor")
    assert model_tokenizer(str(tmp_path / "nothing"), media=False)[1] == "stand-in"


def test_every_drill_over_the_model_s_own_tokenizer(tmp_path: Path) -> None:
    write_example(tmp_path, {})
    folder = str(write_model(tmp_path / "model"))
    with standin_relax(tmp_path):
        problems, facts = run_drills(load_generate(), samples(), episodes=8, hf_checkpoint=folder)
    assert problems == []
    assert facts["aborts"] >= 14


def test_text_that_is_tokenised_again_is_found_with_it(tmp_path: Path) -> None:
    again = (
        "episode.add(new, 1, scores)",
        "new = tokenizer.encode(tokenizer.decode(new)); episode.add(new, 1, scores)",
    )
    write_example(tmp_path, {"rollout": [again]})
    folder = str(write_model(tmp_path / "model"))
    with standin_relax(tmp_path):
        problems, _ = run_drills(load_generate(), samples(), episodes=4, only="at once", hf_checkpoint=folder)
    assert problems


def test_where_a_model_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, home = write_model(tmp_path / "here"), tmp_path / "home"
    write_model(home / "Qwen3-8B")
    translation = Translation(launch="a", algo="demo", model_dir_name="Qwen3-8B")

    def launch(path: str) -> Launch:
        return Launch(
            name="a",
            script="a.sh",
            module="verl.trainer.main_ppo",
            verl=VerlRef(version="0.9.1", root="/nowhere", how="made up"),
            reward=RewardSpec(kind="none"),
            data=DataSpec(),
            config={"actor_rollout_ref.model.path": path},
        )

    monkeypatch.delenv("MODEL_DIR", raising=False)
    assert local_model(launch(str(here)), translation) == here
    assert local_model(launch("Qwen/Qwen3-8B"), translation) is None
    monkeypatch.setenv("MODEL_DIR", str(home))
    assert local_model(launch("Qwen/Qwen3-8B"), translation) == home / "Qwen3-8B"
