"""How many repair tasks the model's branch solves, with which driver, and that a wrong answer never ends as rehearsed.

    python benchmarks/repairs.py [--driver none|right|wrong|live] [--scorer NAME] [--cases N] [--json OUT]

A task is a draft with one fault (or one thing left over), run through the real graph with rungs 0 and 3, the static
half of rung 1 and the second look at mended rewards. Drivers: `none` asks no model; `right` holds the right edit (the
upper bound of the loop); `wrong` gives a lazy, a plausible and a cheating edit in turn; `live` asks
MIGRATE_AGENT_MODEL. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parent))
from faulty_ports import Bench, faults, prepare
from migrate_agent.engine import CPU_RUNGS, Draft
from migrate_agent.graph import run_graph
from migrate_agent.llm.actions import Answer
from migrate_agent.llm.items import short_hash
from migrate_agent.llm.talk import Message
from migrate_agent.llm_settings import LlmSettings, open_model
from migrate_agent.local_engine import LocalEngine, opened
from migrate_agent.nodes import Context
from migrate_agent.request import RunRequest
from migrate_agent.runs import new_run
from migrate_tools.checks import CheckContext
from migrate_tools.checks.contract import hydra_words, verl_imports
from migrate_tools.checks.syntax import SyntaxCheck
from migrate_tools.model import CheckResult, Example, Launch, Note, Recipe, Translated, Translation
from migrate_tools.parity.compare import run_parity
from migrate_tools.relax.contract import load_contract

TASKS = Path(__file__).parent / "repairs" / "tasks.yaml"
DRIVERS = ("none", "right", "wrong", "live")


_CHECKED: dict[str, dict[str, tuple[CheckResult, ...]]] = {}
"""Scorer -> texts of an example -> its results: drivers and tasks meet the same drafts again."""


@dataclass(frozen=True)
class Task:
    """One faulty draft, or one thing left over."""

    id: str
    scorer: str
    path: str = ""
    right: str = ""
    faulty: str = ""
    setting: str = ""
    piece: str = ""
    other: str = ""
    """Another fault of the same scorer: a plausible wrong answer."""

    @property
    def kind(self) -> str:
        """What is left: a fault of the reward, a malformed file, a setting or a piece."""
        return "setting" if self.setting else "piece" if self.piece else "fault" if "-" in self.id[-3:] else "file"


@dataclass
class Outcome:
    """How one task ended."""

    task: str
    kind: str
    driver: str
    solved: bool
    verdict: str
    attempts: int
    calls: int
    tokens: int
    seconds: float
    refused: int = 0


class BenchEngine(LocalEngine):
    """The prepared recipe, its faulty draft, and a short ladder."""

    def __init__(self, bench: Bench, task: Task) -> None:
        super().__init__(lambda text: None)
        self.bench, self.task = bench, task
        self.__dict__["sandbox"] = bench.context.sandbox

    def read(self, request: RunRequest) -> Recipe:
        recipe = self.bench.context.recipe
        if not self.task.piece:
            return recipe
        note = Note(code="reward-manager-custom", text=self.task.piece)
        return recipe.model_copy(
            update={"launches": tuple(item.model_copy(update={"notes": (note,)}) for item in recipe.launches)}
        )

    def translate(self, recipe: Recipe, launch: Launch, request: RunRequest, variant: str) -> Translation:
        (found,) = self.bench.context.translations
        if self.task.piece:
            return found.model_copy(update={"verdict_cap": "partial"})
        if not self.task.setting:
            return found
        left = Translated(key=self.task.setting, value=1, source=None, status="unknown", reason="in no table")
        return found.model_copy(update={"settings": (*found.settings, left)})

    def freeze(self, recipe: Recipe, launch: Launch, request: RunRequest, work: Path) -> dict[str, Any] | None:
        assert self.bench.context.cases is not None
        return dict(self.bench.context.cases[launch.name].meta)

    def name_hooks(
        self, recipe: Recipe, translations: tuple[Translation, ...], extracted: Mapping[str, dict[str, Any]]
    ) -> tuple[Translation, ...]:
        return translations

    def render(
        self,
        recipe: Recipe,
        translations: tuple[Translation, ...],
        extracted: Mapping[str, dict[str, Any]],
        request: RunRequest,
    ) -> Example:
        return with_text(self.bench.context.example, self.task.path, self.task.faulty)

    def frozen_inputs(
        self, frozen: Mapping[str, dict[str, Any]], work: Path
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        return super().frozen_inputs(frozen, self.bench.context.work)

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
        both = (draft.example, draft.by_rules or draft.example)
        key = short_hash(json.dumps([[(item.path, item.text) for item in one.files] for one in both]))
        known = _CHECKED.setdefault(self.bench.name, {})
        if key not in known:
            known[key] = self._checked(draft, frozen, stage)
        return known[key]

    def _checked(self, draft: Draft, frozen: Mapping[str, dict[str, Any]], stage: Path) -> tuple[CheckResult, ...]:
        base = self.bench.context
        context = CheckContext(
            recipe=base.recipe,
            translations=base.translations,
            example=draft.example,
            stage=stage,
            sandbox=base.sandbox,
            work=base.work,
            cases={name: opened(name, meta, base.work) for name, meta in frozen.items()},
            by_rules={item.path: item.text for item in draft.by_rules.files} if draft.by_rules else {},
        )
        launch = base.recipe.launches[0]
        assert context.cases is not None
        results = [*SyntaxCheck().run(context), flags_check(draft.example)]
        return (*results, run_parity(context, launch, context.cases[launch.name]))

    def second_look(
        self, recipe: Recipe, draft: Draft, request: RunRequest, stage: Path, work: Path
    ) -> tuple[CheckResult, ...]:
        key = "second " + short_hash(json.dumps([(item.path, item.text) for item in draft.example.files]))
        known = _CHECKED.setdefault(self.bench.name, {})
        if key not in known:
            known[key] = super().second_look(self.bench.context.recipe, draft, request, stage, self.bench.context.work)
        return known[key]

    def smoke(
        self, recipe: Recipe, draft: Draft, request: RunRequest, stage: Path, work: Path
    ) -> tuple[CheckResult, ...]:
        return (CheckResult(name="gpu_smoke", rung=7, status="skipped", summary="not part of this benchmark"),)


@dataclass
class ScriptedModel:
    """Gives its answers in turn, and gives up when there is none left."""

    answers: list[dict[str, Any]]
    asked: int = 0
    model: str = "scripted"
    refused: list[str] = field(default_factory=list)

    def ask(self, messages: Sequence[Message], shape: type[Any], *, purpose: str) -> Any:
        self.refused += [item.content for item in messages[-1:] if "was not tried" in item.content]
        self.asked += 1
        reply = self.answers.pop(0) if self.answers else {"do": "give_up", "reason": "no further answer"}
        return Answer.model_validate({"action": reply})


def flags_check(example: Example) -> CheckResult:
    """The static half of rung 1: verl imports, Hydra words, flags that the contract lacks."""
    known = load_contract("latest").names
    problems: list[str] = []
    for item in example.files:
        if item.path.endswith(".py"):
            problems += verl_imports(item)
        if item.path.endswith(".sh"):
            problems += hydra_words(item)
            for number, line in enumerate(item.text.splitlines(), 1):
                word = line.strip().split(" ")[0]
                if word.startswith("--") and word not in known:
                    problems.append(f"{item.path}:{number}: {word} is not in the contract")
    status = "failed" if problems else "passed"
    evidence = {"problems": problems} if problems else {}
    return CheckResult(
        name="contract", rung=1, status=status, summary=problems[0] if problems else "", evidence=evidence
    )


def with_text(example: Example, path: str, text: str) -> Example:
    """The example with one text changed, as if the engine had written it."""
    files = tuple(item.model_copy(update={"text": text}) if item.path == path else item for item in example.files)
    return example.model_copy(update={"files": files})


def tasks(bench: Bench) -> Iterator[Task]:
    """The tasks of one scorer."""
    name = bench.name
    example = bench.context.example
    places = {"reward": f"examples/{name}/reward_{name}.py", "run": f"examples/{name}/run_{name}.sh"}
    for group in yaml.safe_load(TASKS.read_text("utf-8")):
        if group["scorer"] != name:
            continue
        listed = {fault.id: fault for fault in faults(name, "open")}
        names = group.get("fault", [])
        for position, fault in enumerate(names):
            other = listed[names[(position + 1) % len(names)]].applied(bench.port)
            yield Task(fault, name, places["reward"], bench.port, listed[fault].applied(bench.port), other=other)
        for edit in group.get("edits", []):
            path = places[edit["file"]]
            right = example.file(path).text
            count = -1 if edit.get("all") else 1
            faulty = right.replace(edit["find"], edit["replace"], count)
            assert faulty != right, edit["id"]
            yield Task(f"{name}-{edit['id']}", name, path, right, faulty, other=faulty + "\n# done\n")
        yield from (Task(f"{name}-{key}", name, setting=key) for key in group.get("settings", []))
        for number, piece in enumerate(group.get("pieces", []), 1):
            yield Task(f"{name}-piece{number}", name, piece=piece, path=places["reward"], right=bench.port,
                       faulty=bench.port)  # fmt: skip


def answers(task: Task, driver: str) -> list[dict[str, Any]]:
    """What a scripted driver says."""
    if task.setting:
        row = {"do": "suggest_row", "key": task.setting, "status": "no_effect", "relax": [], "reason": "logging only"}
        return [row if driver == "right" else {**row, "key": "trainer.total_epochs", "status": "exact"}]
    write = {"do": "write", "file": task.path, "why": "mends it"}
    if driver == "right":
        text = task.right if not task.piece else task.right.replace("\nimport ", "\nimport math\nimport ", 1)
        return [{**write, "text": text}]
    lazy = task.faulty.replace("return 0.0", "return 1.0")
    cheat = task.faulty + "\nfrom verl.utils.reward_score import gsm8k\n"
    skip = {**write, "file": "examples/x/migration/migration.json", "text": "{}"}
    return [
        {**write, "text": lazy + "\n# tidy\n"},
        {**write, "text": task.other or lazy},
        {**write, "text": cheat},
        skip,
    ]


def solve(bench: Bench, task: Task, driver: str) -> Outcome:
    """Runs one task with one driver."""
    request = RunRequest(
        recipe=bench.context.recipe.root, algo=bench.name, destination="/nonexistent", variables={"TASK": task.id},
        smoke="off",
    )  # fmt: skip
    run = new_run(request.model_copy(update={"variables": {"TASK": f"{task.id} {driver}"}}))
    scripted = ScriptedModel(answers(task, driver)) if driver in ("right", "wrong") else None
    live = open_model(LlmSettings(mode="auto"), run.root) if driver == "live" else None
    began = time.monotonic()
    engine = BenchEngine(bench, task)
    context = Context(run, request, engine, lambda text: None, live or scripted)
    state = run_graph(context, lambda node, took: None, resume=False)
    seconds = time.monotonic() - began
    document = json.loads(run.get(state["result"])["json"])
    checks = all(item["status"] in ("passed", "skipped") for item in document["checks"])
    solved = bool(document["suggestions"]) if task.setting or task.piece else checks
    return Outcome(
        task=task.id, kind=task.kind, driver=driver, solved=solved, verdict=document["verdict"],
        attempts=len(document["attempts"]), calls=scripted.asked if scripted else document["llm"]["calls"],
        tokens=document["llm"]["tokens"], seconds=round(seconds, 1),
        refused=len(scripted.refused) if scripted else 0,
    )  # fmt: skip


def report(outcomes: Sequence[Outcome]) -> list[str]:
    """The table by driver and kind, and what must never happen."""
    lines = ["| driver | kind | tasks | solved | rehearsed | attempts | calls | tokens | seconds a task |"]
    lines.append("|" + " --- |" * 9)
    for driver in DRIVERS:
        for kind in ("fault", "file", "setting", "piece", "all"):
            found = [item for item in outcomes if item.driver == driver and kind in (item.kind, "all")]
            if not found:
                continue
            sums = [sum(getattr(item, name) for item in found) for name in ("solved", "attempts", "calls", "tokens")]
            rehearsed = sum(item.verdict == "rehearsed" for item in found)
            mean = sum(item.seconds for item in found) / len(found)
            lines.append(
                f"| {driver} | {kind} | {len(found)} | {sums[0]} | {rehearsed} | {sums[1]} | {sums[2]} | {sums[3]} | "
                f"{mean:.1f} |"
            )
    unsolved = [item.task for item in outcomes if item.driver == "right" and not item.solved]
    believed = [item.task for item in outcomes if item.driver == "wrong" and item.verdict in ("rehearsed", "verified")]
    easy = [item.task for item in outcomes if item.driver == "none" and item.verdict in ("rehearsed", "verified")]
    lines += [f"unsolved by the right answer: {', '.join(unsolved) or 'none'}"]
    lines += [f"WRONG ANSWERS THAT ENDED AS REHEARSED: {', '.join(believed) or 'none'}"]
    lines += [f"tasks that need no model: {', '.join(easy) or 'none'}"]
    return lines


def main() -> None:
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--driver", choices=DRIVERS, action="append")
    parser.add_argument("--scorer", action="append")
    parser.add_argument("--task", action="append", help="only tasks with this identifier")
    parser.add_argument("--cases", type=int, help="size of the comparison, else the product's default")
    parser.add_argument("--sandbox", choices=["auto", "docker", "bubblewrap"], default="auto")
    parser.add_argument("--json", type=Path, dest="out")
    options = parser.parse_args()
    scorers = options.scorer or sorted({group["scorer"] for group in yaml.safe_load(TASKS.read_text("utf-8"))})
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        os.environ["MIGRATE_AGENT_HOME"] = f"{place}/home"
        for scorer in scorers:
            bench = prepare(scorer, Path(place), options.cases, options.sandbox)
            for task in tasks(bench):
                if options.task and task.id not in options.task:
                    continue
                for driver in options.driver or ("none", "right", "wrong"):
                    outcomes.append(solve(bench, task, driver))
                    print(json.dumps(asdict(outcomes[-1])), file=sys.stderr, flush=True)
            if options.out:
                options.out.write_text(json.dumps([asdict(item) for item in outcomes], indent=1) + "\n", "utf-8")
    print("\n".join(report(outcomes)))


if __name__ == "__main__":
    main()
