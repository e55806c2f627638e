"""Decides whether an edit of a model may be tried at all. What may not is refused before anything is run.

The guard compares with the first draft and the recipe's own code, never with an earlier edit, so that many small steps
bring in no more than one large one. What it cannot see, the checks judge; what no check proves, `unproven` names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from migrate_tools.model import Example
from migrate_tools.verl.secrets import find_secrets

from migrate_agent.llm.guard_python import Allowed, Frozen, python_problems
from migrate_agent.llm.guard_shell import same_words, shell_problems
from migrate_agent.llm.paths import path_problem

LARGEST = 200_000
"""Characters of one edited file."""
SHOWN = 8


@dataclass(frozen=True)
class Guard:
    """The limits of one run."""

    first: Example
    """The example as the engine drafted it."""
    sources: tuple[str, ...] = ()
    """The recipe's own reward and tools, as extracted."""
    flags: frozenset[str] = frozenset()
    """Spellings that the Relax contract accepts."""
    old: tuple[str, ...] = ()
    """Files of the old scorer, as the recipe names them."""
    frozen: Frozen = field(default_factory=Frozen)

    def problems(self, path: str, text: str) -> list[str]:
        """Why the file at `path` may not become `text`, a line each; empty when it may."""
        if problem := path_problem(path, self.first.algo, self._texts()):
            return [f"{path!r}: {problem}"]
        if len(text) > LARGEST:
            return [f"{path}: longer than {LARGEST} characters"]
        if find_secrets(text, path) and not find_secrets(self._texts().get(path, ""), path):
            return [f"{path}: holds what looks like a credential"]
        return [f"{path}:{line}" for line in self._content(path, text)[:SHOWN]]

    def _content(self, path: str, text: str) -> list[str]:
        before = self._texts().get(path)
        if path.endswith(".py"):
            own = frozenset(_module(name) for name in self._texts() if name.endswith(".py"))
            code = [self._texts()[name] for name in self._texts() if name.endswith(".py")]
            drafted = (before,) if before is not None else tuple(code)
            return python_problems(text, Allowed((*drafted, *self.sources), own, self.old, self.frozen))
        if path.endswith(".sh"):
            return shell_problems(text, [before or ""], self.flags)
        return list(_yaml_problems(text, before or ""))

    def _texts(self) -> Mapping[str, str]:
        return {item.path: item.text for item in self.first.files}


def is_cosmetic(path: str, before: str, after: str) -> bool:
    """Whether a changed file still says the same: comments, quotes and layout apart."""
    import ast

    if before == after:
        return True
    try:
        if path.endswith(".py"):
            return ast.dump(ast.parse(before)) == ast.dump(ast.parse(after))
        if path.endswith(".sh"):
            return same_words(before, after)
        return bool(yaml.safe_load(before) == yaml.safe_load(after))
    except (SyntaxError, ValueError, yaml.YAMLError):
        return False


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _yaml_problems(text: str, before: str) -> Iterator[str]:
    """Keys and types stay; every key becomes an attribute of Relax's arguments."""
    try:
        old, new = yaml.safe_load(before), yaml.safe_load(text)
    except yaml.YAMLError as error:
        yield f"1: not YAML: {' '.join(str(error).split())[:200]}"
        return
    known = dict(_leaves("", old))
    for key, value in _leaves("", new):
        if key not in known:
            yield f"1: the key {key} is not in the draft"
        elif type(value) is not type(known[key]):
            yield f"1: {key} becomes a {type(value).__name__}"
        elif isinstance(value, str) and value != known[key]:
            yield f"1: the text of {key} is not the draft's"


def _leaves(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(f"{prefix}.{key}" if prefix else str(key), item)
    else:
        yield prefix, value


def frozen_texts(cases: Collection[Mapping[str, Any]], rows: Collection[Mapping[str, Any]]) -> Frozen:
    """What an edit may not hold: responses of the cases, and values of the rows that they are scored by."""
    texts = {str(case[key]) for case in cases for key in ("raw", "old", "new") if case.get(key)}
    values = {str(value).strip() for row in rows for _, value in _leaves("", _plain(row)) if value is not None}
    values |= {text.strip() for text in texts}
    long = {value for value in values if len(value) >= 8}
    return Frozen(tuple(sorted(texts | long)), frozenset(value for value in values if value))


def _plain(row: Mapping[str, Any]) -> Any:
    return {str(key): _plain(value) if isinstance(value, Mapping) else value for key, value in row.items()}
