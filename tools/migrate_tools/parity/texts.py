"""The texts that the two sides see for one model output.

verl decodes the response tokens, usually without special tokens; Relax hands over the response as SGLang sent it, with
the end token (`no_stop_trim`). Markers per model family are those of the public tokenizer configurations. Runs
inside the sandbox: standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Family:
    """Markers of a model family."""

    name: str
    end: str
    """End-of-turn token that closes a response."""
    special: tuple[str, ...]
    """Tokens that `skip_special_tokens=True` removes."""
    turn_open: str
    turn_close: str
    generation: str


CHATML = Family(
    "chatml",
    "<|im_end|>",
    ("<|im_end|>", "<|im_start|>", "<|endoftext|>"),
    "<|im_start|>{role}\n",
    "<|im_end|>\n",
    "<|im_start|>assistant\n",
)
LLAMA3 = Family(
    "llama3",
    "<|eot_id|>",
    ("<|eot_id|>", "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>"),
    "<|start_header_id|>{role}<|end_header_id|>\n\n",
    "<|eot_id|>",
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
)
DEEPSEEK = Family(
    "deepseek",
    "<｜end▁of▁sentence｜>",
    ("<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>"),
    "<｜{role}｜>",
    "<｜end▁of▁sentence｜>",
    "<｜assistant｜>",
)
GEMMA = Family(
    "gemma",
    "<end_of_turn>",
    ("<end_of_turn>", "<start_of_turn>", "<eos>", "<bos>"),
    "<start_of_turn>{role}\n",
    "<end_of_turn>\n",
    "<start_of_turn>model\n",
)
MISTRAL = Family("mistral", "</s>", ("</s>", "<s>"), "[{role}] ", "</s>", "[assistant] ")

ALL = (CHATML, LLAMA3, DEEPSEEK, GEMMA, MISTRAL)
_BY_NAME = (
    (("deepseek-r1-distill", "deepseek"), DEEPSEEK),
    (("llama-3", "llama3", "llama_3"), LLAMA3),
    (("gemma",), GEMMA),
    (("mistral", "mixtral", "llama-2", "llama2"), MISTRAL),
)


def family_of(model: str) -> Family:
    """The family of a model path or name; ChatML (Qwen and most others) when nothing else is recognised."""
    lowered = model.lower()
    for names, family in _BY_NAME:
        if any(name in lowered for name in names):
            return family
    return CHATML


def without_special(text: str, family: Family) -> str:
    """`text` as a tokenizer decodes it with skip_special_tokens=True."""
    for token in family.special:
        text = text.replace(token, "")
    return text


def flat_prompt(prompt: Any, family: Family) -> str:
    """A prompt (messages or text) as one string with the family's turn markers."""
    if isinstance(prompt, str):
        return prompt
    parts: list[str] = []
    messages: Sequence[Any] = prompt if isinstance(prompt, Sequence) or hasattr(prompt, "__iter__") else ()
    for message in messages:
        known = hasattr(message, "get")
        role = message.get("role", "user") if known else "user"
        content = message.get("content", "") if known else message
        parts.append(f"{family.turn_open.format(role=role)}{content}{family.turn_close}")
    return "".join(parts) + family.generation


def is_templated(text: str, family: Family) -> bool:
    """True when a plain-text prompt already carries the family's markers."""
    return any(token in text for token in family.special)
