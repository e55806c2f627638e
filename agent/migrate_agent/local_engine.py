"""The real tools behind the Engine protocol; heavy imports happen when a step needs them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from migrate_tools.errors import MachineError, UsageError
from migrate_tools.model import CheckResult, Example, Launch, Recipe, Translation

from migrate_agent.engine import CPU_RUNGS, Draft, Progress
from migrate_agent.request import RunRequest
from migrate_agent.verdict import GPU_RUNG

if TYPE_CHECKING:
    from migrate_tools.checks import CheckContext
    from migrate_tools.parity.oracle import FrozenCases
    from migrate_tools.relax.contract import FlagContract
    from migrate_tools.sandbox import Sandbox
    from migrate_tools.verl.extract import Extracted


SECOND_CASES = 400
"""Cases of the second look at least: the few of a small comparison are the same every time."""
SECOND_SALT = 1_000_003
GUARDED_ROWS = 5_000
"""Rows of a file whose values an edit of a model may not hold; the cases are made of fewer."""


class LocalEngine:
    """Reads, translates, writes and checks on this machine."""

    def __init__(self, progress: Progress, kind: Literal["auto", "docker", "bubblewrap"] = "auto") -> None:
        self._progress = progress
        self._kind = kind

    @cached_property
    def sandbox(self) -> Sandbox:
        """The sandbox of this run, opened when first needed; a NoSandbox where none works.

        Raises:
            MachineError: the provider that was asked for does not work here.
        """
        from migrate_tools.sandbox import open_sandbox

        from migrate_agent.no_sandbox import NoSandbox

        try:
            return open_sandbox(self._kind)
        except MachineError as error:
            if self._kind != "auto":
                raise
            return NoSandbox(error)

    def no_sandbox(self) -> MachineError | None:
        """Why nothing foreign can be run; None when it can."""
        why = getattr(self.sandbox, "why", None)
        return why if isinstance(why, MachineError) else None

    def read(self, request: RunRequest) -> Recipe:
        from migrate_tools.verl.reader import read_recipe

        return read_recipe(
            Path(request.recipe),
            launches=request.launches,
            verl_root=Path(request.verl_root) if request.verl_root else None,
            verl_version=request.verl_version,
            variables=request.variables,
            sandbox=self.sandbox,
            progress=self._progress,
        )

    def translate(self, recipe: Recipe, launch: Launch, request: RunRequest, variant: str) -> Translation:
        from migrate_tools.mapping.translate import translate

        return translate(
            recipe,
            launch,
            algo=request.algo,
            variant=variant,
            batch_policy=request.batch_policy,
            contract=self._contract(request),
            model_configs=request.model_configs,
        )

    def extract(self, recipe: Recipe, launch: Launch) -> dict[str, Any] | None:
        from migrate_tools.mapping.turns import obstacle
        from migrate_tools.verl.agent_loops import extract_loops
        from migrate_tools.verl.extract import extract_reward
        from migrate_tools.verl.extract_tools import extract_tools

        if launch.reward.kind not in {"custom", "builtin"}:
            return None
        project = Path(recipe.project_root)
        found = extract_reward(launch.reward, launch.data, project_root=project, verl=launch.verl)
        clean: dict[str, Any] = {"code": self.redact(found.code), "header": self.redact(found.header)}
        if launch.multi_turn is not None and not obstacle(launch.multi_turn, launch.verl.version):
            take = extract_loops if launch.multi_turn.loops else extract_tools
            made = take(launch.multi_turn, project_root=project, recipe_root=Path(recipe.root), verl=launch.verl)
            clean["tools"] = made.model_copy(update={"code": self.redact(made.code)})
        return found.model_copy(update=clean).model_dump(mode="json")

    def freeze(self, recipe: Recipe, launch: Launch, request: RunRequest, work: Path) -> dict[str, Any] | None:
        from migrate_tools.parity.oracle import Budget, freeze

        standard = Budget()
        budget = Budget(
            seconds=request.parity_seconds or standard.seconds, cases=request.parity_cases or standard.cases
        )
        logs = [Path(path) for path in request.rollouts]
        return dict(freeze(recipe, launch, sandbox=self.sandbox, work=work, budget=budget, logs=logs).meta)

    def name_hooks(
        self, recipe: Recipe, translations: tuple[Translation, ...], extracted: Mapping[str, dict[str, Any]]
    ) -> tuple[Translation, ...]:
        from migrate_tools.relax.reward_module import name_hooks

        return name_hooks(
            translations, _rewards(translations, extracted), {item.name: item for item in recipe.launches}
        )

    def render(
        self,
        recipe: Recipe,
        translations: tuple[Translation, ...],
        extracted: Mapping[str, dict[str, Any]],
        request: RunRequest,
    ) -> Example:
        from migrate_tools.relax.env_module import checkout_base_env
        from migrate_tools.relax.render import render_example

        rewards = _rewards(translations, extracted)
        return render_example(
            recipe,
            translations,
            rewards,
            algo=request.algo,
            relax_version=self._contract(request).title,
            mode_default=request.mode_default,
            base_env=checkout_base_env(Path(request.relax_root)) if request.relax_root else "",
        )

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
        from migrate_tools.checks import LADDER, run_ladder

        from migrate_agent.no_sandbox import WITHOUT_EXECUTION, NoSandbox

        work.mkdir(parents=True, exist_ok=True)
        context = self._context(recipe, draft, frozen, request, stage, work)
        if isinstance(self.sandbox, NoSandbox):
            done = run_ladder(context, only=[check for check in LADDER if check.rung in WITHOUT_EXECUTION & rungs])
            return (*done, *self.sandbox.unchecked(rungs))
        return run_ladder(context, only=[check for check in LADDER if check.rung in rungs])

    def second_look(
        self, recipe: Recipe, draft: Draft, request: RunRequest, stage: Path, work: Path
    ) -> tuple[CheckResult, ...]:
        from migrate_tools.parity.compare import run_parity
        from migrate_tools.parity.oracle import Budget, freeze

        place = work / "second_look"
        cases = max(SECOND_CASES, 2 * (request.parity_cases or Budget().cases))
        budget = Budget(seconds=request.parity_seconds or Budget().seconds, cases=cases, salt=SECOND_SALT)
        known = {
            launch.name: dict(freeze(recipe, launch, sandbox=self.sandbox, work=place, budget=budget).meta)
            for launch in recipe.launches
        }
        context = self._context(recipe, draft, known, request, stage, place)
        return tuple(
            run_parity(context, launch, (context.cases or {})[launch.name], thorough=False)
            for launch in recipe.launches
        )

    def smoke(
        self, recipe: Recipe, draft: Draft, request: RunRequest, stage: Path, work: Path
    ) -> tuple[CheckResult, ...]:
        if request.smoke == "off":
            why = "the GPU step was switched off (--smoke off)"
            return (CheckResult(name="gpu_smoke", rung=GPU_RUNG, status="skipped", summary=why),)
        return self.check(recipe, draft, {}, request, stage, work, frozenset({GPU_RUNG}))

    def frozen_inputs(
        self, frozen: Mapping[str, dict[str, Any]], work: Path
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        import pyarrow.parquet as pq

        cases: list[dict[str, Any]] = []
        rows: list[dict[str, Any]] = []
        for name, meta in frozen.items():
            oracle = opened(name, meta, work)
            cases += oracle.cases()
            for file in oracle.row_files:
                rows += pq.read_table(oracle.folder / file).slice(0, GUARDED_ROWS).to_pylist()
        return cases, rows

    def known_flags(self, request: RunRequest) -> frozenset[str]:
        return frozenset(self._contract(request).names)

    def contract_name(self, request: RunRequest) -> str:
        return self._contract(request).title

    def redact(self, text: str) -> str:
        from migrate_tools.verl.secrets import redact

        return redact(text)

    def smoke_obstacle(self) -> str | None:
        """Why no GPU step can run here; None when one can."""
        from migrate_tools.rehearsal.gpu import obstacle

        return obstacle() or None

    def _contract(self, request: RunRequest) -> FlagContract:
        from migrate_tools.relax.contract import load_contract

        return load_contract(request.relax_version)

    def _context(
        self,
        recipe: Recipe,
        draft: Draft,
        frozen: Mapping[str, dict[str, Any]],
        request: RunRequest,
        stage: Path,
        work: Path,
    ) -> CheckContext:
        from migrate_tools.checks import CheckContext

        return CheckContext(
            recipe=recipe,
            translations=draft.translations,
            example=draft.example,
            stage=stage,
            sandbox=self.sandbox,
            work=work,
            by_rules={item.path: item.text for item in draft.by_rules.files} if draft.by_rules else {},
            relax_version=request.relax_version,
            cases={name: opened(name, meta, work) for name, meta in frozen.items()},
        )


def _rewards(
    translations: tuple[Translation, ...], extracted: Mapping[str, dict[str, Any]]
) -> dict[str, Extracted | None]:
    from migrate_tools.verl.extract import Extracted

    return {
        item.launch: Extracted.model_validate(extracted[item.launch]) if item.launch in extracted else None
        for item in translations
    }


def opened(launch: str, meta: Mapping[str, Any], work: Path) -> FrozenCases:
    """The oracle of one launch as it was frozen.

    Raises:
        UsageError: its files are no longer those that were frozen.
    """
    from migrate_tools.parity.oracle import load

    frozen = load(work / "parity" / str(meta["launch"]) / "oracle")
    if dict(frozen.meta) != dict(meta) or frozen.verify():
        raise UsageError(f"the frozen answers of {launch} were changed after they were recorded", "start the run anew")
    return frozen
