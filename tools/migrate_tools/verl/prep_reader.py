"""What a data preparation script writes, read from its syntax tree: data_source, ground truth, extra_info keys."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from migrate_tools.verl.known_data import TruthKind
from migrate_tools.verl.paths import walk

FIELDS = ("data_source", "prompt", "reward_model", "extra_info")
STRING_METHODS = frozenset({"strip", "replace", "lower", "upper", "format", "join", "group"})
MAX_FILES = 200
BUILT = frozenset({"build", "dist"})
"""Folders with copies of scripts."""


@dataclass(frozen=True)
class PrepFacts:
    """What one script writes."""

    path: Path
    data_sources: tuple[str, ...]
    open_sources: bool
    """Whether some data_source is computed and could not be read."""
    truth: TruthKind
    truth_keys: tuple[str, ...]
    extra_info_keys: tuple[str, ...]
    has_extra_info: bool
    prompt_form: str
    columns: tuple[str, ...]
    folders: tuple[str, ...]
    """Path-like constants, to tell which files the script writes."""
    images: tuple[str, ...]


def prep_scripts(roots: Iterable[Path]) -> Iterator[Path]:
    """Python files under the roots that mention ground_truth and write a data set."""
    count = 0
    seen: set[Path] = set()
    for root in roots:
        for path in sorted(item for item in walk(root) if item.suffix == ".py"):
            if count >= MAX_FILES or BUILT & set(path.relative_to(root).parts) or path in seen:
                continue
            seen.add(path)
            count += 1
            try:
                text = path.read_text(encoding="utf-8", errors="replace") if path.stat().st_size < 1 << 20 else ""
            except OSError:
                continue
            if "ground_truth" in text and re.search(r"to_parquet|write_table|to_json|\.map\(", text):
                yield path


def read_prep(path: Path) -> PrepFacts | None:
    """Facts of a script, or None when it builds no rows in verl's layout."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return _read_prep(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=512)
def _read_prep(path: Path, _mtime: int, _size: int) -> PrepFacts | None:
    """The launches of a recipe share their scripts; time and size tell whether a file has changed."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, SyntaxError, ValueError):
        return None
    reader = _Prep(tree)
    if not reader.fields["reward_model"]:
        return None
    return reader.facts(path)


GENERIC_PARTS = frozenset(
    [
        "data",
        "train",
        "test",
        "val",
        "valid",
        "validation",
        "rl",
        "sft",
        "rm",
        "raw",
        "processed",
        "output",
        "outputs",
        "dataset",
        "datasets",
        "home",
        "root",
        "users",
        "tmp",
        "mnt",
    ]
)


def match_score(facts: PrepFacts, data_path: str) -> int:
    """How many telling path parts the files that a script writes share with a path of a launch; 0 is no match.

    `train.parquet` or `data` say nothing; the last telling part of what the script writes must occur in the path.
    """
    wanted = set(_parts(data_path))
    best = 0
    for folder in facts.folders:
        parts = _parts(folder)
        if parts and parts[-1] in wanted:
            best = max(best, len(wanted & set(parts)))
    return best


def _parts(path: str) -> list[str]:
    parts = [part.lower() for part in re.split(r"[/\\]+", path.strip("'\" "))]
    parts = [part.removesuffix(".parquet").removesuffix(".jsonl").removesuffix(".json") for part in parts]
    return [part for part in parts if part not in GENERIC_PARTS and part not in ("", "~", ".", "..", "$home")]


class _Prep:
    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.assigned: dict[str, list[ast.expr]] = {}
        self.fields: dict[str, list[ast.expr]] = {name: [] for name in FIELDS}
        self.columns: dict[str, None] = {}
        for node in ast.walk(tree):
            self._assignments(node)
            self._row(node)

    def _assignments(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self.assigned.setdefault(target.id, []).append(node.value)
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    for item, value in zip(target.elts, node.value.elts, strict=False):
                        if isinstance(item, ast.Name):
                            self.assigned.setdefault(item.id, []).append(value)
        elif isinstance(node, ast.FunctionDef):
            for argument, default in zip(node.args.args[::-1], node.args.defaults[::-1], strict=False):
                self.assigned.setdefault(argument.arg, []).append(default)
        elif (
            isinstance(node, ast.For)
            and isinstance(node.target, ast.Name)
            and isinstance(node.iter, ast.List | ast.Tuple)
        ):
            self.assigned.setdefault(node.target.id, []).extend(node.iter.elts)

    def _row(self, node: ast.AST) -> None:
        if isinstance(node, ast.Dict):
            pairs = {
                key.value: value
                for key, value in zip(node.keys, node.values, strict=True)
                if isinstance(key, ast.Constant) and isinstance(key.value, str)
            }
            empty = all(isinstance(value, ast.List) and not value.elts for value in pairs.values())
            if "reward_model" in pairs or {"data_source", "prompt"} <= pairs.keys():
                self.columns.update(dict.fromkeys(pairs))
                if not empty:
                    for name in FIELDS:
                        self.fields[name] += [pairs[name]] if name in pairs else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            self._store(node.func.value, node.args[0] if node.args else None)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            self._store(node.targets[0], node.value)

    def _store(self, target: ast.expr, value: ast.expr | None) -> None:
        """`rows["data_source"].append(v)` and `row["data_source"] = v`."""
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) and value is not None:
            name = target.slice.value
            if name in FIELDS:
                self.fields[str(name)].append(value)
                self.columns[str(name)] = None

    # ------------------------------------------------------------ facts

    def facts(self, path: Path) -> PrepFacts:
        sources: dict[str, None] = {}
        unread = not self.fields["data_source"]
        for node in self.fields["data_source"]:
            values = self.strings(node)
            unread = unread or not values or self._computed(node)
            sources.update(dict.fromkeys(values))
        truths = [value for node in self.fields["reward_model"] for value in self._truths(node)]
        kinds = {self.kind(node) for node in truths} - {"unknown"}
        dicts = [item for node in truths for item in self._dicts(node)]
        extra = [item for node in self.fields["extra_info"] for item in self._dicts(node)]
        return PrepFacts(
            path=path,
            data_sources=tuple(sources),
            open_sources=unread,
            truth=_one(kinds),
            truth_keys=_keys(dicts),
            extra_info_keys=_keys(extra),
            has_extra_info=bool(self.fields["extra_info"]),
            prompt_form=self._prompt_form(),
            columns=tuple(self.columns),
            folders=tuple(self._folders()),
            images=tuple(name for name in self.columns if name in ("images", "videos", "audios", "image")),
        )

    def strings(self, node: ast.expr, depth: int = 0) -> list[str]:
        """Text values that an expression may have; empty when it is computed."""
        if isinstance(node, ast.Constant):
            return [node.value] if isinstance(node.value, str) else []
        if isinstance(node, ast.IfExp):
            return [*self.strings(node.body, depth), *self.strings(node.orelse, depth)]
        if isinstance(node, ast.BoolOp):
            return [text for item in node.values for text in self.strings(item, depth)]
        if isinstance(node, ast.Name) and depth < 5:
            return [text for item in self.assigned.get(node.id, ()) for text in self.strings(item, depth + 1)]
        return []

    def _computed(self, node: ast.expr, depth: int = 0) -> bool:
        """Whether an expression may have a value that `strings` cannot read."""
        if isinstance(node, ast.Name) and depth < 5:
            return any(self._computed(item, depth + 1) for item in self.assigned.get(node.id, ()))
        if isinstance(node, ast.IfExp):
            return self._computed(node.body, depth) or self._computed(node.orelse, depth)
        return not isinstance(node, ast.Constant)

    def kind(self, node: ast.expr, depth: int = 0) -> TruthKind:
        """Kind of value that an expression gives."""
        if isinstance(node, ast.Constant):
            return _constant_kind(node.value)
        if isinstance(node, ast.JoinedStr):
            return "string"
        if isinstance(node, ast.Dict | ast.DictComp):
            return "dict"
        if isinstance(node, ast.List | ast.ListComp | ast.Tuple):
            return "list"
        if isinstance(node, ast.Call):
            return self._call_kind(node, depth)
        if isinstance(node, ast.Name) and depth < 5:
            return _one({self.kind(item, depth + 1) for item in self.assigned.get(node.id, ())} - {"unknown"})
        return "unknown"

    def _call_kind(self, node: ast.Call, depth: int) -> TruthKind:
        name = ast.unparse(node.func)
        if name in ("str", "json.dumps", "remove_boxed", "extract_solution", "extract_answer"):
            return "string"
        if name in ("int", "float", "len", "round"):
            return "number"
        if name in ("list", "sorted"):
            return "list"
        if isinstance(node.func, ast.Attribute) and node.func.attr in STRING_METHODS:
            return "string"
        if isinstance(node.func, ast.Name) and depth < 5:
            kinds: set[TruthKind] = set()
            for function in ast.walk(self.tree):
                if isinstance(function, ast.FunctionDef) and function.name == node.func.id:
                    returned = [
                        r.value for r in ast.walk(function) if isinstance(r, ast.Return) and r.value is not None
                    ]
                    kinds |= {self.kind(item, depth + 1) for item in returned}
            return _one(kinds - {"unknown", "none"})
        return "unknown"

    def _truths(self, node: ast.expr) -> list[ast.expr]:
        return [
            value
            for item in self._dicts(node)
            for key, value in zip(item.keys, item.values, strict=True)
            if isinstance(key, ast.Constant) and key.value == "ground_truth"
        ]

    def _dicts(self, node: ast.expr, depth: int = 0) -> list[ast.Dict]:
        if isinstance(node, ast.Dict):
            return [node]
        if isinstance(node, ast.List) and len(node.elts) == 1:
            return self._dicts(node.elts[0], depth)
        if isinstance(node, ast.Name) and depth < 5:
            return [found for item in self.assigned.get(node.id, ()) for found in self._dicts(item, depth + 1)]
        return []

    def _prompt_form(self) -> str:
        for node in self.fields["prompt"]:
            values = [node, *(self.assigned.get(node.id, []) if isinstance(node, ast.Name) else [])]
            for value in values:
                if isinstance(value, ast.List):
                    return "chat"
                if isinstance(value, ast.JoinedStr | ast.Constant | ast.BinOp):
                    return "string"
        return "unknown"

    def _folders(self) -> Iterator[str]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
                if (
                    3 < len(text) < 200
                    and not re.search(r"[\s<>{}]", text)
                    and ("/" in text or text.endswith(".parquet"))
                ):
                    yield text


def _constant_kind(value: object) -> TruthKind:
    if value is None:
        return "none"
    return "string" if isinstance(value, str) else "number"


def _one(kinds: set[TruthKind]) -> TruthKind:
    if not kinds:
        return "unknown"
    return next(iter(kinds)) if len(kinds) == 1 else "mixed"


def _keys(dicts: list[ast.Dict]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for item in dicts:
        found.update(
            {key.value: None for key in item.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
        )
    return tuple(found)
