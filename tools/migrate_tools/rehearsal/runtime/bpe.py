"""A model's own tokenizer and chat template, read from its files: byte-level BPE as in tokenizer.json.

Covers what the Qwen, Llama 3, DeepSeek and gpt-oss families ship: BPE over bytes, a pattern that splits the text first,
added tokens, a Jinja template. Results are those of the `tokenizers` library; nothing of a model is loaded.
"""

from __future__ import annotations

import functools
import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import regex  # type: ignore[import-untyped]

from migrate_tools.rehearsal.runtime.tokenizer import Tokenizer

FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
"""What is read of a model's folder."""
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""The pattern of a ByteLevel step that splits by itself (use_regex)."""
NAMES = ("bos_token", "eos_token", "pad_token", "unk_token")


class UnknownTokenizer(ValueError):
    """The files describe a tokenizer of another kind."""


def _byte_letters() -> dict[int, str]:
    """Byte -> the letter that stands for it in the vocabulary of a byte-level BPE."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return {byte: chr(byte if byte in plain else next(others)) for byte in range(256)}


LETTERS = _byte_letters()
BYTES = {letter: byte for byte, letter in LETTERS.items()}


class BpeTokenizer(Tokenizer):
    """Text to ids and back, and conversations to text, as the model's files say."""

    def __init__(self, folder: Path) -> None:  # not that of the stand-in, whose ids come one by one
        """Read the files of a folder.

        Raises:
            UnknownTokenizer: they describe another kind, or name no chat template or no end token.
            OSError: there is no tokenizer.json.
        """
        self.media = False
        data = json.loads((folder / FILES[0]).read_text(encoding="utf-8"))
        config_file = folder / FILES[1]
        self.config = json.loads(config_file.read_text(encoding="utf-8")) if config_file.is_file() else {}
        model = data["model"]
        if model.get("type") != "BPE" or model.get("byte_fallback") or model.get("continuing_subword_prefix"):
            raise UnknownTokenizer(f"the tokenizer is no byte-level BPE ({model.get('type')})")
        self.vocabulary: dict[str, int] = model["vocab"]
        merges = [tuple(item.split(" ")) if isinstance(item, str) else tuple(item) for item in model["merges"]]
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.whole_words = bool(model.get("ignore_merges"))
        self.form = _form(data.get("normalizer"))
        self.patterns = [regex.compile(text) for text in _patterns(data.get("pre_tokenizer"))]
        self.added = {item["content"]: int(item["id"]) for item in data.get("added_tokens", ())}
        self.special = {item["content"] for item in data.get("added_tokens", ()) if item.get("special")}
        longest: list[str] = sorted(self.added, key=len, reverse=True)
        self._added = regex.compile("|".join(map(regex.escape, longest))) if longest else None
        self._letters = {number: piece for piece, number in (self.vocabulary | self.added).items()}
        self.names = {name: text for name in NAMES if (text := _token(self.config.get(name)))}
        self.eos_token = self.names.get("eos_token", "")
        if self.eos_token not in self.added:
            raise UnknownTokenizer("tokenizer_config.json names no end token")
        self.eos_token_id = self.added[self.eos_token]
        self.pad_token = self.names.get("pad_token", self.eos_token)
        self.pad_token_id = self.added.get(self.pad_token, self.eos_token_id)
        self._template = _compiled(_template_text(folder, self.config))
        self._word = functools.lru_cache(1 << 16)(self._merged)

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Token ids of a text; what is written like an added token becomes one."""
        ids: list[int] = []
        at = 0
        for found in self._added.finditer(text) if self._added else ():
            ids += self._plain(text[at : found.start()])
            ids.append(self.added[found[0]])
            at = found.end()
        return ids + self._plain(text[at:])

    def sampled(self, text: str) -> list[int]:
        """Token ids as a model may write a text: its first long word in letters, which `encode` would never give."""
        word = regex.search(r"[a-z]{4,}", text)
        if word is None:
            return self.encode(text)
        letters = [number for letter in word[0] for number in self.encode(letter)]
        return [*self.encode(text[: word.start()]), *letters, *self.encode(text[word.end() :])]

    def __call__(self, text: str, add_special_tokens: bool = False, **_: Any) -> dict[str, list[int]]:
        ids = self.encode(text)
        return {"input_ids": ids, "attention_mask": [1] * len(ids)}

    def convert_tokens_to_ids(self, token: str) -> int:
        """The id of an added token or of a piece of the vocabulary.

        Raises:
            KeyError: there is none of that name.
        """
        return self.added[token] if token in self.added else self.vocabulary[token]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Text of token ids; bytes that are not UTF-8 become U+FFFD."""
        parts: list[bytes] = []
        for number in ids:
            piece = self._letters.get(int(number), "")
            if piece in self.added:
                parts.append(b"" if skip_special_tokens and piece in self.special else piece.encode())
            else:
                parts.append(bytes(BYTES[letter] for letter in piece))
        return b"".join(parts).decode("utf-8", "replace")

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Any = None,
        tokenize: bool = False,
        add_generation_prompt: bool = True,
        **values: Any,
    ) -> Any:
        """The model's own text (or ids) of a conversation."""
        options = {name: value for name, value in values.items() if name not in ("return_dict", "return_tensors")}
        text = self._template.render(
            messages=[dict(message) for message in messages], tools=tools or None, documents=None,
            add_generation_prompt=add_generation_prompt, **self.names, **options,
        )  # fmt: skip
        return self.encode(text) if tokenize else text

    def _plain(self, text: str) -> list[int]:
        words = [unicodedata.normalize(self.form, text) if self.form and text else text]
        for pattern in self.patterns:
            words = [part for word in words for part in _split(pattern, word)]
        return [number for word in words if word for number in self._word(word)]

    def _merged(self, word: str) -> tuple[int, ...]:
        parts = [LETTERS[byte] for byte in word.encode("utf-8", "surrogatepass")]
        whole = "".join(parts)
        if self.whole_words and whole in self.vocabulary:
            return (self.vocabulary[whole],)
        while len(parts) > 1:
            ranked = [
                (self.ranks.get(pair, 1 << 60), at) for at, pair in enumerate(zip(parts, parts[1:], strict=False))
            ]
            rank, at = min(ranked)
            if rank == 1 << 60:
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return tuple(self.vocabulary[part] for part in parts)


def _split(pattern: regex.Pattern[str], text: str) -> Iterator[str]:
    """The matches of a pattern and what lies between them, in order ("Isolated")."""
    at = 0
    for found in pattern.finditer(text):
        if found.start() > at:
            yield text[at : found.start()]
        yield found[0]
        at = found.end()
    if at < len(text):
        yield text[at:]


def _form(normalizer: Any) -> Any:
    if normalizer is None or normalizer == {"type": "Sequence", "normalizers": []}:
        return ""
    if normalizer.get("type") in ("NFC", "NFKC", "NFD", "NFKD"):
        return normalizer["type"]
    raise UnknownTokenizer(f"the tokenizer normalises text ({normalizer.get('type')})")


def _patterns(step: Any) -> Iterator[str]:
    """Patterns that split a text, one after the other.

    Raises:
        UnknownTokenizer: a step is none of a byte-level BPE.
    """
    steps = step.get("pretokenizers", [step]) if step else []
    if not any(item.get("type") == "ByteLevel" for item in steps):
        raise UnknownTokenizer("the tokenizer is not over bytes")
    for item in steps:
        kind = item.get("type")
        if kind == "ByteLevel" and not item.get("add_prefix_space"):
            if item.get("use_regex", True):
                yield GPT2
        elif kind == "Split" and item.get("behavior") == "Isolated" and not item.get("invert"):
            pattern = item["pattern"]
            yield pattern["Regex"] if "Regex" in pattern else regex.escape(pattern["String"])
        elif kind == "Digits":
            yield r"\p{N}" if item.get("individual_digits") else r"\p{N}+"
        else:
            raise UnknownTokenizer(f"the tokenizer has a step {kind} that is not known here")


def _token(value: Any) -> str:
    """The text of a special token, which stands there as such or as an object."""
    return str(value.get("content", "")) if isinstance(value, Mapping) else str(value or "")


def _template_text(folder: Path, config: Mapping[str, Any]) -> str:
    path = folder / FILES[2]
    if path.is_file():
        return path.read_text(encoding="utf-8")
    found = config.get("chat_template")
    if isinstance(found, list):
        found = next((item.get("template") for item in found if item.get("name") == "default"), None)
    if not isinstance(found, str):
        raise UnknownTokenizer("the model's files hold no chat template")
    return found


def _compiled(text: str) -> Any:
    """A template in the environment that transformers gives it (utils/chat_template_utils.py)."""
    from jinja2.exceptions import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise TemplateError(message)

    def to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **rest: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **rest)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime(2026, 1, 1, tzinfo=UTC).strftime(form)
    return environment.from_string(text)


SAID = "<think>\nHm.\n</think>\n\nA."


def template_notes(tokenizer: Any, role: str) -> Iterator[str]:
    """Where the chat template does not grow with a conversation, so that it shows other tokens than a rollout keeps."""
    begun = [{"role": "user", "content": "A question."}, {"role": "assistant", "content": SAID}]
    seen = [{"role": role, "content": "An observation."}]

    def text(messages: Sequence[Mapping[str, Any]], *, prompt: bool) -> str:
        return str(tokenizer.apply_chat_template(messages, add_generation_prompt=prompt))

    head, whole = text(begun, prompt=False), text([*begun, *seen], prompt=True)
    if SAID not in head or not whole.startswith(head):
        when = "once a message of the role {role} follows" if SAID in head else "than it was said"
        yield f"the chat template shows an answer otherwise {when.format(role=role)}; a rollout keeps what was said"
        return
    one, two = (text(begun[:1] * count, prompt=False) for count in (1, 2))
    alone = text(seen, prompt=True)[len(one) - (len(two) - len(one)) :]
    if whole[len(head) :] != alone:
        yield f"the chat template shows a message of the role {role} otherwise alone than in a conversation"
