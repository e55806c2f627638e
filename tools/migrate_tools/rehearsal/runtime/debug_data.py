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

EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time of the members: the same samples give the same bytes."""


def write_debug_data(path: Path, samples: Sequence[Sample], rollout_id: int = 0) -> None:
    """Write the samples of one rollout."""
    body = {"rollout_id": rollout_id, "samples": _in_order([_plain(sample) for sample in samples])}
    members = {"data.pkl": pickle.dumps(body, protocol=2), "byteorder": b"little", "version": b"3\n"}
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(f"{path.stem}/{name}", EPOCH), data)


def _in_order(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The samples of each prompt by what they say: which of them the engine answered first is chance."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for sample in samples:
        groups.setdefault(sample["group_index"], []).append(sample)
    ordered: list[dict[str, Any]] = []
    for group in groups.values():
        numbers = [sample["index"] for sample in group]
        group.sort(key=lambda sample: (sample["tokens"], sample["response"]))
        ordered += [{**sample, "index": number} for sample, number in zip(group, numbers, strict=True)]
    return ordered


def _plain(sample: Sample) -> dict[str, Any]:
    """A sample as Relax's from_dict takes it: counts of the engine are objects there, made from dicts."""
    return {**sample.to_dict(), "spec_info": {}, "prefix_cache_info": {}}
