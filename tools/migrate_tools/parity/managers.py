"""What verl's reward managers do around the scorer, re-implemented from their documented behaviour.

Facts per manager (versions 0.4 to 0.9): how the scorer is called, what it is given besides the row, which errors become
0.0, and what is added to the score. Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from migrate_tools.parity.values import encode, type_name

KNOWN = ("naive", "dapo", "gdpo", "batch", "prime", "rate_limited", "remote", "main_ppo")
"""main_ppo: the RewardManager class that forks before 0.2 keep inside their trainer."""
CUSTOM = "custom"
"""A manager class of the recipe's own: never modelled here, always run (`real_manager`)."""
COPIED = frozenset({"reward_model", "extra_info"})
"""Columns that a scorer gets to see, and may change."""
PLAIN = frozenset({str, int, float, bool, bytes, type(None)})
SWALLOWS = ("prime", "rate_limited")
"""Managers under which any exception of the scorer is a reward of 0.0."""


@dataclass(frozen=True)
class Manager:
    """The settings of one reward manager."""

    name: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    """reward_kwargs: they win over what the manager passes."""
    added: dict[str, Any] = field(default_factory=dict)
    """Keys that the manager puts into extra_info (num_turns, experiment_name ...)."""
    overlong: dict[str, Any] | None = None
    """max_resp_len, buffer_len, penalty_factor, log."""
    source_key: str = "data_source"
    logs_acc: bool = True
    """A scalar score is also logged as acc (reward loop)."""
    none_for_missing: bool = False
    """A row without extra_info gives None (verl before 0.6)."""
    takes_dict: bool = True
    """A dict with "score" is understood."""
    dispatch: bool = False
    """The function takes data_source and returns the scorer (forks before 0.2)."""


@dataclass(frozen=True)
class Call:
    """One scored response."""

    row: dict[str, Any]
    text: str
    length: int
    """Tokens of the response."""
    told: dict[str, Any] = field(default_factory=dict)
    """What a rollout of several turns puts into extra_info."""


class RewardError(Exception):
    """The manager itself fails on what the scorer returned."""


def score(
    manager: Manager,
    function: Callable[..., Any],
    call: Call,
    loop: asyncio.AbstractEventLoop,
    *,
    watched: bool = True,
) -> dict[str, Any]:
    """One call through the manager: {"score": float, "keys": {...}, "type": ..., "notes": [...], "mutated": [...]}.

    Args:
        watched: whether `mutated` says that the scorer changed its arguments; else it is empty.

    Raises:
        Exception: what the scorer or the manager raises where this manager lets it through.
    """
    row = {key: copied(value) if key in COPIED else value for key, value in call.row.items()}
    model: Any = row.get("reward_model")
    truth = model.get("ground_truth") if hasattr(model, "get") else model and model["ground_truth"]  # a text: TypeError
    extra = row.get("extra_info")
    if extra is None and not (manager.none_for_missing and not manager.added):
        extra = {}
    if isinstance(extra, dict) and (manager.name != "prime" or row.get("extra_info") is not None):
        extra.update({**copied(manager.added), **copied(call.told)})
    before = encode([truth, extra]) if watched else None
    notes: list[str] = []
    try:
        result = _invoke(manager, function, call, row.get(manager.source_key), truth, extra, loop, notes)
        if isinstance(result, dict) and manager.name == "rate_limited":
            result["score"]
        elif manager.name == "prime":
            _reading(manager, result)
    except Exception as error:
        if manager.name not in SWALLOWS:
            raise
        notes.append(f"error became 0.0: {type(error).__name__}")
        result = 0.0
    reward, keys = _reading(manager, result)
    if manager.overlong is not None:
        reward += _overlong(manager.overlong, call.length, keys)
    after = encode([truth, extra]) if watched else None
    return {
        "score": encode(float(reward)),
        "type": type(result).__name__,
        "raw_type": type_name(encode(_element(result))),
        "keys": {str(key): encode(value) for key, value in keys.items()},
        "notes": notes,
        "mutated": [] if before == after else ["extra_info or ground_truth"],
    }


def copied(value: Any) -> Any:
    """A deep copy; of plain values without the cost of `copy.deepcopy`."""
    kind = type(value)
    if kind is dict:
        return {key: copied(item) for key, item in value.items()}
    if kind is list:
        return [copied(item) for item in value]
    return value if kind in PLAIN else copy.deepcopy(value)


def _invoke(
    manager: Manager,
    function: Callable[..., Any],
    call: Call,
    source: Any,
    truth: Any,
    extra: Any,
    loop: asyncio.AbstractEventLoop,
    notes: list[str],
) -> Any:
    if manager.name == "batch":
        return _batch(manager, function, [(source, call.text, truth, extra)])[0]
    if manager.name == "prime":
        return function(source, call.text, truth, extra)
    if manager.dispatch:
        return function(source)(solution_str=call.text, ground_truth=truth)
    keywords = {"data_source": source, "solution_str": call.text, "ground_truth": truth, "extra_info": extra}
    result = function(**{**keywords, **manager.kwargs})
    if inspect.isawaitable(result):
        if not inspect.iscoroutinefunction(function):
            notes.append("a plain function returned an awaitable: verl itself would not await it")
        return loop.run_until_complete(_finish(result))
    return result


async def _finish(awaitable: Any) -> Any:
    return await awaitable


def _batch(manager: Manager, function: Callable[..., Any], rows: list[tuple[Any, str, Any, Any]]) -> list[Any]:
    sources, texts, truths, extras = (list(column) for column in zip(*rows, strict=True))
    results = function(
        data_sources=sources, solution_strs=texts, ground_truths=truths, extra_infos=extras, **manager.kwargs
    )
    if len(results) != len(rows):
        raise RewardError(f"the batch function returned {len(results)} values for {len(rows)} rows")
    return list(results)


def score_group(manager: Manager, function: Callable[..., Any], calls: list[Call]) -> list[Any]:
    """Scores of several responses in one call of a batch function, encoded; the manager's own part left out.

    Raises:
        Exception: what the function raises, or RewardError for a wrong number of results.
    """
    rows = []
    for call in calls:
        row = copy.deepcopy(call.row)
        extra = {**(row.get("extra_info") or {}), **manager.added, **call.told}
        rows.append(
            (row.get(manager.source_key), call.text, (row.get("reward_model") or {}).get("ground_truth"), extra)
        )
    return [encode(float(_reading(manager, result)[0])) for result in _batch(manager, function, rows)]


def _reading(manager: Manager, result: Any) -> tuple[float, dict[str, Any]]:
    """The trained number and the logged keys of one result, as this manager reads it."""
    if manager.name == "prime":
        if result is None:
            return 0.0, {}
        if isinstance(result, (int, float, bool)):
            return float(result), {}
        return float(result[0]), {}
    if isinstance(result, dict) and manager.takes_dict:
        return _as_number(result["score"]), dict(result)
    reward = _as_number(result)
    return reward, {"acc": result} if manager.logs_acc else {}


def _element(result: Any) -> Any:
    """What of a result becomes the trained number, as the scorer made it."""
    if isinstance(result, dict):
        return result.get("score")
    return result[0] if isinstance(result, (tuple, list)) and result else result


def _as_number(value: Any) -> float:
    """What a float32 tensor accepts as one element."""
    if isinstance(value, (bool, int, float)):
        return float(value)
    if hasattr(value, "dtype") and getattr(value, "size", 0) == 1:
        return float(value.reshape(-1)[0]) if getattr(value, "ndim", 0) else float(value)
    raise TypeError(f"the reward is a {type(value).__name__}, not a number")


def _overlong(limits: dict[str, Any], length: int, keys: dict[str, Any]) -> float:
    """The penalty of the dapo manager: 0 up to max_resp_len - buffer_len tokens, then linear."""
    exceeded = length - (limits["max_resp_len"] - limits["buffer_len"])
    penalty = min(-exceeded / limits["buffer_len"] * limits["penalty_factor"], 0.0)
    if limits.get("log"):
        keys["overlong_reward"] = penalty
        keys["overlong"] = penalty < 0
    return float(penalty)
