"""The evidence that is shipped beside the report: the frozen oracle of each reward, and mismatches as pytest files."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from migrate_tools.model import CheckResult

ORACLE_FILES = ("cases.jsonl", "outcomes.jsonl", "oracle.json")


def parity_files(
    work: Path, oracles: Iterable[Mapping[str, Any]], checks: Iterable[CheckResult], redact: Callable[[str], str]
) -> dict[str, str]:
    """Path below `migration/` -> text.

    Args:
        work: the run's work folder, with `parity/<launch>/oracle`.
        oracles: the oracle.json of each launch; launches with the same reward share one.
        redact: blots out credentials.
    """
    files: dict[str, str] = {}
    for launch in sorted({str(meta["launch"]) for meta in oracles}):
        folder = work / "parity" / launch / "oracle"
        for name in ORACLE_FILES:
            if (folder / name).is_file():
                text = (folder / name).read_text("utf-8")
                files[f"parity/{_plain(launch)}/{name}"] = redact(text)
    for check in checks:
        if case := check.evidence.get("pytest"):
            launch = check.name.partition(":")[2]
            files[f"parity/test_parity_{_plain(launch)}.py"] = redact(str(case))
    return files


def rollout_data(work: Path) -> dict[str, Path]:
    """Path below `migration/` -> the rehearsed samples of a launch, for Relax's --load-debug-rollout-data."""
    from migrate_tools.rehearsal.rehearse import DEBUG_DATA, DRILLED

    found = sorted((work / "rehearsal").glob(f"*/{DRILLED}/{DEBUG_DATA}"))
    return {f"rollout/{_plain(path.parents[2].name)}/{path.name}": path for path in found}


def copy_rollouts(work: Path, base: Path) -> None:
    """Put the rehearsed samples below `base`, the example's folder migration/."""
    for name, source in rollout_data(work).items():
        target = base / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _plain(launch: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", launch).strip(".") or "launch"
