"""The data of a launch: from its parquet files, else from what its preparation script and its reward say about them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from migrate_tools.errors import RefusedInput
from migrate_tools.model import DataFile, DataSpec, Note, RewardSpec, Setting, SourceCount, VerlRef
from migrate_tools.verl.builtin import read_dispatch, unmatched
from migrate_tools.verl.config_view import ConfigView
from migrate_tools.verl.data_contract import ContractReader
from migrate_tools.verl.dataset_class import read_dataset_class
from migrate_tools.verl.module_finder import ModuleFinder
from migrate_tools.verl.parquet_facts import OTHER_KINDS, FileFacts, read_facts
from migrate_tools.verl.prompt_form import with_prompt_form

MEDIA_KEYS = (("data.image_key", "images"), ("data.video_key", "videos"), ("data.audio_key", "audios"))
KINDS = ("image", "video", "audio")
PREP_HINTS = {
    frozenset({"question", "answer"}): "run the preparation script first, for GSM8K examples/data_preprocess/gsm8k.py",
    frozenset(
        {"problem", "solution"}
    ): "run the preparation script first, for MATH examples/data_preprocess/math_dataset.py",
}
_COMMON = re.compile(r"(?:\w+_)?(?:train|test|val|valid|validation|dev|eval|data)\w{0,2}$", re.IGNORECASE)
Split = Literal["train", "val"]


def read_data(
    config: Mapping[str, Any],
    settings: Sequence[Setting],
    *,
    project_root: Path,
    recipe_root: Path,
    verl: VerlRef,
    reward: RewardSpec,
    resolve: Callable[[str], Path | None],
) -> tuple[DataSpec, tuple[Note, ...]]:
    """The data of one launch.

    Raises:
        RefusedInput: a file at hand lacks what verl needs (prompt or reward_model column), is no parquet file, or has a
            data_source for which verl's own dispatch has no scorer.
    """
    reader = _Reader(ConfigView(config, settings), settings, project_root, recipe_root, verl, reward, resolve)
    return reader.read()


class _Reader:
    def __init__(
        self,
        view: ConfigView,
        settings: Sequence[Setting],
        project_root: Path,
        recipe_root: Path,
        verl: VerlRef,
        reward: RewardSpec,
        resolve: Callable[[str], Path | None],
    ) -> None:
        self.view = view
        self.texts = {item.key: item.text for item in settings}
        self.project_root = project_root
        self.recipe_root = recipe_root
        self.verl = verl
        self.reward = reward
        self.resolve = resolve
        self.prompt_key = str(view.get("data.prompt_key", "prompt"))
        self.source_key = str(view.get("data.reward_fn_key", "data_source"))
        self.notes: list[Note] = []

    def read(self) -> tuple[DataSpec, tuple[Note, ...]]:
        entries = [*self._entries("data.train_files", "train"), *self._entries("data.val_files", "val")]
        facts: list[FileFacts] = []
        files: dict[Split, list[DataFile]] = {"train": [], "val": []}
        sources: list[SourceCount] = []
        for split, text, value in entries:
            found = self._facts(value, text, split)
            if found is None:
                files[split].append(DataFile(text=text))
                continue
            facts.append(found)
            path = str(self._path(value))
            files[split].append(DataFile(text=text, path=path, rows=found.rows))
            sources += [
                SourceCount(name=name, split=split, rows=rows, file=text) for name, rows in found.sources.items()
            ]
        base: dict[str, Any] = {
            "train": tuple(files["train"]),
            "val": tuple(files["val"]),
            "prompt_key": self.prompt_key,
            "reward_fn_key": self.source_key,
            "image_key": str(self.view.get("data.image_key", "images")),
            "custom_class": self._custom_class(),
            "media_kinds": {
                str(self.view.get(key, name)): kind for (key, name), kind in zip(MEDIA_KEYS, KINDS, strict=True)
            },
            **self._row_changes(),
        }
        spec = self._from_files(base, facts, sources) if facts else DataSpec.model_validate(base)
        missing = [(split, text) for split, text, _ in entries if not _has_path(files[split], text)]
        if missing or not facts:
            reader = ContractReader(self.project_root, self.recipe_root, self.verl, self.reward)
            spec, notes = reader.complete(spec, missing)
            self.notes += notes
        if spec.tool_images and not spec.multimodal:  # the rows have images: their class gives them to tools
            spec = spec.model_copy(update={"multimodal": (spec.image_key,)})
        self._check_sources(spec, bool(facts))
        spec, about_prompts = with_prompt_form(spec, self.verl.root)
        return spec, (*self.notes, *about_prompts)

    # ------------------------------------------------------------ files

    def _entries(self, key: str, split: Split) -> list[tuple[Split, str, str]]:
        values = as_list(self.view.get(key))
        texts = as_list(self.texts.get(key))
        if len(texts) != len(values):
            texts = values
        return [(split, text, value) for text, value in zip(texts, values, strict=True)]

    def _path(self, value: str) -> Path | None:
        if any(sign in Path(value).name for sign in "*?["):
            parent = self.resolve(str(Path(value).parent))
            return parent / Path(value).name if parent is not None else None
        found = self.resolve(value)
        if found is None or not found.exists():
            return None
        return found if self._is_meant(found, value) else None

    def _is_meant(self, found: Path, value: str) -> bool:
        """Whether a file is the one that the recipe means, rather than another of a common name (train.parquet)."""
        parts = [part for part in Path(value.removeprefix("file://")).parts if part not in ("/", ".", "..")]
        if len(parts) < 2:
            return True
        if found.parent.name != parts[-2]:
            return False
        if not _COMMON.match(found.stem):
            return True
        if not value.startswith(("/", "$", "~", "file:")):
            return found.parts[-len(parts) :] == tuple(parts)
        roots = (self.project_root.resolve(), self.recipe_root.resolve())
        tails = [found.relative_to(root).parts for root in roots if found.is_relative_to(root)]
        return any(tail == tuple(parts[-len(tail) :]) for tail in tails if len(tail) > 1)

    def _facts(self, value: str, text: str, split: Split) -> FileFacts | None:
        path = self._path(value)
        if path is None:
            return None
        if path.is_file() and path.suffix not in (".parquet", "", *OTHER_KINDS):
            self.notes.append(
                Note(
                    code="data-format",
                    text=f"{text} is of a kind that is not read; its rows are not known",
                    source=self.view.source(f"data.{split}_files"),
                )
            )
            return None
        facts = read_facts(path, text, prompt_key=self.prompt_key, source_key=self.source_key)
        self._check_columns(facts, text, split)
        return facts

    def _check_columns(self, facts: FileFacts, text: str, split: Split) -> None:
        """Stop where verl itself would: no prompt, or no ground truth for the scorer."""
        if self._custom_class() is not None or not facts.rows:
            return
        needed = [self.prompt_key]
        if self.reward.kind in ("custom", "builtin"):
            needed.append("reward_model")
        lacking = [name for name in needed if name not in facts.columns]
        if not lacking:
            return
        have = ", ".join(facts.columns)
        hint = next(
            (hint for names, hint in PREP_HINTS.items() if names <= facts.columns.keys()),
            "run the recipe's preparation script first, or set data.prompt_key",
        )
        where = self.view.source(f"data.{split}_files")
        at = f"{where.file}:{where.line}: " if where else ""
        raise RefusedInput(f"{at}{text} has no column {' and no column '.join(lacking)} (it has {have})", hint)

    def _custom_class(self) -> str | None:
        path, name = self.view.get("data.custom_cls.path"), self.view.get("data.custom_cls.name")
        return f"{path}:{name}" if path else None

    def _row_changes(self) -> dict[str, Any]:
        """What the recipe's own data set class does."""
        path, name = self.view.get("data.custom_cls.path"), self.view.get("data.custom_cls.name")
        if not path or not name:
            return {}
        text = str(path).removeprefix("pkg://")
        found = self.resolve(text) or self.resolve(text.replace(".", "/") + ".py")
        if found is None or not found.is_file():
            return {"row_left": (f"{path} is not at hand, so that what its class {name} does is not known",)}
        finder = ModuleFinder(self.project_root, Path(self.verl.root), (found.parent,))
        facts = read_dataset_class(found, str(name), finder, self.prompt_key)
        return {
            "row_code": facts.code,
            "row_moved": tuple(facts.moved),
            "row_left": tuple(facts.left),
            "tool_images": facts.tool_images,
        }

    def _from_files(self, base: dict[str, Any], facts: list[FileFacts], sources: list[SourceCount]) -> DataSpec:
        columns: dict[str, str] = {}
        keys: dict[str, None] = {}
        for item in facts:
            columns.update({name: kind for name, kind in item.columns.items() if name not in columns})
            keys.update(dict.fromkeys(item.extra_info_keys))
            for name in item.json_text:
                note = Note(
                    code="data-json-text", text=f"column {name} of {item.files[0].name} holds JSON text, not a struct"
                )
                if note not in self.notes:
                    self.notes.append(note)
        kinds = {item.truth for item in facts}
        forms = {item.prompt_form for item in facts}
        media = [str(self.view.get(key, default)) for key, default in MEDIA_KEYS]
        return DataSpec.model_validate(
            {
                **base,
                "known_from": "files",
                "columns": columns,
                "prompt_form": forms.pop() if len(forms) == 1 else "unknown",
                "multimodal": tuple(name for name in media if name in columns),
                "sources": tuple(sources),
                "truth": kinds.pop() if len(kinds) == 1 else "mixed",
                "extra_info_keys": tuple(keys),
            }
        )

    # ------------------------------------------------------------ dispatch

    def _check_sources(self, spec: DataSpec, sure: bool) -> None:
        """Every data_source must select a scorer of verl's own dispatch; verl stops on the first that does not."""
        if self.reward.kind != "builtin" or self.reward.path is None or self.reward.function is None:
            return
        path = self.project_root / self.reward.path
        if not path.is_file() or self.reward.path.startswith("verl/"):
            path = Path(self.verl.root) / self.reward.path
        try:
            dispatch = read_dispatch(path, self.reward.path, self.reward.function)
        except (OSError, SyntaxError):
            return
        notes = unmatched(dispatch, spec.sources)
        certain = [item for item in spec.sources if item.rows and dispatch.branches and not dispatch.select(item.name)]
        if sure and certain:
            named = ", ".join(f"{item.name!r} ({item.rows} rows of {item.file or item.split})" for item in certain)
            selects = "selects" if len(certain) == 1 else "select"
            raise RefusedInput(
                f"data_source {named} {selects} no scorer in {dispatch.file}; "
                "verl stops there with NotImplementedError",
                "name a custom_reward_function, or prepare the data with one of the names that verl knows",
            )
        self.notes += notes


def _has_path(files: Sequence[DataFile], text: str) -> bool:
    return any(item.text == text and item.path is not None for item in files)


def as_list(value: Any) -> list[str]:
    """`a`, `[a, b]` (as a list, or as text with or without quotes) as a list of texts."""
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return [str(item) for item in value]
    text = str(value).strip()
    while len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1].strip()
    if text.startswith("[") and text.endswith("]"):
        items = [item.strip().strip("\\").strip("\"'").strip("\\").strip() for item in text[1:-1].split(",")]
        return [item for item in items if item]
    return [text] if text else []
