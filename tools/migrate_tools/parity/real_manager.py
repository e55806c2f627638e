"""Runs a reward manager class itself: verl's own of some release, or one that a recipe brings.

The class gets what verl gives it: a batch of token ids with masks and the columns of the rows, a tokenizer, a scorer.
The ids stand for pieces of the response text, so that decoding and lengths are exact without a real tokenizer. Runs
inside the sandbox: standard library, numpy, and omegaconf for managers that take a configuration.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from migrate_tools.parity import minitorch
from migrate_tools.parity.managers import Call
from migrate_tools.parity.moved import load_file
from migrate_tools.parity.told import as_columns
from migrate_tools.parity.values import encode, type_name

PROMPT, PADDING = 4, 3
"""Token ids of the prompt, and padding behind a response."""
END = "<end-of-sequence>"
"""A text of the tokenizer that no response has."""


@dataclass(frozen=True)
class RealManager:
    """Where a manager class is, and how verl makes it."""

    file: str = ""
    """File of the class inside the sandbox; empty when `module` says where it is."""
    module: str = ""
    name: str = ""
    """Class name, or the name it is registered under."""
    fragment: bool = False
    """The file is a trainer: only what can be imported of it is."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Keywords of verl's call of the class beyond tokenizer, num_examine and compute_score."""
    config: dict[str, Any] | None = None
    """The composed configuration (dotted keys), for managers of the reward loop."""
    source_key: str = "data_source"
    columns: dict[str, Any] = field(default_factory=dict)
    """Columns that verl's rollout adds to the rows (__num_turns__, tool_extra_fields ...)."""


class Item:
    """One row of a batch."""

    def __init__(self, batch: dict[str, Any], columns: dict[str, Any], meta: dict[str, Any]) -> None:
        self.batch, self.non_tensor_batch, self.meta_info = batch, columns, meta


class Batch:
    """What verl calls a DataProto: tensors and columns of several rows."""

    def __init__(self, batch: dict[str, Any], columns: dict[str, Any], meta: dict[str, Any] | None = None) -> None:
        self.batch, self.non_tensor_batch, self.meta_info = batch, columns, meta or {}

    def __len__(self) -> int:
        return len(self.batch["responses"])

    def __getitem__(self, key: Any) -> Any:
        tensors = {name: value[key] for name, value in self.batch.items()}
        columns = {name: value[key] for name, value in self.non_tensor_batch.items()}
        return (Batch if isinstance(key, slice) else Item)(tensors, columns, self.meta_info)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def pop(self, batch_keys: Sequence[str] = (), non_tensor_batch_keys: Sequence[str] = (), **_: Any) -> Batch:
        """Takes tensors and columns out."""
        tensors = {name: self.batch.pop(name) for name in batch_keys}
        columns = {name: self.non_tensor_batch.pop(name) for name in non_tensor_batch_keys}
        return Batch(tensors, columns, self.meta_info)


class Tokenizer:
    """Decodes ids to the pieces of text that they stand for."""

    eos_token, pad_token = END, ""
    eos_token_id, pad_token_id = 1, 0

    def __init__(self) -> None:
        self._pieces: list[str] = ["", END]
        self._special: set[int] = {0, 1}
        self._tokens: tuple[str, ...] = ()

    def begin(self, special: Sequence[str]) -> None:
        """A new batch, in a vocabulary whose special tokens are these."""
        del self._pieces[2:]
        self._special = {0, 1}
        self._tokens = tuple(special)

    def encode(self, text: str, count: int) -> list[int]:
        """`count` ids whose pieces together are the text; special tokens are ids of their own."""
        parts = self._split(text)
        plain = sum(not special for _, special in parts)
        left = max(count - (len(parts) - plain), plain, 1)
        ids: list[int] = []
        for piece, special in parts:
            if special:
                ids.append(self._new(piece, True))
                continue
            share = max(1, left // max(plain, 1)) if plain > 1 else left
            plain, left = plain - 1, left - share
            step = max(1, -(-len(piece) // share))
            cut = [piece[start : start + step] for start in range(0, len(piece), step)][:share]
            ids += [self._new(part, False) for part in [*cut, *([""] * (share - len(cut)))]]
        return ids or [self._new("", False) for _ in range(max(count, 1))]

    def _split(self, text: str) -> list[tuple[str, bool]]:
        parts: list[tuple[str, bool]] = [(text, False)] if text else []
        for token in self._tokens:
            found: list[tuple[str, bool]] = []
            for piece, special in parts:
                if special or token not in piece:
                    found.append((piece, special))
                    continue
                for number, rest in enumerate(piece.split(token)):
                    found += [(token, True)] if number else []
                    found += [(rest, False)] if rest else []
            parts = found
        return parts

    def _new(self, piece: str, special: bool) -> int:
        self._pieces.append(piece)
        if special:
            self._special.add(len(self._pieces) - 1)
        return len(self._pieces) - 1

    def decode(self, ids: Any, skip_special_tokens: bool = False, **_: Any) -> str:
        """The text of the ids."""
        numbers = [int(item) for item in np.asarray(ids).reshape(-1)]
        return "".join(self._pieces[i] for i in numbers if not (skip_special_tokens and i in self._special))

    def batch_decode(self, rows: Any, skip_special_tokens: bool = False, **_: Any) -> list[str]:
        """The texts of several rows of ids."""
        return [self.decode(row, skip_special_tokens) for row in rows]


class _Kept:
    """A scorer that keeps its results; may be pickled, for managers that send it to other processes."""

    def __init__(self, scorer: Callable[..., Any], results: list[Any]) -> None:
        self._scorer, self._results = scorer, results

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._results.append(self._scorer(*args, **kwargs))
        return self._results[-1]


class Runner:
    """One manager, made once, called for one or more responses at a time."""

    def __init__(self, real: RealManager, scorer: Callable[..., Any], loop: asyncio.AbstractEventLoop) -> None:
        self._real, self._loop = real, loop
        self._result: list[Any] = []
        self._tokenizer = Tokenizer()
        asyncio.set_event_loop(loop)
        made = load_class(real)
        self._in_loop = hasattr(made, "run_single")
        wrapped = self._seen(scorer)
        if self._in_loop:
            self._manager = made(_configuration(real.config or {}), self._tokenizer, wrapped)
            self._manager.loop = loop
        else:
            accepted = inspect.signature(made).parameters
            wide = any(item.kind is item.VAR_KEYWORD for item in accepted.values())
            given = {"compute_score": wrapped, "reward_fn_key": real.source_key}
            usual = {name: value for name, value in given.items() if wide or name in accepted}
            arguments = {key: _configuration(value) if isinstance(value, dict) else value
                         for key, value in real.arguments.items()}  # fmt: skip
            self._manager = made(tokenizer=self._tokenizer, num_examine=0, **usual, **arguments)

    def _seen(self, scorer: Callable[..., Any]) -> Callable[..., Any]:
        """The scorer, with its last result kept: the manager hands on the number alone."""
        if not inspect.iscoroutinefunction(scorer):
            return _Kept(scorer, self._result)

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            self._result.append(await scorer(*args, **kwargs))
            return self._result[-1]

        return awaited

    def score(self, call: Call, prompt: str = "", special: Sequence[str] = ()) -> dict[str, Any]:
        """The record of one response, in the form of `managers.score`.

        Args:
            call: its text is what the model wrote, special tokens included.

        Raises:
            Exception: whatever the manager lets through.
        """
        return self.score_all([call], [prompt], special)[0]

    def score_all(self, calls: Sequence[Call], prompts: Sequence[str], special: Sequence[str]) -> list[dict[str, Any]]:
        """The records of several responses in one batch."""
        self._result.clear()
        data = self._batch(calls, prompts, special)
        columns = data.non_tensor_batch
        before = [_arguments(columns, index) for index in range(len(calls))]
        rewards, extras = self._run(data)
        records = []
        results = self._result
        if len(results) == 1 and isinstance(results[0], list) and len(results[0]) == len(calls):
            results = results[0]  # of a batch function
        for index in range(len(calls)):
            result = results[index] if len(results) == len(calls) else None
            element = result.get("score") if isinstance(result, dict) else result
            after = _arguments(columns, index)
            records.append(
                {
                    "score": encode(float(rewards[index])),
                    "type": type(result).__name__,
                    "raw_type": type_name(encode(element)),
                    "keys": {str(key): encode(_plain(value)) for key, value in extras[index].items()},
                    "logged": [str(key) for key in extras[index] if not (isinstance(result, dict) and key in result)],
                    "dropped": [str(key) for key in result if key not in extras[index]]
                    if isinstance(result, dict)
                    else [],
                    "notes": ["float32"],
                    "mutated": [] if before[index] == after else ["extra_info or ground_truth"],
                }
            )
        return records

    def _run(self, data: Batch) -> tuple[list[float], list[dict[str, Any]]]:
        if self._in_loop:
            done = [self._loop.run_until_complete(self._manager.run_single(data[i : i + 1])) for i in range(len(data))]
            return [float(item["reward_score"]) for item in done], [dict(item["reward_extra_info"]) for item in done]
        accepted = inspect.signature(self._manager.__call__).parameters
        found = self._manager(data, return_dict=True) if "return_dict" in accepted else self._manager(data)
        tensor, extra = (found["reward_tensor"], found.get("reward_extra_info") or {}) if isinstance(found, dict) else (
            found[0] if isinstance(found, tuple) else found, {})  # fmt: skip
        extras = [
            {key: values[i] for key, values in extra.items() if len(values) == len(data)} for i in range(len(data))
        ]
        return [float(np.asarray(row).sum()) for row in tensor], extras

    def _batch(self, calls: Sequence[Call], prompts: Sequence[str], special: Sequence[str]) -> Batch:
        self._tokenizer.begin(special)
        asked = [self._tokenizer.encode(text, PROMPT) for text in prompts]
        answers = [self._tokenizer.encode(call.text, call.length) for call in calls]
        left, right = max(map(len, asked)), max(map(len, answers)) + PADDING
        ids = [[0] * (left - len(ask)) + ask for ask in asked]
        responses = [ids + [0] * (right - len(ids)) for ids in answers]
        mask = [
            [0] * (left - len(ask)) + [1] * len(ask) + [1] * len(answer) + [0] * (right - len(answer))
            for ask, answer in zip(asked, answers, strict=True)
        ]
        tensors = {"prompts": ids, "responses": responses, "attention_mask": mask}
        batch = {name: minitorch.tensor(value) for name, value in tensors.items()}
        batch["response_mask"] = batch["attention_mask"][:, left:]
        columns = [{**self._real.columns, **as_columns(call.told)} for call in calls]
        rows = [{**copy.deepcopy(call.row), **copy.deepcopy(own)} for call, own in zip(calls, columns, strict=True)]
        names = dict.fromkeys(name for row in rows for name in row)
        return Batch(batch, {name: _column([row.get(name) for row in rows]) for name in names})


def _arguments(columns: Mapping[str, Any], index: int) -> Any:
    """What a scorer could change of a row; keys that a manager adds itself are left out."""
    own = {"num_turns", "rollout_reward_scores", "experiment_name", "turn_scores", "tool_rewards"}
    extra = columns["extra_info"][index] if "extra_info" in columns else None
    kept = {key: value for key, value in extra.items() if key not in own} if isinstance(extra, dict) else extra
    model = columns["reward_model"][index] if "reward_model" in columns else None
    return encode([kept, model])


def _plain(value: Any) -> Any:
    """A number in place of a tensor that holds one."""
    return value.item() if isinstance(value, minitorch.Tensor) and np.asarray(value).size == 1 else value


def _column(values: list[Any]) -> Any:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _configuration(values: Mapping[str, Any]) -> Any:
    """Dotted keys as verl's configuration object."""
    from omegaconf import OmegaConf

    made = OmegaConf.create({})
    for key, value in values.items():
        OmegaConf.update(made, key, value, force_add=True)
    return made


def load_class(real: RealManager) -> type:
    """The class by its name, or by the name it is registered under.

    Raises:
        LookupError: the file has no such class.
    """
    module = _fragment(Path(real.file)) if real.fragment else _load(real)
    if isinstance(found := getattr(module, real.name, None), type):
        return found
    own = [value for value in vars(module).values() if _is_manager(value) and value.__module__ == module.__name__]
    if len(own) == 1:
        return own[0]  # type: ignore[no-any-return]
    registered = [registry for name, registry in vars(module).items() if name.endswith("REGISTRY")]
    registry_module = sys.modules.get("verl.workers.reward_manager.registry")
    loop_module = sys.modules.get("verl.experimental.reward_loop.reward_manager.registry")
    for holder in (registry_module, loop_module):
        registered += [value for name, value in vars(holder).items() if name.endswith("REGISTRY")] if holder else []
    for registry in registered:
        if isinstance(registry, dict) and real.name in registry:
            return registry[real.name]  # type: ignore[no-any-return]
    raise LookupError(f"{real.file or real.module} has no reward manager {real.name}")


def _is_manager(value: Any) -> bool:
    return isinstance(value, type) and "RewardManager" in value.__name__ and not inspect.isabstract(value)


def _load(real: RealManager) -> Any:
    if real.module:
        return importlib.import_module(real.module)
    return load_file("custom_manager", Path(real.file))


def _fragment(path: Path) -> Any:
    from migrate_tools.parity.old_side import fragment

    return fragment(path, classes=True)
