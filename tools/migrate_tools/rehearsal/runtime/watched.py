"""Watches the environments that a rollout builds: closed once each, and what they showed to the model."""

from __future__ import annotations

import inspect
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

Fault = Callable[[Any], None]


class Watched:
    """The `build_env` of a module, with a count of what was built and closed."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.built = 0
        self.closed = 0
        self.closed_twice = 0
        self.shown: dict[int, list[str]] = {}
        """id of the sample -> texts of its observations."""
        self.fault: Fault | None = None
        """Breaks each new environment."""
        self._original = module.build_env

    @contextmanager
    def on(self) -> Any:
        """Watch while the context lasts."""
        self.module.build_env = self._build
        try:
            yield self
        finally:
            self.module.build_env = self._original

    def reset(self) -> None:
        """Count anew."""
        self.built = self.closed = self.closed_twice = 0
        self.shown.clear()
        self.fault = None

    def problems(self) -> list[str]:
        """Environments that were not closed, or twice."""
        found = []
        if self.closed < self.built:
            found.append(f"{self.built - self.closed} of {self.built} environments were not closed")
        if self.closed_twice:
            found.append(f"{self.closed_twice} environments were closed more than once")
        return found

    def _build(self, *args: Any, **kwargs: Any) -> Any:
        env = self._original(*args, **kwargs)
        sample = kwargs.get("sample", args[0] if args else None)
        self.built += 1
        texts = self.shown[id(sample)] = []
        if self.fault is not None:
            self.fault(env)
        step, close, times = env.step, env.close, [0]

        async def watched_step(text: str) -> Any:
            made = step(text)
            observation, done, info = await made if inspect.isawaitable(made) else made
            if not done:
                texts.extend(_texts(observation))
            return observation, done, info

        def watched_close() -> Any:
            times[0] += 1
            self.closed += times[0] == 1
            self.closed_twice += times[0] == 2
            return close()

        env.step, env.close = watched_step, watched_close
        return env


def environment_name(args: Namespace, generate: Any) -> str | None:
    """The module of environments that a rollout uses; None for a rollout without one."""
    module = sys.modules.get(getattr(generate, "__module__", ""))
    return getattr(args, "rollout_interaction_env_path", None) or getattr(module, "DEFAULT_ENV_MODULE", None)


def _texts(observation: Any) -> list[str]:
    """Texts of the messages of an observation."""
    messages = observation.get("messages") if isinstance(observation, dict) else None
    contents = [item["content"] for item in messages] if messages else [observation.get("obs_str", "")]
    found = []
    for content in contents:
        parts = [content] if isinstance(content, str) else [part.get("text") or "" for part in content]
        found += [part for part in parts if part]
    return found
