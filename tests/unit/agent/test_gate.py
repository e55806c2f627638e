"""The gate of --ask: what is asked, that a run waits and goes on, and that answers change what is made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest
from agent_fakes import ScriptedEngine, launch_value, recipe_value
from migrate_agent.commands.run import parsed_answers
from migrate_agent.graph import run_graph, unasked
from migrate_agent.nodes import Context
from migrate_agent.questions import Decide, Question, questions
from migrate_agent.request import RunRequest
from migrate_agent.runs import RunFolder, new_run, open_run
from migrate_agent.state import RunState
from migrate_tools.errors import UsageError
from migrate_tools.model import Decision, Launch, Note, Recipe, Translated, Translation


class AskingEngine(ScriptedEngine):
    """Its launches have a batch policy to choose; run_b has a KL term that Relax ignores."""

    def translate(self, recipe: Recipe, launch: Launch, request: RunRequest, variant: str) -> Translation:
        made = super().translate(recipe, launch, request, variant)
        decision = Decision(question="batch policy", choice=request.batch_policy, why="samples per update stay")
        notes = (Note(code="R21-kl-in-reward", text="Relax ignores it"),) if launch.name == "run_b" else ()
        return made.model_copy(update={"decisions": (decision,), "notes": notes})


def engine() -> AskingEngine:
    return AskingEngine(recipe=recipe_value(launch_value("run_a"), launch_value("run_b")))


@pytest.fixture
def run(request_value: RunRequest) -> RunFolder:
    return new_run(request_value.model_copy(update={"ask": True}))


def go(run: RunFolder, engine: ScriptedEngine, decide: Decide, *, resume: bool = False) -> tuple[list[str], RunState]:
    names: list[str] = []
    context = Context(run, run.request(), engine, lambda text: None)
    hook = lambda node, took: names.append(node) if took is None else None  # noqa: E731
    return names, run_graph(context, hook, resume=resume, decide=decide)


def answering(**choices: str) -> Decide:
    def decide(asked: Sequence[Question]) -> Mapping[str, str]:
        return {question.key: choices.get(question.key.partition(":")[0].replace("-", "_"), question.choices[0])
                for question in asked}  # fmt: skip

    return decide


def test_first_choices_change_nothing(run: RunFolder) -> None:
    names, state = go(run, engine(), answering())
    assert names == ["inspect", "plan", "gate", "gate", "draft", "test", "smoke", "report"]
    document = json.loads(run.get(state["result"])["json"])
    chosen = {item["question"]: item["choice"] for item in document["decisions"]}
    assert chosen["batch-policy"] == "on-policy"
    assert chosen["kl:run_b"] == "write"
    assert document["options"]["batch_policy"] == "on-policy"


def test_another_batch_policy_is_planned_again_and_reported(run: RunFolder) -> None:
    names, state = go(run, engine(), answering(batch_policy="faithful"))
    assert names == ["inspect", "plan", "gate", "gate", "plan", "draft", "test", "smoke", "report"]
    document = json.loads(run.get(state["result"])["json"])
    assert document["options"]["batch_policy"] == "faithful"
    assert {item["choice"] for item in document["decisions"] if item["question"] == "batch policy"} == {"faithful"}


def test_a_launch_that_is_left_out_is_not_written(run: RunFolder) -> None:
    _, state = go(run, engine(), answering(kl="leave-out"))
    document = json.loads(run.get(state["result"])["json"])
    assert [item["name"] for item in document["launches"] if item["verdict"] == "refused"] == ["run_b"]
    assert [item["run_script"] for item in document["launches"]] == ["examples/toy/run_toy_a.sh", ""]
    assert "run_b: left out by the user's decision" in document["reasons"]
    assert document["verdict"] == "partial"


def test_without_an_answer_the_run_waits_and_goes_on_later(run: RunFolder) -> None:
    with pytest.raises(UsageError, match="batch-policy: .*on-policy or faithful"):
        go(run, engine(), unasked)
    later = engine()
    with pytest.raises(UsageError, match="batch-policy"):
        go(open_run(run.id), later, unasked, resume=True)
    names, state = go(open_run(run.id), later, answering(), resume=True)
    assert "plan" not in names
    assert later.calls[0] == "render"
    assert state["answers"] == {"batch-policy": "on-policy", "kl:run_b": "write"}


def test_without_ask_nothing_is_asked(request_value: RunRequest) -> None:
    names, _ = go(new_run(request_value), engine(), unasked)
    assert "gate" not in names


def test_unsupported_training_settings_are_asked_about_and_others_are_not() -> None:
    setting = Translated(
        key="a.b", value=1, source=None, status="unsupported", reason="no counterpart", risk="training"
    )
    quiet = setting.model_copy(update={"key": "a.c", "risk": "speed"})
    (question,) = questions([Translation(launch="x", algo="t", settings=(setting, quiet))], {})
    assert question.key == "unsupported:x"
    assert "a.b: no counterpart" in question.text
    assert "a.c" not in question.text
    assert questions([Translation(launch="x", algo="t", settings=(quiet,))], {}) == ()
    assert questions([Translation(launch="x", algo="t", settings=(setting,))], {question.key: "write"}) == ()


def test_answers_of_the_command_line() -> None:
    assert parsed_answers(["batch-policy=faithful", "kl:run_b=write"]) == {
        "batch-policy": "faithful",
        "kl:run_b": "write",
    }
    for text in ("faithful", "=x", "x="):
        with pytest.raises(UsageError, match="KEY=CHOICE"):
            parsed_answers([text])
