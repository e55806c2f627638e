"""Model families: what a tokenizer leaves out when it decodes with skip_special_tokens=True, and how turns are marked.

From the `added_tokens` with `"special": true` in the public tokenizer.json of each family. Tokens that look special and
are not (`<think>` and `<tool_call>` in Qwen3, `<｜User｜>` in DeepSeek-R1) stay in the text.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Family(NamedTuple):
    """A model family: parts of model names that identify it, its special tokens, and the markers of a turn."""

    name: str
    marks: tuple[str, ...]
    tokens: tuple[str, ...]
    """Special tokens; the first one is the token that ends a response."""
    turn_open: str = "<|im_start|>{role}\n"
    turn_close: str = "<|im_end|>\n"
    generation: str = "<|im_start|>assistant\n"

    @property
    def end(self) -> str:
        """The token that ends a response; Relax's text keeps it."""
        return self.tokens[0]


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
    Family(
        "DeepSeek",
        ("deepseek",),
        ("<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>", "<｜▁pad▁｜>"),
        turn_open="<｜{role}｜>",
        turn_close="<｜end▁of▁sentence｜>",
        generation="<｜assistant｜>",
    ),
    Family(
        "Llama 3",
        ("llama-3", "llama3", "llama_3"),
        (
            "<|eot_id|>", "<|eom_id|>", "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
            "<|end_header_id|>", "<|python_tag|>", "<|finetune_right_pad_id|>",
        ),
        turn_open="<|start_header_id|>{role}<|end_header_id|>\n\n",
        turn_close="<|eot_id|>",
        generation="<|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    Family(
        "Gemma",
        ("gemma",),
        ("<end_of_turn>", "<start_of_turn>", "<eos>", "<bos>", "<pad>"),
        turn_open="<start_of_turn>{role}\n",
        turn_close="<end_of_turn>\n",
        generation="<start_of_turn>model\n",
    ),
    Family(
        "Mistral and Llama 2",
        ("mistral", "mixtral", "llama-2", "llama2"),
        ("</s>", "<s>", "<unk>"),
        turn_open="[{role}] ",
        turn_close="</s>",
        generation="[assistant] ",
    ),
    Family(
        "Phi",
        ("phi-3", "phi-4", "phi3", "phi4"),
        ("<|end|>", "<|endoftext|>", "<|user|>", "<|assistant|>", "<|system|>"),
        turn_open="<|{role}|>\n",
        turn_close="<|end|>\n",
        generation="<|assistant|>\n",
    ),
    Family(
        "GLM",
        ("glm",),
        ("<|user|>", "<|endoftext|>", "<|assistant|>", "<|observation|>", "<|system|>"),
        turn_open="<|{role}|>\n",
        turn_close="",
        generation="<|assistant|>",
    ),
    Family(
        "gpt-oss",
        ("gpt-oss", "gpt_oss"),
        (
            "<|return|>", "<|startoftext|>", "<|endoftext|>", "<|constrain|>", "<|channel|>", "<|start|>", "<|end|>",
            "<|message|>", "<|call|>",
        ),
        turn_open="<|start|>{role}<|message|>",
        turn_close="<|end|>",
        generation="<|start|>assistant",
    ),
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
