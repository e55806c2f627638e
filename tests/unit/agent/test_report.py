"""migration.json fits its published schema; MIGRATION.md names what a reviewer needs; no secret gets through."""

from __future__ import annotations

import json

import jsonschema
import pytest
from agent_fakes import ScriptedEngine, launch_value, recipe_value
from migrate_agent.graph import run_graph
from migrate_agent.nodes import Context
from migrate_agent.report.build import parity_info
from migrate_agent.report.model import Mutants
from migrate_agent.report.schema import current_schema, published_schema, validate
from migrate_agent.request import RunRequest
from migrate_agent.runs import new_run
from migrate_tools.model import CheckResult, Note, Secret, Skipped, SourceRef


def report_of(request: RunRequest, engine: ScriptedEngine) -> tuple[dict[str, object], str]:
    run = new_run(request)
    state = run_graph(Context(run, request, engine, lambda text: None), lambda node, took: None, resume=False)
    result = run.get(state["result"])
    return json.loads(result["json"]), result["page"]


def test_published_schema_is_fresh() -> None:
    assert published_schema() == current_schema(), "run: python -m migrate_agent.report.schema"


def test_document_fits_the_schema_and_a_spoiled_one_does_not(request_value: RunRequest) -> None:
    document, _ = report_of(request_value, ScriptedEngine())
    validate(document)
    with pytest.raises(jsonschema.ValidationError):
        validate({**document, "verdict": "fine"})
    with pytest.raises(jsonschema.ValidationError):
        validate({**document, "surprise": 1})


def test_document_has_the_facts(request_value: RunRequest) -> None:
    engine = ScriptedEngine(statuses={"trainer.foo": "unknown"})
    document, page = report_of(request_value, engine)
    assert document["verdict"] == "partial"
    assert document["reasons"][0].startswith("run_a: trainer.foo is unknown (run_a.sh:5)")  # type: ignore[index]
    certificates = document["parity"].pop("certificates")  # type: ignore[union-attr,index]
    assert [(item["launch"], item["status"], item["compared"]) for item in certificates] == [("", "passed", 0)]
    assert document["parity"] == {
        "cases": 3,
        "mismatches": 0,
        "branch_coverage": None,
        "line_coverage": None,
        "mutants": None,
    }
    assert document["llm"]["used"] is False  # type: ignore[index]
    assert [item["path"] for item in document["files"]] == [  # type: ignore[union-attr]
        "examples/toy/reward_toy.py",
        "examples/toy/run_toy.sh",
    ]
    assert "`trainer.foo`" in page
    assert "run_a.sh:5" in page
    assert "**Verdict: partial**" in page


def test_page_names_what_needs_a_human(request_value: RunRequest) -> None:
    note = Note(code="x", text="look at <this>", source=SourceRef(file="run_a.sh", line=9))
    launch = launch_value().model_copy(update={"notes": (note,), "unset": ("MODEL",)})
    recipe = recipe_value(launch).model_copy(
        update={
            "skipped": (Skipped(file="sft.sh", reason="supervised training"),),
            "secrets": (Secret(source=SourceRef(file="run_a.sh", line=2), kind="wandb key"),),
        }
    )
    _, page = report_of(request_value, ScriptedEngine(recipe=recipe))
    assert "look at &lt;this> (run_a.sh:9)" in page
    assert "variables that nobody sets: MODEL" in page
    assert "a wandb key stands in the recipe (run_a.sh:2)" in page
    assert "`sft.sh`: supervised training" in page


def test_secrets_reach_neither_report_nor_files(request_value: RunRequest) -> None:
    setting = launch_value().settings[0].model_copy(update={"value": "sk-secret"})
    launch = launch_value().model_copy(update={"settings": (setting,)})
    engine = ScriptedEngine(recipe=recipe_value(launch), python="KEY = 'sk-secret'\n")
    run = new_run(request_value)
    state = run_graph(Context(run, request_value, engine, lambda text: None), lambda node, took: None, resume=False)
    written = json.dumps(run.get(state["result"])) + json.dumps(run.get(state["example"]))
    assert "sk-secret" not in written
    assert "<redacted>" in written


def test_parity_figures_are_summed_and_coverage_is_the_worst() -> None:
    evidence = {"cases": 10, "mismatches": 0, "line_coverage": {"hit": 9, "lines": 10}}
    power = {"seeded": 6, "caught": 5}
    checks = [
        CheckResult(name="parity:a", rung=3, status="passed", evidence={**evidence, "power": power}),
        CheckResult(
            name="parity:b",
            rung=3,
            status="failed",
            evidence={"cases": 5, "mismatches": 2, "line_coverage": {"hit": 4, "lines": 10}, "power": power},
        ),
    ]
    found = parity_info(checks)
    assert found is not None
    assert (found.cases, found.mismatches, found.line_coverage) == (15, 2, 0.4)
    assert found.mutants == Mutants(killed=10, total=12)
    assert parity_info([CheckResult(name="syntax", rung=0, status="passed")]) is None
