"""What surrounds the scorer in the example of these tests, and rows for it."""

from __future__ import annotations

from typing import Any

from migrate_tools.relax.special_tokens import QWEN

WRAPPER = (
    f"""
SPECIAL_TOKENS = {QWEN.tokens!r}
"""
    + """
import asyncio

FLOOR = 0.0
ADDED_METADATA = ("data_source",)


async def reward_func(args, sample, **_):
    if isinstance(sample, list):
        return list(await asyncio.gather(*(reward_func(args, one) for one in sample)))
    text = sample.response
    for token in SPECIAL_TOKENS:
        text = text.replace(token, "")
    extra = {key: value for key, value in sample.metadata.items() if key not in ADDED_METADATA}
    try:
        result = await asyncio.to_thread(
            compute_score, data_source=sample.metadata.get("data_source"), solution_str=text,
            ground_truth=sample.label, extra_info=extra)
        reward = dict(result) if isinstance(result, dict) else {"score": result, "acc": result}
        reward["score"] = float(reward["score"])
    except Exception as error:
        sample.metadata["reward_error"] = repr(error)
        reward = {"score": FLOOR, "acc": FLOOR}
    return reward
"""
)


def make_row(truth: Any, source: str = "demo", number: int = 0, **columns: Any) -> dict[str, Any]:
    """One row in the format of verl."""
    row = {
        "data_source": source,
        "prompt": [{"role": "user", "content": f"Question {number}?"}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {"index": number, "split": "train"},
    }
    return {key: value for key, value in {**row, **columns}.items() if value is not None}
