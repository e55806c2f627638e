"""The cells of the effective-training table: how a value reads, and when two are the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Side(NamedTuple):
    """What one side does: a value that JSON can hold, and how it reads."""

    value: Any
    text: str


def plain(value: Any) -> Side:
    """A value that reads as it is."""
    return Side(value, str(value))


def equal(one: Any, other: Any) -> bool:
    """Whether two values are the same; numbers up to rounding, None in a mapping matches anything.

    >>> equal({"seed": None, "shuffle": True}, {"seed": 42, "shuffle": True})
    True
    """
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return abs(one - other) <= 1e-9 * max(abs(one), abs(other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(
            one[key] is None or other[key] is None or equal(one[key], other[key]) for key in one
        )
    if isinstance(one, str) or isinstance(other, str):
        return bool(one == other)
    if isinstance(one, Sequence) and isinstance(other, Sequence):
        return len(one) == len(other) and all(equal(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


def kl_side(terms: list[list[Any]]) -> Side:
    """KL terms as [place, coefficient, estimator]."""
    text = ", and ".join(f"in the {place}, {coef} x {kind}" for place, coef, kind in terms)
    return Side(terms, text or "none")


def moments(steps: int | None, warmup: float) -> list[int]:
    """verl steps to look at: start, within and after warm-up, quarters and end of the run."""
    last = max(0, steps - 1) if steps is not None else int(warmup) + 100
    wanted = [0, int(warmup) // 2, int(warmup), last // 4, last // 2, last * 3 // 4, last]
    return sorted({moment for moment in wanted if moment <= last})


def rates(curve: Callable[[float], float], steps: list[int], each: float) -> Side:
    """Learning rates at verl steps; `each` counts the curve's units in a verl step."""
    values = [float(f"{curve(step * each):.10g}") for step in steps]
    text = ", ".join(f"{value:.3g} at step {step}" for step, value in zip(steps, values, strict=True))
    if len(set(values)) == 1:
        text = f"{values[0]:g} all the time"
    return Side({"steps": steps, "rates": values}, text)


def schedule_side(style: str, warmup: dict[str, Any], text: str, floor: float) -> Side:
    """Style, warm-up and floor of a schedule."""
    shown = style + (f", warm-up {text}" if text else ", no warm-up") + (f", down to {floor}" if floor else "")
    return Side({"style": style, **warmup, "floor": floor}, shown)


def sampling_side(temperature: float, top_p: float, top_k: int, samples: int | None = None) -> Side:
    """Sampling parameters; top_k -1 stands for all tokens, temperature 0 for the most likely one."""
    if temperature == 0.0:
        top_p, top_k = 1.0, -1
    value = {"temperature": temperature, "top_p": top_p, "top_k": top_k, **({} if samples is None else {"n": samples})}
    shown = "greedy" if temperature == 0.0 else f"temperature {temperature}, top_p {top_p}, top_k {top_k}"
    return Side(value, shown if samples is None else f"{samples} sample(s), {shown}")


def every_side(steps: int, prompts: int, before: bool, besides: str) -> Side:
    """A cadence in prompts, so that steps of two sizes compare; `besides`: when else ("at the end")."""
    text = ", ".join(
        part
        for part in (
            f"every {steps} x {prompts} = {steps * prompts} prompts",
            "before training" if before else "",
            besides,
        )
        if part
    )
    return Side({"prompts": steps * prompts, "before": before, "besides": besides or "never"}, text)


def kept_side(steps: int, prompts: int, keep: int | None) -> Side:
    """How often a checkpoint is written, in prompts, and how many are kept."""
    if steps <= 0:
        return Side("never", "never")
    number = keep if keep and keep > 0 else "all"
    text = f"every {steps} x {prompts} = {steps * prompts} prompts, {number} kept"
    return Side({"prompts": steps * prompts, "kept": number}, text)


def precision_side(passes: str, master: str, sums: str) -> Side:
    """Types of the passes, of the sums of gradients and of the weights that the optimizer holds."""
    return Side(
        {"passes": passes, "weights": master, "sums": sums},
        f"{passes} passes, gradients added in {sums}, {master} weights in the optimizer",
    )


def lora_side(rank: int, alpha: float) -> Side:
    """Rank and scale of LoRA."""
    if rank <= 0:
        return Side("none", "none: all weights are trained")
    return Side([rank, alpha], f"rank {rank}, alpha {alpha:g}")


def parallel_side(tensor: int, pipeline: int, context: int, expert: int) -> Side:
    """Parallel sizes of Megatron."""
    text = f"tensor {tensor}, pipeline {pipeline}, context {context}, expert {expert}"
    return Side({"tensor": tensor, "pipeline": pipeline, "context": context, "expert": expert}, text)
