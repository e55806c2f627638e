"""Rung 5: the converter keeps rows, order, columns and types."""

from __future__ import annotations

import json
from typing import Any

from migrate_tools.checks.base import CheckContext, Finding, finding
from migrate_tools.model import CheckResult, Translation
from migrate_tools.rehearsal.converted import Converted
from migrate_tools.rehearsal.words import complaint, said
from migrate_tools.relax.contract import load_contract
from migrate_tools.sandbox import PYTHON, Job, Limits, Mount, python_env, python_mounts

_LAST_LINES = 3


class DataCheck:
    """The process script on the recipe's files (or on made-up rows), compared row by row in the sandbox."""

    name = "data"
    rung = 5

    def run(self, context: CheckContext) -> tuple[CheckResult, ...]:
        results: list[CheckResult] = []
        for translation in context.translations:
            with finding(f"{self.name}:{translation.launch}", self.rung) as found:
                _check(context, translation, found)
            results.append(found.result())
        return tuple(results)


def _check(context: CheckContext, translation: Translation, found: Finding) -> None:
    data = context.converted(translation)
    found.evidence["made_up"] = data.made_up
    if data.outcome is None:
        found.problems.append(f"the example has no {data.script}")
        return
    if not data.ok:
        last = " | ".join(complaint(data.outcome).strip().splitlines()[-_LAST_LINES:])
        cause = "it ran out of time" if data.outcome.timed_out else last or f"status {data.outcome.returncode}"
        missing = f"; not written: {', '.join(data.missing)}" if data.missing else ""
        found.problems.append(f"{data.script} failed: {cause}{missing}")
        return
    answer = _compare(context, translation, data)
    found.problems += answer["problems"]
    found.evidence["files"] = answer["files"]
    rows = sum(file["rows"] for file in answer["files"])
    origin = "made-up rows" if data.made_up else "rows of the recipe"
    found.summary = f"{rows} {origin} converted; order, columns, types and labels kept"


def _compare(context: CheckContext, translation: Translation, data: Converted) -> dict[str, Any]:
    spec = context.launch(translation).data
    parsed = load_contract(context.relax_version).parse(context.argv(translation, "sync"))
    job = {
        "pairs": [
            {"source": f"/work/source/{item.name}", "output": f"/work/data/{context.example.algo}/{item.output}"}
            for item in data.sources
        ],
        "source_prompt": spec.prompt_key,
        "raw_prompt": spec.prompt_form == "templated",
        "rows_changed": bool(spec.row_code) and not data.made_up,
        "input_key": parsed.get("input_key"),
        "label_key": parsed.get("label_key"),
        "metadata_key": parsed.get("metadata_key"),
        "media_columns": sorted((parsed.get("multimodal_keys") or {}).values()),
    }
    outcome = context.sandbox.run(
        Job(
            argv=(PYTHON, "-m", "migrate_tools.rehearsal.runtime.probe_data"),
            mounts=(*python_mounts(), Mount(data.folder, "/work")),
            env=python_env(),
            stdin=json.dumps(job).encode(),
            limits=Limits(seconds=120, memory_mb=4096),
        )
    )
    if outcome.returncode != 0:
        return {"problems": [f"the comparison ended early: {complaint(outcome, 400)}"], "files": []}
    answer: dict[str, Any] = json.loads(said(outcome))
    return answer
