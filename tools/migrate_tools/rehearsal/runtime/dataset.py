"""Rows -> samples as Relax loads them (Relax recipe contract, section 6)."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from migrate_tools.rehearsal.runtime.hooks import load_function
from migrate_tools.rehearsal.runtime.sample import Sample
from migrate_tools.rehearsal.runtime.tokenizer import Tokenizer

_SLICE = re.compile(r"^(.*?)@\[(-?\d*):(-?\d*)\]$", re.DOTALL)
_PLACEHOLDERS = {"image": "<image>", "video": "<video>", "audio": "<audio>"}


class DataError(Exception):
    """Relax would stop on this data; the text says where and why."""


def split_slice(text: str) -> tuple[str, slice | None]:
    """`path@[a:b]` -> path and slice.

    Raises:
        DataError: a negative bound, which Relax's eager reader rejects.
    """
    match = _SLICE.match(text.strip())
    if not match:
        return text.strip(), None
    bounds = [int(part) if part else None for part in match.group(2, 3)]
    if any(bound is not None and bound < 0 for bound in bounds):
        raise DataError(f"{text}: a slice cannot have negative bounds")
    return match.group(1), slice(*bounds)


def split_list(text: str) -> list[str]:
    """The items of `[f1,f2]` or `(f1,f2)`, quotes optional; a plain path is one item."""
    text = text.strip()
    if (text[:1], text[-1:]) not in (("[", "]"), ("(", ")")):
        return [text]
    items, depth, current = [], 0, ""
    for sign in text[1:-1]:
        depth += (sign == "[") - (sign == "]")
        if sign == "," and depth == 0:
            items.append(current)
            current = ""
        else:
            current += sign
    items.append(current)
    return [item.strip().strip("'\"") for item in items if item.strip()]


def read_rows(prompt_data: str) -> Iterator[dict[str, Any]]:
    """Rows of a --prompt-data value.

    Raises:
        DataError: a file is missing or of a kind that Relax does not read.
    """
    body, outer = split_slice(prompt_data) if prompt_data.strip().endswith("]") else (prompt_data, None)
    if outer is not None and not body.strip().endswith(("]", ")")):
        body, outer = prompt_data, None
    rows = itertools.chain.from_iterable(_read_item(item) for item in split_list(body))
    return itertools.islice(rows, outer.start, outer.stop) if outer else rows


def _read_item(item: str) -> Iterator[dict[str, Any]]:
    path_text, part = split_slice(item)
    path = Path(path_text.strip("'\""))
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in (".parquet", ".jsonl"))
    else:
        files = [path]
    rows = itertools.chain.from_iterable(_read_file(file) for file in files)
    return itertools.islice(rows, part.start, part.stop) if part else rows


def _read_file(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix not in (".parquet", ".jsonl"):
        raise DataError(f"{path}: Relax reads .parquet and .jsonl only")
    if not path.is_file():
        raise DataError(f"{path}: no such data file")
    if path.suffix == ".jsonl":
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                try:
                    yield json.loads(line)
                except json.JSONDecodeError:
                    continue  # the eager reader skips such lines with a warning
        return
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=512):
            yield from batch.to_pylist()


class Dataset:
    """The samples of one --prompt-data value."""

    def __init__(
        self,
        args: Any,
        prompt_data: str,
        tokenizer: Tokenizer,
        *,
        max_prompt_len: int | None,
        input_key: str,
        label_key: str | None,
        metadata_key: str,
        tool_key: str,
        prompt_hook: str | None = None,
    ) -> None:
        self.args = args
        self.tokenizer = tokenizer
        self.input_key, self.label_key = input_key, label_key
        self.metadata_key, self.tool_key = metadata_key, tool_key
        self.prompt_hook = load_function(prompt_hook) if prompt_hook else None
        self.columns: list[str] = []
        self.too_long = 0
        self.samples: list[Sample] = []
        long: list[Sample] = []
        for number, row in enumerate(read_rows(prompt_data)):
            self.columns = self.columns or list(row)
            sample = self._sample(row, number)
            if max_prompt_len and len(tokenizer.encode(str(sample.prompt))) > max_prompt_len:
                long.append(sample)
            else:
                self.samples.append(sample)
        self.too_long = len(long)
        self.all_too_long = bool(long) and not self.samples
        if self.all_too_long:
            self.samples = long  # the token count is an estimate: go on, and say so

    def _sample(self, row: dict[str, Any], number: int) -> Sample:
        where = f"row {number}"
        label = None
        if self.label_key:
            if self.label_key not in row:
                raise DataError(f"{where}: no column {self.label_key} (--label-key); columns: {', '.join(row)}")
            label = row[self.label_key]
        metadata = row.get(self.metadata_key) or {}
        if not isinstance(metadata, dict):
            raise DataError(f"{where}: column {self.metadata_key} is {type(metadata).__name__}, not a dict")
        metadata = dict(metadata)
        if "data_source" in row:
            metadata.setdefault("data_source", row["data_source"])
        if metadata.get("rm_type") is not None and not isinstance(metadata["rm_type"], str):
            raise DataError(f"{where}: metadata rm_type is {type(metadata['rm_type']).__name__}, not text")
        tools = self._tools(row, where)
        if tools is not None:
            metadata["tools"] = tools
        prompt = row.get(self.input_key)
        if self.prompt_hook:
            prompt = self.prompt_hook(prompt, row)
        prompt, media = self._media(prompt, row, where)
        return Sample(prompt=self._text(prompt, tools, where), label=label, metadata=metadata, multimodal_inputs=media)

    def _tools(self, row: dict[str, Any], where: str) -> list[Any] | None:
        if self.tool_key not in row:
            return None
        tools = row[self.tool_key]
        tools = json.loads(tools) if isinstance(tools, str) else tools
        if not isinstance(tools, list):
            raise DataError(
                f"{where}: column {self.tool_key} is {type(tools).__name__}; when it exists it must be a list"
            )
        return tools

    def _media(self, prompt: Any, row: dict[str, Any], where: str) -> tuple[Any, dict[str, Any] | None]:
        keys = self.args.multimodal_keys
        if not keys:
            return prompt, None
        texts = prompt if isinstance(prompt, str) else "".join(str(message["content"]) for message in prompt or ())
        media: dict[str, Any] = {}
        for kind, column in keys.items():
            items = row.get(column)
            items = list(items) if items is not None else []
            if len(items) > texts.count(_PLACEHOLDERS[kind]):
                raise DataError(f"{where}: {len(items)} items in {column}, fewer {_PLACEHOLDERS[kind]} in the prompt")
            media[f"{kind}s" if kind != "audio" else kind] = items
        return prompt, media

    def _text(self, prompt: Any, tools: list[Any] | None, where: str) -> Any:
        if getattr(self.args, "use_agentic_rollout", False):
            return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        if not self.args.apply_chat_template:
            if not isinstance(prompt, str):
                raise DataError(
                    f"{where}: the prompt is {type(prompt).__name__}; without --apply-chat-template it must be text"
                )
            return prompt
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        options = self.args.apply_chat_template_kwargs or {}
        try:
            return self.tokenizer.apply_chat_template(messages, tools=tools, **options)
        except (TypeError, KeyError) as error:
            raise DataError(f"{where}: column {self.input_key} is no chat: {type(error).__name__}: {error}") from error
