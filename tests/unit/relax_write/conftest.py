"""A written reward, called as Relax calls it."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from migrate_tools.model import Launch
from migrate_tools.relax.reward_module import render_reward

sys.path.insert(0, str(Path(__file__).parent))

from writer_inputs import make_extracted, make_launch  # noqa: E402


class Reward:
    """A written reward module, called on an event loop in a background thread, as Relax does."""

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self._loop = loop

    def __call__(self, sample: Any, **args: Any) -> Any:
        call = self.module.reward_func(Namespace(**args), sample)
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(timeout=60)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    running = asyncio.new_event_loop()
    thread = threading.Thread(target=running.run_forever)
    thread.start()
    yield running
    running.call_soon_threadsafe(running.stop)
    thread.join()
    running.close()


@pytest.fixture
def reward(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> Iterator[Callable[..., Reward]]:
    """Writes and imports the reward of a scorer."""
    made: list[Reward] = []

    def write(code: str, entry: str = "compute_score", launch: Launch | None = None, **values: Any) -> Reward:
        text = render_reward(
            launch or make_launch(), make_extracted(code, entry, **values), algo="demo", config_name="demo_config.yaml"
        )
        path = tmp_path / f"reward_{len(made)}.py"
        path.write_text(text, "utf-8")
        made.append(Reward(path, loop))
        return made[-1]

    yield write
    for item in made:
        if hasattr(item.module, "_stop_workers"):
            item.module._stop_workers()
        if hasattr(item.module, "_THREADS"):
            item.module._THREADS.shutdown()
