"""One rollout: prompts x samples through generate, the reward hook and the filters."""

from __future__ import annotations

import asyncio
import copy
import inspect
import random
from collections.abc import Callable, Sequence
from typing import Any

from migrate_tools.rehearsal.runtime import generate as default
from migrate_tools.rehearsal.runtime.agentic import PROMPTS_AT_MOST
from migrate_tools.rehearsal.runtime.hooks import HookError, Loop, RewardHook, describe, load_function
from migrate_tools.rehearsal.runtime.sample import Sample, SampleStatus, reward_value

SAMPLES_AT_MOST = 96
"""Samples of one rehearsed rollout; at least two prompts are taken whatever n is."""
ROLLOUT_SECONDS = 240.0


def take_prompts(args: Any, samples: Sequence[Sample], size: int, per_prompt: int) -> list[list[Sample]]:
    """The first groups of a rollout in Relax's order: shuffled by --rollout-seed, or as the rows stand."""
    order = list(range(len(samples)))
    if args.rollout_shuffle:
        random.Random(args.rollout_seed).shuffle(order)
    if getattr(args, "use_agentic_rollout", False):
        size = min(size, PROMPTS_AT_MOST)
    groups: list[list[Sample]] = []
    for group_index, position in enumerate(order[: min(size, max(2, SAMPLES_AT_MOST // per_prompt))]):
        group = []
        for number in range(per_prompt):
            sample = copy.deepcopy(samples[position])
            sample.group_index, sample.index = group_index, group_index * per_prompt + number
            group.append(sample)
        groups.append(group)
    return groups


class Rollout:
    """Runs groups through generate and reward on the background loop."""

    def __init__(
        self, args: Any, loop: Loop, reward: RewardHook | None, generate: Callable[..., Any] | None = None
    ) -> None:
        self.args, self.loop, self.reward = args, loop, reward
        path = args.custom_generate_function_path
        self.generate: Callable[..., Any] = generate or (load_function(path) if path else default.generate)
        self.takes_evaluation = "evaluation" in inspect.signature(self.generate).parameters
        self.failures: list[str] = []

    def run(
        self, groups: list[list[Sample]], params: dict[str, Any], *, evaluation: bool = False
    ) -> list[list[Sample]]:
        """The rewarded groups; what went wrong is added to `failures`."""
        return self.loop.run(self._groups(groups, params, evaluation), ROLLOUT_SECONDS)

    async def _groups(self, groups: list[list[Sample]], params: dict[str, Any], evaluation: bool) -> list[list[Sample]]:
        return list(await asyncio.gather(*(self._group(group, params, evaluation) for group in groups)))

    async def _group(self, group: list[Sample], params: dict[str, Any], evaluation: bool) -> list[Sample]:
        done = list(await asyncio.gather(*(self._sample(sample, params, evaluation) for sample in group)))
        if self.args.group_rm and self.reward is not None:
            try:
                rewards = await self.reward(self.args, done)
            except HookError as error:
                self._fail(f"the group reward failed: {error}")
                return done
            if not isinstance(rewards, (list, tuple)) or len(rewards) != len(done):
                size = len(rewards) if isinstance(rewards, (list, tuple)) else type(rewards).__name__
                self._fail(f"the group reward returned {size} rewards for {len(done)} samples")
                return done
            for sample, value in zip(done, rewards, strict=True):
                sample.reward = value
        return done

    async def _sample(self, sample: Sample, params: dict[str, Any], evaluation: bool) -> Sample:
        given = params if evaluation else dict(params)
        before = dict(given)
        extra = {"evaluation": evaluation} if self.takes_evaluation else {}
        try:
            sample = await self.generate(self.args, sample, given, **extra)
        except Exception as error:
            self._fail(f"generate raised {describe(error)}")
            return sample
        if evaluation and given != before:
            self._fail("generate changed the sampling parameters that all evaluation samples share")
        wanted = self.reward is not None and not self.args.group_rm
        if wanted and sample.reward is None and sample.status is not SampleStatus.ABORTED:
            assert self.reward is not None
            try:
                sample.reward = await self.reward(self.args, sample)
            except HookError as error:
                self._fail(f"the reward failed on {sample.response[:80]!r}: {error}")
        return sample

    def _fail(self, text: str) -> None:
        if text not in self.failures and len(self.failures) < 20:
            self.failures.append(text)

    def values(self, samples: Sequence[Sample], key: str | None) -> list[Any]:
        """The trained value of every sample; None (and a failure) where Relax would raise."""
        result = []
        for sample in samples:
            try:
                result.append(reward_value(sample.reward, key))
            except (TypeError, KeyError) as error:
                if sample.reward is not None or not self.failures:
                    self._fail(f"get_reward_value: {describe(error)}")
                result.append(None)
        return result
