"""A scripted engine: the graph, the report and the verdict are tested without sandbox, verl or Relax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from migrate_agent.engine import CPU_RUNGS, Draft
from migrate_agent.request import RunRequest
from migrate_tools.model import (
    CheckResult,
    DataSpec,
    Example,
    ExampleFile,
    Flag,
    Launch,
    Recipe,
    RewardSpec,
    Setting,
    SourceRef,
    Translated,
    Translation,
    VerlRef,
)


def launch_value(name: str = "run_a", keys: tuple[str, ...] = ("data.train_batch_size", "trainer.foo")) -> Launch:
    return Launch(
        name=name,
        script=f"{name}.sh",
        line=3,
        module="verl.trainer.main_ppo",
        settings=tuple(
            Setting(key=key, value=index, text=str(index), source=SourceRef(file=f"{name}.sh", line=4 + index))
            for index, key in enumerate(keys)
        ),
        verl=VerlRef(version="0.9.1", root="/verl", how="pinned"),
        reward=RewardSpec(kind="custom", path="reward.py", function="compute_score"),
        data=DataSpec(),
    )


def recipe_value(*launches: Launch) -> Recipe:
    return Recipe(name="toy", root="/toy", project_root="/toy", sha256="0" * 64, launches=launches or (launch_value(),))


@dataclass
class ScriptedEngine:
    """Answers from its fields; `calls` records the methods in order."""

    recipe: Recipe = field(default_factory=recipe_value)
    statuses: Mapping[str, str] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ("--lr",)
    python: str = "x = 1\n"
    script: str = "#!/bin/bash\necho ok\n"
    failing: tuple[str, ...] = ()
    """Texts that make rung 0 fail while they stand in a file, or flags that make rung 1 fail."""
    calls: list[str] = field(default_factory=list)

    def read(self, request: RunRequest) -> Recipe:
        self.calls.append("read")
        return self.recipe

    def translate(self, recipe: Recipe, launch: Launch, request: RunRequest, variant: str) -> Translation:
        self.calls.append("translate")
        why = self.refusals.get(launch.name)
        return Translation(
            launch=launch.name,
            algo=request.algo,
            variant=variant,
            verdict_cap="refused" if why else "verified",
            refusals=(why,) if why else (),
            flags=tuple(Flag(name=name, value="1", group="ALGO") for name in self.flags),
            settings=tuple(
                Translated(
                    key=item.key,
                    value=item.value,
                    source=item.source,
                    status=self.statuses.get(item.key, "exact"),
                    relax=self.flags,
                    risk="training",
                )
                for item in launch.settings
            ),
        )

    def extract(self, recipe: Recipe, launch: Launch) -> dict[str, Any] | None:
        self.calls.append("extract")
        return {"code": self.python}

    def name_hooks(
        self, recipe: Recipe, translations: tuple[Translation, ...], extracted: Mapping[str, dict[str, Any]]
    ) -> tuple[Translation, ...]:
        return translations

    def freeze(self, recipe: Recipe, launch: Launch, request: RunRequest, work: Path) -> dict[str, Any] | None:
        self.calls.append("freeze")
        return {"cases": 3}

    def render(
        self,
        recipe: Recipe,
        translations: tuple[Translation, ...],
        extracted: Mapping[str, dict[str, Any]],
        request: RunRequest,
    ) -> Example:
        self.calls.append("render")
        base = f"examples/{request.algo}"
        files = [ExampleFile(path=f"{base}/reward_{request.algo}.py", text=self.python, origin="extracted")]
        for item in translations:
            suffix = f"_{item.variant}" if item.variant else ""
            text = self.script + "".join(f"# {flag.name} {flag.value}\n" for flag in item.flags)
            files.append(
                ExampleFile(path=f"{base}/run_{request.algo}{suffix}.sh", text=text, origin="rendered", executable=True)
            )
        return Example(algo=request.algo, files=tuple(files))

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
        staged = "".join(path.read_text() for path in sorted(stage.rglob("*")) if path.is_file())
        found = [text for text in self.failing if not text.startswith("--") and text in staged]
        flags = [text for text in self.failing if text.startswith("--") and text in staged]
        return (
            CheckResult(name="syntax", rung=0, status="failed" if found else "passed", evidence={"found": found}),
            CheckResult(name="contract", rung=1, status="failed" if flags else "passed", evidence={"unknown": flags}),
            CheckResult(
                name="parity", rung=3, status="passed", evidence={"cases": 3, "mismatches": 0}, summary="3 cases agree"
            ),
        )

    def second_look(
        self, recipe: Recipe, draft: Draft, request: RunRequest, stage: Path, work: Path
    ) -> tuple[CheckResult, ...]:
        self.calls.append("second_look")
        text = (stage / f"examples/{request.algo}/reward_{request.algo}.py").read_text()
        status = "failed" if "only the shown" in text else "passed"
        return (CheckResult(name="parity:run_a", rung=3, status=status, summary="2 of 200 cases differ"),)

    def smoke(
        self, recipe: Recipe, draft: Draft, request: RunRequest, stage: Path, work: Path
    ) -> tuple[CheckResult, ...]:
        self.calls.append("smoke")
        return (CheckResult(name="gpu_smoke", rung=7, status="skipped", summary="there is no GPU here"),)

    def frozen_inputs(
        self, frozen: Mapping[str, dict[str, Any]], work: Path
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        return [{"raw": "the frozen response is 4711", "new": "the frozen response is 4711"}], [{"label": "4711"}]

    def known_flags(self, request: RunRequest) -> frozenset[str]:
        return frozenset({"--lr"})

    def contract_name(self, request: RunRequest) -> str:
        return f"{request.relax_version} (test)"

    def redact(self, text: str) -> str:
        return text.replace("sk-secret", "<redacted>")


class OpenedByCommand:
    """What the command line asks of an engine beside its steps: a sandbox is there, and nothing is frozen."""

    def no_sandbox(self) -> None:
        return None

    def freeze(self, *arguments: Any) -> None:
        return None


def tree(root: Path) -> dict[str, bytes]:
    """Path -> content of every file below a folder."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
