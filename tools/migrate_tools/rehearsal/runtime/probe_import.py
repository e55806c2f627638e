"""Imports one hook in this process, where heavy packages cannot be imported; prints one line of JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

from migrate_tools.rehearsal.runtime.hooks import describe, load_function
from migrate_tools.rehearsal.runtime.taped import install_tape

FORBIDDEN = ("torch", "verl", "ray", "vllm", "sglang", "megatron", "tensordict")
"""Packages that a rollout hook must not need at import: slow, absent on a CPU machine, or the framework left behind."""


class Blocker(MetaPathFinder):
    """Raises on any import of a forbidden package."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """Nothing, unless the name is forbidden.

        Raises:
            ImportError: it is.
        """
        if fullname.partition(".")[0] in FORBIDDEN:
            raise ImportError(f"a hook must not import {fullname}")
        return None


def main(path: str) -> None:
    """Import the function of a dotted path and print what came of it."""
    install_tape()
    sys.meta_path.insert(0, Blocker())
    began = time.monotonic()
    try:
        problem = None if callable(load_function(path)) else "not callable"
    except BaseException as error:
        problem = describe(error)
    print(json.dumps({"problem": problem, "seconds": round(time.monotonic() - began, 3)}))


if __name__ == "__main__":
    main(sys.argv[1])
