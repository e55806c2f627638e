"""Which tokens a tokenizer drops, by model name."""

from __future__ import annotations

import pytest
from migrate_tools.relax.special_tokens import is_known, special_tokens


@pytest.mark.parametrize(
    ("model", "removed", "kept"),
    [
        ("Qwen/Qwen3-8B", "<|im_end|>", "<think>"),
        ("$HOME/models/Qwen2.5-VL-7B-Instruct", "<|vision_start|>", "<tool_call>"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "<｜end▁of▁sentence｜>", "<|im_end|>"),
        ("meta-llama/Llama-3.2-1B", "<|eot_id|>", "</s>"),
        ("google/gemma-2-2b-it", "<end_of_turn>", "</s>"),
        ("mistralai/Mistral-7B-v0.3", "</s>", "<|im_end|>"),
        ("openai/gpt-oss-20b", "<|return|>", "<|im_end|>"),
    ],
)
def test_family_by_name(model: str, removed: str, kept: str) -> None:
    tokens = special_tokens(model).tokens
    assert removed in tokens
    assert kept not in tokens
    assert is_known(model)


def test_unknown_models_count_as_chatml() -> None:
    assert "<|im_end|>" in special_tokens("acme/own-model").tokens
    assert not is_known("acme/own-model")
