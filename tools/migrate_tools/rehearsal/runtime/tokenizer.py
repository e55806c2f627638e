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
IMAGE = "<image>"
SPECIAL = ("<|endoftext|>", "<|im_start|>", END, IMAGE)
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

    def convert_tokens_to_ids(self, token: str) -> int:
        """The id of a piece."""
        return self._id(token)

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


class Processor:
    """A stand-in for a vision model's processor: an image's placeholder becomes one token for each of its parts."""

    PATCH = 14
    MERGED = 2

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.image_processor = self
        self.apply_chat_template = tokenizer.apply_chat_template

    def __call__(self, text: Sequence[str], images: Sequence[Any] = (), **_: Any) -> dict[str, Any]:
        """Ids of one text, with lists in place of tensors.

        Raises:
            ValueError: there are more or fewer images than placeholders.
        """
        placeholder = self.tokenizer.encode(IMAGE)[0]
        ids = self.tokenizer.encode(text[0])
        if ids.count(placeholder) != len(images):
            raise ValueError(f"{len(images)} images for {ids.count(placeholder)} placeholders")
        grids = [[1, *(max(1, side // self.PATCH // self.MERGED) for side in image.size[::-1])] for image in images]
        left = iter(grids)
        made: list[int] = []
        for number in ids:
            made += [number] * (_area(next(left)) if number == placeholder else 1)
        rows = [[0.0] for grid in grids for _ in range(_area(grid) * self.MERGED**2)]
        whole = [[1, grid[1] * self.MERGED, grid[2] * self.MERGED] for grid in grids]
        return {
            "input_ids": [made],
            "attention_mask": [[1] * len(made)],
            "pixel_values": rows,
            "image_grid_thw": whole,
        }


def _area(grid: Sequence[int]) -> int:
    return grid[1] * grid[2]
