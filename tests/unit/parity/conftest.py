"""A small recipe with a scorer, an example with a port of it, and the two commands of the check."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from migrate_tools.model import CheckResult, DataSpec, Example, Launch, Recipe, RewardSpec, Translation, VerlRef
from migrate_tools.parity import compare, oracle
from migrate_tools.parity.frozen import Budget, FrozenCases
from migrate_tools.sandbox import Sandbox, open_sandbox
from parity_wrapper import WRAPPER, make_row

CONVERTER = """
import argparse, pathlib
import pyarrow as pa, pyarrow.parquet as pq

parser = argparse.ArgumentParser()
parser.add_argument("--input-dir")
parser.add_argument("--output-dir")
options = parser.parse_args()
for file in sorted(pathlib.Path(options.input_dir).glob("*.parquet")):
    rows = pq.read_table(file).to_pylist()
    for row in rows:
        row["label"] = (row.get("reward_model") or {}).get("ground_truth")
        row["extra_info"] = {**(row.get("extra_info") or {}), "data_source": row.get("data_source")}
    pq.write_table(pa.Table.from_pylist(rows), pathlib.Path(options.output_dir) / file.name)
"""
TRUTHS = ("72", "-3", "0.5", "1,234", "Paris")


@dataclass
class Bench:
    """Recipe, example and sandbox of one test; has what the parity check reads from the ladder's context."""

    folder: Path
    sandbox: Sandbox
    recipe: Recipe
    launch: Launch
    stage: Path
    example: Example = field(default_factory=lambda: Example(algo="demo", files=()))
    translations: Sequence[Translation] = ()
    by_rules: Mapping[str, str] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def freeze(self, cases: int = 240, seconds: float = 20.0) -> FrozenCases:
        budget = Budget(seconds=seconds, cases=cases)
        return oracle.freeze(self.recipe, self.launch, sandbox=self.sandbox, work=self.work, budget=budget)

    def check(self, cases: int = 240, seconds: float = 20.0) -> CheckResult:
        return compare.run_parity(self, self.launch, self.freeze(cases, seconds))

    def port(self, text: str, wrapper: str = WRAPPER) -> None:
        """Puts another port into the example."""
        path = self.stage / "examples" / "demo" / "reward_demo.py"
        path.write_text(textwrap.dedent(text) + wrapper, encoding="utf-8")


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    return open_sandbox("bubblewrap")


@pytest.fixture(autouse=True)
def _no_power(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeded faults cost a run of their own; the tests that want them ask for time."""
    monkeypatch.setattr(compare, "POWER_SECONDS", 0.0)


@pytest.fixture
def undirected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The directed search takes most of a small comparison; it has tests of its own."""
    monkeypatch.setattr(oracle.directed, "search", lambda *_, **__: oracle.directed.Told())


@pytest.fixture
def bench(tmp_path: Path, sandbox: Sandbox) -> Callable[..., Bench]:
    """Builds a Bench from the text of a scorer and of its port (the same text when none is given)."""

    def build(
        scorer: str,
        port: str | None = None,
        *,
        rows: Sequence[dict[str, Any]] = (),
        wrapper: str = WRAPPER,
        version: str = "0.9.1",
        config: dict[str, Any] | None = None,
        **spec: Any,
    ) -> Bench:
        project, verl, stage = tmp_path / "project", tmp_path / "verl", tmp_path / "stage"
        for folder in (project, verl, stage / "examples" / "demo", stage / "scripts" / "tools"):
            folder.mkdir(parents=True)
        (project / "reward.py").write_text(textwrap.dedent(scorer), encoding="utf-8")
        (stage / "examples" / "__init__.py").touch()
        (stage / "examples" / "demo" / "__init__.py").touch()
        (stage / "scripts" / "tools" / "process_demo.py").write_text(CONVERTER, encoding="utf-8")
        examples = tuple(rows) or tuple(make_row(truth, number=i) for i, truth in enumerate(TRUTHS))
        launch = Launch(
            name="run",
            script="run.sh",
            module="verl.trainer.main_ppo",
            config=config or {},
            verl=VerlRef(version=version, root=str(verl), how="made for the test"),
            reward=RewardSpec(**{"kind": "custom", "path": "reward.py", "function": "compute_score", **spec}),
            data=DataSpec(example_rows=examples),
        )
        recipe = Recipe(name="demo", root=str(project), project_root=str(project), sha256="0" * 64, launches=(launch,))
        made = Bench(tmp_path, sandbox, recipe, launch, stage)
        made.port(scorer if port is None else port, wrapper)
        return made

    return build
