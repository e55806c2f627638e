"""The model's branch of the graph: items in order, strict improvement, rollback, limits, resume, report."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from agent_fakes import ScriptedEngine, launch_value, recipe_value
from migrate_agent.engine import CPU_RUNGS, Draft
from migrate_agent.graph import run_graph
from migrate_agent.llm.context import GUIDE
from migrate_agent.llm.errors import BudgetSpent, EndpointError, RefusedAnswer
from migrate_agent.llm.items import items
from migrate_agent.nodes import Context
from migrate_agent.request import RunRequest
from migrate_agent.runs import RunFolder, new_run, open_run
from migrate_agent.state import RunState
from migrate_agent.workspace import Workspace
from migrate_tools.model import CheckResult, Example, Recipe
from migrate_tools.resources import resource_dir
from model_fakes import Reply, ScriptedModel, give_up, replace, write

REWARD, SCRIPT = "examples/toy/reward_toy.py", "examples/toy/run_toy.sh"
GOOD, BAD = "x = 1\n", "x = 2\n"


class JudgingEngine(ScriptedEngine):
    """Parity counts the occurrences of "wrong" in the reward; the tools check says what stands in the file."""

    def check(
        self,
        recipe: Recipe,
        draft: Draft,
        frozen: Mapping[str, dict[str, Any]],
        request: RunRequest,
        stage: Path,
        work: Path,
        rungs: frozenset[int] = CPU_RUNGS,
    ) -> tuple[CheckResult, ...]:
        self.calls.append("check")
        text = (stage / REWARD).read_text()
        wrong = text.count("wrong")
        script = (stage / SCRIPT).read_text()
        parity = {
            "cases": 100,
            "accepted": 90 if "less" in text else 100,
            "mismatches": wrong,
            "first_mismatches": [{"case": number} for number in range(wrong)],
        }
        status = "not_checkable" if "dodge" in text else "failed" if wrong else "passed"
        return (
            CheckResult(name="syntax", rung=0, status="failed" if "syntax" in text else "passed"),
            CheckResult(
                name="contract",
                rung=1,
                status="failed" if "bad-batch" in script else "passed",
                evidence={"problems": [f"{SCRIPT}:3: batch"] if "bad-batch" in script else []},
            ),
            CheckResult(name="parity:run_a", rung=3, status=status, summary=f"{wrong} differ", evidence=parity),
            CheckResult(name="data:run_a", rung=5, status="passed", evidence={"made_up": False}),
        )


def go(
    run: RunFolder, engine: ScriptedEngine, model: ScriptedModel | None, *, resume: bool = False,
    hook: Callable[[str, float | None], None] = lambda node, took: None,
) -> RunState:  # fmt: skip
    return run_graph(Context(run, run.request(), engine, lambda text: None, model), hook, resume=resume)


def document_of(run: RunFolder, state: RunState) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run.get(state["result"])["json"])
    return found


def reward_of(run: RunFolder, state: RunState) -> str:
    return run.model(Example, state["example"]).file(REWARD).text


def outcomes(document: dict[str, Any]) -> list[str]:
    return [item["outcome"] for item in document["attempts"]]


def test_a_right_edit_ships_and_is_marked_everywhere(request_value: RunRequest) -> None:
    run = new_run(request_value)
    model = ScriptedModel([replace(REWARD, "wrong", "1", "the number of the original")])
    state = go(run, JudgingEngine(python="x = wrong\n"), model)
    document = document_of(run, state)
    assert document["verdict"] == "rehearsed"
    assert outcomes(document) == ["improved"]
    assert document["attempts"][0]["rule"] == "model"
    assert document["attempts"][0]["check"] == "parity:run_a"
    assert document["llm"]["used"] is True
    assert document["llm"]["edits"] == [{"path": REWARD, "attempts": [1], "unproven": ""}]
    assert {item["path"]: item["origin"] for item in document["files"]}[REWARD] == "llm"
    page = run.get(state["result"])["page"]
    assert "a language model (scripted) changed 1 file" in page
    assert f"`{REWARD}` (changed by a language model)" in page
    assert Workspace(run.root).messages() == ["draft of toy", "repair 1 (parity:run_a): a language model"]
    assert len(document["attempts"][0]["commit"]) == 12


def test_without_a_model_nothing_is_asked_and_the_report_says_so(request_value: RunRequest) -> None:
    run = new_run(request_value)
    state = go(run, JudgingEngine(python="x = wrong\n"), None)
    document = document_of(run, state)
    assert document["verdict"] == "partial"
    assert document["llm"]["used"] is False
    assert "no language model was used" in run.get(state["result"])["page"]


WORSE: dict[str, tuple[str, str]] = {
    "breaks the syntax check": ("x = 1  # syntax\n", "syntax was passed and is failed"),
    "more mismatches": ("x = (wrong, wrong, wrong)\n", "finds more than before"),
    "makes it not checkable": ("x = 1  # dodge\n", "was failed and is not checkable"),
}


@pytest.mark.parametrize(("text", "why"), WORSE.values(), ids=WORSE.keys())
def test_what_is_not_better_is_rolled_back(request_value: RunRequest, text: str, why: str) -> None:
    run = new_run(request_value)
    draft = "x = (wrong, wrong)\n"
    model = ScriptedModel([write(REWARD, text), give_up()])
    state = go(run, JudgingEngine(python=draft), model)
    document = document_of(run, state)
    assert reward_of(run, state) == draft
    assert why in document["attempts"][0]["outcome"]
    assert document["verdict"] == "partial"
    assert document["llm"]["edits"] == []
    assert Workspace(run.root).messages()[-1].startswith("roll back repair 1 (parity:run_a): worse")


def test_fewer_mismatches_are_kept_and_the_next_attempt_goes_on_from_there(request_value: RunRequest) -> None:
    run = new_run(request_value)
    model = ScriptedModel([replace(REWARD, "(wrong, wrong)", "(wrong, 1)"), replace(REWARD, "(wrong, 1)", "(0, 1)")])
    state = go(run, JudgingEngine(python="x = (wrong, wrong)\n"), model)
    assert reward_of(run, state) == "x = (0, 1)\n"
    assert outcomes(document_of(run, state)) == ["improved", "improved"]
    assert "-> improved" in model.text(1)


def test_passing_on_fewer_cases_is_no_repair(request_value: RunRequest) -> None:
    """One failing check mended while another rests on less."""
    run = new_run(request_value)
    engine = JudgingEngine(python=GOOD, script="#!/bin/bash\nX=(\n  bad-batch\n)\n")
    model = ScriptedModel([write(REWARD, "x = 1  # less\n"), give_up()])
    state = go(run, engine, model)
    assert reward_of(run, state) == GOOD
    assert "accepted went from 100 to 90" in outcomes(document_of(run, state))[0]


def test_agreement_on_the_shown_cases_alone_is_no_repair(request_value: RunRequest) -> None:
    run = new_run(request_value)
    model = ScriptedModel([write(REWARD, "x = 1  # only the shown\n"), give_up()])
    engine = JudgingEngine(python="x = wrong\n")
    state = go(run, engine, model)
    document = document_of(run, state)
    assert reward_of(run, state) == "x = wrong\n"
    assert document["verdict"] == "partial"
    assert "agrees on the frozen cases, but not on others" in document["attempts"][0]["outcome"]
    assert engine.calls.count("second_look") == 1
    assert "2 of 200" not in model.text(1)


def test_the_same_failure_twice_ends_the_item(request_value: RunRequest) -> None:
    run = new_run(request_value)
    model = ScriptedModel([write(REWARD, f"x = wrong + {number}\n") for number in range(9)])
    state = go(run, JudgingEngine(python="x = wrong\n"), model)
    assert outcomes(document_of(run, state)) == ["no better, rolled back"] * 2
    assert state["left"]["check:parity:run_a"]["closed"] == "the same failure came back"


def test_attempts_are_counted_by_item(request_value: RunRequest) -> None:
    run = new_run(request_value.model_copy(update={"repairs": 2}))
    texts = ["x = (wrong, wrong, wrong)\n", "x = (wrong, wrong)\n", "x = wrong\n", "x = 1\n"]
    model = ScriptedModel([write(REWARD, text) for text in texts])
    state = go(run, JudgingEngine(python="x = (wrong, wrong, wrong, wrong)\n"), model)
    assert outcomes(document_of(run, state)) == ["improved", "improved"]
    assert reward_of(run, state) == "x = (wrong, wrong)\n"
    assert len(model.questions) == 2


def test_the_same_edit_is_not_tested_twice(request_value: RunRequest) -> None:
    run = new_run(request_value)
    model = ScriptedModel([write(REWARD, "x = wrong + 1\n"), write(REWARD, "x = wrong + 1\n"), give_up("no idea")])
    engine = JudgingEngine(python="x = wrong\n")
    go(run, engine, model)
    assert engine.calls.count("check") == 2
    assert "tested before" in model.text(2)


def test_lookups_are_answered_and_bounded(request_value: RunRequest) -> None:
    run = new_run(request_value)
    model = ScriptedModel(
        [
            {"do": "read", "file": SCRIPT},
            {"do": "lookup_flag", "name": "rollout-batch"},
            {"do": "lookup_row", "key": "data.train_batch_size"},
            {"do": "search_verl", "text": "compute_score"},
            {"do": "read", "file": "/etc/passwd"},
            {"do": "read", "file": "examples/toy/migration/parity/cases.jsonl"},
            {"do": "read", "file": SCRIPT},
        ]
    )
    state = go(run, JudgingEngine(python="x = wrong\n"), model)
    assert "#!/bin/bash" in model.text(1)
    assert "--rollout-batch-size" in model.text(2)
    assert "train_batch_size" in model.text(3)
    assert "no such file" in model.questions[5][-1].content
    assert "no such file" in model.questions[6][-1].content
    assert state["left"]["check:parity:run_a"]["closed"] == "only looked things up"


def test_refused_edits_are_explained_and_bounded(request_value: RunRequest) -> None:
    run = new_run(request_value)
    model = ScriptedModel([write(REWARD, "import verl\n"), write("../x.py", "x = 1\n"), write(REWARD, "x = 1\n")])
    engine = JudgingEngine(python="x = wrong\n")
    state = go(run, engine, model)
    assert "imports verl" in model.text(1)
    assert engine.calls.count("check") == 1
    assert reward_of(run, state) == "x = wrong\n"
    assert document_of(run, state)["attempts"] == []


def test_unknown_settings_become_suggestions_and_nothing_else(request_value: RunRequest) -> None:
    run = new_run(request_value)
    row = {"do": "suggest_row", "key": "trainer.other", "status": "no_effect", "relax": [], "reason": "logging only"}
    engine = JudgingEngine(python=GOOD, statuses={"trainer.foo": "unknown"})
    model = ScriptedModel([{"do": "lookup_row", "key": "trainer.foo"}, write(REWARD, BAD), row])
    state = go(run, engine, model)
    document = document_of(run, state)
    (suggestion,) = document["suggestions"]
    assert (suggestion["kind"], suggestion["key"], suggestion["status"]) == ("row", "trainer.foo", "no_effect")
    assert document["verdict"] == "partial"
    assert [item["status"] for item in document["settings"] if item["key"] == "trainer.foo"] == ["unknown"]
    assert reward_of(run, state) == GOOD
    assert "## Suggestions" in run.get(state["result"])["page"]


def test_a_piece_that_no_check_can_judge_is_proposed_not_shipped(request_value: RunRequest) -> None:
    from migrate_tools.model import Note

    note = Note(code="reward-manager-custom", text="the reward manager is the recipe's own class Boost")
    launch = launch_value().model_copy(update={"notes": (note,)})
    run = new_run(request_value)
    model = ScriptedModel([write(REWARD, "x = 1 * 1\n", "what Boost does")])
    state = go(run, JudgingEngine(python=GOOD, recipe=recipe_value(launch)), model)
    document = document_of(run, state)
    assert reward_of(run, state) == GOOD
    (suggestion,) = document["suggestions"]
    assert suggestion["kind"] == "edit"
    assert "+x = 1 * 1" in suggestion["diff"]
    assert outcomes(document) == ["no better, rolled back"]
    assert len(model.questions) == 1


def test_flags_changed_by_a_model_never_become_rehearsed(request_value: RunRequest) -> None:
    run = new_run(request_value)
    script = "#!/bin/bash\nX=(\n  --lr bad-batch\n)\n"
    model = ScriptedModel([replace(SCRIPT, "--lr bad-batch", "--lr 3")])
    state = go(run, JudgingEngine(python=GOOD, script=script), model)
    document = document_of(run, state)
    assert all(check["status"] in ("passed", "skipped") for check in document["checks"])
    assert document["verdict"] == "partial"
    assert any("run_toy.sh was changed by a language model: no check" in reason for reason in document["reasons"])


STOPS: dict[str, tuple[Reply, bool]] = {
    "budget": (BudgetSpent("the budget of 5 calls for the model is spent", "go on with --resume RUN_ID"), True),
    "endpoint": (EndpointError("the model endpoint cannot be reached", "start it"), False),
}


@pytest.mark.parametrize(("reply", "is_budget"), STOPS.values(), ids=STOPS.keys())
def test_a_stop_keeps_the_best_state_and_resume_goes_on(
    request_value: RunRequest, reply: Reply, is_budget: bool
) -> None:
    run = new_run(request_value)
    first = replace(REWARD, "(wrong, wrong)", "(wrong, 1)")
    state = go(run, JudgingEngine(python="x = (wrong, wrong)\n"), ScriptedModel([first, reply]))
    document = document_of(run, state)
    assert reward_of(run, state) == "x = (wrong, 1)\n"
    assert document["verdict"] == "partial"
    assert state["out_of_budget"] is is_budget
    assert document["llm"]["stopped"]
    later = ScriptedModel([replace(REWARD, "(wrong, 1)", "(0, 1)")])
    engine = JudgingEngine(python="x = (wrong, wrong)\n")
    state = go(open_run(run.id), engine, later, resume=True)
    document = document_of(run, state)
    assert reward_of(run, state) == "x = (0, 1)\n"
    assert document["verdict"] == "rehearsed"
    assert document["llm"]["stopped"] == ""
    assert "read" not in engine.calls


def test_a_refusal_of_the_model_closes_one_item_only(request_value: RunRequest) -> None:
    run = new_run(request_value)
    row = {"do": "suggest_row", "key": "trainer.foo", "status": "no_effect", "relax": [], "reason": "logging only"}
    engine = JudgingEngine(python="x = wrong\n", statuses={"trainer.foo": "unknown"})
    state = go(run, engine, ScriptedModel([RefusedAnswer("declines", ""), row]))
    assert state["left"]["check:parity:run_a"]["closed"].startswith("no usable answer")
    assert len(document_of(run, state)["suggestions"]) == 1


def test_items_come_in_a_fixed_order(request_value: RunRequest) -> None:
    run = new_run(request_value)
    engine = JudgingEngine(
        recipe=recipe_value(launch_value(keys=("z.b", "a.c"))),
        statuses={"z.b": "unknown", "a.c": "unknown"},
        python="x = wrong\n",
        script="#!/bin/bash\nX=(\n  bad-batch\n)\n",
    )
    model = ScriptedModel(answer=lambda messages, purpose: give_up())
    go(run, engine, model)
    names = [purpose.partition(" #")[0] for purpose in model.purposes]
    assert names == ["check:contract", "check:parity:run_a", "setting:a.c", "setting:z.b"]


def test_cases_that_are_too_weak_are_not_asked_about(request_value: RunRequest) -> None:
    power = {"seeded": 20, "caught": 15}
    weak = CheckResult(
        name="parity:run_a", rung=3, status="failed", summary="too weak", evidence={"mismatches": 0, "power": power}
    )
    differing = weak.model_copy(update={"evidence": {"mismatches": 1, "power": power}})
    assert items(recipe_value(), (), [weak]) == ()
    assert [item.name for item in items(recipe_value(), (), [differing])] == ["parity:run_a"]


def test_questions_are_bounded_and_quote_what_others_wrote(request_value: RunRequest) -> None:
    run = new_run(request_value)
    engine = JudgingEngine(python="x = wrong\n" + "# filler of a long file\n" * 4000)
    model = ScriptedModel([give_up()])
    go(run, engine, model)
    text = model.text(0)
    assert len(text) < 50_000
    assert "<data file " in text
    assert "<data evidence " in text
    assert "Rules to keep" in text


def test_every_kind_of_item_has_its_section_of_the_guide() -> None:
    text = (resource_dir("skill") / "SKILL.md").read_text("utf-8")
    assert set(GUIDE) == {"check", "piece", "setting"}
    for title in GUIDE.values():
        assert f"\n## {title}\n" in text


class KilledError(Exception):
    """Stands for the death of the process."""


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(("victim", "visit"), [("repair", 1), ("repair", 2), ("test", 1), ("test", 2), ("smoke", 1)])
def test_a_kill_at_any_node_of_the_loop_resumes_to_the_same_bytes(
    request_value: RunRequest, victim: str, moment: str, visit: int
) -> None:
    """The model answers the same question in the same way, as a tape does."""

    def answer(messages: Any, purpose: str) -> Reply:
        if "parity" not in purpose:
            return give_up()
        return write(REWARD, "x = (wrong, 1)\n") if purpose.endswith("#3") else write(REWARD, "x = (0, 1)\n")

    def engine() -> JudgingEngine:
        return JudgingEngine(python="x = (wrong, wrong)\n", statuses={"trainer.foo": "unknown"})

    whole = new_run(request_value)
    done = go(whole, engine(), ScriptedModel(answer=answer))
    expected, history = whole.get(done["result"]), Workspace(whole.root).messages()
    seen: list[str] = []

    def kill(node: str, took: float | None) -> None:
        if node == victim and (took is None) == (moment == "before"):
            seen.append(node)
            if len(seen) == visit:
                raise KilledError

    run = new_run(request_value)
    with pytest.raises(KilledError):
        go(run, engine(), ScriptedModel(answer=answer), hook=kill)
    state = go(open_run(run.id), engine(), ScriptedModel(answer=answer), resume=True)
    assert run.get(state["result"]) == expected
    assert Workspace(run.root).messages() == history
