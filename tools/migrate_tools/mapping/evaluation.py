"""Evaluation: data, cadence, and the run before training."""

from __future__ import annotations

import re

from migrate_tools.mapping.draft import Draft
from migrate_tools.mapping.facts import ROLLOUT
from migrate_tools.mapping.rollout import FORK_VAL_N, FORK_VAL_TEMPERATURE, VAL, place_eval_sampling
from migrate_tools.model import DataFile

TEST, BEFORE, FILES = "trainer.test_freq", "trainer.val_before_train", "data.val_files"


def data_paths(algo: str, split: str, count: int) -> list[str]:
    """Converted files of a split below ${DATA_DIR}: train.parquet, or train_0.parquet, train_1.parquet, ..."""
    names = [f"{split}.parquet"] if count <= 1 else [f"{split}_{index}.parquet" for index in range(count)]
    return [f"${{DATA_DIR}}/{algo}/{name}" for name in names]


_SPLITS = ("test", "val", "valid", "validation", "dev", "eval")
_PLAIN = ("data", "dataset", "datasets", "parquet")


def dataset_names(files: tuple[DataFile, ...], fallback: str) -> list[str]:
    """A short, unique name for each validation file: its folder for test.parquet and the like, else its stem.

    Shell variables are no part of a name (a default is), nor are folders that say nothing ("data"): then `fallback`.
    """
    names: list[str] = []
    for index, item in enumerate(files):
        text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", item.text)
        text = re.sub(r"\$\{[^}]*\}|\$\w+", "", text)
        parts = [re.sub(r"[^A-Za-z0-9_-]+", "_", part).strip("_") for part in re.split(r"/+", text)]
        parts = [part for part in parts if part]
        stem = re.sub(r"_(parquet|jsonl|json)$", "", parts[-1]) if parts else ""
        if stem.lower() in _SPLITS:
            stem = next((part for part in reversed(parts[:-1]) if part.lower() not in _PLAIN), fallback)
        name = stem or fallback
        names.append(name if name not in names else f"{name}_{index}")
    return names


def place_evaluation(draft: Draft, scale: int) -> None:
    """Write evaluation flags; `scale` is rollouts per verl step."""
    facts = draft.facts
    every = facts.integer(TEST, default=-1) or -1
    files = facts.launch.data.val
    keys = [VAL + name for name in ("n", "temperature", "top_p", "top_k", "do_sample")]
    keys += [FORK_VAL_N, FORK_VAL_TEMPERATURE]
    if every <= 0 or not files:
        _none(draft, every, bool(files), keys)
        return
    paths = data_paths(draft.algo, "val", len(files))
    pairs = " ".join(f'{name} "{path}"' for name, path in zip(dataset_names(files, draft.algo), paths, strict=True))
    draft.flag("--eval-interval", every * scale, "EVAL", "rollouts")
    draft.flag("--eval-prompt-data", pairs, "EVAL")
    draft.say(TEST, "derived", "--eval-interval", f"every {every} verl steps x {scale} rollouts a step")
    draft.say(FILES, "derived", "--eval-prompt-data", "name and converted file, in order")
    place_eval_sampling(draft)
    if facts.flag(BEFORE, default=True):
        draft.say(BEFORE, "automatic", (), "Relax evaluates before training by default")
    else:
        draft.flag("--skip-eval-before-train", None, "EVAL")
        draft.say(BEFORE, "exact", "--skip-eval-before-train", "no evaluation before training")


def _none(draft: Draft, every: int, files: bool, keys: list[str]) -> None:
    if every > 0:
        text = f"test_freq={every}, but the recipe names no validation files: nothing is evaluated"
        draft.say(TEST, "no_effect", (), text)
        draft.note("R30-eval-without-data", text, TEST)
    else:
        draft.say(TEST, "exact", (), "no evaluation during training")
    draft.say(FILES, "no_effect", (), "nothing is evaluated during training")
    draft.say(keys, "no_effect", (), "nothing is evaluated during training")
    if files and draft.facts.flag(BEFORE, default=True):
        after = " and once after" if draft.facts.version < (0, 3) else ""
        text = f"verl evaluates once before{after} training; Relax only with an evaluation interval"
        draft.say(BEFORE, "approximate", (), text)
    else:
        draft.say(BEFORE, "no_effect", (), "nothing is evaluated")
    draft.say(ROLLOUT + "val_kwargs", "no_effect", (), "nothing is evaluated during training")
