"""Syntax trees in threads."""

from __future__ import annotations

import ast
import functools
import threading
from typing import Any

_LOCK = threading.RLock()


def parse_one_at_a_time() -> None:
    """Makes `ast.parse` wait for the tree that another thread is building; call it before threads are started.

    CPython (seen in 3.11.7) counts the depth of a tree in one place for all threads: where a finaliser lets another
    thread run in between, and that one parses too, it raises "SystemError: AST constructor recursion depth mismatch".
    """
    parse = ast.parse
    if getattr(parse, "one_at_a_time", False):
        return

    @functools.wraps(parse)
    def alone(*args: Any, **kwargs: Any) -> Any:
        with _LOCK:
            return parse(*args, **kwargs)

    vars(alone)["one_at_a_time"] = True
    vars(ast)["parse"] = alone
