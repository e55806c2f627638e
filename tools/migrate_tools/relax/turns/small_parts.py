"""Small helpers of verl that tools import, without verl. Copied into the examples whose tools use them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


def rollout_trace_op(function: Callable[..., Any]) -> Callable[..., Any]:
    """Tracing is verl's own: the function as it is."""
    return function


def get_event_loop() -> asyncio.AbstractEventLoop:
    """The running loop, or a new one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.new_event_loop()


def function_tool(name: Any = None, *, schema: Any = None) -> Any:
    """Registration is done by the environment: the function as it is."""
    return name if callable(name) else lambda function: function
