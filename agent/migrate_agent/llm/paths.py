"""Which files of an example a model may change: decided by the path alone, before anything is read."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection

SUFFIXES = (".py", ".sh", ".yaml")
_PLAIN = re.compile(r"[a-z0-9_]+(?:/[a-z0-9_]+)*\.[a-z]+")
_RESERVED = frozenset({"__init__", "conftest", "sitecustomize", "usercustomize"})


def path_problem(path: str, algo: str, known: Collection[str]) -> str:
    """Why a model may not change the file at `path`; empty when it may.

    Only files that the example has, and new Python modules in `examples/<algo>/`. A path is compared as it is written:
    nothing is resolved or normalised, so another spelling of an allowed path is another path.

    Args:
        path: relative to the Relax root.
        known: paths of the example.
    """
    if path not in known and not _PLAIN.fullmatch(path):
        return "not a plain relative path in lower-case letters, digits and underscores"
    if not path.endswith(SUFFIXES):
        return f"only {', '.join(SUFFIXES)} files may be changed"
    folder, _, name = path.rpartition("/")
    stem = name.rpartition(".")[0]
    inside = folder == f"examples/{algo}"
    script = folder == "scripts/tools" and name in (f"process_{algo}.py", f"prepare_{algo}.py")
    if not inside and not script:
        return f"outside examples/{algo}/ and this example's scripts in scripts/tools/"
    if stem in _RESERVED:
        return f"{name} is not a module of the recipe's work"
    if path in known:
        return ""
    if script or not name.endswith(".py"):
        return "a new file may only be a Python module beside the reward"
    if stem in sys.stdlib_module_names:
        return f"{name} would hide a module of Python's own"
    return ""
