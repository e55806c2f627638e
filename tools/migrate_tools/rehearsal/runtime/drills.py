"""Drills of a rollout of the example's own: abort and resume, limits, 64 episodes at once, a broken environment.

Relax recipe contract, sections 3 to 5. Every drill compares with what must hold, or with an undisturbed run.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import sys
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from migrate_tools.rehearsal.runtime.convert import sample_problems, turn_problems
from migrate_tools.rehearsal.runtime.engine import Engine, truths
from migrate_tools.rehearsal.runtime.generate import GenerateState, sampling_params
from migrate_tools.rehearsal.runtime.hooks import Loop, describe
from migrate_tools.rehearsal.runtime.leaks import growth, held
from migrate_tools.rehearsal.runtime.plan import Plan
from migrate_tools.rehearsal.runtime.sample import Sample, SampleStatus
from migrate_tools.rehearsal.runtime.watched import Watched, environment_name
from migrate_tools.relax.metadata_names import RAW_PROMPT, ROLLOUT_METADATA

EPISODES = 64
"""Episodes at once; Relax's own default limit."""
DRILL_SECONDS = 120.0
CUTS = (0, 3, -3)
"""Tokens of an answer that an abort lets through; negative: all but so many."""
CONTEXT_ROOMS = range(16, 112, 8)
"""Tokens after the prompt in the drills with a short context: an answer or an observation has no room."""
LOOKED_AT = 3
"""Episodes that differ, and that are then run in modules that are loaded anew."""


class Drills:
    """All drills of one generate function; `run` returns what is wrong and what was seen."""

    def __init__(
        self, args: Namespace, generate: Callable[..., Awaitable[Sample]], engine: Engine, samples: Sequence[Sample],
        calls: Sequence[str],
    ) -> None:  # fmt: skip
        self.args, self.generate, self.engine = args, generate, engine
        self.samples, self.calls = list(samples), tuple(calls)
        self.state = GenerateState(args)
        self.plan = Plan(self.state.tokenizer)
        self.watched = _environment(args, generate)
        self.facts: dict[str, Any] = {}
        self.problems: list[str] = []
        self.episodes = EPISODES

    def run(self, loop: Loop, only: str = "") -> tuple[list[str], dict[str, Any]]:
        """Every drill (whose name has `only` in it), one after the other, on the rollout's event loop."""
        before, self.engine.script = self.engine.script, self.plan
        try:
            with self.watched.on() if self.watched else nullcontext():
                for name, drill in self._all():
                    if only not in name:
                        continue
                    try:
                        loop.run(drill(), DRILL_SECONDS)
                    except Exception as error:
                        self._problem(name, describe(error))
                    finally:
                        self.state.aborted = False
        finally:
            self.engine.script = before
        return self.problems, self.facts

    def _all(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        yield "episodes at once", self._together
        yield "abort and resume", self._aborts
        yield "limits", self._limits
        if self.watched:
            yield "a broken environment", self._broken

    def _problem(self, drill: str, text: str) -> None:
        text = f"{drill}: {text}"
        if text not in self.problems and len(self.problems) < 30:
            self.problems.append(text)

    # ------------------------------------------------------------ one episode

    def fresh(self, number: int) -> Sample:
        """A sample of its own, with a prompt that no other episode has."""
        sample = copy.copy(self.samples[number % len(self.samples)])
        sample.metadata = copy.deepcopy(sample.metadata)
        mark = f"Episode {number}.\n"
        if isinstance(sample.prompt, str):
            sample.prompt = mark + sample.prompt
        messages = sample.metadata.get(RAW_PROMPT)
        if isinstance(messages, list) and messages and isinstance(messages[-1].get("content"), str):
            messages[-1]["content"] = mark + messages[-1]["content"]
        return sample

    def words(self, number: int) -> list[str]:
        """What the engine says in an episode: calls of tools, where there are any, then an answer."""
        truth = truths(self.samples[number % len(self.samples)].label)[0]
        count = 1 + number % 2 if self.calls else 0
        called = [f"I will use a tool.\n{self.calls[(number + k) % len(self.calls)]}" for k in range(count)]
        return [*called, f"Let me work it out. Answer: {truth}. \\boxed{{{truth}}}"]

    async def play(self, sample: Sample, **changes: Any) -> Sample:
        """One call of generate."""
        args = Namespace(**{**vars(self.args), **changes})
        return await self.generate(args, sample, sampling_params(args))

    async def alone(self, number: int, **changes: Any) -> Sample:
        """An episode that nothing disturbs."""
        self.plan.begin(self.words(number))
        return await self.play(self.fresh(number), **changes)

    def check(self, drill: str, sample: Sample, *, masked: bool = False) -> None:
        """The invariants of a finished sample; `masked` when an earlier part was taken out of training."""
        for text in sample_problems(sample, logprobs=True):
            self._problem(drill, text)
        for text in () if masked else turn_problems(sample, self.plan.said):
            self._problem(drill, text)
        if sample.response_length > self.limit:
            self._problem(drill, f"{sample.response_length} tokens of response where {self.limit} are allowed")
        if sample.rollout_tokens != sample.tokens and not sample.multimodal_train_inputs:
            self._problem(drill, "rollout_tokens and tokens differ")
        self._shown(drill, sample)

    def _shown(self, drill: str, sample: Sample) -> None:
        """Observations that the tokens must hold, all but the last one, for which there may have been no room."""
        texts = self.watched.shown.pop(id(sample), []) if self.watched else []
        seen = sample.loss_mask or []
        ids = (
            [number for number, mask in zip(sample.tokens[-len(seen) :], seen, strict=True) if not mask] if seen else []
        )
        whole = self.state.tokenizer.decode(ids)
        if any(text.strip() not in whole for text in texts[:-1]):
            self._problem(drill, "the text of an observation is not in the tokens that the model saw")

    @property
    def limit(self) -> int:
        """Tokens that a response may have."""
        module = sys.modules.get(getattr(self.generate, "__module__", ""))
        return int(getattr(module, "RESPONSE_LENGTH", None) or self.args.rollout_max_response_len)

    # ------------------------------------------------------------ drills

    async def _together(self) -> None:
        drill = f"{self.episodes} episodes at once"
        began = time.monotonic()
        single = [_outcome(await self.alone(number)) for number in range(self.episodes)]
        serial = time.monotonic() - began
        self._forget()
        began = time.monotonic()
        batch = [self.fresh(number) for number in range(self.episodes)]
        done = await asyncio.gather(*(self.play(sample) for sample in batch))
        seconds = time.monotonic() - began
        for sample in done:
            self.check(drill, sample)
        differ = [number for number in range(self.episodes) if _outcome(done[number]) != single[number]]
        self._closed(drill)
        before = held()
        await asyncio.gather(*(self.play(self.fresh(number)) for number in range(self.episodes)))
        for text in await growth(before):
            self._problem(drill, f"{text} after another {self.episodes} episodes")
        self._closed(drill)
        self.facts["episodes"] = self.episodes
        self.facts["episodes_per_second"] = round(self.episodes / max(seconds, 1e-6), 1)
        self.facts["episodes_per_second_alone"] = round(self.episodes / max(serial, 1e-6), 1)
        if not differ:
            return
        if [number for number in differ[:LOOKED_AT] if await self._is_steady(number)]:
            text = f"{len(differ)} of {self.episodes} differ from the same episodes run alone: shared state"
            self._problem(drill, text)
        else:
            self.facts["not_comparable"] = f"{len(differ)} episodes differ from run to run by themselves"

    async def _is_steady(self, number: int) -> bool:
        """Whether an episode is always the same in modules that hold nothing of earlier episodes."""
        outcomes = []
        for _ in range(2):
            with fresh_modules(self.generate):
                watched = _environment(self.args, self.generate)
                with watched.on() if watched else nullcontext():
                    outcomes.append(_outcome(await self.alone(number)))
        return outcomes[0] == outcomes[1]

    async def _aborts(self) -> None:
        number, count = (1, 0)
        whole = await self.alone(number)
        requests = len(self.plan.asked)
        same = _outcome(await self.alone(number)) == _outcome(whole)
        for at in range(1, requests + 1):
            for cut in CUTS:
                for masked in (False, True):
                    count += 1
                    await self._abort(number, whole if same else None, at, cut, masked)
            count += 1
            await self._abort(number, whole if same else None, at, None, False)
        self.facts["aborts"] = count
        self._closed("abort and resume")

    async def _abort(self, number: int, whole: Sample | None, at: int, cut: int | None, masked: bool) -> None:
        """Stop an episode at a request (`cut` None: after its answer, while the tools run), then go on with it."""
        where = f"abort and resume: {'after' if cut is None else 'within'} answer {at}"
        self._forget()
        self.plan.begin(self.words(number))
        if cut is None:
            self.plan.after_reply = lambda count: setattr(self.state, "aborted", count >= at)
        else:
            self.plan.cut = (at, cut)
        sample = await self.play(self.fresh(number))
        stopped = sample.status is SampleStatus.ABORTED
        if cut is not None and not stopped:
            self._problem(where, f"the engine said abort and the status is {sample.status.name}")
        if cut is None and len(self.plan.asked) > at:
            self._problem(where, "the engine was asked again after the abort")
        self.state.aborted = False
        self.plan.after_reply = self.plan.cut = None
        if not stopped:
            return
        if sample.reward is not None:
            self._problem(where, "an aborted sample has a reward")
        lengths = {len(sample.loss_mask or ()), len(sample.rollout_log_probs or ()), sample.response_length}
        if len(lengths) > 1:
            self._problem(where, f"mask, log-probs and response of an aborted sample have lengths {sorted(lengths)}")
        if masked and sample.loss_mask:
            sample.loss_mask = [0] * len(sample.loss_mask)  # as --mask-offpolicy-in-partial-rollout
        sample = await self.play(sample)
        self.check(where, sample, masked=masked)
        if whole is not None and _outcome(sample, mask=not masked) != _outcome(whole, mask=not masked):
            self._problem(where, "the resumed episode is not the one that was never stopped")

    async def _limits(self) -> None:
        self._forget()
        self.plan.begin(["A very long answer. " * self.limit], unended=True)
        sample = await self.play(self.fresh(self.episodes))
        self._ended("limits: a long answer", sample, {SampleStatus.TRUNCATED})
        if self.calls:
            self.plan.begin([f"I will use a tool.\n{self.calls[0]}"])
            sample = await self.play(self.fresh(self.episodes + 1))
            self._ended("limits: calls without end", sample, {SampleStatus.TRUNCATED, SampleStatus.COMPLETED})
            own = getattr(self.watched.module, "MAX_ASSISTANT_TURNS", None) if self.watched else None
            most = getattr(self.args, "max_turns", own)
            if most and len(self.plan.asked) > most:
                self._problem("limits: turns", f"{len(self.plan.asked)} answers where {most} are allowed")
            self.facts["turns_without_end"] = len(self.plan.asked)
        for room in CONTEXT_ROOMS:
            await self._short_context(room)

    async def _short_context(self, room: int) -> None:
        drill = "limits: a short context"
        self.plan.begin(self.words(1))
        sample = self.fresh(1)
        context = len(self.state.tokenizer.encode(str(sample.prompt))) + room
        sample = await self.play(sample, rollout_max_context_len=context)
        self._ended(drill, sample, {SampleStatus.TRUNCATED, SampleStatus.COMPLETED})
        if any(item.context + item.limit > context for item in self.plan.asked):
            self._problem(drill, "more tokens were asked for than the context has room for")
        if len(sample.tokens) > context:
            self._problem(drill, f"{len(sample.tokens)} tokens where {context} are allowed")

    def _ended(self, drill: str, sample: Sample, allowed: set[SampleStatus]) -> None:
        self.check(drill, sample)
        if sample.status not in allowed:
            self._problem(drill, f"the final status is {sample.status.name}")
        if any(item.context - item.prompt + item.limit > self.limit for item in self.plan.asked):
            self._problem(drill, "more tokens were asked for than the response has room for")
        self._closed(drill)

    async def _broken(self) -> None:
        for name, fault in (("step", _breaks_step), ("close", _breaks_close)):
            drill = f"an environment whose {name} raises"
            self._forget()
            assert self.watched is not None
            self.watched.fault = fault
            self.plan.begin(self.words(1))
            try:
                sample = await self.play(self.fresh(2 * self.episodes))
            except _Broken:
                self._problem(drill, "the exception leaves generate and ends the whole training step")
                self._closed(drill)
                continue
            self.check(drill, sample)
            self._closed(drill)

    def _closed(self, drill: str) -> None:
        for text in self.watched.problems() if self.watched else ():
            self._problem(drill, text)

    def _forget(self) -> None:
        if self.watched:
            self.watched.reset()


class _Broken(Exception):
    """What a broken environment raises."""


def _breaks_step(env: Any) -> None:
    def step(_: str) -> Any:
        raise _Broken("step")

    env.step = step


def _breaks_close(env: Any) -> None:
    close = env.close

    def broken() -> None:
        close()
        raise _Broken("close")

    env.close = broken


@contextmanager
def fresh_modules(generate: Any) -> Iterator[None]:
    """The modules of the example, that of `generate` apart, are loaded anew while the context lasts."""
    own = str(getattr(generate, "__module__", ""))
    package = own.rpartition(".")[0] + "."
    kept = {name: module for name, module in sys.modules.items() if name.startswith(package) and name != own}
    for name in kept:
        del sys.modules[name]
    try:
        yield
    finally:
        sys.modules.update(kept)


def _environment(args: Namespace, generate: Any) -> Watched | None:
    name = environment_name(args, generate)
    return Watched(importlib.import_module(name)) if name else None


def _outcome(sample: Sample, *, mask: bool = True) -> dict[str, Any]:
    """What must be the same whenever an episode is the same."""
    return {
        "tokens": sample.tokens,
        "mask": sample.loss_mask if mask else len(sample.loss_mask or ()),
        "status": sample.status,
        "response": sample.response,
        "told": copy.deepcopy(sample.metadata.get(ROLLOUT_METADATA)),
    }
