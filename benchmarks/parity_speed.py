"""How fast the reward comparison is, and where its time goes.

    python benchmarks/parity_speed.py [RECIPE ...] [--cases N] [--profile] [--markdown]

For every recipe: reads it, records the oracle, writes the example, compares, seeds faults; prints cases a second and
seconds of wall clock by part. CPU seconds are those of the outer process. Recipes default to the quickstart.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from migrate_agent.local_engine import LocalEngine, opened
from migrate_agent.nodes.test import stage_example
from migrate_agent.request import RunRequest, algo_name
from migrate_tools.checks import CheckContext
from migrate_tools.parity.compare import run_parity

QUICKSTART = Path(__file__).parents[1] / "tests" / "recipes" / "quickstart"


class Clock:
    """Wall and CPU seconds by part."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Adds what the block takes to a part."""
        began, cpu = time.monotonic(), _cpu()
        yield
        self.wall[name] = self.wall.get(name, 0.0) + time.monotonic() - began
        self.cpu[name] = self.cpu.get(name, 0.0) + _cpu() - cpu


def _cpu() -> float:
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


def measure(recipe_folder: Path, cases: int, place: Path, sandbox: str) -> dict[str, Any]:
    """Figures of one recipe's first launch."""
    algo = algo_name(recipe_folder.name)
    request = RunRequest.model_validate(
        {
            "recipe": str(recipe_folder.resolve()),
            "algo": algo,
            "destination": str(place / "out"),
            "sandbox": sandbox,
            "parity_cases": cases,
            "parity_seconds": 120.0,
        }
    )
    clock = Clock()
    engine = LocalEngine(lambda _: None, request.sandbox)
    recipe = engine.read(request)
    launch = recipe.launches[0]
    work, stage = place / f"{algo}_work", place / f"{algo}_stage"
    translation = engine.translate(recipe, launch, request, "")
    reward = engine.extract(recipe, launch)
    if reward is None:
        raise SystemExit(f"{recipe_folder}: no reward to compare")
    extracted = {launch.name: reward}
    with clock.part("oracle"):
        meta = engine.freeze(recipe, launch, request, work)
    assert meta is not None
    if meta["reason"]:
        raise SystemExit(f"{recipe_folder}: {meta['reason']}")
    translations = engine.name_hooks(recipe, (translation,), extracted)
    example = engine.render(recipe, translations, extracted, request)
    stage_example(example, stage)
    frozen = opened(launch.name, meta, work)
    context = CheckContext(
        recipe=recipe,
        translations=translations,
        example=example,
        stage=stage,
        sandbox=engine.sandbox,
        work=work,
        cases={launch.name: frozen},
    )
    with clock.part("comparison and power"):
        result = run_parity(context, launch, frozen)
    search, evidence = meta["search"], result.evidence
    inside = {"search": search["seconds"], "old twice": meta["seconds"], "new": evidence["seconds"]["new"]}
    total = sum(clock.wall.values())
    return {
        "recipe": recipe_folder.name,
        "status": result.status,
        "cases": evidence["compared"],
        "tried": search["runs"],
        "faults": evidence.get("power", {}).get("seeded", 0),
        "seconds": total,
        "cpu": sum(clock.cpu.values()),
        "rate": evidence["compared"] / total,
        "parts": {
            "making inputs, directed cases, sandbox starts": clock.wall["oracle"]
            - inside["search"]
            - inside["old twice"],
            **inside,
            "judging, faults": clock.wall["comparison and power"] - inside["new"],
        },
        "summary": result.summary,
    }


def main() -> None:
    """Measures the recipes of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("recipes", nargs="*", type=Path)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--sandbox", default="auto")
    parser.add_argument("--profile", action="store_true", help="of the outer process")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    profile = cProfile.Profile()
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        for recipe in options.recipes or [QUICKSTART]:
            if options.profile:
                profile.enable()
            found = measure(recipe, options.cases, Path(place), options.sandbox)
            profile.disable()
            show(found, options.markdown)
    if options.profile:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(45)


def show(found: dict[str, Any], markdown: bool) -> None:
    """One row of the table, or the figures line by line."""
    parts = found["parts"]
    if markdown:
        cells = [found["recipe"], found["cases"], found["faults"], f"{found['seconds']:.1f}", f"{found['cpu']:.1f}"]
        cells += [f"{found['rate']:.0f}", *(f"{seconds:.1f}" for seconds in parts.values())]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
        return
    print(f"{found['recipe']}: {found['status']}, {found['summary']}")
    print(
        f"  {found['cases']} cases ({found['tried']} tried), {found['faults']} faults: {found['seconds']:.1f} s, ",
        end="",
    )
    print(f"{found['cpu']:.1f} s of CPU outside the sandbox, {found['rate']:.0f} cases a second")
    for name, seconds in parts.items():
        print(f"  {name:46} {seconds:6.1f} s  {seconds / found['seconds']:4.0%}", flush=True)


if __name__ == "__main__":
    main()
