"""A pytest file with the mismatches: it needs pytest and the example's folder, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from migrate_tools.parity import told
from migrate_tools.parity.sandbox_data import load_rows
from migrate_tools.parity.shrink import Smallest

HEAD = '''"""Cases on which the migrated reward differs from the original one. Run: pytest {name}

Looks for the example in the folders above; set RELAX_ROOT to look elsewhere.
"""

import asyncio
import importlib
import inspect
import os
import sys
import types
from pathlib import Path
from types import SimpleNamespace

import pytest

MODULE = {module!r}
FILE = Path(*MODULE.split(".")).with_suffix(".py")
ABOVE = [up for up in Path(__file__).resolve().parents if (up / FILE).is_file()]
ROOT = Path(os.environ.get("RELAX_ROOT") or ABOVE[0])
FUNCTION = {function!r}
ARGS = {args!r}
nan, inf = float("nan"), float("inf")
# (row, label, metadata, prompt, response, response_length, reward of the original or None where it raises)
CASES = [
{cases}
]


class Sample(SimpleNamespace):
    def get_reward_value(self, args):
        return self.reward[args.reward_key] if args.reward_key else self.reward


def load():
    sys.path.insert(0, str(ROOT))
    try:
        importlib.import_module("relax.utils.types")
    except ImportError:
        for name in ("relax", "relax.utils", "relax.utils.types"):
            sys.modules.setdefault(name, types.ModuleType(name))
        sys.modules["relax.utils.types"].Sample = Sample
    return getattr(importlib.import_module(MODULE), FUNCTION)


@pytest.mark.parametrize(("row", "label", "metadata", "prompt", "response", "length", "expected"), CASES)
def test_same_reward(row, label, metadata, prompt, response, length, expected):
    reward_func = load()
    args = SimpleNamespace(**ARGS)
    sample = Sample(prompt=prompt, response=response, response_length=length, label=label, metadata=dict(metadata))
    sample.tokens, sample.reward, sample.status = [0] * (length + 4), None, "completed"
    result = reward_func(args, sample)
    sample.reward = asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result
    value = sample.get_reward_value(args)
    if expected is None:
        assert sample.metadata.get("reward_error"), "the original raises here: the port must say so"
    else:
        assert value == expected or (value != value and expected != expected)


async def _awaited(result):
    return await result
'''


def render(converted: Path, job: dict[str, Any], items: Sequence[Smallest], name: str = "test_parity.py") -> str:
    """The text of the file; rows come from `converted`, the converter's last output."""
    rows = load_rows(converted, job["rows"], "python")
    args = job["args"]
    lines = []
    for item in items:
        row = rows[item.row] if item.row < len(rows) else {}
        parts = (
            item.row,
            row.get(args["label_key"]),
            _metadata(row.get(args["metadata_key"]) or {}, item.told),
            row.get(args["input_key"]),
            item.new_text,
            item.length,
        )
        lines.append(f"    ({', '.join(map(repr, parts))}, {_expected(item)}),")
    kept = {
        key: value for key, value in args.items() if isinstance(value, (str, int, float, bool, type(None), dict, list))
    }
    return HEAD.format(name=name, module=job["module"], function=job["function"], args=kept, cases="\n".join(lines))


def _metadata(own: dict[str, Any], text: str) -> dict[str, Any]:
    return {**own, told.COLUMN: told.read(text)} if text else own


def _expected(item: Smallest) -> str:
    if item.old_kind != "value":
        return "None"
    if isinstance(item.old, dict):
        return f"float({str(item.old['v'])!r})"
    return repr(item.old)
