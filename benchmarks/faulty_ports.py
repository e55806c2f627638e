"""How many hand-written faulty ports the parity check refuses, and whether it lets right ports pass.

    python benchmarks/faulty_ports.py [--half open|heldout|both] [--scorer NAME] [--correct] [--cases N] [--json OUT]

For each recipe in `faulty_ports/` the old answers are recorded once. All faulty ports then run in one process on the
cases; the first record of a port that differs is judged by the rules of the parity check. A port without one is put in
the place of the generated reward and goes through the whole check that `migrate-agent run` and `verify` use, further
cases for seeded faults and for differences from the rules' module included; so do all right ports. A port is refused
when an answer differs; one that is only called too weakly tested is not counted. Prints a Markdown table and the
survivors.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import runpy
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import yaml
from migrate_agent.local_engine import LocalEngine, opened
from migrate_agent.nodes.test import stage_example
from migrate_agent.request import RunRequest
from migrate_tools.checks import CheckContext
from migrate_tools.model import CheckResult
from migrate_tools.parity.compare import run_parity
from migrate_tools.parity.newjob import build_job
from migrate_tools.parity.power import run_versions
from migrate_tools.parity.verdicts import judge

HERE = Path(__file__).parent / "faulty_ports"
SCORERS = ("amount", "boxed", "dispatch", "lookup", "screen")
HALVES = ("open", "heldout")
CASES, SEEDED, EDITED = "cases", "seeded", "edited"
"""What refuses a port: frozen cases, or follow-up cases for seeded faults or for differences from the rules' module."""
SCORER_MARK, WRAPPER_MARK = "# --- scorer\n", "# --- reward manager\n"


HEAD = "| scorer | half | faults | equivalent | by cases | by seeded faults | by differences | caught | share |"


@dataclass(frozen=True)
class Fault:
    """One faulty port: an exact edit of the right one."""

    id: str
    operator: str
    description: str
    find: str = ""
    replace: str = ""
    constant: str = ""
    value: str = ""
    equivalent: str = ""
    """Why no input tells it from the right port; empty when some input does."""

    def applied(self, port: str) -> str:
        """The faulty port.

        Raises:
            ValueError: the edit does not fit this port exactly once.
        """
        find, replace = self.find, self.replace
        if self.constant:
            nodes = [node for node in ast.parse(port).body if isinstance(node, ast.Assign)]
            lines = port.splitlines()
            for node in nodes:
                if isinstance(node.targets[0], ast.Name) and node.targets[0].id == self.constant:
                    find = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                    replace = f"{self.constant} = {self.value}"
        if not find or port.count(find) != 1:
            raise ValueError(f"{self.id}: the edit fits {port.count(find) if find else 0} times")
        changed = port.replace(find, replace)
        compile(changed, self.id, "exec")
        return changed


@dataclass
class Bench:
    """One recipe: its recorded answers and its right port."""

    name: str
    context: CheckContext
    port: str
    path: Path
    seconds: float = 0.0

    def refused(self, ports: Sequence[str]) -> list[str]:
        """For each port what refuses it: the cases, follow-up cases, or empty."""
        launch = self.context.recipe.launches[0]
        assert self.context.cases is not None
        frozen = self.context.cases[launch.name]
        assert self.check(self.port, thorough=False).status == "passed"
        place = self.context.work / "parity" / launch.name / "new"
        news = json.loads((place / "new.json").read_text("utf-8"))["records"]
        cases, olds = frozen.cases(), frozen.outcomes()
        known = frozenset(key for old in olds for key in old.get("keys", ()))
        versions = [{"source": port, "lines": [], "lists": True} for port in ports]
        job = build_job(self.context, launch, frozen, 60.0)
        answer = run_versions(
            self.context, frozen, job, cases, olds, news, versions, len(versions), 900.0, place / "converted"
        )
        seen = []
        for port, result in zip(ports, answer.get("versions") or [{}] * len(ports), strict=True):
            record = result.get("record")
            certain = record is not None and judge(olds[result["case"]], record, known).kind == "mismatch"
            seen.append(CASES if certain else self.refused_by(port))
        return seen

    def refused_by(self, port: str) -> str:
        """What shows a difference: the cases, follow-up cases for seeded faults, those for differences, or nothing."""
        result = self.check(port, edited=False)
        if differs(result):
            return SEEDED if "follow_up" in result.evidence else CASES
        return EDITED if differs(self.check(port)) else ""

    def check(self, port: str, *, thorough: bool = True, edited: bool = True) -> CheckResult:
        """The check's result for a port.

        Args:
            edited: the rules' module is known, as for a draft that a model or a user changed.
        """
        self.path.write_text(port, encoding="utf-8")
        launch = self.context.recipe.launches[0]
        assert self.context.cases is not None
        known = {self.path.relative_to(self.context.stage).as_posix(): self.port} if edited else {}
        context = replace(self.context, by_rules=known)
        return run_parity(context, launch, self.context.cases[launch.name], thorough=thorough)


def differs(result: CheckResult) -> bool:
    """True when an answer differs or the port could not be run; not for one that is only called too weakly tested."""
    weak = "power" in result.evidence and not result.evidence["mismatches"]
    return result.status == "failed" and not weak


@dataclass
class Tally:
    """Figures of one recipe and one half."""

    caught: list[str] = field(default_factory=list)
    survived: list[Fault] = field(default_factory=list)
    equivalent: list[str] = field(default_factory=list)
    by: dict[str, list[str]] = field(default_factory=dict)
    """What refused the faults, beside the frozen cases."""
    misjudged: list[str] = field(default_factory=list)
    """Faults that were judged equivalent and yet are told apart by a case."""
    operators: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)

    def add(self, fault: Fault, seen: str) -> None:
        """Counts one fault."""
        if fault.equivalent:
            (self.misjudged if seen else self.equivalent).append(fault.id)
            return
        self.operators[fault.operator] += 1
        if seen:
            self.caught.append(fault.id)
            self.by.setdefault(seen, []).append(fault.id)
        else:
            self.survived.append(fault)
            self.missed[fault.operator] += 1


@dataclass(frozen=True)
class Alarm:
    """How a right port that is written differently fares."""

    false: bool
    why: str
    """Why it did not pass, or empty."""


def faults(scorer: str, half: str) -> list[Fault]:
    """The listed faults of one recipe.

    Raises:
        ValueError: one stands in the wrong half.
    """
    listed = {name: yaml.safe_load((HERE / name / f"{scorer}.yaml").read_text("utf-8")) for name in HALVES}
    names = [item["id"] for items in listed.values() for item in items]
    names.sort(key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    places = {"open": set(names[::2]), "heldout": set(names[1::2])}
    found = [Fault(**item) for item in listed[half]]
    if misplaced := [fault.id for fault in found if fault.id not in places[half]]:
        raise ValueError(f"in the wrong half: {misplaced}")
    return found


def correct_ports(scorer: str, port: str) -> Iterator[tuple[str, str]]:
    """Right ports that are written differently: name and text."""
    for path in sorted((HERE / "correct").glob(f"{scorer}_*.py")):
        text = path.read_text("utf-8")
        if "async def reward_func" not in text:
            before, _, rest = port.partition(SCORER_MARK)
            text = f"{before}{SCORER_MARK}\n{text}\n\n{WRAPPER_MARK}{rest.partition(WRAPPER_MARK)[2]}"
        yield path.stem, text


def prepare(scorer: str, folder: Path, cases: int | None, sandbox: Literal["auto", "docker", "bubblewrap"]) -> Bench:
    """Reads the recipe, records the old answers, writes the port."""
    recipe_folder = folder / scorer
    shutil.copytree(HERE / scorer, recipe_folder)
    runpy.run_path(str(HERE / "rows.py"))["write"](scorer, recipe_folder / "data")
    request = RunRequest(
        recipe=str(recipe_folder), algo=scorer, destination=str(folder / "out"), sandbox=sandbox, parity_cases=cases
    )
    engine = LocalEngine(lambda _: None, sandbox)
    recipe = engine.read(request)
    launch = recipe.launches[0]
    work, stage = folder / f"{scorer}_work", folder / f"{scorer}_stage"
    translation = engine.translate(recipe, launch, request, "")
    reward = engine.extract(recipe, launch)
    assert reward is not None
    extracted = {launch.name: reward}
    began = time.monotonic()
    meta = engine.freeze(recipe, launch, request, work)
    assert meta is not None
    seconds = time.monotonic() - began
    translations = engine.name_hooks(recipe, (translation,), extracted)
    example = engine.render(recipe, translations, extracted, request)
    stage_example(example, stage)
    context = CheckContext(
        recipe=recipe,
        translations=translations,
        example=example,
        stage=stage,
        sandbox=engine.sandbox,
        work=work,
        cases={launch.name: opened(launch.name, meta, work)},
    )
    path = stage / "examples" / scorer / f"reward_{scorer}.py"
    bench = Bench(scorer, context, path.read_text("utf-8"), path, seconds)
    right = bench.check(bench.port, thorough=False)
    if right.status != "passed":
        raise SystemExit(f"{scorer}: the unchanged port does not pass: {right.summary}")
    print(f"{scorer}: {right.summary} (recorded in {seconds:.1f} s)", flush=True)
    return bench


def main() -> None:
    """Measures what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--half", choices=[*HALVES, "both", "none"], default="both")
    parser.add_argument("--scorer", choices=SCORERS, action="append")
    parser.add_argument("--correct", action="store_true", help="the right ports too")
    parser.add_argument("--cases", type=int, help="size of the comparison, else the product's default")
    parser.add_argument("--sandbox", choices=["auto", "docker", "bubblewrap"], default="auto")
    parser.add_argument("--json", type=Path, dest="out")
    options = parser.parse_args()
    halves = HALVES if options.half == "both" else () if options.half == "none" else (options.half,)
    tallies: dict[tuple[str, str], Tally] = {}
    alarms: dict[str, Alarm] = {}
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        for scorer in options.scorer or SCORERS:
            bench = prepare(scorer, Path(place), options.cases, options.sandbox)
            for half in halves:
                tally = tallies[scorer, half] = Tally()
                listed = faults(scorer, half)
                for fault, seen in zip(
                    listed, bench.refused([item.applied(bench.port) for item in listed]), strict=True
                ):
                    tally.add(fault, seen)
            if options.correct:
                for name, text in correct_ports(scorer, bench.port):
                    result = bench.check(text)
                    alarms[name] = Alarm(differs(result), "" if result.status == "passed" else result.summary)
            print("\n".join(report(tallies, alarms)), flush=True)
    if options.out:
        options.out.write_text(json.dumps(as_json(tallies, alarms), indent=1) + "\n", "utf-8")


def report(tallies: dict[tuple[str, str], Tally], alarms: dict[str, Alarm]) -> list[str]:
    """The tables."""
    lines = ["", HEAD, "| --- " * HEAD.count(" | ") + "| --- |"]
    for (scorer, half), tally in tallies.items():
        lines.append(row(scorer, half, [tally]))
    for half in HALVES:
        if chosen := [tally for (_, name), tally in tallies.items() if name == half]:
            lines.append(row("**all**", half, chosen))
    for (_, half), tally in tallies.items():
        for fault in tally.survived:
            lines.append(f"survivor ({half}) {fault.id} [{fault.operator}] {fault.description}")
        for name in tally.misjudged:
            lines.append(f"judged equivalent, yet told apart ({half}): {name}")
    total: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for tally in tallies.values():
        total.update(tally.operators)
        missed.update(tally.missed)
    if total:
        kinds = [f"{name} {count - missed[name]}/{count}" for name, count in sorted(total.items())]
        lines += ["", "By kind: " + ", ".join(kinds)]
    if alarms:
        false = sum(item.false for item in alarms.values())
        lines.append(f"\nRight ports written differently: {false} false alarms in {len(alarms)}")
        words = {True: "false alarm", False: "no difference, and yet not passed"}
        lines += [f"  {words[item.false]} {name}: {item.why}" for name, item in alarms.items() if item.why]
    return lines


def row(scorer: str, half: str, tallies: list[Tally]) -> str:
    """One line of the table."""
    caught = sum(len(tally.caught) for tally in tallies)
    counted = caught + sum(len(tally.survived) for tally in tallies)
    equivalent = sum(len(tally.equivalent) + len(tally.misjudged) for tally in tallies)
    share = f"{caught / counted:.1%}" if counted else "-"
    by = [str(sum(len(tally.by.get(name, ())) for tally in tallies)) for name in (CASES, SEEDED, EDITED)]
    cells = [scorer, half, str(counted + equivalent), str(equivalent), *by, f"{caught} of {counted}", share]
    return f"| {' | '.join(cells)} |"


def as_json(tallies: dict[tuple[str, str], Tally], alarms: dict[str, Alarm]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "faults": {
            f"{scorer}/{half}": {
                "caught": tally.caught,
                "by": tally.by,
                "survived": [fault.id for fault in tally.survived],
                "equivalent": tally.equivalent,
                "misjudged": tally.misjudged,
            }
            for (scorer, half), tally in tallies.items()
        },
        "correct": {name: asdict(item) for name, item in alarms.items()},
    }


if __name__ == "__main__":
    main()
