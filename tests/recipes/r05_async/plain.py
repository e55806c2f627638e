"""A coroutine function."""

import asyncio


async def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    await asyncio.sleep(0)
    return 1.0 if ground_truth in solution_str else 0.0
