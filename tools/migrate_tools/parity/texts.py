"""The texts that the two sides see for one model output.

verl decodes the response tokens, usually without special tokens; Relax hands over the response as SGLang sent it, with
the end token (`no_stop_trim`). Markers per model family are those of the public tokenizer configurations. Runs
inside the sandbox: standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from migrate_tools.relax.special_tokens import FAMILIES, Family, special_tokens

__all__ = ["ALL", "Family", "family_of", "flat_prompt", "is_templated", "without_special"]

ALL = FAMILIES
family_of = special_tokens


def without_special(text: str, family: Family) -> str:
    """`text` as a tokenizer decodes it with skip_special_tokens=True."""
    for token in family.tokens:
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
    return any(token in text for token in family.tokens)
