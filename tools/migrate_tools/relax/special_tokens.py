"""Special tokens per model family: what a tokenizer leaves out when it decodes with skip_special_tokens=True.

From the `added_tokens` with `"special": true` in the public tokenizer.json of each family. Tokens that look special and
are not (`<think>` and `<tool_call>` in Qwen3, `<｜User｜>` in DeepSeek-R1) stay in the text.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Family(NamedTuple):
    """A model family: parts of model names that identify it, and its special tokens."""

    name: str
    marks: tuple[str, ...]
    tokens: tuple[str, ...]


QWEN: Final = Family(
    "Qwen and other ChatML models",
    ("qwen", "qwq", "smollm"),
    (
        "<|im_end|>", "<|im_start|>", "<|endoftext|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
        "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
        "<|image_pad|>", "<|video_pad|>",
    ),
)  # fmt: skip

FAMILIES: Final = (
    Family("DeepSeek", ("deepseek",), ("<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>", "<｜▁pad▁｜>")),
    Family(
        "Llama 3",
        ("llama-3", "llama3", "llama_3"),
        (
            "<|eot_id|>", "<|eom_id|>", "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
            "<|end_header_id|>", "<|python_tag|>", "<|finetune_right_pad_id|>",
        ),
    ),
    Family("Gemma", ("gemma",), ("<end_of_turn>", "<start_of_turn>", "<eos>", "<bos>", "<pad>")),
    Family("Mistral and Llama 2", ("mistral", "mixtral", "llama-2", "llama2"), ("</s>", "<s>", "<unk>")),
    Family("Phi", ("phi-3", "phi-4", "phi3", "phi4"),
           ("<|end|>", "<|endoftext|>", "<|user|>", "<|assistant|>", "<|system|>")),
    Family("GLM", ("glm",), ("<|endoftext|>", "<|user|>", "<|assistant|>", "<|observation|>", "<|system|>")),
    Family("gpt-oss", ("gpt-oss", "gpt_oss"),
           ("<|startoftext|>", "<|endoftext|>", "<|return|>", "<|constrain|>", "<|channel|>", "<|start|>", "<|end|>",
            "<|message|>", "<|call|>")),
    QWEN,
)  # fmt: skip
"""Looked through in this order: a DeepSeek distillation of Qwen has DeepSeek's tokens."""


def special_tokens(model: str) -> Family:
    """The family of a model path or name; Qwen's (ChatML) when no other is recognised."""
    return _known(model) or QWEN


def is_known(model: str) -> bool:
    """Whether the model's family is in the table."""
    return _known(model) is not None


def _known(model: str) -> Family | None:
    lowered = model.lower()
    return next((family for family in FAMILIES if any(mark in lowered for mark in family.marks)), None)
