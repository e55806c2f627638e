"""A reversible stand-in tokenizer with a ChatML template.

Its counts are near those of a real tokenizer (about four letters a token), not equal: whatever depends on exact
token counts is reported as an estimate.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

END = "<|im_end|>"
SPECIAL = ("<|endoftext|>", "<|im_start|>", END, "<image>")
_PIECES = re.compile("|".join(map(re.escape, SPECIAL)) + r"|[^\W\d_]{1,4}|\d{1,3}| ?[^\w\s]|\s+|_|.", re.DOTALL)


class Tokenizer:
    """Gives every piece of text an id the first time it is seen."""

    eos_token = END
    pad_token = SPECIAL[0]

    def __init__(self, *, media: bool = True) -> None:
        self.media = media
        """Whether the template takes lists of parts; that of a text model does not."""
        self._ids: dict[str, int] = {}
        self._pieces: list[str] = []
        self._lock = threading.Lock()
        for text in SPECIAL:
            self._id(text)
        self.eos_token_id = self._ids[END]
        self.pad_token_id = self._ids[SPECIAL[0]]

    def _id(self, piece: str) -> int:
        with self._lock:
            if piece not in self._ids:
                self._ids[piece] = len(self._pieces)
                self._pieces.append(piece)
            return self._ids[piece]

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Token ids of a text."""
        return [self._id(piece) for piece in _PIECES.findall(text)]

    def sampled(self, text: str) -> list[int]:
        """Token ids as a model may write a text: its first long word in letters, which `encode` would never give."""
        ids: list[int] = []
        split = False
        for piece in _PIECES.findall(text):
            if not split and piece.isalpha() and len(piece) > 1:
                ids += [self._id(letter) for letter in piece]
                split = True
            else:
                ids.append(self._id(piece))
        return ids

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
            TypeError: a message is no {role, content} pair, or its content is nothing that the template takes.
        """
        parts = [f"<|im_start|>tool schema\n{tools}{END}\n"] if tools else []
        parts += [f"<|im_start|>{message['role']}\n{self._content(message)}{END}\n" for message in messages]
        text = "".join(parts) + ("<|im_start|>assistant\n" if add_generation_prompt else "")
        return self.encode(text) if tokenize else text

    def _content(self, message: Mapping[str, Any]) -> str:
        content = message["content"]
        if isinstance(content, str):
            return content
        if isinstance(content, list) and self.media:
            return "".join("<image>" if part.get("type") == "image" else str(part.get("text", "")) for part in content)
        why = "; the template of a text model takes no list of parts" if isinstance(content, list) else ""
        raise TypeError(f"the content of a {message['role']} message is {type(content).__name__}, not text{why}")
