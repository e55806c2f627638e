"""verify: what an edited example is compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from migrate_agent.commands import verify
from migrate_agent.request import RunRequest
from migrate_tools.errors import RefusedInput
from migrate_tools.model import DataSpec, Example, ExampleFile, Launch, Recipe, RewardSpec, VerlRef

PATH = "examples/toy/reward_toy.py"


class Rules:
    """An engine that writes one file."""

    def __init__(self, refusal: str = "") -> None:
        self._refusal = refusal

    def extract(self, recipe: Recipe, launch: Launch) -> dict[str, Any] | None:
        return {"code": launch.name}

    def name_hooks(self, recipe: Recipe, translations: Any, extracted: Any) -> Any:
        return translations

    def render(self, recipe: Recipe, translations: Any, extracted: dict[str, Any], request: RunRequest) -> Example:
        if self._refusal:
            raise RefusedInput(self._refusal)
        text = f"# {sorted(extracted)} sk-secret"
        return Example(algo="toy", files=(ExampleFile(path=PATH, text=text, origin="rendered"),))

    def redact(self, text: str) -> str:
        return text.replace("sk-secret", "***")


def found(edited: tuple[str, ...], llm: dict[str, Any]) -> verify.Found:
    return verify.Found(Example(algo="toy", files=()), {"llm": llm}, edited, Path("/nowhere"))


def by_rules(given: verify.Found, engine: Any) -> Example | None:
    launch = Launch(
        name="run",
        script="run.sh",
        module="verl.trainer.main_ppo",
        config={},
        verl=VerlRef(version="0.9.1", root="/", how="made for the test"),
        reward=RewardSpec(kind="custom"),
        data=DataSpec(),
    )
    recipe = Recipe(name="toy", root="/", project_root="/", sha256="0", launches=(launch,))
    request = RunRequest(recipe="/nowhere", algo="toy", destination="/nowhere")
    return verify._by_rules(given, engine, recipe, (), request)


@pytest.mark.parametrize(
    ("edited", "llm"), [((PATH,), {}), ((), {"edits": [{"path": PATH}]})], ids=["by a user", "by a model"]
)
def test_an_edited_example_is_compared_with_what_the_rules_write(edited: tuple[str, ...], llm: dict[str, Any]) -> None:
    example = by_rules(found(edited, llm), Rules())
    assert example is not None
    assert example.file(PATH).text == "# ['run'] ***"


def test_an_untouched_example_is_not_written_again() -> None:
    assert by_rules(found((), {}), Rules("never asked")) is None


def test_rules_that_cannot_write_it_are_no_obstacle() -> None:
    assert by_rules(found((PATH,), {}), Rules("no reward")) is None
