"""What a reward manager of a given verl source adds to the scorer, read from its own source text."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from migrate_tools.verl.paths import walk
from migrate_tools.verl.signature import CALL_KEYWORDS

BATCH_KEYWORDS = ("data_sources", "solution_strs", "ground_truths", "extra_infos")
MODULE_KEYS = (
    "reward.reward_manager.module.path",
    "reward_manager.module.path",
    "reward_model.reward_loop_module_path",
)
"""Keys that name the file of a manager class of the recipe's own (verl 0.7 and later)."""
MOST_FILES, LARGEST = 3000, 1 << 20
"""How many files are looked through for a registered manager, and the largest in bytes."""
FILE_NAMES = {"rate_limited": "limited"}
LOOP = "verl/experimental/reward_loop/reward_manager"
LEGACY = "verl/workers/reward_manager"


@dataclass(frozen=True)
class ManagerFacts:
    """How a manager calls the scorer."""

    file: str | None
    """File of the manager inside the verl source; None when this verl has no such manager."""
    keywords: tuple[str, ...]
    """Keywords of the call; empty when it passes its values by position."""
    text: Literal["response", "prompt_and_response"]
    skip_special_tokens: bool
    adds_num_turns: bool
    extra: tuple[str, ...] = ()
    """Keywords beyond the usual ones, whose values the manager brings itself."""


def manager_file(verl_root: Path, name: str, config: Mapping[str, Any]) -> str | None:
    """File of a registered manager, relative to the verl source.

    verl 0.7 has both the reward loop and the older managers; `reward_model.use_reward_loop` chooses. Later ones
    have the loop only, earlier ones the older managers only.
    """
    stem = FILE_NAMES.get(name, name)
    loop = f"{LOOP}/{stem}.py"
    legacy = f"{LEGACY}/{stem}.py"
    wants_loop = config.get("reward_model.use_reward_loop") is not False
    choices = [loop, legacy] if wants_loop else [legacy, loop]
    return next((choice for choice in choices if (verl_root / choice).is_file()), None)


def read_manager(verl_root: Path, name: str, config: Mapping[str, Any], entry_file: Path | None) -> ManagerFacts:
    """Facts of the manager `name`, or of the manager class inside a fork's entry file."""
    shown = manager_file(verl_root, name, config)
    source = (verl_root / shown).read_text(encoding="utf-8", errors="replace") if shown else ""
    if not source and entry_file is not None and entry_file.is_file():
        text = entry_file.read_text(encoding="utf-8", errors="replace")
        if re.search(r"class \w*RewardManager\w*\b", text):
            source = text
            shown = entry_file.relative_to(verl_root).as_posix() if entry_file.is_relative_to(verl_root) else None
    usual = BATCH_KEYWORDS if name == "batch" else () if name == "prime" else CALL_KEYWORDS
    if not source:
        return ManagerFacts(None, usual, "response", True, False)
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ManagerFacts(shown, usual, "response", True, False)
    call = _scorer_call(tree)
    keywords = tuple(item.arg for item in call.keywords if item.arg) if call and not call.args else usual
    decoded = _decoding(tree, call)
    return ManagerFacts(
        shown,
        tuple(word for word in keywords if word in (*CALL_KEYWORDS, *BATCH_KEYWORDS)) or usual,
        decoded[0],
        decoded[1],
        bool(re.search(r"""extra_info\[["']num_turns["']\]\s*=""", source)),
        tuple(word for word in keywords if word not in (*CALL_KEYWORDS, *BATCH_KEYWORDS)),
    )


def registered_file(roots: Sequence[Path], name: str) -> Path | None:
    """The file below `roots` that registers or defines a manager class of this name, or None."""
    pattern = re.compile(rf"""register\(["']{re.escape(name)}["']\)|class {re.escape(name)}\b""")
    for root in dict.fromkeys(roots):
        for path in islice((item for item in walk(root) if item.suffix == ".py"), MOST_FILES):
            if path.stat().st_size < LARGEST and pattern.search(path.read_text(encoding="utf-8", errors="replace")):
                return path
    return None


def _scorer_call(tree: ast.Module) -> ast.Call | None:
    """The call of the scorer, known by its `solution_str` keyword, whatever a fork calls the function it selected."""
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and any((item.arg or "").startswith("solution_str") for item in node.keywords)
    ]
    named = [node for node in calls if "compute_score" in ast.unparse(node.func)]
    return next(iter([*named, *calls]), None)


def _decoding(tree: ast.Module, call: ast.Call | None) -> tuple[Literal["response", "prompt_and_response"], bool]:
    """Which ids become the text, and whether special tokens are removed."""
    value = (
        next((item.value for item in call.keywords if (item.arg or "").startswith("solution_str")), None)
        if call
        else None
    )
    if not isinstance(value, ast.Name):
        return "response", True
    assigned = _assignments(tree)
    decode = _decode_call(assigned.get(value.id))
    if decode is None or not decode.args:
        return "response", True
    ids = decode.args[0]
    joined = assigned.get(ids.id) if isinstance(ids, ast.Name) else ids
    whole = joined is not None and "prompt" in ast.unparse(joined) and ".cat(" in ast.unparse(joined)
    skip = next((item.value for item in decode.keywords if item.arg == "skip_special_tokens"), None)
    removes = isinstance(skip, ast.Constant) and bool(skip.value)
    return ("prompt_and_response" if whole else "response"), removes


def _assignments(tree: ast.Module) -> dict[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, node.value)
    return found


def _decode_call(value: ast.expr | None) -> ast.Call | None:
    if value is None:
        return None
    for node in ast.walk(value):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("decode", "batch_decode")
        ):
            return node
    return None
