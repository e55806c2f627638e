"""An instance whose __call__ is a coroutine function: iscoroutinefunction says no."""

import asyncio


class Scorer:
    def __init__(self, right):
        self.right = right

    async def __call__(self, data_source, solution_str, ground_truth, extra_info=None):
        await asyncio.sleep(0)
        return self.right if ground_truth in solution_str else 0.0


compute_score = Scorer(1.0)
