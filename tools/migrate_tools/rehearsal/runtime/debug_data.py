"""The file that Relax reads with --load-debug-rollout-data: what torch.save writes for {"rollout_id", "samples"}.

There is no tensor in it, so that it can be written without torch: a zip archive whose data.pkl is a pickle of
protocol 2, which torch.load reads since 1.6.
"""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from migrate_tools.rehearsal.runtime.sample import Sample
from migrate_tools.rehearsal.runtime.tokenizer import SPECIAL, Tokenizer

EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time of the members: the same samples give the same bytes."""
TOKENS = ("tokens", "rollout_tokens")
"""Fields of a sample that hold token ids."""


def write_debug_data(
    path: Path, samples: Sequence[Sample], rollout_id: int = 0, *, stand_in: Tokenizer | None = None
) -> None:
    """Write the samples of one rollout.

    Args:
        stand_in: the stand-in tokenizer, if it made the ids. Its ids come in the order of the engine's answers, which
            is chance: the file numbers the pieces anew, in the order of the samples written.
    """
    ordered = _in_order([_plain(sample) for sample in samples], stand_in)
    body = {"rollout_id": rollout_id, "samples": _numbered_anew(ordered) if stand_in else ordered}
    members = {"data.pkl": pickle.dumps(body, protocol=2), "byteorder": b"little", "version": b"3\n"}
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(f"{path.stem}/{name}", EPOCH), data)


def _in_order(samples: list[dict[str, Any]], stand_in: Tokenizer | None) -> list[dict[str, Any]]:
    """The samples of each prompt by what they say: which of them the engine answered first is chance."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for sample in samples:
        groups.setdefault(sample["group_index"], []).append(sample)
    ordered: list[dict[str, Any]] = []
    for group in groups.values():
        numbers = [sample["index"] for sample in group]
        group.sort(key=lambda sample: (sample["response"], _pieces(sample["tokens"], stand_in)))
        ordered += [{**sample, "index": number} for sample, number in zip(group, numbers, strict=True)]
    return ordered


def _pieces(ids: Sequence[int], stand_in: Tokenizer | None) -> Sequence[int] | list[str]:
    return [stand_in.decode([number]) for number in ids] if stand_in else ids


def _numbered_anew(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The samples with ids by first sight in their order; those of the special tokens stay."""
    ids = {number: number for number in range(len(SPECIAL))}
    return [
        {**sample, **{name: [ids.setdefault(number, len(ids)) for number in sample[name]] for name in TOKENS}}
        for sample in samples
    ]


def _plain(sample: Sample) -> dict[str, Any]:
    """A sample as Relax's from_dict takes it: counts of the engine are objects there, made from dicts."""
    return {**sample.to_dict(), "spec_info": {}, "prefix_cache_info": {}}
