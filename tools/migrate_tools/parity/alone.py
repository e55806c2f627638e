"""The certificate of one reward by itself: written, frozen and compared without the rest of the example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from migrate_tools.model import (
    CheckResult,
    DataFile,
    DataSpec,
    Example,
    ExampleFile,
    Launch,
    Recipe,
    RewardSpec,
    SourceCount,
    Translation,
    VerlRef,
)
from migrate_tools.parity import compare, oracle
from migrate_tools.parity.frozen import Budget
from migrate_tools.sandbox import Sandbox

ALGO = "alone"


@dataclass(frozen=True)
class Alone:
    """What the parity check reads from the ladder's context, for one reward."""

    recipe: Recipe
    example: Example
    stage: Path
    sandbox: Sandbox
    work: Path
    translations: Sequence[Translation] = ()
    by_rules: Mapping[str, str] = field(default_factory=dict)


def certify(
    recipe: Recipe, launch: Launch, *, sandbox: Sandbox, work: Path, budget: Budget | None = None
) -> CheckResult:
    """Freezes the old reward of a launch, writes the new one, compares them.

    Other parts of the launch (tools, algorithm, GPUs) play no role, so that the reward of a recipe that cannot be moved
    as a whole can still be compared.

    Raises:
        MigrateError: the reward cannot be taken out of the recipe, or the sandbox does not work.
    """
    from migrate_tools.relax.process_script import render_process
    from migrate_tools.relax.reward_module import render_reward
    from migrate_tools.verl.extract import extract_reward

    frozen = oracle.freeze(recipe, launch, sandbox=sandbox, work=work, budget=budget)
    if launch.reward.kind in ("model", "none"):
        return CheckResult(name=f"parity:{launch.name}", rung=3, status="not_checkable", summary=frozen.reason)
    found = extract_reward(launch.reward, launch.data, project_root=Path(recipe.project_root), verl=launch.verl)
    texts = {
        "examples/__init__.py": "",
        f"examples/{ALGO}/__init__.py": "",
        f"examples/{ALGO}/reward_{ALGO}.py": render_reward(launch, found, algo=ALGO, config_name=f"{ALGO}_config.yaml"),
        f"scripts/tools/process_{ALGO}.py": render_process(ALGO, [launch.data]),
    }
    stage = work / "stage" / launch.name
    for name, text in texts.items():
        target = stage / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    files = tuple(ExampleFile(path=name, text=text, origin="extracted") for name, text in texts.items())
    context = Alone(recipe, Example(algo=ALGO, files=files), stage, sandbox, work)
    return compare.run_parity(context, launch, frozen)


def builtin_launch(verl: VerlRef, data_source: str, *, manager: str = "naive") -> Launch:
    """A launch that has nothing but verl's own scorer for one data_source, with rows made up for it.

    Raises:
        RefusedInput: this verl has no dispatch by data_source.
    """
    from migrate_tools.verl.example_rows import make_rows, truth_maker
    from migrate_tools.verl.extract import taken_traits
    from migrate_tools.verl.reward_reader import read_reward
    from migrate_tools.verl.usage import Usage

    root = Path(verl.root)
    config = {"reward_model.reward_manager": manager, "reward.reward_manager.name": manager}
    spec, _ = read_reward(
        config,
        (),
        project_root=root,
        recipe_root=root,
        verl=verl,
        environment={},
        module="verl.trainer.main_ppo",
        resolve=lambda _: None,
    )
    rows = make_rows(
        sources=[data_source],
        truth=truth_maker(Usage(), "text", True),
        extra_info=lambda number, split: {"index": number, "split": split},
        prompt_key="prompt",
        source_key="data_source",
        as_text=False,
        images=(),
        splits=("train",),
    )
    launch = launch_of(verl, spec, rows, data_source, config)
    traits = taken_traits(spec, launch.data, project_root=root, verl=verl)
    return launch.model_copy(update={"reward": spec.model_copy(update={"traits": traits})})


def function_launch(
    verl: VerlRef,
    path: str,
    function: str,
    rows: Sequence[dict[str, object]],
    *,
    manager: str = "naive",
    config: Mapping[str, object] | None = None,
) -> Launch:
    """A launch whose reward is one function of a file (relative to the project, or "verl/..." inside verl).

    Raises:
        RefusedInput: the file has no such function.
    """
    from migrate_tools.errors import RefusedInput
    from migrate_tools.verl.module_finder import ModuleFinder
    from migrate_tools.verl.reward_traits import reward_traits

    root = Path(verl.root)
    file = root / path if (root / path).is_file() else Path(path)
    facts = reward_traits(ModuleFinder(root, root, (file.parent,)), file, function)
    if facts is None:
        raise RefusedInput(f"{path}: no function {function}", "name one that is there")
    spec = RewardSpec(
        kind="custom",
        path=path,
        function=function,
        manager=manager,
        is_async=facts.is_async,
        parameters=facts.signature.parameters if facts.signature else (),
        required=facts.signature.required if facts.signature else (),
        traits=facts.traits,
    )
    return launch_of(verl, spec, tuple(dict(row) for row in rows), function, config or {})


def launch_of(
    verl: VerlRef, spec: RewardSpec, rows: Sequence[dict[str, object]], name: str, config: Mapping[str, object]
) -> Launch:
    """A launch around a reward, its rows of one data_source."""
    file = DataFile(text="train.parquet")
    sources = tuple(sorted({str(row["data_source"]) for row in rows}))
    data = DataSpec(
        train=(file,),
        known_from="known_dataset",
        sources=tuple(SourceCount(name=source, split="train", file=file.text) for source in sources),
        example_rows=tuple(rows),
    )
    plain = "".join(letter if letter.isalnum() else "_" for letter in name)
    return Launch(
        name=plain,
        script="none",
        module="verl.trainer.main_ppo",
        verl=verl,
        reward=spec,
        data=data,
        config=dict(config),
    )


def recipe_of(launch: Launch, project: Path) -> Recipe:
    """A recipe that has nothing but this launch."""
    return Recipe(name=launch.name, root=str(project), project_root=str(project), sha256="0" * 64, launches=(launch,))
