"""Our model of a reward manager against verl's own class, on some of the cases; and the recipe's own class itself.

Runs inside the sandbox: standard library and numpy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from migrate_tools.parity import minitorch, real_manager, stubs, supervise, texts, told
from migrate_tools.parity.managers import SWALLOWS, Call, RewardError
from migrate_tools.parity.values import encode, identical, number

CHECKED = 40
"""Cases on which the model is compared with the class."""
CLOSE = 2.0**-22
"""Rounding of float32 relative to the larger of 1 and the score."""
SECONDS = 20.0
FAMILIES = {family.name: family for family in texts.ALL}
Scored = Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]


def runner(job: Mapping[str, Any], function: Callable[..., Any], loop: asyncio.AbstractEventLoop) -> Scored:
    """Scores a case with the real class: row, case -> record.

    Raises:
        Exception: the class cannot be loaded or made.
    """
    real, kwargs = job["real"], job["manager"]["kwargs"]
    minitorch.install()
    scorer = _with_kwargs(function, kwargs) if kwargs else function
    made = real_manager.Runner(real_manager.RealManager(**real["class"]), scorer, loop)
    family = FAMILIES[real["family"]]

    def score(row: Mapping[str, Any], case: Mapping[str, Any]) -> dict[str, Any]:
        prompt = texts.flat_prompt(row.get(real["prompt_key"]) or "", family)
        filled = dict(row)
        if filled.get("extra_info") is None:
            filled.pop("extra_info", None)
            if not job["manager"].get("none_for_missing"):
                filled["extra_info"] = {}
        return made.score(Call(filled, case["new"], case["length"], told.read(case["told"])), prompt, family.tokens)

    return score


def _with_kwargs(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> Callable[..., Any]:
    """The function as verl wraps it: reward_kwargs win over what the manager passes."""
    import inspect

    if inspect.iscoroutinefunction(function):

        async def awaited(*args: Any, **given: Any) -> Any:
            return await function(*args, **{**given, **kwargs})

        return awaited
    return _WithKwargs(function, kwargs)


class _WithKwargs:
    """A plain function whose keywords win; may be pickled."""

    def __init__(self, function: Callable[..., Any], kwargs: Mapping[str, Any]) -> None:
        self._function, self._kwargs = function, dict(kwargs)

    def __call__(self, *args: Any, **given: Any) -> Any:
        return self._function(*args, **{**given, **self._kwargs})


def check(
    job: Mapping[str, Any], rows: list[Any], cases: list[dict[str, Any]], records: list[dict[str, Any]]
) -> dict[str, Any]:
    """Where the model's records differ from the class: {"class", "cases", "differences": [...], "why"}."""
    usable = [i for i, record in enumerate(records) if record["kind"] in ("value", "exception")]
    spread = usable[:: max(1, len(usable) // CHECKED)][:CHECKED]
    name = job["real"]["class"].get("module") or job["real"]["class"].get("file")
    done = supervise.run_items(
        spread, lambda: _checking(job, rows, cases), item_seconds=job["case_seconds"], total_seconds=SECONDS
    )
    setup = next((record["error"] for record in done.values() if record["kind"] in ("setup", "missing")), "")
    if setup:
        return {"class": name, "cases": 0, "differences": [], "why": setup}
    compared = [i for i in spread if done[i]["kind"] in ("value", "exception")]
    swallows = job["manager"]["name"] in SWALLOWS
    pairs = ((i, difference(records[i], done[i], swallows=swallows)) for i in compared)
    return {
        "class": name,
        "cases": len(compared),
        "differences": [f"case {i}: {text}" for i, text in pairs if text][:10],
        "why": "",
    }


def _checking(job: Mapping[str, Any], rows: list[Any], cases: list[dict[str, Any]]) -> supervise.Runner:
    import random

    from migrate_tools.parity.old_side import prepare

    function, _, loop = prepare(job)
    tape = None
    if job.get("tape"):
        from migrate_tools.parity import clients

        tape = clients.install(job["tape"])
    score = runner(job, function, loop)

    def run(index: int) -> dict[str, Any]:
        random.seed(index)
        stubs.used.clear()
        if tape is not None:
            tape.begin()
        case = cases[index]
        try:
            record = {"kind": "value", **score(rows[case["row"]], case)}
        except stubs.StandInUsed as error:
            return {"kind": "missing", "error": f"needs {error}"}
        except Exception as error:
            record = {"kind": "exception", "error": supervise.describe(error)}
        return {"kind": "missing", "error": f"needs {stubs.used[0]}"} if stubs.used else record

    return run


def difference(model: Mapping[str, Any], real: Mapping[str, Any], *, swallows: bool = False) -> str:
    """How the record of the model differs from that of the class, or empty.

    The penalty is float32 in the class, and a manager that turns exceptions into 0.0 keeps no result. A RewardError of
    the model says that verl fails there, in a class of its own.
    """
    if model["kind"] != real["kind"]:
        sides = [f"{record['kind']} {record.get('error', '')}".strip() for record in (model, real)]
        return f"the model gives {sides[0]}, the class {sides[1]}"
    if model["kind"] == "exception":
        raised = [str(record["error"]).partition(":")[0] for record in (model, real)]
        alike = raised[0] in (raised[1], RewardError.__name__)
        return "" if alike else f"the model raises {raised[0]}, the class {raised[1]}"
    one, other = number(model["score"]), number(real["score"])
    if one is None or other is None or not (identical(encode(one), encode(other)) or _close(one, other)):
        return f"the model gives {one}, the class {other}"
    for key in model["keys"].keys() | real["keys"].keys():
        if swallows and key in ("error", "timeout", "acc"):
            continue
        if key not in model["keys"] or key not in real["keys"]:
            return f"only the {'class' if key in real['keys'] else 'model'} logs {key}"
        first, second = model["keys"][key], real["keys"][key]
        if not (identical(first, second) or _same_number(first, second)):
            return f"{key} is {first!r} in the model, {second!r} in the class"
    if bool(model["mutated"]) != bool(real["mutated"]):
        return f"arguments are changed by {'the model' if model['mutated'] else 'the class'} alone"
    return ""


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= CLOSE * max(1.0, abs(one))


def _same_number(first: Any, second: Any) -> bool:
    one, other = number(first), number(second)
    return one is not None and other is not None and _close(one, other)
