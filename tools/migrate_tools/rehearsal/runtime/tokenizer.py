"""A reversible stand-in tokenizer with a ChatML template.

Its counts are near those of a real tokenizer (about four letters a token), not equal: whatever depends on exact
token counts is reported as an estimate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

END = "<|im_end|>"
SPECIAL = ("<|endoftext|>", "<|im_start|>", END, "<image>")
_PIECES = re.compile("|".join(map(re.escape, SPECIAL)) + r"|[^\W\d_]{1,4}|\d{1,3}| ?[^\w\s]|\s+|_|.", re.DOTALL)


class Tokenizer:
    """Gives every piece of text an id the first time it is seen."""

    eos_token = END
    pad_token = SPECIAL[0]

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._pieces: list[str] = []
        for text in SPECIAL:
            self._id(text)
        self.eos_token_id = self._ids[END]
        self.pad_token_id = self._ids[SPECIAL[0]]

    def _id(self, piece: str) -> int:
        if piece not in self._ids:
            self._ids[piece] = len(self._pieces)
            self._pieces.append(piece)
        return self._ids[piece]

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Token ids of a text."""
        return [self._id(piece) for piece in _PIECES.findall(text)]

    def __call__(self, text: str, add_special_tokens: bool = False, **_: Any) -> dict[str, list[int]]:
        ids = self.encode(text)
        return {"input_ids": ids, "attention_mask": [1] * len(ids)}

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Text of token ids."""
        pieces = (self._pieces[number] for number in ids)
        return "".join(piece for piece in pieces if not (skip_special_tokens and piece in SPECIAL))

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Any = None,
        tokenize: bool = False,
        add_generation_prompt: bool = True,
        **_: Any,
    ) -> Any:
        """ChatML text (or ids) of a conversation.

        Raises:
            TypeError: a message is no {role, content} pair, or its content is neither text nor a list of parts.
        """
        parts = [f"<|im_start|>tool schema\n{tools}{END}\n"] if tools else []
        parts += [f"<|im_start|>{message['role']}\n{_content(message)}{END}\n" for message in messages]
        text = "".join(parts) + ("<|im_start|>assistant\n" if add_generation_prompt else "")
        return self.encode(text) if tokenize else text


def _content(message: Mapping[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join("<image>" if part.get("type") == "image" else str(part.get("text", "")) for part in content)
    raise TypeError(f"the content of a {message['role']} message is {type(content).__name__}, not text")
